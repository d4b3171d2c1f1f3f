import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { Link } from "react-router-dom";
import type { JobSummary } from "../api/types";
import { State } from "../parts/states";
import { Time, Took } from "../parts/Time";
import { JOB_WORDS } from "./words";

export function JobTable({ jobs }: { jobs: JobSummary[] }) {
  return (
    <Table aria-label="Jobs" variant="compact">
      <Thead>
        <Tr>
          {["Job", "Cluster", "State", "Started", "Took", "By"].map((title) => (
            <Th key={title} modifier="nowrap">{title}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {jobs.map((job) => (
          <Tr key={job.id}>
            <Td dataLabel="Job">
              <Link to={`/jobs/${job.id}`}>{JOB_WORDS[job.kind] ?? job.kind}</Link>
            </Td>
            <Td dataLabel="Cluster">{job.cluster ? `${job.cluster.namespace}/${job.cluster.name}` : (job.site ?? "–")}</Td>
            <Td dataLabel="State">
              <State of={job.phase} /> {job.waiting && <span className="muted">{job.waiting.waiting_for}</span>}
            </Td>
            <Td dataLabel="Started">
              <Time at={job.started_at} />
            </Td>
            <Td dataLabel="Took">
              <Took from={job.started_at} to={job.ended_at} />
            </Td>
            <Td dataLabel="By">{job.requested_by || "–"}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
