import { Button, Title } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { Chart, WantedChart } from "../api/types";
import { State } from "../parts/states";

interface Props {
  wanted: WantedChart[];
  kept: Chart[];
  /** Left out for people who may not change the cache. */
  onPull?: (chart: WantedChart) => void;
}

/** The charts that this release is made for, and where each of them would be taken from. */
export function WantedTable({ wanted, kept, onPull }: Props) {
  return (
    <section aria-labelledby="wanted">
      <Title headingLevel="h2" size="lg" className="earlier" id="wanted">
        Made for this release
      </Title>
      <Table aria-label="Charts that this release is made for" variant="compact">
        <Thead>
          <Tr>
            {["Name", "Version", "Repository", "State"].map((title) => (
              <Th key={title} modifier="nowrap">
                {title}
              </Th>
            ))}
            {onPull && <Th screenReaderText="Acts" />}
          </Tr>
        </Thead>
        <Tbody>
          {wanted.map((one) => {
            const here = kept.some((chart) => chart.name === one.name && chart.version === one.version);
            return (
              <Tr key={one.name}>
                <Td dataLabel="Name">{one.name}</Td>
                <Td dataLabel="Version">{one.version}</Td>
                <Td dataLabel="Repository" modifier="breakWord">
                  {one.repository}
                </Td>
                <Td dataLabel="State">
                  <State of={here ? "kept" : one.at_hand ? "folder" : "missing"} />
                </Td>
                {onPull && (
                  <Td dataLabel="Acts">
                    {!here && (
                      <Button variant="link" isInline aria-label={`Pull ${one.name}`} onClick={() => onPull(one)}>
                        Pull
                      </Button>
                    )}
                  </Td>
                )}
              </Tr>
            );
          })}
        </Tbody>
      </Table>
    </section>
  );
}
