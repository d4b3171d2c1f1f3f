import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import kubeadm from "../../../examples/dev-kubeadm.yaml?raw";
import k3s from "../../../examples/edge-k3s.yaml?raw";
import rke2 from "../../../examples/prod-rke2.yaml?raw";
import { get } from "../api/client";
import type { TemplateList } from "../api/types";
import { useSession } from "../session/session";

const EXAMPLES: [string, string, string][] = [
  ["k3s", "k3s, one server", k3s],
  ["rke2", "RKE2, three servers and three workers", rke2],
  ["kubeadm", "kubeadm, one server and two workers", kubeadm],
];
const HEAD = "# An example to start from. Change its name, and what is marked: those are no addresses of your network.\n";
const MARK = "  # change this";
/** An address by itself, or the length of the network's prefix; not the ranges inside the cluster. */
const OF_THE_NETWORK = /^(?!.*cidrBlocks).*\d+\.\d+\.\d+\.\d+|^\s*prefix:/;
const VERSION = /^( *version: ).*$/m;

interface Props {
  onChosen: (manifest: string) => void;
  disabled: boolean;
}

/** Manifests to start from, for the distributions whose templates the site has, with the newest version that it has. */
export function Examples({ onChosen, disabled }: Props) {
  const { site } = useSession();
  const { data } = useQuery({
    queryKey: ["templates", site],
    queryFn: () => get<TemplateList>(`/sites/${site}/templates`),
    enabled: Boolean(site),
  });
  const offered = EXAMPLES.flatMap(([distribution, words, text]) => {
    const versions = data?.items.filter((one) => one.distribution === distribution).map((one) => one.version) ?? [];
    const newest = versions.sort((a, b) => a.localeCompare(b, undefined, { numeric: true })).at(-1);
    return newest ? [{ words, text: marked(text, newest) }] : [];
  });
  if (offered.length === 0) return null;
  return (
    <div className="file-row" role="group" aria-label="Examples">
      <span>Start from an example:</span>
      {offered.map(({ words, text }) => (
        <Button key={words} variant="link" isInline isDisabled={disabled} onClick={() => onChosen(text)}>
          {words}
        </Button>
      ))}
    </div>
  );
}

/** True while the text is an example that nobody has changed, so that another may take its place. */
export function untouched(text: string): boolean {
  return EXAMPLES.some(([, , example]) => marked(example, VERSION.exec(text)?.[0].trim().slice("version: ".length) ?? "") === text);
}

/** Selects what is to be changed first. */
export function selectFirst(field: HTMLTextAreaElement): void {
  const end = field.value.indexOf(MARK);
  const start = Math.max(field.value.lastIndexOf(" ", end - 1), 0) + 1;
  field.focus();
  field.setSelectionRange(start, end);
}

function marked(text: string, version: string): string {
  const lines = text.split("\n").filter((line) => !line.startsWith("#"));
  return HEAD + lines.map((line) => (OF_THE_NETWORK.test(line) ? line + MARK : line)).join("\n").replace(VERSION, `$1${version}`);
}
