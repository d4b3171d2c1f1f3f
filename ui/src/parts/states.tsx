import { Label, type LabelProps } from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import HandPaperIcon from "@patternfly/react-icons/dist/esm/icons/hand-paper-icon";
import InProgressIcon from "@patternfly/react-icons/dist/esm/icons/in-progress-icon";
import OutlinedClockIcon from "@patternfly/react-icons/dist/esm/icons/outlined-clock-icon";
import TrashIcon from "@patternfly/react-icons/dist/esm/icons/trash-icon";
import type { ReactElement } from "react";

type Look = { color: LabelProps["color"]; icon: ReactElement; word?: string };

const LOOKS: Record<string, Look> = {
  Available: { color: "green", icon: <CheckCircleIcon /> },
  Provisioning: { color: "blue", icon: <InProgressIcon /> },
  Upgrading: { color: "blue", icon: <InProgressIcon /> },
  Reconciling: { color: "blue", icon: <InProgressIcon /> },
  Deleting: { color: "grey", icon: <TrashIcon /> },
  Failed: { color: "red", icon: <ExclamationCircleIcon /> },
  running: { color: "blue", icon: <InProgressIcon />, word: "Running" },
  waiting: { color: "blue", icon: <OutlinedClockIcon />, word: "Waiting" },
  "awaiting-decision": { color: "orange", icon: <HandPaperIcon />, word: "Needs a decision" },
  done: { color: "green", icon: <CheckCircleIcon />, word: "Done" },
  aborted: { color: "grey", icon: <BanIcon />, word: "Aborted" },
  superseded: { color: "grey", icon: <BanIcon />, word: "Superseded" },
  failed: { color: "red", icon: <ExclamationCircleIcon />, word: "Failed" },
  retrying: { color: "orange", icon: <OutlinedClockIcon />, word: "Trying again" },
  cancelled: { color: "grey", icon: <BanIcon />, word: "Cancelled" },
  kept: { color: "green", icon: <CheckCircleIcon />, word: "In the cache" },
  folder: { color: "green", icon: <CheckCircleIcon />, word: "In the chart folder" },
  missing: { color: "orange", icon: <ExclamationTriangleIcon />, word: "Missing" },
  Ready: { color: "green", icon: <CheckCircleIcon /> },
};

/** A state as icon and word together: colour alone says nothing to some of us. */
export function State({ of }: { of: string }) {
  const look: Look = LOOKS[of] ?? { color: "grey", icon: <OutlinedClockIcon /> };
  return (
    <Label color={look.color} icon={look.icon} variant="outline" isCompact>
      {look.word ?? of}
    </Label>
  );
}

export function stateWord(of: string): string {
  return LOOKS[of]?.word ?? of;
}
