import { Button, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from "@patternfly/react-core";
import { type ReactNode, useState } from "react";
import { ProblemAlert } from "./ProblemAlert";

interface Props {
  /** What has to be typed. */
  name: string;
  /** What the title calls it, where that is more than the name. */
  called?: string;
  /** What will be gone. */
  children: ReactNode;
  /** False while that is not known yet. */
  known?: boolean;
  /** Deletes it and closes the dialog; a failure is shown here. */
  remove: (typed: string) => Promise<void>;
  onClose: () => void;
}

/** Every deletion asks for the name of what will be gone. */
export function DeleteByName({ name, called = name, children, known = true, remove, onClose }: Props) {
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const ready = typed === name && !busy && known;

  async function confirmed() {
    setBusy(true);
    setError(null);
    try {
      await remove(typed);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  return (
    <Modal isOpen onClose={onClose} variant="small" aria-labelledby="delete-title">
      <ModalHeader title={`Delete ${called}?`} labelId="delete-title" titleIconVariant="danger" />
      <ModalBody>
        {children}
        <ProblemAlert error={error} />
        <Form
          id="delete-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (ready) void confirmed();
          }}
        >
          <FormGroup label={`Type ${name} to confirm`} fieldId="confirm">
            <TextInput id="confirm" autoFocus autoComplete="off" value={typed} onChange={(_, value) => setTyped(value)} />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" type="submit" form="delete-form" isDisabled={!ready} isLoading={busy}>
          Delete
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
}
