import { useEffect, useState } from "react";
import { get } from "../api/client";
import type { Job, Log, LogLine } from "../api/types";

interface Live {
  job: Job | null;
  lines: LogLine[];
  error: unknown;
  stale: boolean;
}

/**
 * One job with its log, live. What was missed while the connection was away is read by sequence number: the browser
 * sends the last one it saw when it comes back.
 */
export function useLiveJob(id: string): Live {
  const [live, setLive] = useState<Live>({ job: null, lines: [], error: null, stale: false });

  useEffect(() => {
    let source: EventSource | undefined;
    let late: ReturnType<typeof setTimeout> | undefined;
    let ended = false;
    setLive({ job: null, lines: [], error: null, stale: false });

    void (async () => {
      try {
        const job = await get<Job>(`/jobs/${id}`);
        const lines = await wholeLog(id);
        if (ended) return;
        setLive({ job, lines, error: null, stale: false });
        const last = lines.at(-1)?.seq ?? 0;
        source = new EventSource(`/api/v1/jobs/${id}/events?after=${last}`);
        source.onopen = () => {
          clearTimeout(late);
          setLive((now) => ({ ...now, stale: false }));
        };
        source.onerror = () => {
          clearTimeout(late);
          late = setTimeout(() => setLive((now) => ({ ...now, stale: true })), 3000);
        };
        source.addEventListener("log", (event) => {
          const line = JSON.parse((event as MessageEvent<string>).data) as LogLine;
          setLive((now) =>
            line.seq <= (now.lines.at(-1)?.seq ?? 0) ? now : { ...now, lines: [...now.lines, line] },
          );
        });
        source.addEventListener("job", (event) => {
          const next = JSON.parse((event as MessageEvent<string>).data) as Job;
          setLive((now) => ({ ...now, job: next }));
        });
        source.addEventListener("end", () => {
          clearTimeout(late);
          source?.close();
        });
      } catch (error) {
        if (!ended) setLive((now) => ({ ...now, error }));
      }
    })();

    return () => {
      ended = true;
      clearTimeout(late);
      source?.close();
    };
  }, [id]);

  return live;
}

async function wholeLog(id: string): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for (;;) {
    const log = await get<Log>(`/jobs/${id}/log?after=${lines.at(-1)?.seq ?? 0}&limit=1000`);
    lines.push(...log.items);
    if (log.items.length < 1000) return lines;
  }
}
