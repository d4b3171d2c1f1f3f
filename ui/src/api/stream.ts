/** After how long without a stream a page says that it may be behind. */
const LATE_MS = 3000;
const AGAIN_MS = 2000;

interface Watcher {
  /** The address, asked for at each new connection: it may carry where to go on. */
  url: () => string;
  events: Record<string, (data: unknown) => void>;
  /** Called when the stream has come back, and when it has been away for three seconds. */
  onState: (state: "live" | "reconnecting") => void;
  /** The server refused the stream (session over, a proxy's error): the browser does not try again by itself. */
  onRefused?: () => void;
}

/** A stream of server-sent events that comes back by itself. Returns how to end it. */
export function watch({ url, events, onState, onRefused }: Watcher): () => void {
  let source: EventSource | undefined;
  let late: ReturnType<typeof setTimeout> | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;

  const open = () => {
    source = new EventSource(url());
    source.onopen = () => {
      clearTimeout(late);
      late = undefined;
      onState("live");
    };
    source.onerror = () => {
      // Each failed attempt comes here; only the first one starts the clock.
      late ??= setTimeout(() => onState("reconnecting"), LATE_MS);
      if (source?.readyState === EventSource.CLOSED) {
        onRefused?.();
        again = setTimeout(open, AGAIN_MS);
      }
    };
    for (const [name, handle] of Object.entries(events)) {
      source.addEventListener(name, (event) => handle(JSON.parse((event as MessageEvent<string>).data)));
    }
  };
  open();

  return () => {
    clearTimeout(late);
    clearTimeout(again);
    source?.close();
  };
}
