import { Alert, AlertActionLink, Button, Flex, FlexItem, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "react-router-dom";
import { ApiProblem, call } from "../api/client";
import type { Decision, Job, LogLine } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State } from "../parts/states";
import { Time, Took } from "../parts/Time";
import { NotFound } from "../shell/NotFound";
import { whyNot } from "../clusters/ClusterList";
import { useLiveJob } from "./live";
import { JOB_WORDS } from "./words";

/** A job as it runs: what it waits for, every step with its attempts, and the log. */
export function JobDetails({ id, heading = "h2" }: { id: string; heading?: "h1" | "h2" }) {
  const { job, lines, error, stale } = useLiveJob(id);
  if (error instanceof ApiProblem && error.problem.status === 404) return <NotFound what="This job" />;
  if (error) return <ProblemAlert error={error} />;
  if (!job) return null;
  return (
    <>
      <Flex>
        <FlexItem>
          <Title headingLevel={heading}>
            {JOB_WORDS[job.kind] ?? job.kind}
            {job.cluster && (
              <>
                {" "}
                <Link to={`/clusters/${job.cluster.namespace}/${job.cluster.name}/summary`}>{job.cluster.name}</Link>
              </>
            )}
          </Title>
        </FlexItem>
        <FlexItem>
          <State of={job.phase} />
        </FlexItem>
        <FlexItem className="muted">
          {job.steps_done} of {job.steps.length} steps begun are done · <Took from={job.started_at} to={job.ended_at} />
        </FlexItem>
        {job.links?.engine && (
          <FlexItem align={{ default: "alignRight" }}>
            <Button variant="link" component="a" href={job.links.engine} target="_blank" rel="noreferrer">
              Open in the Temporal UI
            </Button>
          </FlexItem>
        )}
      </Flex>
      <div aria-live="polite">{job.ended_at && <span className="pf-v6-screen-reader">The job has ended: {job.phase}</span>}</div>
      {stale && <Alert isInline variant="warning" title="Reconnecting… the job goes on; this page may be behind." />}
      <Parked job={job} />
      {job.waiting && !job.ended_at && (
        <Alert isInline isPlain variant="info" title={`Waiting for ${job.waiting.waiting_for}`}>
          since <Time at={job.waiting.since} />
        </Alert>
      )}
      <Steps job={job} />
      <Title headingLevel="h3">Log</Title>
      <LogView lines={lines} />
    </>
  );
}

function Parked({ job }: { job: Job }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  if (job.phase !== "awaiting-decision") return job.error ? <Alert isInline variant="warning" title={job.error} /> : null;

  async function decide(decision: Decision) {
    setBusy(true);
    setError(null);
    try {
      await call(`/jobs/${job.id}/${decision}`, { method: "POST" });
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  }

  const may = job.may_decide;
  return (
    <>
      <Alert
        isInline
        variant="warning"
        title={job.error || "This job needs a decision"}
        actionLinks={
          may.allowed ? (
            <>
              <AlertActionLink onClick={() => void decide("retry")} isDisabled={busy}>
                Try again
              </AlertActionLink>
              <AlertActionLink onClick={() => void decide("abort")} isDisabled={busy}>
                Abort
              </AlertActionLink>
            </>
          ) : undefined
        }
      >
        {may.allowed
          ? "Try again goes on at this step; finished steps are not done again. Abort ends the job and leaves what was made."
          : whyNot(may)}
      </Alert>
      <ProblemAlert error={error} />
    </>
  );
}

function Steps({ job }: { job: Job }) {
  return (
    <Table aria-label="Steps" variant="compact">
      <Thead>
        <Tr>
          {["Step", "State", "Started", "Took", "Attempt", "Last error"].map((title) => (
            <Th key={title}>{title}</Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {job.steps.map((step) => (
          <Tr key={step.id}>
            <Td dataLabel="Step">
              {step.summary}
              {step.links?.proxmox && (
                <>
                  {" "}
                  <a href={step.links.proxmox} target="_blank" rel="noreferrer">
                    task
                  </a>
                </>
              )}
              {step.upid && <div className="muted pf-v6-u-font-size-xs">{step.upid}</div>}
            </Td>
            <Td dataLabel="State">
              <State of={step.state} />
            </Td>
            <Td dataLabel="Started">
              <Time at={step.started_at} />
            </Td>
            <Td dataLabel="Took">
              <Took from={step.started_at} to={step.ended_at} />
            </Td>
            <Td dataLabel="Attempt">{step.attempt}</Td>
            <Td dataLabel="Last error">{step.error || "–"}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** The log follows its end unless the person has scrolled up; `#line-N` opens at a line. */
function LogView({ lines }: { lines: LogLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const { hash } = useLocation();
  useEffect(() => {
    const line = hash.startsWith("#line-") ? document.getElementById(hash.slice(1)) : null;
    if (line) line.scrollIntoView({ block: "center" });
    else if (box.current && follow.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length, hash]);
  return (
    <div
      className="log"
      ref={box}
      tabIndex={0}
      role="log"
      aria-label="Log of the job"
      aria-live="off"
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        follow.current = scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {lines.length === 0 && <span className="muted">No line yet.</span>}
      {lines.map((line) => (
        <div key={line.seq} id={`line-${line.seq}`} className={line.level === "error" ? "error" : undefined}>
          <time dateTime={line.at}>{new Date(line.at).toLocaleTimeString()}</time>
          {line.text}
        </div>
      ))}
    </div>
  );
}
