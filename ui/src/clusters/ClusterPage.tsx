import { Alert, Button, PageSection, Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { NavLink, useNavigate, useParams } from "react-router-dom";
import { ApiProblem, download, get } from "../api/client";
import { useLink } from "../api/events";
import type { Cluster } from "../api/types";
import { Act } from "../parts/Act";
import { CannotRead } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { Loading } from "../parts/Loading";
import { State } from "../parts/states";
import { NotFound } from "../shell/NotFound";
import { ConditionTable } from "./ConditionTable";
import { ClusterJobs } from "./ClusterJobs";
import { EtcdTable } from "./EtcdTable";
import { MachineTable } from "./MachineTable";
import { Summary } from "./Summary";

const DeleteCluster = lazy(() => import("./DeleteCluster"));

const STEPS_MS = 3000;
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
  const link = useLink();
  const [deleting, setDeleting] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const { data: cluster, error, refetch } = useQuery({
    queryKey: ["cluster", namespace, name],
    queryFn: () => get<Cluster>(`/clusters/${namespace}/${name}`),
    // The stream of changes tells of machines and jobs, not of each step.
    refetchInterval: (query) => (query.state.data?.progress ? STEPS_MS : false),
  });

  const gone = error instanceof ApiProblem && error.problem.status === 404;
  if (gone && cluster) {
    return (
      <PageSection>
        <Title headingLevel="h1" className="after">
          {name}
        </Title>
        <Alert component="h2" isInline variant="info" title={`${name} was deleted while this page was open.`}>
          <Button variant="link" isInline onClick={() => navigate("/clusters")}>
            Go to the clusters
          </Button>
        </Alert>
      </PageSection>
    );
  }
  if (gone || !VIEWS.includes(view as (typeof VIEWS)[number])) return <NotFound what="This cluster" />;
  if (!cluster) {
    if (!error) return <Loading />;
    return (
      <PageSection>
        <CannotRead what="This cluster" error={error} onAgain={() => void refetch()} />
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
    <PageSection isFilled>
      <div className="heading">
        <Title headingLevel="h1">{cluster.name}</Title>
        <State of={cluster.status} />
        <div className="end">
          <Act variant="secondary" allowed={cluster.may.kubeconfig} onClick={() => void kubeconfig()}>
            Kubeconfig
          </Act>
          <Act variant="danger" allowed={cluster.may.delete} onClick={() => setDeleting(true)}>
            Delete
          </Act>
        </div>
      </div>
      <ProblemAlert error={failure ?? (link === "live" ? error : null)} />
      <div role="status">
        {cluster.message && (
          <Alert
            isInline
            isPlain
            className="after"
            variant={cluster.status === "Failed" ? "danger" : "info"}
            title={cluster.message}
          />
        )}
      </div>
      <div className="views">
        <nav aria-label={`Views of ${cluster.name}`}>
          <ul>
            {VIEWS.map((key) => (
              <li key={key}>
                <NavLink to={`/clusters/${namespace}/${name}/${key}`}>{WORDS[key]}</NavLink>
              </li>
            ))}
          </ul>
        </nav>
        <section aria-label={WORDS[view as (typeof VIEWS)[number]]}>
          {view === "summary" && <Summary cluster={cluster} />}
          {view === "machines" && <MachineTable namespace={namespace} name={name} />}
          {view === "conditions" && (
            <>
              <ConditionTable conditions={cluster.conditions} asOf={cluster.as_of} />
              {cluster.etcd && <EtcdTable etcd={cluster.etcd} />}
            </>
          )}
          {view === "jobs" && <ClusterJobs cluster={cluster} />}
        </section>
      </div>
      {deleting && (
        <Suspense fallback={null}>
          <DeleteCluster cluster={cluster} onClose={() => setDeleting(false)} />
        </Suspense>
      )}
    </PageSection>
  );
}
