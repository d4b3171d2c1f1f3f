"""`kubeadm init`, `join` and `reset` on one machine, phase by phase."""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lab.nodes.kubeadm import pki, preflight, static_pods, uploads
from lab.nodes.kubeadm.configuration import (
    Endpoint,
    Host,
    Init,
    Join,
    Refused,
    Registration,
    Shared,
    read_init,
    read_join,
    read_shared,
)
from lab.nodes.kubeadm.discovery import Found, NotYet, Talk
from lab.nodes.kubeadm.kubelet_program import BOOTSTRAP, CONFIG, FLAGS, KUBECONFIG, KubeletProgram
from lab.yaml_reader import write_yaml

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster
    from lab.nodes.machine import Machine

FILE = "/etc/trilithon/kubernetes/kubeadm.yaml"
KUBELET = "kubelet.service"
_LOOK = 0.02
"""Seconds between two looks at what another program of the machine does."""


class Kubeadm:
    """One call of the program.

    Args:
        machine: where it runs.
        version: its own version, which is the kubelet's too.
        say: receives what it prints, line by line.
    """

    def __init__(self, machine: "Machine", version: str, say: Callable[[str], None]) -> None:
        self._machine = machine
        self._disk = machine.disk
        self._version = version
        self._say = say
        self._talk = Talk(machine)

    async def init(self, ignored: frozenset[str] = frozenset()) -> bool:
        """`kubeadm init`; True when it ended well."""
        return await self._tell(self._init(ignored))

    async def join(self) -> bool:
        """`kubeadm join`."""
        return await self._tell(self._join())

    async def reset(self) -> None:
        """`kubeadm reset --force`: etcd's member, static pods, certificates, the kubelet's settings and etcd's data."""
        await self._machine.stop_unit(KUBELET)
        self._say("[reset] Stopping the kubelet service")
        if self._disk.member:
            await self._machine.world.leave_etcd(self._machine)
        self._disk.datastore, self._disk.member = "", False
        gone = (static_pods.FOLDER, pki.FOLDER, "/var/lib/kubelet", "/var/lib/etcd")
        for path in list(self._disk.files):
            if path.startswith(tuple(f"{folder}/" for folder in gone)) or re.fullmatch(
                r"/etc/kubernetes/[^/]+\.conf", path
            ):
                del self._disk.files[path]

    async def _tell(self, work: Awaitable[None]) -> bool:
        try:
            await work
        except Refused as refused:
            for line in refused.lines:
                self._say(line)
            for line in f"error: {refused}".splitlines():
                self._say(line)
            self._say("To see the stack trace of this error execute with --v=5 or higher")
            return False
        return True

    def _read(self) -> tuple[str, Host]:
        file = self._disk.read(FILE)
        if file is None:
            raise Refused(f'unable to read config from "{FILE}" : open {FILE}: no such file or directory')
        return file.text, Host(self._disk.hostname or "localhost", self._machine.address)

    # init

    async def _init(self, ignored: frozenset[str]) -> None:
        init: Init = read_init(*self._read(), self._version)
        node, shared = replace(init.node, ignored=init.node.ignored | ignored), init.shared
        self._say(f"[init] Using Kubernetes version: {shared.version}")
        self._say("[preflight] Running pre-flight checks")
        preflight.for_init(self._machine, node, init.local, shared.version, self._version)
        self._say("[preflight] Pulling images required for setting up a Kubernetes cluster")
        preflight.images(self._machine, node, shared.version)
        for line in pki.write(self._disk, shared, init.local, node.name, "certs"):
            self._say(line)
        self._kubeconfigs(shared, init.local, ("admin", "super-admin", "kubelet", "controller-manager", "scheduler"))
        self._say('[etcd] Creating static Pod manifest for local etcd in "/etc/kubernetes/manifests"')
        static_pods.write_etcd(self._disk, init.local, node.name, {})
        self._control_plane(shared, init.local)
        await self._start_kubelet(node)
        self._say("[wait-control-plane] Waiting for the kubelet to boot up the control plane as static Pods")
        await self._kubelet_is_healthy("wait-control-plane")
        await self._api_is_healthy(init.local, "wait-control-plane")
        cluster = self._own_cluster()
        cluster.config["endpoint"] = shared.endpoint
        uploads.upload_config(cluster.api, shared)
        self._say('[upload-config] Storing the configuration used in ConfigMap "kubeadm-config"')
        await self._mark(cluster, node, "mark-control-plane")
        file = self._disk.read(f"{pki.FOLDER}/ca.crt")
        endpoint = shared.endpoint or f"{init.local.address}:{init.local.port}"
        life = timedelta(seconds=_seconds(init.token_life))
        uploads.bootstrap_token(cluster.api, endpoint, file.data if file else b"", life)
        self._say('[bootstrap-token] Creating the "cluster-info" ConfigMap in the "kube-public" namespace')
        proxy = not shared.no_proxy and "addon/kube-proxy" not in init.skipped
        uploads.add_ons(cluster.api, shared, proxy)
        self._say("[addons] Applied essential addon: CoreDNS")
        if proxy:
            self._say("[addons] Applied essential addon: kube-proxy")
        self._say("Your Kubernetes control-plane has initialized successfully!")

    # join

    async def _join(self) -> None:
        join: Join = read_join(*self._read())
        self._say("[preflight] Running pre-flight checks")
        preflight.for_join(self._machine, join.node, join.local is not None)
        found, shared = await self._discover(join)
        cluster = self._machine.world.by_cluster_info(found.info_uid)
        if cluster is None:
            raise Refused("error execution phase preflight: the cluster is gone")
        if join.local is not None:
            self._prepare_server(cluster, join, join.local, shared)
        else:
            self._disk.write(f"{pki.FOLDER}/ca.crt", found.authority)
        await self._no_such_node(found, join)
        local = join.local
        server = f"https://{local.address}:{local.port}" if local else found.server
        text = pki.kubeconfig_text(server, found.authority, "tls-bootstrap-token-user", join.token)
        self._disk.write(BOOTSTRAP, text, 0o600)
        if local is None:
            self._disk.datastore = cluster.id
        await self._start_kubelet(join.node)
        if local is not None:
            await self._join_etcd(cluster, join.node, local)
        await self._kubelet_is_healthy("kubelet-wait-bootstrap")
        self._say("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap")
        if not await self._until(lambda: self._disk.exists(KUBECONFIG)):
            self._disk.files.pop(BOOTSTRAP, None)
            raise Refused(
                "error execution phase kubelet-wait-bootstrap: failed while waiting for TLS bootstrap: context "
                "deadline exceeded"
            )
        self._disk.files.pop(BOOTSTRAP, None)
        if local is not None:
            await self._mark(cluster, join.node, "control-plane-join/mark-control-plane")
            await self._api_is_healthy(local, "wait-control-plane")
        self._say("This node has joined the cluster")

    async def _discover(self, join: Join) -> tuple[Found, Shared]:
        """Asks until somebody answers who may be trusted; with `timeouts.discovery` at its default 5 minutes a try."""
        said = ""
        while True:
            try:
                found = await self._talk.discover(join)
                config = await self._talk.config(found, join.token)
                return found, read_shared(config, self._version)
            except NotYet as error:
                if str(error) != said:
                    said = str(error)
                    self._say(f"[discovery] Retrying due to error: {said}")
            except Refused as refused:
                raise Refused(f"error execution phase preflight: {refused}") from refused
            await asyncio.sleep(min(5.0, self._machine.world.timing.unit_restart))

    def _prepare_server(self, cluster: "SimCluster", join: Join, local: Endpoint, shared: Shared) -> None:
        try:
            if not shared.endpoint:
                raise Refused(
                    "\nOne or more conditions for hosting a new control plane instance is not satisfied.\n\nunable to "
                    "add a new control plane instance to a cluster that doesn't have a stable controlPlaneEndpoint "
                    "address\n\n"
                )
            pki.check_shared(self._disk)
        except Refused as refused:
            raise Refused(f"error execution phase preflight: {refused}") from refused
        self._say("[preflight] Running pre-flight checks before initializing the new control plane instance")
        preflight.for_joining_server(self._machine, join.node, local)
        preflight.images(self._machine, join.node, shared.version)
        for line in pki.write(self._disk, shared, local, join.node.name, "control-plane-prepare/certs"):
            self._say(line)
        self._kubeconfigs(shared, local, ("admin", "controller-manager", "scheduler"))
        self._control_plane(shared, local)
        self._say("[check-etcd] Checking that the etcd cluster is healthy")
        if not self._etcd_trusts(cluster):
            raise Refused(
                "error execution phase check-etcd: error syncing endpoints with etcd: context deadline exceeded"
            )

    def _etcd_trusts(self, cluster: "SimCluster") -> bool:
        mine = self._disk.read(f"{pki.FOLDER}/etcd/healthcheck-client.crt")
        return mine is not None and pki.signed_by(mine.data, cluster.authorities["etcd/server-ca.crt"].encode())

    async def _no_such_node(self, found: Found, join: Join) -> None:
        try:
            node = await self._talk.node(found.server, found.authority, join.token, join.node.name)
        except (NotYet, Refused) as error:
            raise Refused(f"error execution phase kubelet-start: {error}") from error
        rows = ((node or {}).get("status") or {}).get("conditions") or []
        if any(row["type"] == "Ready" and row["status"] == "True" for row in rows):
            raise Refused(
                f'error execution phase kubelet-start: a Node with name "{join.node.name}" and status "Ready" already '
                "exists in the cluster. You must delete the existing Node or change the name of this new joining Node"
            )

    async def _join_etcd(self, cluster: "SimCluster", node: Registration, local: Endpoint) -> None:
        where = "error execution phase etcd-join: error creating local etcd static pod manifest file"
        disk_id = self._disk.id
        if refusal := cluster.member_joins(disk_id, node.name):
            raise Refused(f"{where}: {refusal}")
        self._say("[etcd] Announced new etcd member joining to the existing etcd cluster")
        self._disk.datastore, self._disk.member = cluster.id, True
        members = {name: cluster.address_of(disk) for disk, name in cluster.members.items()}
        static_pods.write_etcd(self._disk, local, node.name, {**members, node.name: local.address})
        self._say('[etcd] Creating static Pod manifest for "etcd"')
        if not await self._until(lambda: disk_id in cluster.running):
            raise Refused(f"{where}: etcdserver: can only promote a learner member which is in sync with leader")
        self._say("[etcd] Waiting for the new etcd member to join the cluster. This can take up to 40s")

    # what init and join have alike

    def _own_cluster(self) -> "SimCluster":
        cluster = self._machine.program.cluster if self._machine.program is not None else None
        if cluster is None:
            raise Refused("error execution phase upload-config/kubeadm: the kubelet has ended")
        return cluster

    def _kubeconfigs(self, shared: Shared, local: Endpoint, names: tuple[str, ...]) -> None:
        here = f"https://{local.address}:{local.port}"
        for name in names:
            # A server's kubelet asks the API server beside it (cmd/kubeadm/app/cmd/phases/init/kubeconfig.go).
            far = name in ("admin", "super-admin") and shared.endpoint
            pki.kubeconfig(self._disk, name, f"https://{shared.endpoint}" if far else here)
            self._say(f'[kubeconfig] Writing "{name}.conf" kubeconfig file')

    def _control_plane(self, shared: Shared, local: Endpoint) -> None:
        static_pods.write_control_plane(self._disk, shared, local)
        for name in static_pods.COMPONENTS:
            self._say(f'[control-plane] Creating static Pod manifest for "{name}"')

    async def _start_kubelet(self, node: Registration) -> None:
        await self._machine.stop_unit(KUBELET)
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd",
            "staticPodPath": static_pods.FOLDER,
        }
        self._say('[kubelet-start] Writing kubelet configuration to file "/var/lib/kubelet/config.yaml"')
        self._disk.write(CONFIG, write_yaml(config))
        words = [f"--{name}={value}" for name, value in node.arguments]
        words.append(f"--hostname-override={node.name}")
        self._disk.write(FLAGS, f'KUBELET_KUBEADM_ARGS="{" ".join(words)}"\n')
        self._say("[kubelet-start] Starting the kubelet")
        await self._machine.start_unit(KUBELET)

    async def _kubelet_is_healthy(self, phase: str) -> None:
        self._say("[kubelet-check] Waiting for a healthy kubelet at http://127.0.0.1:10248/healthz")
        if not await self._until(lambda: (kubelet := self._kubelet()) is not None and kubelet.healthy):
            self._say("[kubelet-check] The kubelet is not healthy after 4m0s")
            url = "http://127.0.0.1:10248/healthz"
            raise Refused(
                f"error execution phase {phase}: failed while waiting for the kubelet to start: The HTTP call equal to "
                f"'curl -sSL {url}' returned error: Get \"{url}\": dial tcp 127.0.0.1:10248: connect: connection "
                "refused"
            )

    async def _api_is_healthy(self, local: Endpoint, phase: str) -> None:
        self._say("[control-plane-check] Waiting for healthy control plane components. This can take up to 4m0s")
        if not await self._until(lambda: (kubelet := self._kubelet()) is not None and kubelet.api_serves):
            self._say("[control-plane-check] kube-apiserver is not healthy after 4m0s")
            url = f"https://{local.address}:{local.port}/livez"
            raise Refused(
                f"error execution phase {phase}: failed while waiting for the control plane to start: kube-apiserver "
                f'check failed at {url}: Get "{url}": dial tcp {local.address}:{local.port}: connect: connection '
                "refused"
            )

    async def _mark(self, cluster: "SimCluster", node: Registration, phase: str) -> None:
        self._say(f"[mark-control-plane] Marking the node {node.name} as control-plane")
        if not await self._until(lambda: uploads.mark_control_plane(cluster.api, node)):
            raise Refused(f'error execution phase {phase}: nodes "{node.name}" not found')

    def _kubelet(self) -> KubeletProgram | None:
        program = self._machine.program
        return program if isinstance(program, KubeletProgram) else None

    async def _until(self, true: Callable[[], bool]) -> bool:
        """Waits as long as kubeadm waits for what does not come; False when it did not."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._machine.world.timing.kubeadm):
                while True:
                    if true():
                        return True
                    await asyncio.sleep(_LOOK)
        return False


def _seconds(span: str) -> float:
    factors = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "ns": 1e-9}
    return sum(float(number) * factors[unit] for number, unit in re.findall(r"([0-9.]+)(ns|us|ms|s|m|h)", span))
