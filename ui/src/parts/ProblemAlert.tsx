import { Alert, ExpandableSection, List, ListItem } from "@patternfly/react-core";
import { useState } from "react";
import { ApiProblem } from "../api/client";
import type { Violation } from "../api/types";

/** What happened, to what, and what can be done: the API's own words, its raw text folded. */
export function ProblemAlert({ error, inline = true }: { error: unknown; inline?: boolean }) {
  const [open, setOpen] = useState(false);
  if (!error) return null;
  if (!(error instanceof ApiProblem)) {
    return <Alert isInline={inline} variant="danger" title={String((error as Error).message ?? error)} />;
  }
  const { problem } = error;
  return (
    <Alert isInline={inline} variant="danger" title={problem.detail} role="alert" className="after">
      {problem.remedy && <p>{problem.remedy}</p>}
      {problem.missing && (
        <p>
          Missing privilege: <code>{problem.missing.privilege}</code> on <code>{problem.missing.path}</code>
        </p>
      )}
      {problem.violations && problem.violations.length > 0 && <Violations violations={problem.violations} />}
      {(problem.raw || problem.reference) && (
        <ExpandableSection toggleText="Details" isExpanded={open} onToggle={(_, now) => setOpen(now)}>
          <p>
            Code <code>{problem.code}</code>
            {problem.reference && (
              <>
                , reference <code>{problem.reference}</code> in the server's log
              </>
            )}
          </p>
          {problem.raw && <pre>{problem.raw}</pre>}
        </ExpandableSection>
      )}
    </Alert>
  );
}

export function Violations({ violations }: { violations: Violation[] }) {
  return (
    <List aria-label="What is wrong">
      {violations.map((violation) => (
        <ListItem key={`${violation.path} ${violation.code}`}>
          <code>{violation.path}</code> {violation.message}
          {violation.remedy && <div className="muted">{sentence(violation.remedy)}</div>}
        </ListItem>
      ))}
    </List>
  );
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
