import { SearchInput } from "@patternfly/react-core";
import { useEffect, useRef, useState } from "react";

const KEYSTROKE_MS = 150;

interface Props {
  label: string;
  placeholder: string;
  text: string;
  onText: (text: string) => void;
}

/** What is typed reaches the address after a pause; an address that changes otherwise (back, a link) is shown. */
export function Search({ label, placeholder, text, onText }: Props) {
  const [typed, setTyped] = useState(text);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const sent = useRef(text);
  const here = useRef(window.location.pathname);
  useEffect(() => {
    if (text !== sent.current) setTyped(text);
    sent.current = text;
  }, [text]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (value: string, wait: number) => {
    setTyped(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      // This list stays on show until the next page has come; by then the address is no longer ours.
      if (window.location.pathname !== here.current) return;
      sent.current = value;
      onText(value);
    }, wait);
  };
  return (
    <SearchInput
      aria-label={label}
      placeholder={placeholder}
      value={typed}
      onChange={(_, value) => change(value, KEYSTROKE_MS)}
      onClear={() => change("", 0)}
    />
  );
}
