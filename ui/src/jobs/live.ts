import { useEffect, useState } from "react";
import { ApiProblem, get } from "../api/client";
import { watch } from "../api/stream";
import type { Job, Log, LogLine } from "../api/types";

interface Live {
  job: Job | null;
  lines: LogLine[];
  error: unknown;
  stale: boolean;
}

const NOTHING: Live = { job: null, lines: [], error: null, stale: false };
const AT_ONCE = 1000;
const AGAIN_MS = 2000;

/**
 * One job with its log, live. What was missed while the connection was away is asked for by the sequence number of
 * the last line seen, and a line that is known already is dropped: no line is lost, none shown twice.
 */
export function useLiveJob(id: string): Live {
  const [live, setLive] = useState<Live>(NOTHING);

  useEffect(() => {
    let stop: (() => void) | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    let left = false;
    let seen = 0;
    setLive(NOTHING);

    const begin = async () => {
      try {
        const job = await get<Job>(`/jobs/${id}`);
        const lines = await wholeLog(id);
        if (left) return;
        seen = lines.at(-1)?.seq ?? 0;
        setLive({ job, lines, error: null, stale: false });
        stop = follow();
      } catch (error) {
        if (left) return;
        setLive((now) => ({ ...now, error }));
        if (error instanceof ApiProblem && error.passing) again = setTimeout(() => void begin(), AGAIN_MS);
      }
    };

    const follow = () => {
      const end = watch({
        url: () => `/api/v1/jobs/${id}/events?after=${seen}`,
        events: {
          log: (data) => {
            const line = data as LogLine;
            if (line.seq <= seen) return;
            seen = line.seq;
            setLive((now) => ({ ...now, lines: [...now.lines, line] }));
          },
          job: (data) => setLive((now) => ({ ...now, job: data as Job })),
          end: () => end(),
        },
        onState: (state) => setLive((now) => ({ ...now, stale: state === "reconnecting" })),
      });
      return end;
    };
    void begin();

    return () => {
      left = true;
      clearTimeout(again);
      stop?.();
    };
  }, [id]);

  return live;
}

async function wholeLog(id: string): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for (;;) {
    const log = await get<Log>(`/jobs/${id}/log?after=${lines.at(-1)?.seq ?? 0}&limit=${AT_ONCE}`);
    lines.push(...log.items);
    if (log.items.length < AT_ONCE) return lines;
  }
}
