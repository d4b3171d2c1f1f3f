import { Label } from "@patternfly/react-core";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import InProgressIcon from "@patternfly/react-icons/dist/esm/icons/in-progress-icon";
import InfoCircleIcon from "@patternfly/react-icons/dist/esm/icons/info-circle-icon";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Condition } from "../api/types";
import { Nothing } from "../parts/Nothing";
import { Time } from "../parts/Time";

export function ConditionTable({ conditions, asOf }: { conditions: Condition[]; asOf: string }) {
  if (conditions.length === 0) {
    return <Nothing title="No conditions yet" why="The first job writes them as it looks at the cluster." />;
  }
  return (
    <>
      <Table aria-label="Conditions" variant="compact">
        <Thead>
          <Tr>
            {["Condition", "Status", "Message", "Since"].map((title) => (
              <Th key={title} modifier="nowrap">{title}</Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {conditions.map((c) => (
            <Tr key={c.type}>
              <Td dataLabel="Condition">
                {c.type}
                <div className="muted">{c.reason}</div>
              </Td>
              <Td dataLabel="Status">
                <Status condition={c} />
              </Td>
              <Td dataLabel="Message">{c.message || "–"}</Td>
              <Td dataLabel="Since">
                <Time at={c.last_transition} />
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
      <p className="muted">
        As of <Time at={asOf} />
      </p>
    </>
  );
}

function Status({ condition }: { condition: Condition }) {
  const word = condition.status === null ? "Unknown" : condition.status ? "True" : "False";
  if (condition.reason === "NotBuiltYet") {
    return (
      <Label icon={<InfoCircleIcon />} variant="outline" isCompact>
        Not in this release
      </Label>
    );
  }
  if (condition.in_progress) {
    return (
      <Label color="blue" icon={<InProgressIcon />} variant="outline" isCompact>
        In progress
      </Label>
    );
  }
  return condition.worth_a_look ? (
    <Label color="orange" icon={<ExclamationTriangleIcon />} variant="outline" isCompact>
      {word}, worth a look
    </Label>
  ) : (
    <Label color="green" icon={<CheckCircleIcon />} variant="outline" isCompact>
      {word}
    </Label>
  );
}
