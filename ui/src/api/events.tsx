import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, type ReactNode } from "react";
import { watch } from "./stream";
import type { Change } from "./types";

type Link = "live" | "reconnecting";
const LinkState = createContext<Link>("live");

/** Whether what the page shows is live; after three seconds without a stream it says so. */
export const useLink = (): Link => useContext(LinkState);

/** The lists that a change touches, by its kind. What uses a chart is read from the clusters. */
const LISTS: Record<string, string[]> = { job: ["jobs"], chart: ["charts"], cluster: ["clusters", "charts"] };

/**
 * One stream of changes for the whole page. A change names what to read again; reading is left to the queries, so
 * nothing is shown that was not read.
 */
export function LiveChanges({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [link, setLink] = useState<Link>("live");

  useEffect(() => {
    let behind = false;
    return watch({
      url: () => "/api/v1/events",
      events: {
        change: (data) => {
          const change = data as Change;
          for (const list of LISTS[change.kind] ?? ["clusters"]) void queries.invalidateQueries({ queryKey: [list] });
          if (change.cluster) {
            void queries.invalidateQueries({ queryKey: ["cluster", change.cluster.namespace, change.cluster.name] });
          }
        },
        reset: () => void queries.invalidateQueries(),
      },
      onState: (state) => {
        setLink(state);
        // What changed meanwhile is unknown if the first connection never stood, so everything is read again.
        if (state === "live" && behind) void queries.invalidateQueries();
        behind = state === "reconnecting";
      },
      onRefused: () => void queries.invalidateQueries({ queryKey: ["session"] }),
    });
  }, [queries]);

  return <LinkState.Provider value={link}>{children}</LinkState.Provider>;
}
