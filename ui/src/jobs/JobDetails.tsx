import { Alert, AlertActionLink, Button, Title } from "@patternfly/react-core";
import { useState } from "react";
import { Link } from "react-router-dom";
import { ApiProblem, call } from "../api/client";
import type { Decision, Job } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State, stateWord } from "../parts/states";
import { Time, Took } from "../parts/Time";
import { Loading } from "../parts/Loading";
import { whyNot } from "../session/rights";
import { NotFound } from "../shell/NotFound";
import { HowFar } from "./HowFar";
import { JobLog } from "./JobLog";
import { JobSteps } from "./JobSteps";
import { useLiveJob } from "./live";
import { JOB_WORDS } from "./words";

/** A job as it runs: what it waits for, every step with its attempts, and the log. */
export function JobDetails({ id, heading = "h2" }: { id: string; heading?: "h1" | "h2" }) {
  const { job, lines, error, stale } = useLiveJob(id);
  if (error instanceof ApiProblem && error.problem.status === 404) return <NotFound what="This job" />;
  if (error) return <ProblemAlert error={error} />;
  if (!job) return <Loading />;
  const below = heading === "h1" ? "h2" : "h3";
  return (
    <div className="job">
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
          {job.ended_at ? "took " : "for "}
          <Took from={job.started_at} to={job.ended_at} />
          {job.ended_at ? " from " : " since "}
          <Time at={job.started_at} />
          {job.requested_by && ` · by ${job.requested_by}`}
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
      {job.progress && <HowFar progress={job.progress} waitingTold={job.waiting !== null || job.phase === "awaiting-decision"} />}
      <div className="job-parts">
        <section>
          <div className="part-title">
            <Title headingLevel={below} size="lg">
              Steps
            </Title>
            <span className="muted">{counted(job)}</span>
          </div>
          <JobSteps key={job.id} job={job} />
        </section>
        <section>
          <div className="part-title">
            <Title headingLevel={below} size="lg">
              Log
            </Title>
            <span className="muted">{lines.length === 1 ? "1 line" : `${lines.length} lines`}</span>
          </div>
          <JobLog lines={lines} />
        </section>
      </div>
    </div>
  );
}

/** The steps so far in one line: those that are done, of those that have begun. */
function counted(job: Job): string {
  const begun = job.steps.length;
  if (begun === 0) return "None has begun yet";
  const open = begun - job.steps_done;
  if (job.ended_at) return open === 0 ? `All ${begun} are done` : `${job.steps_done} of ${begun} are done`;
  return open === 0 ? `${begun} have begun and are done` : `${begun} have begun: ${job.steps_done} are done, ${open} not yet`;
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
