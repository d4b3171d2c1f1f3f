import {
  ActionGroup,
  Alert,
  Button,
  FileUpload,
  Form,
  FormGroup,
  List,
  ListItem,
  PageSection,
  Title,
} from "@patternfly/react-core";
import { useState } from "react";
import { useNavigate } from "react-router-dom";
import { call } from "../api/client";
import type { Accepted, Preview } from "../api/types";
import { ProblemAlert, Violations } from "../parts/ProblemAlert";

const DRAFT = "trilithon-manifest-draft";
const MANIFEST = { type: "application/yaml" };

/** Create from a manifest, pasted or uploaded: preview first, then create. The draft survives a reload. */
export default function CreateCluster() {
  const navigate = useNavigate();
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const [filename, setFilename] = useState("");
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [key] = useState(() => crypto.randomUUID());

  const change = (value: string) => {
    setText(value);
    setPreview(null);
    sessionStorage.setItem(DRAFT, value);
  };

  async function ask() {
    setBusy(true);
    setError(null);
    try {
      const { data } = await call<Preview>("/clusters?dryRun=true", { method: "POST", raw: { ...MANIFEST, text } });
      setPreview(data);
    } catch (failure) {
      setPreview(null);
      setError(failure);
    } finally {
      setBusy(false);
    }
  }

  async function create() {
    setBusy(true);
    setError(null);
    try {
      const { data } = await call<Accepted>("/clusters", {
        method: "POST",
        raw: { ...MANIFEST, text },
        headers: { "Idempotency-Key": key },
      });
      sessionStorage.removeItem(DRAFT);
      navigate(`/clusters/${data.cluster.namespace}/${data.cluster.name}/summary`);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const ready = preview !== null && preview.violations.length === 0 && !preview.exists;
  return (
    <PageSection isFilled>
      <Title headingLevel="h1">Create cluster</Title>
      <p className="muted">
        Paste or upload a Cluster manifest (<code>cluster.x-k8s.io/v1beta2</code>). The preview checks it and shows what would be
        made; nothing is written before you create.
      </p>
      <ProblemAlert error={error} />
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          void (ready ? create() : ask());
        }}
      >
        <FormGroup label="Manifest" fieldId="manifest">
          <FileUpload
            id="manifest"
            type="text"
            value={text}
            filename={filename}
            filenamePlaceholder="Drop a YAML file here, or paste below"
            aria-label="Manifest"
            browseButtonText="Upload"
            onTextChange={(_, value) => change(value)}
            onFileInputChange={(_, file) => {
              setFilename(file.name);
              void file.text().then(change);
            }}
            onClearClick={() => {
              setFilename("");
              change("");
            }}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void (ready ? create() : ask());
            }}
          />
        </FormGroup>
        {preview && <Planned preview={preview} />}
        <ActionGroup>
          <Button variant={ready ? "secondary" : "primary"} onClick={() => void ask()} isDisabled={busy || !text.trim()}>
            Preview
          </Button>
          <Button onClick={() => void create()} isDisabled={busy || !ready} variant={ready ? "primary" : "secondary"}>
            Create
          </Button>
          <Button
            variant="link"
            onClick={() => {
              if (!text || window.confirm("Discard what you entered?")) {
                sessionStorage.removeItem(DRAFT);
                navigate("/clusters");
              }
            }}
          >
            Cancel
          </Button>
        </ActionGroup>
      </Form>
    </PageSection>
  );
}

function Planned({ preview }: { preview: Preview }) {
  if (preview.violations.length > 0) {
    return (
      <Alert isInline variant="danger" title={`${preview.violations.length} things to correct; nothing was written`}>
        <Violations violations={preview.violations} />
      </Alert>
    );
  }
  const waves = new Map<number, string[]>();
  for (const step of preview.steps) waves.set(step.wave, [...(waves.get(step.wave) ?? []), step.summary]);
  return (
    <Alert isInline variant={preview.exists ? "warning" : "success"} title={title(preview)}>
      <List isPlain>
        {preview.machines.map((m) => (
          <ListItem key={m.name}>
            {m.name}: {m.role}, {m.cores} cores, {m.memory_mib} MiB, {m.disk_gib} GiB
          </ListItem>
        ))}
      </List>
      {preview.not_acted_on.length > 0 && (
        <>
          <p>Kept, but not acted on by this release:</p>
          <List>
            {preview.not_acted_on.map((c) => (
              <ListItem key={c.type}>
                {c.type}: {c.message}
              </ListItem>
            ))}
          </List>
        </>
      )}
      <details>
        <summary>Steps, in order</summary>
        <ol>
          {[...waves.values()].map((summaries, index) => (
            <li key={index}>{summaries.join(" · ")}</li>
          ))}
        </ol>
      </details>
    </Alert>
  );
}

function title(preview: Preview): string {
  if (preview.exists) return `${preview.name} exists already; a manifest cannot create it again`;
  return `${preview.name}: ${preview.machines.length} machines would be made`;
}
