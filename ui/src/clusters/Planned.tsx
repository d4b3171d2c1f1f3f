import { Alert, List, ListItem } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useEffect, useRef } from "react";
import type { Preview } from "../api/types";
import { Violations } from "../parts/ProblemAlert";

/** What a manifest would do, or all that stands in its way; it takes the focus, since it answers what was asked. */
export function Planned({ preview }: { preview: Preview }) {
  const place = useRef<HTMLElement>(null);
  useEffect(() => place.current?.focus(), [preview]);
  return (
    <section ref={place} tabIndex={-1} aria-label="Preview">
      {preview.violations.length > 0 ? <Refused preview={preview} /> : <Plan preview={preview} />}
    </section>
  );
}

function Refused({ preview }: { preview: Preview }) {
  const count = preview.violations.length;
  return (
    <Alert component="h2" isInline variant="danger" title={`${count === 1 ? "One thing" : `${count} things`} to correct; nothing was written`}>
      <Violations violations={preview.violations} />
    </Alert>
  );
}

function Plan({ preview }: { preview: Preview }) {
  return (
    <>
      <Alert component="h2" isInline variant={preview.exists ? "warning" : "success"} className="after" title={title(preview)} />
      {preview.not_acted_on.length > 0 && (
        <Alert component="h2" isInline variant="info" className="after" title="Kept, but not acted on by this release">
          <List>
            {preview.not_acted_on.map((c) => (
              <ListItem key={c.type}>
                {c.type}: {c.message}
              </ListItem>
            ))}
          </List>
        </Alert>
      )}
      {preview.machines.length > 0 && (
        <Table aria-label="Machines that would be made" variant="compact">
          <Thead>
            <Tr>
              {["Machine", "Role", "Cores", "Memory", "Disk"].map((column) => (
                <Th key={column} modifier="nowrap">{column}</Th>
              ))}
            </Tr>
          </Thead>
          <Tbody>
            {preview.machines.map((m) => (
              <Tr key={m.name}>
                <Td dataLabel="Machine">{m.name}</Td>
                <Td dataLabel="Role">{m.role === "worker" ? `worker (${m.pool})` : "server"}</Td>
                <Td dataLabel="Cores">{m.cores}</Td>
                <Td dataLabel="Memory">{m.memory_mib} MiB</Td>
                <Td dataLabel="Disk">{m.disk_gib} GiB</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
      {preview.steps.length > 0 && (
        <details className="before-steps">
          <summary>The {preview.steps.length} steps, in an order in which they may be taken</summary>
          <ol className="steps-planned">
            {preview.steps.map((step) => (
              <li key={step.order}>{step.summary}</li>
            ))}
          </ol>
        </details>
      )}
    </>
  );
}

function title(preview: Preview): string {
  if (preview.exists) return `${preview.name} exists already; a manifest cannot create it again`;
  const count = preview.machines.length;
  return `${preview.name}: ${count === 1 ? "one machine" : `${count} machines`} would be made`;
}
