import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
} from "@patternfly/react-core";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import type { Cluster } from "../api/types";
import { JOB_WORDS } from "../jobs/words";
import { State } from "../parts/states";
import { Time } from "../parts/Time";

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
    <DescriptionList isHorizontal isCompact columnModifier={{ default: "1Col", lg: "2Col" }}>
      {rows.map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{value || "–"}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}
