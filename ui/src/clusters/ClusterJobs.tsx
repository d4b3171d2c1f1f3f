import { Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import type { Cluster, JobSummary, Page } from "../api/types";
import { JobDetails } from "../jobs/JobDetails";
import { JobTable } from "../jobs/JobTable";
import { Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";

/** The job that works on the cluster now, live, and the earlier ones below it. */
export function ClusterJobs({ cluster }: { cluster: Cluster }) {
  const { data, error } = useQuery({
    queryKey: ["cluster", cluster.namespace, cluster.name, "jobs"],
    queryFn: () => get<Page<JobSummary>>(`/clusters/${cluster.namespace}/${cluster.name}/jobs`),
  });
  // What was read stays on show while the platform is away; the bar above says that it may be out of date.
  if (!data) return <ProblemAlert error={error} />;
  if (data.items.length === 0) {
    return <Nothing title="No job has run yet" why="An accepted change starts one within seconds." />;
  }
  const newest = data.items[0];
  return (
    <>
      {newest && <JobDetails id={newest.id} />}
      {data.items.length > 1 && (
        <>
          <Title headingLevel="h2" className="earlier">
            All jobs of this cluster
          </Title>
          <JobTable jobs={data.items} />
        </>
      )}
    </>
  );
}
