import {
  Button,
  FormSelect,
  FormSelectOption,
  PageSection,
  Pagination,
  Title,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr, type ThProps } from "@patternfly/react-table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, type ReactNode } from "react";
import { Link, useNavigate } from "react-router-dom";
import { get } from "../api/client";
import type { ClusterRow, Page } from "../api/types";
import { Act } from "../parts/Act";
import { useAddress } from "../parts/address";
import { CannotRead, Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { Search } from "../parts/Search";
import { State } from "../parts/states";
import { Time } from "../parts/Time";
import { useSession } from "../session/session";
import { whyNot } from "../session/rights";

const LocalAdministrator = lazy(() => import("./LocalAdministrator"));

/** Title, and the API's name to sort by where it can. */
const COLUMNS: [string, string | null][] = [
  ["Name", "name"],
  ["Status", "status"],
  ["Version", null],
  ["Servers", null],
  ["Workers", null],
  ["API address", null],
  ["Site", "site"],
  ["Created", "created"],
];
const STATUSES: ClusterRow["status"][] = ["Provisioning", "Available", "Upgrading", "Reconciling", "Deleting", "Failed"];

/** All clusters the person may see; filter, sort and page live in the address. */
export function ClusterList() {
  const [params, set] = useAddress();
  const navigate = useNavigate();
  const session = useSession();
  const text = params.get("text") ?? "";
  const status = params.get("status") ?? "";
  const sort = params.get("sort") ?? "name";
  const page = Math.max(1, Number(params.get("page")) || 1);
  const perPage = Number(params.get("perPage")) || 50;

  const clear = () => set({ text: "", status: "", page: "" });

  const query = new URLSearchParams({ text, sort, offset: String((page - 1) * perPage), limit: String(perPage) });
  if (status) query.set("status", status);
  const { data, error, refetch } = useQuery({
    queryKey: ["clusters", query.toString()],
    queryFn: () => get<Page<ClusterRow>>(`/clusters?${query}`),
    placeholderData: keepPreviousData,
  });

  const create = session.may.create_cluster;
  const createButton = (
    <Act allowed={create} onClick={() => navigate("/clusters/create")}>
      Create cluster
    </Act>
  );
  const sorted = (field: string): ThProps["sort"] => ({
    sortBy: {
      index: COLUMNS.findIndex(([, f]) => f === sort.replace("-", "")),
      direction: sort.startsWith("-") ? "desc" : "asc",
    },
    columnIndex: COLUMNS.findIndex(([, f]) => f === field),
    onSort: (_, __, direction) => set({ sort: direction === "desc" ? `-${field}` : field, page: "" }),
  });

  return (
    <PageSection isFilled>
      <Title headingLevel="h1" className="title-gap">
        Clusters
      </Title>
      {data && <ProblemAlert error={error} />}
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem data-search>
            <Search
              label="Search clusters"
              placeholder="Name or namespace"
              text={text}
              onText={(next) => set({ text: next, page: "" }, true)}
            />
          </ToolbarItem>
          <ToolbarItem>
            <FormSelect aria-label="Status" value={status} onChange={(_, next) => set({ status: next, page: "" })}>
              <FormSelectOption value="" label="Any status" />
              {STATUSES.map((one) => (
                <FormSelectOption key={one} value={one} label={one} />
              ))}
            </FormSelect>
          </ToolbarItem>
          <ToolbarItem>{createButton}</ToolbarItem>
          {data && data.total > 0 && (
            <ToolbarItem variant="pagination" align={{ default: "alignEnd" }}>
              <Pagination
                itemCount={data.total}
                page={page}
                perPage={perPage}
                onSetPage={(_, next) => set({ page: next > 1 ? String(next) : "" })}
                onPerPageSelect={(_, next) => set({ perPage: String(next), page: "" })}
                isCompact
                titles={{ paginationAriaLabel: "Pages of clusters" }}
              />
            </ToolbarItem>
          )}
        </ToolbarContent>
      </Toolbar>
      {data && data.items.length > 0 && <Rows rows={data.items} sorted={sorted} />}
      {data?.items.length === 0 && <Empty page={data} filtered={text || status} onClear={clear} create={createButton} />}
      {!data && error && <CannotRead what="The clusters" error={error} onAgain={() => void refetch()} />}
    </PageSection>
  );
}

function Rows({ rows, sorted }: { rows: ClusterRow[]; sorted: (field: string) => ThProps["sort"] }) {
  return (
    <Table aria-label="Clusters" variant="compact" isStickyHeader>
      <Thead>
        <Tr>
          {COLUMNS.map(([title, field]) => (
            <Th key={title} modifier="nowrap" sort={field ? sorted(field) : undefined}>
              {title}
            </Th>
          ))}
        </Tr>
      </Thead>
      <Tbody>
        {rows.map((row) => (
          <Tr key={`${row.namespace}/${row.name}`}>
            <Td dataLabel="Name">
              <Link to={`/clusters/${row.namespace}/${row.name}/summary`}>{row.name}</Link>
              {row.namespace !== "clusters" && <span className="muted"> in {row.namespace}</span>}
            </Td>
            <Td dataLabel="Status">
              <State of={row.status} /> {row.message && <div className="muted">{row.message}</div>}
            </Td>
            <Td dataLabel="Version">
              {row.distribution} {row.version}
            </Td>
            <Td dataLabel="Servers">
              {row.control_plane.ready} of {row.control_plane.wanted}
            </Td>
            <Td dataLabel="Workers">
              {row.workers.ready} of {row.workers.wanted}
            </Td>
            <Td dataLabel="API address">{row.endpoint}</Td>
            <Td dataLabel="Site">{row.site}</Td>
            <Td dataLabel="Created">
              <Time at={row.created_at} />
            </Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

interface EmptyProps {
  page: Page<ClusterRow>;
  filtered: string;
  onClear: () => void;
  create: ReactNode;
}

/** Four places are empty for four reasons: none matches, none may be seen, there is none yet; CannotRead is the fourth. */
function Empty({ page, filtered, onClear, create }: EmptyProps) {
  const session = useSession();
  const { create_cluster: may, read_audit: auditor } = session.may;
  if (page.total > 0 || (filtered && (page.unfiltered_total ?? 1) > 0)) {
    return (
      <Nothing
        title="No cluster matches"
        why={`You may see ${page.unfiltered_total ?? "some"} in all, but none that the search and the status let through.`}
      >
        <Button variant="link" onClick={onClear}>
          Clear the filters
        </Button>
      </Nothing>
    );
  }
  if (session.local) {
    return (
      <Suspense fallback={null}>
        <LocalAdministrator />
      </Suspense>
    );
  }
  if (!may.allowed && !auditor.allowed) {
    return (
      <Nothing
        title="No clusters that you may see"
        why={`To see a cluster takes VM.Audit on its pool; an administrator of Proxmox VE grants it. None can be created either. ${whyNot(may)}`}
      />
    );
  }
  return (
    <Nothing title="No clusters yet" why="A cluster is a set of VMs on your Proxmox VE that run Kubernetes together.">
      {create}
    </Nothing>
  );
}
