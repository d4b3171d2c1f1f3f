import { Alert, AlertActionLink, Button, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation } from "react-router-dom";
import { ApiProblem, call } from "../api/client";
import type { Decision, Job, LogLine } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State, stateWord } from "../parts/states";
import { Time, Took } from "../parts/Time";
import { Loading } from "../parts/Loading";
import { whyNot } from "../session/rights";
import { NotFound } from "../shell/NotFound";
import { useLiveJob } from "./live";
import { JOB_WORDS } from "./words";

/** A job as it runs: what it waits for, every step with its attempts, and the log. */
export function JobDetails({ id, heading = "h2" }: { id: string; heading?: "h1" | "h2" }) {
  const { job, lines, error, stale } = useLiveJob(id);
  if (error instanceof ApiProblem && error.problem.status === 404) return <NotFound what="This job" />;
  if (error) return <ProblemAlert error={error} />;
  if (!job) return <Loading />;
  return (
    <>
      <div className="heading">
        <Title headingLevel={heading}>
          {JOB_WORDS[job.kind] ?? job.kind}
          {job.cluster && (
            <>
              {" "}
              <Link to={`/clusters/${job.cluster.namespace}/${job.cluster.name}/summary`}>{job.cluster.name}</Link>
            </>
          )}
        </Title>
        <State of={job.phase} />
        <span className="muted">
          {job.steps_done} of {job.steps.length} steps begun are done · <Took from={job.started_at} to={job.ended_at} />
          {" · "}started <Time at={job.started_at} />
          {job.requested_by && ` · asked for by ${job.requested_by}`}
        </span>
        {job.links?.engine && (
          <div className="end">
            <Button variant="link" isInline component="a" href={job.links.engine} target="_blank" rel="noreferrer">
              Open in the Temporal UI
            </Button>
          </div>
        )}
      </div>
      <div role="status" className="visually-hidden">
        {job.ended_at && `The job has ended: ${stateWord(job.phase)}.`}
      </div>
      <div role="status">
        {stale && (
          <Alert isInline variant="warning" className="after" title="Reconnecting… the job goes on; this page may be behind." />
        )}
      </div>
      <Parked job={job} />
      {job.waiting && !job.ended_at && job.phase !== "awaiting-decision" && (
        <Alert isInline isPlain className="after" variant="info" title={`Waiting for ${job.waiting.waiting_for}`}>
          since <Time at={job.waiting.since} />
        </Alert>
      )}
      <Steps job={job} />
      <Title headingLevel={heading === "h1" ? "h2" : "h3"} size="lg" className="earlier">
        Log
      </Title>
      <LogView lines={lines} />
    </>
  );
}

function Parked({ job }: { job: Job }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  if (job.phase !== "awaiting-decision") return job.error ? <Alert isInline variant={job.ended_at ? "danger" : "warning"} className="after" title={job.error} /> : null;

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
        className="after"
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
            <Th key={title} modifier="nowrap">{title}</Th>
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
                    Tasks of the node
                  </a>
                </>
              )}
              {step.upid && <div className="muted upid">{step.upid}</div>}
            </Td>
            <Td dataLabel="State">
              <State of={step.state} />
            </Td>
            <Td dataLabel="Started">
              <Time at={step.started_at} hourOnly />
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

/** The log follows its end unless the person has scrolled up; `#line-N` opens at a line and stays there. */
function LogView({ lines }: { lines: LogLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const { hash } = useLocation();
  const pointed = hash.startsWith("#line-") ? hash.slice(1) : "";
  const there = lines.some((line) => `line-${line.seq}` === pointed);
  useEffect(() => {
    if (!there) return;
    follow.current = false;
    document.getElementById(pointed)?.scrollIntoView({ block: "center" });
  }, [pointed, there]);
  useEffect(() => {
    if (box.current && follow.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length]);
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
        follow.current = !pointed && scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {lines.length === 0 && <span className="muted">No line yet.</span>}
      {lines.map((line) => (
        <div key={line.seq} id={`line-${line.seq}`} className={lineClass(line, pointed)}>
          <Link to={`#line-${line.seq}`} replace title={`Link to line ${line.seq}`}>
            <time dateTime={line.at}>{new Date(line.at).toLocaleTimeString()}</time>
          </Link>
          {line.text}
        </div>
      ))}
    </div>
  );
}

function lineClass(line: LogLine, pointed: string): string | undefined {
  const names = [line.level === "error" && "error", `line-${line.seq}` === pointed && "pointed"];
  return names.filter(Boolean).join(" ") || undefined;
}
