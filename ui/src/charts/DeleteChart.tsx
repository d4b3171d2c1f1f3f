import { Button, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from "@patternfly/react-core";
import { useState } from "react";
import { call } from "../api/client";
import type { Chart } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";

interface Props {
  chart: Chart;
  onClose: () => void;
  onDeleted: () => void;
}

/** Asks for the name, as every deletion does, and says how the chart would come back. */
export default function DeleteChart({ chart, onClose, onDeleted }: Props) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function remove() {
    setBusy(true);
    setError(null);
    try {
      await call(`/charts/${encodeURIComponent(chart.name)}/${encodeURIComponent(chart.version)}`, { method: "DELETE" });
      onDeleted();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const back =
    chart.source === "upload"
      ? "It was uploaded: to have it again, somebody must bring the file."
      : `It can be pulled again from ${chart.source}.`;
  return (
    <Modal isOpen onClose={onClose} variant="small" aria-labelledby="delete-title">
      <ModalHeader title={`Delete ${chart.name} ${chart.version}?`} labelId="delete-title" titleIconVariant="danger" />
      <ModalBody>
        <p className="after">
          {`${Math.ceil(chart.size / 1024)} KiB leave the cache; no cluster uses them. ${back}`}
        </p>
        <ProblemAlert error={error} />
        <Form
          id="delete-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed === chart.name && !busy) void remove();
          }}
        >
          <FormGroup label={`Type ${chart.name} to confirm`} fieldId="confirm">
            <TextInput id="confirm" autoFocus autoComplete="off" value={typed} onChange={(_, value) => setTyped(value)} />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" type="submit" form="delete-form" isDisabled={typed !== chart.name || busy} isLoading={busy}>
          Delete
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
}
