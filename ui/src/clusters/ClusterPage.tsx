import {
  Alert,
  Button,
  Flex,
  FlexItem,
  PageSection,
  Tab,
  Tabs,
  TabTitleText,
  Title,
  Tooltip,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate, useParams } from "react-router-dom";
import { ApiProblem, download, get } from "../api/client";
import type { Cluster } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State } from "../parts/states";
import { NotFound } from "../shell/NotFound";
import { whyNot } from "./ClusterList";
import { ConditionTable } from "./ConditionTable";
import { DeleteCluster } from "./DeleteCluster";
import { ClusterJobs } from "./ClusterJobs";
import { MachineTable } from "./MachineTable";
import { Summary } from "./Summary";

const VIEWS = ["summary", "machines", "conditions", "jobs"] as const;
const WORDS: Record<(typeof VIEWS)[number], string> = {
  summary: "Summary",
  machines: "Machines",
  conditions: "Conditions",
  jobs: "Jobs",
};

/** One cluster; its views are in the address. */
export default function ClusterPage() {
  const { namespace = "", name = "", view = "summary" } = useParams();
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const { data: cluster, error } = useQuery({
    queryKey: ["cluster", namespace, name],
    queryFn: () => get<Cluster>(`/clusters/${namespace}/${name}`),
    retry: false,
  });

  const gone = error instanceof ApiProblem && error.problem.status === 404;
  if (gone && cluster) {
    return (
      <PageSection>
        <Alert isInline variant="info" title={`${name} was deleted while this page was open.`}>
          <Button variant="link" isInline onClick={() => navigate("/clusters")}>
            Go to the clusters
          </Button>
        </Alert>
      </PageSection>
    );
  }
  if (gone || !VIEWS.includes(view as (typeof VIEWS)[number])) return <NotFound what="This cluster" />;
  if (!cluster) {
    return (
      <PageSection>
        <ProblemAlert error={error} />
      </PageSection>
    );
  }

  async function kubeconfig() {
    setFailure(null);
    try {
      const text = await download(`/clusters/${namespace}/${name}/kubeconfig`, { method: "POST" });
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
      link.download = `${name}.kubeconfig`;
      link.click();
      URL.revokeObjectURL(link.href);
    } catch (problem) {
      setFailure(problem);
    }
  }

  return (
    <>
      <PageSection>
        <Flex>
          <FlexItem>
            <Title headingLevel="h1">{cluster.name}</Title>
          </FlexItem>
          <FlexItem>
            <State of={cluster.status} />
          </FlexItem>
          <FlexItem align={{ default: "alignRight" }}>
            <Act allowed={cluster.may.kubeconfig} onClick={() => void kubeconfig()}>
              Kubeconfig
            </Act>{" "}
            <Act allowed={cluster.may.delete} onClick={() => setDeleting(true)} danger>
              Delete
            </Act>
          </FlexItem>
        </Flex>
        <ProblemAlert error={failure ?? error} />
        {cluster.message && (
          <Alert
            isInline
            isPlain
            variant={cluster.status === "Failed" ? "danger" : "info"}
            title={cluster.message}
            aria-live="polite"
          />
        )}
      </PageSection>
      <PageSection isFilled>
        <Tabs
          activeKey={view}
          onSelect={(_, key) => navigate(`/clusters/${namespace}/${name}/${key}`)}
          aria-label={`Views of ${cluster.name}`}
        >
          {VIEWS.map((key) => (
            <Tab key={key} eventKey={key} title={<TabTitleText>{WORDS[key]}</TabTitleText>}>
              {key === view && (
                <div className="pf-v6-u-pt-md">
                  {key === "summary" && <Summary cluster={cluster} />}
                  {key === "machines" && <MachineTable namespace={namespace} name={name} />}
                  {key === "conditions" && <ConditionTable conditions={cluster.conditions} asOf={cluster.as_of} />}
                  {key === "jobs" && <ClusterJobs cluster={cluster} />}
                </div>
              )}
            </Tab>
          ))}
        </Tabs>
      </PageSection>
      {deleting && <DeleteCluster cluster={cluster} onClose={() => setDeleting(false)} />}
    </>
  );
}

type ActProps = { allowed: Cluster["may"]["delete"]; onClick: () => void; danger?: boolean; children: string };

function Act({ allowed, onClick, danger, children }: ActProps) {
  const button = (
    <Button
      variant={danger ? "danger" : "secondary"}
      isAriaDisabled={!allowed.allowed}
      onClick={() => allowed.allowed && onClick()}
    >
      {children}
    </Button>
  );
  return allowed.allowed ? button : <Tooltip content={whyNot(allowed)}>{button}</Tooltip>;
}
