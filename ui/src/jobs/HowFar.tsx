import type { Progress } from "../api/types";
import { Time, Took } from "../parts/Time";

interface Props {
  progress: Progress;
  /** What the job itself waits for is told elsewhere on the page. */
  waitingTold?: boolean;
}

/** How far a job is: the steps of its plan, and what runs now with since when. */
export function HowFar({ progress, waitingTold = false }: Props) {
  return (
    <div className="how-far">
      <progress value={progress.done} max={progress.total} aria-label="Steps of the plan that are done" />
      <p>
        {progress.done} of {progress.total} steps of the plan are done
      </p>
      {progress.now.length > 0 && (
        <div className="now">
          <span>Now:</span>
          <ul aria-label="Running now">
            {progress.now.map((step) => (
              <li key={`${step.summary} ${step.since}`}>
                {step.summary}
                <span className="muted">
                  {" "}
                  since <Time at={step.since} hourOnly /> (<Took from={step.since} to={null} />)
                </span>
              </li>
            ))}
          </ul>
        </div>
      )}
      {progress.now.length === 0 && !waitingTold && progress.waiting_for && <p>Now: waiting for {progress.waiting_for}</p>}
    </div>
  );
}
