import { Button, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { ProblemAlert } from "./ProblemAlert";

/** An empty place that says what belongs here, why it is empty, and the one thing to do. */
export function Nothing({ title, why, children }: { title: string; why: ReactNode; children?: ReactNode }) {
  return (
    <EmptyState titleText={title} headingLevel="h2">
      <EmptyStateBody>{why}</EmptyStateBody>
      {children && (
        <EmptyStateFooter>
          <EmptyStateActions>{children}</EmptyStateActions>
        </EmptyStateFooter>
      )}
    </EmptyState>
  );
}

/** Empty because it could not be read, which is not the same as having nothing. */
export function CannotRead({ what, error, onAgain }: { what: string; error: unknown; onAgain: () => void }) {
  return (
    <Nothing
      title={`${what} cannot be read`}
      why={
        <>
          <p className="after">What is running goes on; only this view is missing.</p>
          <ProblemAlert error={error} />
        </>
      }
    >
      <Button onClick={onAgain}>Try again</Button>
    </Nothing>
  );
}
