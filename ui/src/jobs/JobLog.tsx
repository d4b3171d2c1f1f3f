import { useEffect, useRef } from "react";
import { Link, useLocation } from "react-router-dom";
import type { LogLine } from "../api/types";

/** The log follows its end unless the person has scrolled up; `#line-N` opens at a line and stays there. */
export function JobLog({ lines }: { lines: LogLine[] }) {
  const box = useRef<HTMLDivElement>(null);
  const follow = useRef(true);
  const { hash } = useLocation();
  const pointed = hash.startsWith("#line-") ? hash.slice(1) : "";
  const there = lines.some((line) => `line-${line.seq}` === pointed);
  useEffect(() => {
    if (!there) return;
    follow.current = false;
    document.getElementById(pointed)?.scrollIntoView({ block: "center" });
  }, [pointed, there]);
  useEffect(() => {
    if (box.current && follow.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines.length]);
  return (
    <div
      className="log"
      ref={box}
      tabIndex={0}
      role="log"
      aria-label="Log of the job"
      aria-live="off"
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
        follow.current = !pointed && scrollHeight - scrollTop - clientHeight < 24;
      }}
    >
      {lines.length === 0 && <span className="muted">No line yet.</span>}
      {lines.map((line) => (
        <div key={line.seq} id={`line-${line.seq}`} className={lineClass(line, pointed)}>
          <Link to={`#line-${line.seq}`} replace title={`Link to line ${line.seq}`}>
            <time dateTime={line.at}>{new Date(line.at).toLocaleTimeString()}</time>
          </Link>
          {line.text}
        </div>
      ))}
    </div>
  );
}

function lineClass(line: LogLine, pointed: string): string | undefined {
  const names = [line.level === "error" && "error", `line-${line.seq}` === pointed && "pointed"];
  return names.filter(Boolean).join(" ") || undefined;
}
