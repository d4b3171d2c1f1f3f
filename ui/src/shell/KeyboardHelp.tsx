import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Modal,
  ModalBody,
  ModalHeader,
  Switch,
} from "@patternfly/react-core";

const KEYS: [string, string][] = [
  ["/", "Search in the list"],
  ["g c", "Go to the clusters"],
  ["g j", "Go to the jobs"],
  ["g h", "Go to the charts"],
  ["Ctrl+Enter", "Submit the form"],
  ["Esc", "Close the dialog"],
  ["?", "This help"],
];

interface Props {
  on: boolean;
  setOn: (on: boolean) => void;
  onClose: () => void;
}

/** The shortcuts, and the switch that turns the single-key ones off. */
export default function KeyboardHelp({ on, setOn, onClose }: Props) {
  return (
    <Modal isOpen onClose={onClose} variant="small" aria-labelledby="keys-title">
      <ModalHeader title="Keyboard" labelId="keys-title" />
      <ModalBody>
        <DescriptionList isHorizontal isCompact className="after">
          {KEYS.map(([keys, what]) => (
            <DescriptionListGroup key={keys}>
              <DescriptionListTerm>
                <kbd>{keys}</kbd>
              </DescriptionListTerm>
              <DescriptionListDescription>{what}</DescriptionListDescription>
            </DescriptionListGroup>
          ))}
        </DescriptionList>
        <Switch id="keys-on" label="Single-key shortcuts (all but Ctrl+Enter and Esc)" isChecked={on} onChange={(_, now) => setOn(now)} />
      </ModalBody>
    </Modal>
  );
}
