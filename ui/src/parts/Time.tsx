import { useEffect, useState } from "react";

/** A moment in the browser's zone, UTC on hover; `hourOnly` where the day is told elsewhere on the page. */
export function Time({ at, hourOnly = false }: { at: string | null | undefined; hourOnly?: boolean }) {
  if (!at) return <>–</>;
  const moment = new Date(at);
  return (
    <time dateTime={at} title={moment.toISOString()}>
      {moment.toLocaleString(undefined, hourOnly ? { timeStyle: "medium" } : { dateStyle: "medium", timeStyle: "medium" })}
    </time>
  );
}

/** How long something took, or has been running for. */
export function Took({ from, to }: { from: string | null | undefined; to: string | null | undefined }) {
  const now = useNow(!to);
  if (!from) return <>–</>;
  return <>{span((to ? new Date(to).getTime() : now) - new Date(from).getTime())}</>;
}

function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}

function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d`;
}
