import { Button } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation } from "react-router-dom";
import { get } from "../api/client";
import type { JobSummary, Page } from "../api/types";
import { JOB_WORDS } from "../jobs/words";
import { State } from "../parts/states";
import { Time } from "../parts/Time";

/** Pages that show jobs themselves: there the drawer is shut until it is opened. Each kind of page keeps its choice. */
const OF_JOBS = /^\/jobs(\/|$)|\/jobs$/;

/** The newest jobs at the bottom of every page, as Proxmox VE shows its tasks. */
export function TaskDrawer() {
  const ofJobs = OF_JOBS.test(useLocation().pathname);
  const kept = ofJobs ? "trilithon-tasks-at-jobs" : "trilithon-tasks";
  const [chosen, setChosen] = useState<Record<string, string>>({});
  const open = (chosen[kept] ?? localStorage.getItem(kept) ?? (ofJobs ? "closed" : "open")) === "open";
  const jobs = useQuery({
    queryKey: ["jobs", "drawer"],
    queryFn: () => get<Page<JobSummary>>("/jobs?limit=6"),
    enabled: open,
  });
  const toggle = () => {
    const next = open ? "closed" : "open";
    setChosen({ ...chosen, [kept]: next });
    localStorage.setItem(kept, next);
  };
  return (
    <section className="tasks" aria-label="Tasks">
      <Button variant="link" isInline={false} onClick={toggle} aria-expanded={open}>
        {open ? "▾" : "▸"} Tasks
      </Button>
      {open && (jobs.data?.items.length ?? 0) > 0 && (
        <Table variant="compact" borders={false} aria-label="Newest jobs">
          <Thead>
            <Tr>
              <Th>Job</Th>
              <Th>Cluster</Th>
              <Th>State</Th>
              <Th>Started</Th>
              <Th>By</Th>
            </Tr>
          </Thead>
          <Tbody>
            {jobs.data?.items.map((job) => (
              <Tr key={job.id}>
                <Td dataLabel="Job">
                  <Link to={`/jobs/${job.id}`}>{JOB_WORDS[job.kind] ?? job.kind}</Link>
                </Td>
                <Td dataLabel="Cluster">{job.cluster ? `${job.cluster.namespace}/${job.cluster.name}` : (job.site ?? "–")}</Td>
                <Td dataLabel="State">
                  <State of={job.phase} />
                </Td>
                <Td dataLabel="Started">
                  <Time at={job.started_at} />
                </Td>
                <Td dataLabel="By">{job.requested_by || "–"}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
      {open && jobs.data?.items.length === 0 && <p className="muted">No jobs yet.</p>}
    </section>
  );
}
