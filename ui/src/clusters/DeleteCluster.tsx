import { Button, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from "@patternfly/react-core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { call, get } from "../api/client";
import type { Accepted, Cluster, Machines } from "../api/types";
import { ProblemAlert } from "../parts/ProblemAlert";

/** Deletion asks for the name and lists what will go, counted now. */
export default function DeleteCluster({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const queries = useQueryClient();
  const path = `/clusters/${cluster.namespace}/${cluster.name}`;
  const machines = useQuery({
    queryKey: ["cluster", cluster.namespace, cluster.name, "machines"],
    queryFn: () => get<Machines>(`${path}/machines`),
  });
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function remove() {
    setBusy(true);
    setError(null);
    try {
      await call<Accepted>(path, { method: "DELETE", body: { confirm: typed } });
      await queries.invalidateQueries({ queryKey: ["cluster", cluster.namespace, cluster.name] });
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  }

  const vms = machines.data?.items ?? [];
  const disk = vms.reduce((sum, m) => sum + m.disk_gib, 0);
  return (
    <Modal isOpen onClose={onClose} variant="small" aria-labelledby="delete-title">
      <ModalHeader title={`Delete ${cluster.name}?`} labelId="delete-title" titleIconVariant="danger" />
      <ModalBody>
        <p className="after" role="status">
          {machines.data
            ? `${counted(vms.length, "VM")} with ${disk} GiB of disks, and the cluster's pool, user and token in Proxmox VE will be gone. This cannot be undone.`
            : "Counting what will be gone…"}
        </p>
        <ProblemAlert error={machines.error} />
        <ProblemAlert error={error} />
        <Form
          id="delete-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (typed === cluster.name && !busy && machines.data) void remove();
          }}
        >
          <FormGroup label={`Type ${cluster.name} to confirm`} fieldId="confirm">
            <TextInput id="confirm" autoFocus autoComplete="off" value={typed} onChange={(_, value) => setTyped(value)} />
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button
          variant="danger"
          type="submit"
          form="delete-form"
          isDisabled={typed !== cluster.name || busy || !machines.data}
          isLoading={busy}
        >
          Delete
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
