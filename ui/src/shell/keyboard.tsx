import { lazy, Suspense, useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router-dom";

const KeyboardHelp = lazy(() => import("./KeyboardHelp"));
/** After "g". */
const PLACES: Record<string, string> = { c: "/clusters", j: "/jobs", h: "/charts" };
const KEPT = "trilithon-keys";

/** Single-key shortcuts, with a visible list and an off switch (WCAG 2.1.4). */
export function Keyboard({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const navigate = useNavigate();
  const [on, setOn] = useState(() => localStorage.getItem(KEPT) !== "off");
  // Outlives a change of the address between the two keys, which listens anew.
  const lead = useRef(false);

  useEffect(() => {
    if (!on) return;
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, [contenteditable]")) return;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("[role=dialog]")) return;
      if (event.key === "?") setOpen(true);
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-search] input");
        if (search) {
          event.preventDefault();
          search.focus();
        }
      } else if (lead.current && PLACES[event.key]) navigate(PLACES[event.key]!);
      lead.current = event.key === "g";
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [on, navigate, setOpen]);

  if (!open) return null;
  return (
    <Suspense fallback={null}>
      <KeyboardHelp
        on={on}
        setOn={(now) => {
          setOn(now);
          localStorage.setItem(KEPT, now ? "on" : "off");
        }}
        onClose={() => setOpen(false)}
      />
    </Suspense>
  );
}
