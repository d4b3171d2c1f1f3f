"""The Proxmox cloud controller, simulated: it knows only the Secret in its cluster and what the token shows it.

What it does and says is measured of the real one (facts/proxmox-addons.md B).
"""

import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

import aiohttp
import yaml

from lab.kube.objects import Obj, dig, labels_of, meta, now_text
from lab.kube.reviews import secret_text
from lab.kube.tls import unchecked
from lab.nodes.kubelet import UNINITIALISED
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster

NAME = "proxmox-cloud-controller-manager"
_SHUTDOWN = "node.cloudprovider.kubernetes.io/shutdown"
_NOT_READY_EVERY = 5.0


class _Unusable(Exception):
    """The configuration or an answer cannot be used; the controller logs it and goes on trying."""


class CloudController:
    """One cluster's cloud controller; `log` keeps the last lines that it would have written."""

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster
        self._next = 0.0
        self._next_absent = 0.0
        self._backoff: dict[str, tuple[float, float]] = {}
        self.log: list[str] = []

    def _installed(self) -> bool:
        api = self._cluster.api
        return any(api.find(plural, "kube-system", NAME) for plural in ("deployments", "daemonsets"))

    async def look(self, now: float) -> None:
        """One look: initialises new nodes, removes nodes whose VM is gone."""
        timing = self._cluster.world.timing
        if now < self._next or not self._installed():
            return
        self._next = now + timing.cloud_controller
        nodes = self._cluster.api.rows("nodes")
        fresh = [
            node
            for node in nodes
            if _has_taint(node, UNINITIALISED) and now >= self._backoff.get(meta(node)["name"], (0.0, 0.0))[0]
        ]
        absent = [node for node in nodes if not _ready(node) and dig(node, "spec", "providerID")]
        if now < self._next_absent:
            absent = []
        elif absent:
            self._next_absent = now + _NOT_READY_EVERY
        if not fresh and not absent:
            return
        try:
            machines = await self._machines()
        except _Unusable as error:
            self._say(f"could not list cluster resources: {error}")
            self._next = now + max(1.0, timing.cloud_controller)
            return
        for node in fresh:
            self._initialise(node, machines, now)
        for node in absent:
            self._judge_absent(node, machines)

    def _config(self) -> list[dict[str, Any]]:
        text = secret_text(self._cluster.api, "kube-system", NAME, "config.yaml")
        if text is None:
            raise _Unusable(f"MountVolume.SetUp failed: secret {NAME} has no config.yaml")
        try:
            config = read_yaml(text)
        except yaml.YAMLError as error:
            raise _Unusable(f"cannot read config: {error}") from error
        if not isinstance(config, dict) or not isinstance(config.get("clusters"), list):
            raise _Unusable("no clusters in config")
        network = dig(config, "features", "network")
        if network is not None and not isinstance(network, dict):
            raise _Unusable("cannot unmarshal !!str into config.NetworkOpts")
        return [item for item in config["clusters"] if isinstance(item, dict)]

    async def _machines(self) -> list[dict[str, Any]]:
        """Every VM that the token shows, with name, uuid, state and the region of its datacenter."""
        found: list[dict[str, Any]] = []
        for entry in self._config():
            address = str(entry.get("url", "")).rstrip("/")
            token = f"PVEAPIToken={entry.get('token_id')}={entry.get('token_secret')}"
            connector = aiohttp.TCPConnector(ssl=_trust(entry), force_close=True)
            headers = {"Authorization": token, "User-Agent": "ProxmoxCCM/1.0"}
            async with aiohttp.ClientSession(
                connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=10)
            ) as session:
                rows = await _get(session, f"{address}/cluster/resources?type=vm")
                for row in rows or []:
                    if row.get("type", "qemu") != "qemu" or row.get("template"):
                        continue
                    machine = {**row, "region": str(entry.get("region", "")), "uuid": ""}
                    name = str(row.get("name", ""))
                    if any(name.startswith(meta(node)["name"]) for node in self._cluster.api.rows("nodes")):
                        config = await _get(session, f"{address}/nodes/{row['node']}/qemu/{row['vmid']}/config", True)
                        machine["uuid"] = _uuid(str((config or {}).get("smbios1", "")))
                    found.append(machine)
        return found

    def _initialise(self, node: Obj, machines: list[dict[str, Any]], now: float) -> None:
        name = meta(node)["name"]
        machine = _match(node, machines)
        if machine is None:
            self._say(
                f"error syncing '{name}': failed to get instance metadata for node {name}: cloud provider does "
                f"not set node provider ID for node {name}, requeuing"
            )
            pause = min(300.0, max(1.0, self._backoff.get(name, (0.0, 0.5))[1] * 2))
            self._backoff[name] = (now + pause, pause)
            return
        self._backoff.pop(name, None)
        zone, region = str(machine["node"]), machine["region"]
        size = f"{machine.get('maxcpu', 1)}VCPU-{int(machine.get('maxmem', 0)) // 2**30}GB"
        labels = {"node.kubernetes.io/instance-type": size, "beta.kubernetes.io/instance-type": size}
        for prefix in ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io", "topology.proxmox.sinextra.dev"):
            labels[f"{prefix}/region"], labels[f"{prefix}/zone"] = region, zone

        def edit(item: Obj) -> None:
            item["metadata"].setdefault("labels", {}).update(labels)
            item["spec"].setdefault("providerID", f"proxmox://{region}/{machine['vmid']}")
            left = [taint for taint in item["spec"].get("taints") or [] if taint["key"] != UNINITIALISED]
            if left:
                item["spec"]["taints"] = left
            else:
                item["spec"].pop("taints", None)

        self._cluster.api.change("nodes", ("", name), edit, manager=NAME)
        self._event(node, "Synced", "Node synced successfully")

    def _judge_absent(self, node: Obj, machines: list[dict[str, Any]]) -> None:
        name = meta(node)["name"]
        machine = _match(node, machines)
        if machine is None:
            wanted = str(dig(node, "spec", "providerID", default="")).rsplit("/", 1)[-1]
            hidden = next((item for item in machines if str(item.get("vmid")) == wanted), None)
            if hidden is not None and hidden.get("status") == "unknown":
                self._say("proxmox node inaccessible, cannot define instance status")
                return
            self._say(f"deleting node since it is no longer present in cloud provider: {name}")
            self._event(node, "DeletingNode", f"Deleting node {name} because it does not exist in the cloud provider")
            self._cluster.api.take("nodes", ("", name))
            return
        if machine.get("status") == "stopped" and not _has_taint(node, _SHUTDOWN):
            self._cluster.api.change(
                "nodes",
                ("", name),
                lambda item: item["spec"].setdefault("taints", []).append({"key": _SHUTDOWN, "effect": "NoSchedule"}),
            )

    def _event(self, node: Obj, reason: str, message: str) -> None:
        name = meta(node)["name"]
        self._cluster.api.ensure(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{name}.{self._cluster.api.store.revision:x}", "namespace": "default"},
                "involvedObject": {"kind": "Node", "name": name, "uid": meta(node)["uid"]},
                "reason": reason,
                "message": message,
                "type": "Normal",
                "source": {"component": "cloud-node-controller"},
                "count": 1,
                "firstTimestamp": now_text(),
                "lastTimestamp": now_text(),
            },
            NAME,
        )

    def _say(self, line: str) -> None:
        if not self.log or self.log[-1] != line:
            self.log.append(line)
            del self.log[:-100]


