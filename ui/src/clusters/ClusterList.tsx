import {
  Button,
  PageSection,
  Pagination,
  SearchInput,
  Title,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
  Tooltip,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr, type ThProps } from "@patternfly/react-table";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router-dom";
import { get } from "../api/client";
import type { ClusterRow, Page } from "../api/types";
import { Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { State } from "../parts/states";
import { Time } from "../parts/Time";
import { useSession } from "../session/session";

const COLUMNS: [string, string | null][] = [
  ["Name", "name"],
  ["Status", "status"],
  ["Version", "version"],
  ["Servers", null],
  ["Workers", null],
  ["API address", null],
  ["Site", "site"],
  ["Created", "created"],
];

/** All clusters the person may see; filter, sort and page live in the address. */
export function ClusterList() {
  const [params, setParams] = useSearchParams();
  const navigate = useNavigate();
  const session = useSession();
  const text = params.get("text") ?? "";
  const sort = params.get("sort") ?? "name";
  const page = Number(params.get("page") ?? "1");
  const perPage = Number(params.get("perPage") ?? "50");
  const [typed, setTyped] = useState(text);

  const set = (changes: Record<string, string>) => {
    const next = new URLSearchParams(params);
    for (const [key, value] of Object.entries(changes)) {
      if (value) next.set(key, value);
      else next.delete(key);
    }
    setParams(next, { replace: true });
  };
  useEffect(() => {
    const timer = setTimeout(() => typed !== text && set({ text: typed, page: "" }), 150);
    return () => clearTimeout(timer);
  });

  const query = new URLSearchParams({ text, sort, offset: String((page - 1) * perPage), limit: String(perPage) });
  const { data, error, isPending } = useQuery({
    queryKey: ["clusters", query.toString()],
    queryFn: () => get<Page<ClusterRow>>(`/clusters?${query}`),
    placeholderData: keepPreviousData,
  });

  const create = session.may.create_cluster;
  const button = (
    <Button isAriaDisabled={!create.allowed} onClick={() => create.allowed && navigate("/clusters/create")}>
      Create cluster
    </Button>
  );
  const createButton = create.allowed ? button : <Tooltip content={whyNot(create)}>{button}</Tooltip>;
  const sorted = (field: string): ThProps["sort"] => ({
    sortBy: { index: COLUMNS.findIndex(([, f]) => f === sort.replace("-", "")), direction: sort.startsWith("-") ? "desc" : "asc" },
    columnIndex: COLUMNS.findIndex(([, f]) => f === field),
    onSort: (_, __, direction) => set({ sort: direction === "desc" ? `-${field}` : field }),
  });

  return (
    <PageSection isFilled>
      <Title headingLevel="h1">Clusters</Title>
      <ProblemAlert error={error} />
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem>
            <SearchInput
              data-search="true"
              aria-label="Search clusters"
              placeholder="Name, namespace or version"
              value={typed}
              onChange={(_, value) => setTyped(value)}
              onClear={() => setTyped("")}
            />
          </ToolbarItem>
          <ToolbarItem>{createButton}</ToolbarItem>
          <ToolbarItem variant="pagination" align={{ default: "alignEnd" }}>
            <Pagination
              itemCount={data?.total ?? 0}
              page={page}
              perPage={perPage}
              onSetPage={(_, next) => set({ page: next > 1 ? String(next) : "" })}
              onPerPageSelect={(_, next) => set({ perPage: String(next), page: "" })}
              isCompact
              titles={{ paginationAriaLabel: "Pages of clusters" }}
            />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {data && data.items.length > 0 && (
        <Table aria-label="Clusters" variant="compact" isStickyHeader>
          <Thead>
            <Tr>
              {COLUMNS.map(([title, field]) => (
                <Th key={title} sort={field ? sorted(field) : undefined}>
                  {title}
                </Th>
              ))}
            </Tr>
          </Thead>
          <Tbody>
            {data.items.map((row) => (
              <Tr key={`${row.namespace}/${row.name}`}>
                <Td dataLabel="Name">
                  <Link to={`/clusters/${row.namespace}/${row.name}/summary`}>{row.name}</Link>
                  {row.namespace !== "clusters" && <span className="muted"> in {row.namespace}</span>}
                </Td>
                <Td dataLabel="Status">
                  <State of={row.status} /> {row.message && <span className="muted">{row.message}</span>}
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
      )}
      {!isPending && data?.items.length === 0 && <Empty page={data} text={text} onClear={() => setTyped("")} create={createButton} />}
      {!isPending && !data && error && (
        <Nothing title="The clusters cannot be read" why="What is running goes on; only this list is missing.">
          <Button onClick={() => window.location.reload()}>Try again</Button>
        </Nothing>
      )}
    </PageSection>
  );
}

function Empty(props: { page: Page<ClusterRow>; text: string; onClear: () => void; create: React.ReactNode }) {
  const session = useSession();
  if (props.text && (props.page.unfiltered_total ?? 1) > 0) {
    return (
      <Nothing title="No cluster matches" why={`None of the clusters that you may see has “${props.text}” in its name or version.`}>
        <Button variant="link" onClick={props.onClear}>
          Clear the search
        </Button>
      </Nothing>
    );
  }
  if (!session.may.create_cluster.allowed) {
    return (
      <Nothing
        title="No clusters for you here"
        why={`Your account sees no cluster. To see one takes VM.Audit on its pool; to create one: ${whyNot(session.may.create_cluster)}`}
      />
    );
  }
  return (
    <Nothing title="No clusters yet" why="A cluster is a set of VMs on your Proxmox VE that run Kubernetes together.">
      {props.create}
    </Nothing>
  );
}

/** Why something is off, in words: the missing privilege by name, or the thing's state. */
export function whyNot(allowed: { missing?: { privilege: string; path: string } | null; reason?: string }): string {
  if (allowed.missing) return `It takes ${allowed.missing.privilege} on ${allowed.missing.path}.`;
  return allowed.reason || "It is not possible now.";
}
