import { ActionGroup, Button, Form, FormGroup, PageSection, Title } from "@patternfly/react-core";
import { lazy, Suspense, useRef, useState, type KeyboardEvent } from "react";
import { useNavigate } from "react-router-dom";
import { call } from "../api/client";
import type { Accepted, Preview } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";
import { Examples, selectFirst, untouched } from "./Examples";
import { Planned } from "./Planned";

const Discard = lazy(() => import("./Discard"));
const DRAFT = "trilithon-manifest-draft";
const MANIFEST = { type: "application/yaml" };

/** Create from a manifest, pasted or uploaded: preview first, then create. The draft survives a reload. */
export default function CreateCluster() {
  const navigate = useNavigate();
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? "");
  const [preview, setPreview] = useState<Preview | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [discarding, setDiscarding] = useState(false);
  // The same text sent twice makes one cluster; another text is another wish.
  const [key, setKey] = useState(() => crypto.randomUUID());

  const change = (value: string) => {
    setText(value);
    setPreview(null);
    setError(null);
    setKey(crypto.randomUUID());
    sessionStorage.setItem(DRAFT, value);
  };

  const choose = (example: string) => {
    change(example);
    // The first thing to change is selected, so that one can type at once.
    requestAnimationFrame(() => selectFirst(document.getElementById("manifest") as HTMLTextAreaElement));
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

  function leave() {
    sessionStorage.removeItem(DRAFT);
    navigate("/clusters");
  }

  const ready = preview !== null && preview.violations.length === 0 && !preview.exists;
  const submit = () => {
    if (!busy && text.trim()) void (ready ? create() : ask());
  };
  return (
    <PageSection isFilled>
      <Title headingLevel="h1">Create cluster</Title>
      <p className="muted after">
        Paste or upload a Cluster manifest (<code>cluster.x-k8s.io/v1beta2</code>). The preview checks it and shows what would
        be made; nothing is written before you create.
      </p>
      <Form
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        <FormGroup label="Manifest" fieldId="manifest" isRequired>
          <Examples onChosen={choose} disabled={text.trim() !== "" && !untouched(text)} />
          <ManifestField text={text} onText={change} onSubmit={submit} />
        </FormGroup>
        <ProblemAlert error={error} />
        {preview && <Planned preview={preview} />}
        <ActionGroup>
          <Button
            type={ready ? "button" : "submit"}
            variant={ready ? "secondary" : "primary"}
            onClick={ready ? () => void ask() : undefined}
            isDisabled={busy || !text.trim()}
          >
            Preview
          </Button>
          <Button
            type={ready ? "submit" : "button"}
            isDisabled={busy || !ready}
            variant={ready ? "primary" : "secondary"}
          >
            Create
          </Button>
          <Button variant="link" onClick={() => (text.trim() ? setDiscarding(true) : leave())}>
            Cancel
          </Button>
        </ActionGroup>
      </Form>
      {discarding && (
        <Suspense fallback={null}>
          <Discard onDiscard={leave} onKeep={() => setDiscarding(false)} />
        </Suspense>
      )}
    </PageSection>
  );
}

interface FieldProps {
  text: string;
  onText: (text: string) => void;
  onSubmit: () => void;
}

/** Typed, pasted, chosen or dropped. */
function ManifestField({ text, onText, onSubmit }: FieldProps) {
  const chooser = useRef<HTMLInputElement>(null);
  const [over, setOver] = useState(false);
  const [name, setName] = useState("");
  const read = (file: File | undefined) => {
    if (!file) return;
    setName(file.name);
    void file.text().then(onText);
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    onSubmit();
  };
  return (
    <>
      <div className="file-row">
        <Button variant="secondary" onClick={() => chooser.current?.click()}>
          Upload a file
        </Button>
        <span className="muted">{name || "or drop one onto the text below"}</span>
        <input
          ref={chooser}
          type="file"
          hidden
          aria-label="Manifest file"
          accept=".yaml,.yml,.json,application/yaml"
          onChange={(event) => {
            read(event.target.files?.[0]);
            event.target.value = "";
          }}
        />
      </div>
      <textarea
        id="manifest"
        className={over ? "manifest over" : "manifest"}
        required
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        placeholder={"apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n…"}
        value={text}
        onChange={(event) => onText(event.target.value)}
        onKeyDown={press}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          read(event.dataTransfer.files[0]);
        }}
      />
    </>
  );
}
