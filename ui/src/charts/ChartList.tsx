import { Alert, AlertActionCloseButton, Button, PageSection, Title, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { lazy, Suspense, useRef, useState, type ReactNode } from "react";
import { ApiProblem, call, get } from "../api/client";
import type { Chart, ChartList as Listed, WantedChart } from "../api/types";
import { Act } from "../parts/Act";
import { useAddress } from "../parts/address";
import { CannotRead, Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { Search } from "../parts/Search";
import { whyNot } from "../session/rights";
import { useSession } from "../session/session";
import { ChartTable } from "./ChartTable";
import { WantedTable } from "./WantedTable";

const DeleteChart = lazy(() => import("./DeleteChart"));
const PullChart = lazy(() => import("./PullChart"));
/** Bytes; the API's own limit, asked before so much is sent. */
const LARGEST = 10 * 1024 * 1024;

/** The chart cache: what is kept and what uses it. Search and order are in the address. */
export default function ChartList() {
  const queries = useQueryClient();
  const may = useSession().may.administer_charts;
  const [params, set] = useAddress();
  const [pulling, setPulling] = useState<string | null>(null);
  const [deleting, setDeleting] = useState<Chart | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [done, setDone] = useState("");
  const [busy, setBusy] = useState(false);
  const chooser = useRef<HTMLInputElement>(null);
  const { data, error, refetch } = useQuery({ queryKey: ["charts"], queryFn: () => get<Listed>("/charts") });

  const text = params.get("text") ?? "";
  const sort = params.get("sort") ?? "name";

  const settled = (words: string) => {
    setDone(words);
    setFailure(null);
    return queries.invalidateQueries({ queryKey: ["charts"] });
  };

  async function upload(file: File) {
    setBusy(true);
    setDone("");
    setFailure(null);
    try {
      if (file.size > LARGEST) throw tooLarge(file);
      const raw = { type: "application/gzip", text: file };
      const { data: chart } = await call<Chart>("/charts", { method: "POST", raw });
      await settled(`${chart.name} ${chart.version} is kept.`);
    } catch (problem) {
      setFailure(problem);
    } finally {
      setBusy(false);
    }
  }

  const acts = (
    <>
      <Act allowed={may} onClick={() => setPulling("")}>
        Pull a chart
      </Act>
      <Act variant="secondary" allowed={may} isLoading={busy} onClick={() => !busy && chooser.current?.click()}>
        Upload a chart
      </Act>
    </>
  );
  const shown = data ? sorted(data.items.filter((one) => matches(one, text)), sort) : [];
  return (
    <PageSection isFilled>
      <Title headingLevel="h1">Charts</Title>
      <p className="muted title-gap">The Helm charts that clusters are made with. One cache serves all sites.</p>
      {data && <ProblemAlert error={error} />}
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem data-search>
            <Search
              label="Search charts"
              placeholder="Name, version or source"
              text={text}
              onText={(next) => set({ text: next }, true)}
            />
          </ToolbarItem>
          <ToolbarItem className="acts">{acts}</ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      <input
        ref={chooser}
        type="file"
        hidden
        aria-label="Chart file"
        accept=".tgz,.tar.gz,application/gzip"
        onChange={(event) => {
          const file = event.target.files?.[0];
          event.target.value = "";
          if (file) void upload(file);
        }}
      />
      <ProblemAlert error={failure} />
      <div role="status">
        {done && (
          <Alert
            isInline
            variant="success"
            className="after"
            title={done}
            actionClose={<AlertActionCloseButton onClose={() => setDone("")} />}
          />
        )}
      </div>
      {shown.length > 0 && (
        <ChartTable
          charts={shown}
          sort={sort}
          onSort={(next) => set({ sort: next })}
          onDelete={may.allowed ? setDeleting : undefined}
        />
      )}
      {data && shown.length === 0 && <Empty list={data} onClear={() => set({ text: "" })} acts={acts} />}
      {!data && error && <CannotRead what="The charts" error={error} onAgain={() => void refetch()} />}
      {data && (
        <WantedTable wanted={data.wanted} kept={data.items} onPull={may.allowed ? (one: WantedChart) => setPulling(one.name) : undefined} />
      )}
      <Suspense fallback={null}>
        {pulling !== null && data && (
          <PullChart
            name={pulling}
            wanted={data.wanted}
            onClose={() => setPulling(null)}
            onPulled={(chart) => {
              setPulling(null);
              void settled(`${chart.name} ${chart.version} is kept, from ${chart.source}.`);
            }}
          />
        )}
        {deleting && (
          <DeleteChart
            chart={deleting}
            onClose={() => setDeleting(null)}
            onDeleted={() => {
              setDeleting(null);
              void settled(`${deleting.name} ${deleting.version} was deleted.`);
            }}
          />
        )}
      </Suspense>
    </PageSection>
  );
}

function matches(chart: Chart, text: string): boolean {
  const wanted = text.trim().toLowerCase();
  return `${chart.name} ${chart.version} ${chart.source}`.toLowerCase().includes(wanted);
}

function sorted(charts: Chart[], sort: string): Chart[] {
  const key = (chart: Chart): string => (sort.endsWith("added") ? chart.created_at : `${chart.name} ${chart.version}`);
  const up = [...charts].sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }));
  return sort.startsWith("-") ? up.reverse() : up;
}

/** Four places are empty for four reasons: none matches, none is kept and one may or may not change that; CannotRead. */
function Empty({ list, onClear, acts }: { list: Listed; onClear: () => void; acts: ReactNode }) {
  const may = useSession().may.administer_charts;
  if (list.items.length > 0) {
    return (
      <Nothing title="No chart matches" why={`${list.items.length} are kept, but none that the search lets through.`}>
        <Button variant="link" onClick={onClear}>
          Clear the search
        </Button>
      </Nothing>
    );
  }
  const whole = list.wanted.every((one) => one.at_hand);
  const title = whole ? "No charts of your own, and none is needed" : "No charts kept yet";
  const where = whole
    ? "Clusters are made with the charts of the chart folder, which are all there. Here you see those that somebody has added."
    : "A cluster is refused while a chart that it needs is neither here nor in the chart folder.";
  if (!may.allowed) {
    return <Nothing title={title} why={`${where} Charts are added by administrators. ${whyNot(may)}`} />;
  }
  return (
    <Nothing title={title} why={where}>
      {acts}
    </Nothing>
  );
}

function tooLarge(file: File): ApiProblem {
  return new ApiProblem({
    title: "Too large",
    status: 413,
    code: "too-large",
    detail: `${file.name} has ${Math.ceil(file.size / 1024 / 1024)} MiB; a chart has at most ${LARGEST / 1024 / 1024}. It was not sent.`,
    remedy: "Send a packed chart (`helm package`), without its images.",
    type: "about:blank",
    violations: [],
    raw: "",
    reference: null,
    missing: null,
  });
}
