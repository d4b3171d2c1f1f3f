import { Label, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Etcd } from "../api/types";

/** The members of a cluster's etcd as they were last seen. */
export function EtcdTable({ etcd }: { etcd: Etcd }) {
  return (
    <>
      <Title headingLevel="h2" size="md" className="after">
        etcd
      </Title>
      <p className="muted">{inOneLine(etcd)}</p>
      <Table aria-label="Members of etcd" variant="compact">
        <Thead>
          <Tr>
            {["Member", "State", "Role", "Message"].map((title) => (
              <Th key={title} modifier="nowrap">{title}</Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {etcd.members.map((member) => (
            <Tr key={member.name}>
              <Td dataLabel="Member">{member.name}</Td>
              <Td dataLabel="State">
                <Label color={member.healthy ? "green" : "orange"} variant="outline" isCompact>
                  {member.healthy === null ? "Unknown" : member.healthy ? "Healthy" : "Ill"}
                </Label>
              </Td>
              <Td dataLabel="Role">{member.leader ? "Leader" : member.learner ? "Learner" : "Voter"}</Td>
              <Td dataLabel="Message">
                {member.message || (member.machine ? "–" : "It belongs to no machine of this cluster.")}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
}

function inOneLine(etcd: Etcd): string {
  const parts = [`${etcd.healthy} of ${etcd.voters} members healthy`];
  parts.push(etcd.tolerance < 0 ? "no majority" : `${etcd.tolerance} more may be lost`);
  if (etcd.quota > 0) parts.push(`${mebibytes(etcd.size)} of ${mebibytes(etcd.quota)} used`);
  if (etcd.version) parts.push(`version ${etcd.version}`);
  return parts.join(", ");
}

function mebibytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024 ** 2)} MiB`;
}
