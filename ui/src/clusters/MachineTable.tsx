import { Alert } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import type { Machine, Machines } from "../api/types";
import { Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State } from "../parts/states";
import { Time } from "../parts/Time";

export function MachineTable({ namespace, name }: { namespace: string; name: string }) {
  const { data, error } = useQuery({
    queryKey: ["cluster", namespace, name, "machines"],
    queryFn: () => get<Machines>(`/clusters/${namespace}/${name}/machines`),
  });
  if (!data) return <ProblemAlert error={error} />;
  if (data.items.length === 0) {
    return <Nothing title="No machines yet" why="They are recorded here before the first of them is made." />;
  }
  return (
    <>
      <SharedNode machines={data.items} />
      <Table aria-label="Machines" variant="compact">
        <Thead>
          <Tr>
            {["Name", "State", "Version", "Address", "VM", "Size"].map((title) => (
              <Th key={title} modifier="nowrap">{title}</Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {data.items.map((m) => (
            <Tr key={m.name}>
              <Td dataLabel="Name" modifier="nowrap">
                {m.name}
                <div className="muted">{m.role === "worker" ? `worker (${m.pool})` : "server"}</div>
              </Td>
              <Td dataLabel="State">
                <State of={m.phase} />
                {m.message && <div className="muted">{m.message}</div>}
              </Td>
              <Td dataLabel="Version" className="cut-anywhere">
                {m.version}
              </Td>
              <Td dataLabel="Address">{m.address}</Td>
              <Td dataLabel="VM" modifier="nowrap">
                {m.vmid}
                <div className="muted">{m.node ? `on ${m.node}` : "no node yet"}</div>
              </Td>
              <Td dataLabel="Size">
                {m.cores} cores, {memory(m.memory_mib)} memory, {m.disk_gib} GiB disk
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
      <p className="muted">
        As of <Time at={data.as_of} />
      </p>
    </>
  );
}

function memory(mib: number): string {
  return mib % 1024 === 0 ? `${mib / 1024} GiB` : `${mib} MiB`;
}

/** Several servers on one Proxmox VE node: what losing that node would cost, and the cure (F-079). */
function SharedNode({ machines }: { machines: Machine[] }) {
  const servers = machines.filter((m) => m.role === "control-plane" && m.node);
  const crowded = [...new Set(servers.map((m) => m.node))]
    .map((node) => ({ node, there: servers.filter((m) => m.node === node) }))
    .filter(({ there }) => there.length > 1);
  return crowded.map(({ node, there }) => {
    const left = servers.length - there.length;
    const cost =
      left > servers.length / 2
        ? "the cluster would go on with fewer servers"
        : "the cluster's API would stop until they are back: etcd would have no majority";
    return (
      <Alert key={node} isInline variant="warning" title={`${there.length} servers run on the Proxmox VE node ${node}`}>
        If {node} fails, {cost}. Migrate one of {there.map((m) => m.name).join(", ")} to a node of its own in Proxmox VE.
      </Alert>
    );
  });
}
