import {
  Button,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from "@patternfly/react-core";
import { useState } from "react";
import { call } from "../api/client";
import type { Chart, WantedChart } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";

interface Props {
  /** What the name starts as. */
  name: string;
  wanted: WantedChart[];
  onClose: () => void;
  onPulled: (chart: Chart) => void;
}

/** Download from a repository. For a chart of this release the name alone is enough. */
export default function PullChart({ name: given, wanted, onClose, onPulled }: Props) {
  const [name, setName] = useState(given);
  const [version, setVersion] = useState("");
  const [repository, setRepository] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const known = wanted.find((one) => one.name === name.trim());
  const whole = name.trim() !== "" && (known !== undefined || (version.trim() !== "" && repository.trim() !== ""));

  async function pull() {
    setBusy(true);
    setError(null);
    try {
      const body = { name: name.trim(), version: version.trim() || null, repository: repository.trim() || null };
      onPulled((await call<Chart>("/charts/pull", { method: "POST", body })).data);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const submit = () => {
    if (whole && !busy) void pull();
  };
  return (
    <Modal isOpen onClose={onClose} variant="small" aria-labelledby="pull-title">
      <ModalHeader title="Pull a chart" labelId="pull-title" description="Trilithon downloads it and checks its digest." />
      <ModalBody>
        <ProblemAlert error={error} />
        <Form
          id="pull-form"
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit();
          }}
        >
          <FormGroup label="Name" fieldId="chart-name" isRequired>
            <TextInput
              id="chart-name"
              autoFocus
              isRequired
              autoComplete="off"
              spellCheck={false}
              list="chart-names"
              value={name}
              onChange={(_, value) => setName(value)}
            />
            <datalist id="chart-names">
              {wanted.map((one) => (
                <option key={one.name} value={one.name} />
              ))}
            </datalist>
          </FormGroup>
          <FormGroup label="Version" fieldId="chart-version" isRequired={!known}>
            <TextInput
              id="chart-version"
              autoComplete="off"
              spellCheck={false}
              placeholder={known?.version}
              value={version}
              onChange={(_, value) => setVersion(value)}
            />
          </FormGroup>
          <FormGroup label="Repository" fieldId="chart-repository" isRequired={!known}>
            <TextInput
              id="chart-repository"
              autoComplete="off"
              spellCheck={false}
              aria-describedby="chart-repository-help"
              placeholder={known?.repository}
              value={repository}
              onChange={(_, value) => setRepository(value)}
            />
            <FormHelperText>
              <HelperText id="chart-repository-help">
                <HelperTextItem>
                  {known
                    ? "Version and repository are those that this release is made for, unless you give others."
                    : "https://… for an index of charts, oci://… for a registry (without the chart's name)."}
                </HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="pull-form" isDisabled={!whole || busy} isLoading={busy}>
          Pull
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
}
