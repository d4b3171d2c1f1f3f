import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Title,
} from "@patternfly/react-core";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import type { Cluster } from "../api/types";
import { HowFar } from "../jobs/HowFar";
import { JOB_WORDS } from "../jobs/words";
import { State } from "../parts/states";
import { Time, Took } from "../parts/Time";

export function Summary({ cluster }: { cluster: Cluster }) {
  const { spec } = cluster;
  const rows: [string, ReactNode][] = [
    ["Status", <State key="s" of={cluster.status} />],
    ["Distribution", cluster.distribution],
    ["Kubernetes version", cluster.version],
    ["API address", `https://${cluster.endpoint}:6443`],
    ["Pod range", spec.pod_cidrs?.join(", ")],
    ["Service range", spec.service_cidrs?.join(", ")],
    ["Servers ready", `${cluster.control_plane.ready} of ${cluster.control_plane.wanted}`],
    ["Workers ready", `${cluster.workers.ready} of ${cluster.workers.wanted}`],
    ["Proxmox VE pool", cluster.pool],
    ["Namespace", cluster.namespace],
    ["Site", cluster.site],
    ["Created", <span key="c"><Time at={cluster.created_at} /> by {cluster.created_by}</span>],
    [
      "Job",
      cluster.job ? (
        <Link key="j" to={`/jobs/${cluster.job.id}`}>
          {JOB_WORDS[cluster.job.kind] ?? cluster.job.kind}
        </Link>
      ) : (
        "none"
      ),
    ],
    ["As of", <Time key="a" at={cluster.as_of} />],
  ];
  return (
    <>
      <AtWork cluster={cluster} />
      <DescriptionList isHorizontal isCompact columnModifier={{ default: "1Col", lg: "2Col" }}>
        {rows.map(([term, value]) => (
          <DescriptionListGroup key={term}>
            <DescriptionListTerm>{term}</DescriptionListTerm>
            <DescriptionListDescription>{value || "–"}</DescriptionListDescription>
          </DescriptionListGroup>
        ))}
      </DescriptionList>
    </>
  );
}

/** The job that works on the cluster now: how far it is, and what it does at this moment. */
function AtWork({ cluster }: { cluster: Cluster }) {
  const { job, progress } = cluster;
  if (!job || !progress) return null;
  const ready = cluster.control_plane.ready + cluster.workers.ready;
  return (
    <section className="at-work" aria-label="The job that runs">
      <div className="heading">
        <Title headingLevel="h2" size="lg">
          <Link to={`/clusters/${cluster.namespace}/${cluster.name}/jobs`}>{JOB_WORDS[job.kind] ?? job.kind}</Link>
        </Title>
        <State of={job.phase} />
        <span className="muted">
          since <Time at={job.started_at} /> (<Took from={job.started_at} to={null} />)
        </span>
      </div>
      <HowFar progress={progress} waitingTold={job.waiting !== null} />
      {job.waiting && (
        <p>
          Waiting for {job.waiting.waiting_for} <span className="muted">since <Time at={job.waiting.since} hourOnly /></span>
        </p>
      )}
      {job.kind === "CreateCluster" && (
        <p>
          {ready} of {cluster.control_plane.wanted + cluster.workers.wanted} machines are ready
        </p>
      )}
    </section>
  );
}