def _trust(entry: dict[str, Any]) -> ssl.SSLContext:
    return unchecked() if entry.get("insecure") is True else ssl.create_default_context()


async def _get(session: aiohttp.ClientSession, url: str, lenient: bool = False) -> Any:
    try:
        async with session.get(url) as answer:
            if answer.status == 200:
                return (await answer.json(content_type=None)).get("data")
            if lenient and answer.status in (403, 404, 500, 595, 596):
                return None
            raise _Unusable(
                "not authorized to access endpoint" if answer.status in (401, 403) else f"HTTP {answer.status}"
            )
    except aiohttp.ClientConnectorCertificateError as error:
        raise _Unusable("x509: certificate signed by unknown authority") from error
    except (aiohttp.ClientError, TimeoutError, ValueError, AttributeError) as error:
        raise _Unusable(str(error) or type(error).__name__) from error


def _uuid(smbios: str) -> str:
    fields = parse_qs(smbios.replace(",", "&"))
    return unquote(fields.get("uuid", [""])[0]).lower()


def _match(node: Obj, machines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The VM whose name begins with the node's and whose SMBIOS uuid is the node's."""
    name = meta(node)["name"]
    wanted = str(dig(node, "status", "nodeInfo", "systemUUID", default="")).lower()
    return next(
        (
            item
            for item in machines
            if str(item.get("name", "")).startswith(name) and item["uuid"] and item["uuid"] == wanted
        ),
        None,
    )


def _has_taint(node: Obj, key: str) -> bool:
    return any(item["key"] == key for item in dig(node, "spec", "taints", default=[]) or [])


def _ready(node: Obj) -> bool:
    rows = dig(node, "status", "conditions", default=[]) or []
    return any(row["type"] == "Ready" and row["status"] == "True" for row in rows)


def zone_of(node: Obj) -> str:
    """The zone that the controller wrote, "" before."""
    return labels_of(node).get("topology.kubernetes.io/zone", "")
