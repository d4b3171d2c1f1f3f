import { EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter } from "@patternfly/react-core";
import type { ReactNode } from "react";

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
