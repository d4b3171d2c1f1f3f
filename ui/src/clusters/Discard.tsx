import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";

/** Asked only when something was entered. */
export default function Discard({ onDiscard, onKeep }: { onDiscard: () => void; onKeep: () => void }) {
  return (
    <Modal isOpen onClose={onKeep} variant="small" aria-labelledby="discard-title" aria-describedby="discard-body">
      <ModalHeader title="Discard the manifest?" labelId="discard-title" titleIconVariant="warning" />
      <ModalBody id="discard-body">What you entered is kept in this browser tab only, and will be gone.</ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={onDiscard}>
          Discard
        </Button>
        <Button variant="link" onClick={onKeep}>
          Keep editing
        </Button>
      </ModalFooter>
    </Modal>
  );
}
