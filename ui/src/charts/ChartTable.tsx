import { Table, Tbody, Td, Th, Thead, Tr, type ThProps } from "@patternfly/react-table";
import { Link } from "react-router-dom";
import type { Chart } from "../api/types";
import { Act } from "../parts/Act";
import { Time } from "../parts/Time";

/** Title, and the word of the address to sort by where one can. */
const COLUMNS: [string, string | null][] = [
  ["Name", "name"],
  ["Version", null],
  ["SHA-256", null],
  ["Source", null],
  ["Used by", null],
  ["Added", "added"],
];

interface Props {
  charts: Chart[];
  sort: string;
  onSort: (sort: string) => void;
  /** Left out for people who may not change the cache. */
  onDelete?: (chart: Chart) => void;
}

export function ChartTable({ charts, sort, onSort, onDelete }: Props) {
  const sorting = (field: string, columnIndex: number): ThProps["sort"] => ({
    sortBy: {
      index: COLUMNS.findIndex(([, one]) => one === sort.replace("-", "")),
      direction: sort.startsWith("-") ? "desc" : "asc",
    },
    columnIndex,
    onSort: (_, __, direction) => onSort(direction === "desc" ? `-${field}` : field),
  });
  return (
    <Table aria-label="Charts" variant="compact">
      <Thead>
        <Tr>
          {COLUMNS.map(([title, field], index) => (
            <Th key={title} modifier="nowrap" sort={field ? sorting(field, index) : undefined}>
              {title}
            </Th>
          ))}
          {onDelete && <Th screenReaderText="Acts" />}
        </Tr>
      </Thead>
      <Tbody>
        {charts.map((chart) => (
          <Tr key={`${chart.name} ${chart.version}`}>
            <Td dataLabel="Name">{chart.name}</Td>
            <Td dataLabel="Version">{chart.version}</Td>
            <Td dataLabel="SHA-256">
              <code title={chart.digest}>{chart.digest.slice(0, 12)}</code>
            </Td>
            <Td dataLabel="Source" modifier="breakWord">
              {chart.source === "upload" ? "Upload" : chart.source}
            </Td>
            <Td dataLabel="Used by">
              <Users chart={chart} />
            </Td>
            <Td dataLabel="Added">
              <Time at={chart.created_at} />
            </Td>
            {onDelete && (
              <Td dataLabel="Acts">
                <Act
                  variant="link"
                  isInline
                  aria-label={`Delete ${chart.name} ${chart.version}`}
                  allowed={{ allowed: chart.used === 0, missing: null, reason: inUse(chart) }}
                  onClick={() => onDelete(chart)}
                >
                  Delete
                </Act>
              </Td>
            )}
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** The clusters by name that the person may see; of the others their number. */
function Users({ chart }: { chart: Chart }) {
  const hidden = chart.used - chart.used_by.length;
  if (chart.used === 0) return <span className="muted">No cluster</span>;
  return (
    <>
      {chart.used_by.map((name) => (
        <div key={name}>
          <Link to={`/clusters/${name}/summary`}>{name}</Link>
        </div>
      ))}
      {hidden > 0 && <div className="muted">{`${counted(hidden)} that you may not see`}</div>}
    </>
  );
}

function inUse(chart: Chart): string {
  return `${counted(chart.used)} ${chart.used === 1 ? "needs" : "need"} it; it can be deleted when they are gone.`;
}

function counted(clusters: number): string {
  return clusters === 1 ? "1 cluster" : `${clusters} clusters`;
}
