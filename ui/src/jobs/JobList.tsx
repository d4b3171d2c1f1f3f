import { PageSection, Pagination, Title, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router-dom";
import { get } from "../api/client";
import type { JobSummary, Page } from "../api/types";
import { CannotRead, Nothing } from "../parts/Nothing";
import { ProblemAlert } from "../parts/ProblemAlert";
import { JobTable } from "./JobTable";

const FILTERS: [string, string][] = [
  ["", "All"],
  ["running", "Running"],
  ["awaiting-decision", "Needs a decision"],
];

export default function JobList() {
  const [params, setParams] = useSearchParams();
  const phase = params.get("phase") ?? "";
  const page = Math.max(1, Number(params.get("page")) || 1);
  const query = new URLSearchParams({ offset: String((page - 1) * 50), limit: "50" });
  if (phase) query.set("phase", phase);
  const { data, error, refetch } = useQuery({
    queryKey: ["jobs", query.toString()],
    queryFn: () => get<Page<JobSummary>>(`/jobs?${query}`),
    placeholderData: keepPreviousData,
  });
  return (
    <PageSection isFilled>
      <Title headingLevel="h1" className="title-gap">
        Jobs
      </Title>
      {data && <ProblemAlert error={error} />}
      <ToggleGroup aria-label="Which jobs">
        {FILTERS.map(([value, label]) => (
          <ToggleGroupItem
            key={label}
            text={label}
            isSelected={phase === value}
            onChange={() => setParams(value ? { phase: value } : {})}
          />
        ))}
      </ToggleGroup>
      {data && data.items.length > 0 && <JobTable jobs={data.items} />}
      {data && data.total > 50 && (
        <Pagination
          itemCount={data.total}
          page={page}
          perPage={50}
          isCompact
          titles={{ paginationAriaLabel: "Pages of jobs" }}
          onSetPage={(_, next) => setParams({ ...(phase && { phase }), page: String(next) })}
        />
      )}
      {data?.items.length === 0 && (
        <Nothing
          title={phase ? "No such job now" : "No jobs yet"}
          why={phase ? "Jobs in this state would be listed here." : "Every change of a cluster becomes a job, listed here with its log."}
        />
      )}
      {!data && error && <CannotRead what="The jobs" error={error} onAgain={() => void refetch()} />}
    </PageSection>
  );
}
