import { Modal, ModalBody, ModalHeader, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm, Switch } from "@patternfly/react-core";
import { useEffect, useState } from "react";
import { useNavigate } from "react-router-dom";

const KEYS: [string, string][] = [
  ["/", "Search in the list"],
  ["g c", "Go to the clusters"],
  ["g j", "Go to the jobs"],
  ["Ctrl+Enter", "Submit the form"],
  ["Esc", "Close the dialog"],
  ["?", "This help"],
];

/** Single-key shortcuts, with a visible list and an off switch (WCAG 2.1.4). */
export function Keyboard({ open, setOpen }: { open: boolean; setOpen: (open: boolean) => void }) {
  const navigate = useNavigate();
  const [on, setOn] = useState(() => localStorage.getItem("trilithon-keys") !== "off");

  useEffect(() => {
    if (!on) return;
    let lead = false;
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setOpen(true);
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>('[data-search="true"] input, input[data-search="true"]');
        if (search) {
          event.preventDefault();
          search.focus();
        }
      } else if (lead && event.key === "c") navigate("/clusters");
      else if (lead && event.key === "j") navigate("/jobs");
      lead = event.key === "g";
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [on, navigate, setOpen]);

  return (
    <Modal isOpen={open} onClose={() => setOpen(false)} variant="small" aria-labelledby="keys-title">
      <ModalHeader title="Keyboard" labelId="keys-title" />
      <ModalBody>
        <DescriptionList isHorizontal isCompact>
          {KEYS.map(([keys, what]) => (
            <DescriptionListGroup key={keys}>
              <DescriptionListTerm>
                <kbd>{keys}</kbd>
              </DescriptionListTerm>
              <DescriptionListDescription>{what}</DescriptionListDescription>
            </DescriptionListGroup>
          ))}
        </DescriptionList>
        <br />
        <Switch
          id="keys-on"
          label="Single-key shortcuts"
          isChecked={on}
          onChange={(_, now) => {
            setOn(now);
            localStorage.setItem("trilithon-keys", now ? "on" : "off");
          }}
        />
      </ModalBody>
    </Modal>
  );
}
