import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useEffect, useRef } from "react";
import type { Job, Step } from "../api/types";
import { State } from "../parts/states";
import { Time, Took } from "../parts/Time";

/** Every step with its attempts, in a box of its own: while the job runs it follows the newest unless one scrolled up. */
export function JobSteps({ job }: { job: Job }) {
  const box = useRef<HTMLDivElement>(null);
  const follow = useRef(!job.ended_at);
  useEffect(() => {
    if (box.current && follow.current) box.current.scrollTop = box.current.scrollHeight;
  }, [job.steps.length]);
  return (
    <div
      className="steps"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label="Steps of the job"
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        follow.current = !job.ended_at && scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      <Table aria-label="Steps" variant="compact" isStickyHeader>
        <Thead>
          <Tr>
            {["Step", "State", "Started", "Took"].map((title) => (
              <Th key={title} modifier="nowrap">
                {title}
              </Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {job.steps.map((step) => (
            <Row key={step.id} step={step} />
          ))}
        </Tbody>
      </Table>
    </div>
  );
}

function Row({ step }: { step: Step }) {
  return (
    <Tr>
      <Td dataLabel="Step" className="cut-anywhere">
        {step.summary}
        {step.links?.proxmox && (
          <>
            {" "}
            <a href={step.links.proxmox} target="_blank" rel="noreferrer">
              Tasks of the node
            </a>
          </>
        )}
        {step.upid && <div className="muted upid">{step.upid}</div>}
        {step.error && <div className="muted">Last error: {step.error}</div>}
      </Td>
      <Td dataLabel="State">
        <State of={step.state} />
        {step.attempt > 1 && <div className="muted">attempt {step.attempt}</div>}
      </Td>
      <Td dataLabel="Started">
        <Time at={step.started_at} hourOnly />
      </Td>
      <Td dataLabel="Took" modifier="nowrap">
        <Took from={step.started_at} to={step.ended_at} />
      </Td>
    </Tr>
  );
}
