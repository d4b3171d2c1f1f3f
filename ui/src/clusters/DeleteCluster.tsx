import { useQuery, useQueryClient } from "@tanstack/react-query";
import { call, get } from "../api/client";
import type { Accepted, Cluster, Machines } from "../api/types";
import { DeleteByName } from "../parts/DeleteByName";
import { ProblemAlert } from "../parts/ProblemAlert";

/** Lists what will go, counted now. */
export default function DeleteCluster({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const queries = useQueryClient();
  const path = `/clusters/${cluster.namespace}/${cluster.name}`;
  const machines = useQuery({
    queryKey: ["cluster", cluster.namespace, cluster.name, "machines"],
    queryFn: () => get<Machines>(`${path}/machines`),
  });

  async function remove(typed: string) {
    await call<Accepted>(path, { method: "DELETE", body: { confirm: typed } });
    await queries.invalidateQueries({ queryKey: ["cluster", cluster.namespace, cluster.name] });
    onClose();
  }

  const vms = machines.data?.items ?? [];
  const disk = vms.reduce((sum, m) => sum + m.disk_gib, 0);
  return (
    <DeleteByName name={cluster.name} known={machines.data !== undefined} remove={remove} onClose={onClose}>
      <p className="after" role="status">
        {machines.data
          ? `${counted(vms.length, "VM")} with ${disk} GiB of disks, and the cluster's pool, user and token in Proxmox VE will be gone. This cannot be undone.`
          : "Counting what will be gone…"}
      </p>
      <ProblemAlert error={machines.error} />
    </DeleteByName>
  );
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
