import { useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState, type ReactNode } from "react";
import type { Change } from "./types";

type Link = "live" | "reconnecting";
const LinkState = createContext<Link>("live");

/** Whether what the page shows is live; after three seconds without a stream it says so. */
export const useLink = (): Link => useContext(LinkState);

/**
 * One stream of changes for the whole page. A change names what to read again; reading is left to the queries, so
 * nothing is shown that was not read.
 */
export function LiveChanges({ children }: { children: ReactNode }) {
  const queries = useQueryClient();
  const [link, setLink] = useState<Link>("live");

  useEffect(() => {
    let late: ReturnType<typeof setTimeout> | undefined;
    const source = new EventSource("/api/v1/events");
    source.onopen = () => {
      clearTimeout(late);
      setLink((before) => {
        if (before === "reconnecting") void queries.invalidateQueries();
        return "live";
      });
    };
    source.onerror = () => {
      clearTimeout(late);
      late = setTimeout(() => setLink("reconnecting"), 3000);
    };
    source.addEventListener("change", (event) => {
      const change = JSON.parse((event as MessageEvent<string>).data) as Change;
      void queries.invalidateQueries({ queryKey: ["clusters"] });
      if (change.cluster) {
        void queries.invalidateQueries({ queryKey: ["cluster", change.cluster.namespace, change.cluster.name] });
      }
      if (change.kind === "job") void queries.invalidateQueries({ queryKey: ["jobs"] });
    });
    source.addEventListener("reset", () => void queries.invalidateQueries());
    return () => {
      clearTimeout(late);
      source.close();
    };
  }, [queries]);

  return <LinkState.Provider value={link}>{children}</LinkState.Provider>;
}
