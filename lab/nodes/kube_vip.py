"""kube-vip on one server: reads its static pod and kubeconfig, takes part in the election, holds the address."""

import asyncio
import base64
import binascii
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from lab.kube.access import Attempt
from lab.kube.api import Call
from lab.kube.http import Listener
from lab.kube.identity import ANONYMOUS, Identity, from_certificate
from lab.kube.objects import Obj, dig, micro_text, parse_time
from lab.kube.refusals import Refusal
from lab.kube.resources import Target
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.cluster import SimCluster
    from lab.nodes.node_program import NodeProgram

_GROUP = "coordination.k8s.io"


class _Broken(Exception):
    """The container cannot start, or cannot speak to its API server."""


def _environment(container: Obj, node: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in container.get("env") or []:
        if "value" in item:
            if not isinstance(item["value"], str):
                raise _Broken(f"Pod is invalid: env {item.get('name')}: cannot unmarshal into string")
            found[item["name"]] = item["value"]
        elif dig(item, "valueFrom", "fieldRef", "fieldPath") == "spec.nodeName":
            found[item["name"]] = node
    return found


class KubeVip:
    """One kube-vip. It never gives up: what is wrong shows in the log, and the address stays away."""

    def __init__(
        self,
        server: "NodeProgram",
        cluster: "SimCluster",
        env: dict[str, str],
        identity: Identity,
        trouble: str,
        may_set: bool,
    ) -> None:
        self._server = server
        self._cluster = cluster
        self.address = env.get("address", "")
        self._node = env.get("vip_nodename") or server.node_name
        self._lease = env.get("vip_leasename") or "plndr-cp-lock"
        self._namespace = env.get("cp_namespace") or "kube-system"
        scale = server.world.timing.vip_scale
        self._duration = int(env.get("vip_leaseduration") or 15)
        self._retry = float(env.get("vip_retryperiod") or 2) * scale
        self._scale = scale
        self._identity = identity
        self._trouble = trouble
        self._may_set = may_set
        self._listeners: list[Listener] = []
        self._task: asyncio.Task[None] | None = None
        self._said = ""

    @property
    def holds(self) -> bool:
        """True while this server answers at the virtual IP."""
        return bool(self._listeners)

    @classmethod
    def from_manifest(cls, server: "NodeProgram", cluster: "SimCluster", text: str) -> tuple["KubeVip | None", str]:
        """Reads a static pod. Returns kube-vip (or None when the pod is not one) and what is wrong with it."""
        try:
            pod = read_yaml(text)
        except yaml.YAMLError as error:
            return None, f"Could not process manifest file: {str(error).splitlines()[0]}"
        if not isinstance(pod, dict) or pod.get("kind") != "Pod" or pod.get("apiVersion") != "v1":
            return None, "Could not process manifest file: no Pod"
        spec = pod.get("spec") or {}
        containers = spec.get("containers") or []
        if not containers or "kube-vip" not in str(containers[0].get("image", "")):
            return None, "" if containers else "Pod is invalid: spec.containers: Required value"
        container = containers[0]
        try:
            if not dig(pod, "metadata", "name"):
                raise _Broken("Pod is invalid: metadata.name: Required value")
            env = _environment(container, server.node_name)
            if container.get("args") != ["manager"]:
                raise _Broken("kube-vip prints its help and exits: no command `manager`")
            if env.get("cp_enable") != "true" or not env.get("address"):
                raise _Broken("kube-vip: no feature is enabled, or no address given")
            if env.get("vip_leaderelection") != "true":
                raise _Broken("kube-vip: no leader election: every server would set the address")
            if not container.get("name"):
                raise _Broken("Pod is invalid: spec.containers[0].name: Required value")
            if "k8s_config_file" in env and not _reads_config_file(str(container["image"])):
                raise _Broken("kube-vip: unable to load in-cluster configuration: k8s_config_file is not known")
            if env.get("vip_arp") != "true":
                raise _Broken("kube-vip: neither ARP nor BGP is enabled: the address is told to nobody")
            if spec.get("hostNetwork") is not True:
                raise _Broken("kube-vip: the address is set inside the pod's own network")
            if env.get("vip_interface", "") not in (server.machine.disk.interface, ""):
                raise _Broken(f"kube-vip: {env['vip_interface']} is not a valid interface")
            _check_lease_times(env)
            config = _mounted(server, spec, container, env)
            identity, trouble = _identity_of(server, cluster, config)
        except _Broken as broken:
            return None, str(broken)
        added = dig(container, "securityContext", "capabilities", "add", default=[]) or []
        may_set = "NET_ADMIN" in added or dig(container, "securityContext", "privileged") is True
        return cls(server, cluster, env, identity, trouble, may_set), trouble

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """The power is gone: the address too; the lease stays as it was."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._give_up()

    async def _run(self) -> None:
        while True:
            try:
                leads = self._elect()
            except Refusal as refusal:
                self._say(f"Error retrieving lease lock: {refusal.message}")
                leads = False
            if leads and not self.holds:
                await self._take()
            elif not leads and self.holds:
                await self._give_up()
            await asyncio.sleep(self._retry)

    def _elect(self) -> bool:
        """One round of the election, with the rights of the client certificate."""
        if self._trouble:
            self._say(self._trouble)
            return False
        if self._cluster.trouble:
            self._say(f"failed to renew lease: {self._cluster.trouble}")
            return False
        api = self._cluster.api
        resource = api.registry.named("leases", _GROUP)
        target = Target(resource, self._namespace, self._lease)

        def demand(verb: str, name: str) -> None:
            api.authoriser.demand(self._identity, Attempt(verb, _GROUP, "leases", namespace=self._namespace, name=name))

        demand("get", self._lease)
        lease = api.store.get(resource.storage, (self._namespace, self._lease))
        call = Call(self._identity, "kube-vip")
        if lease is None:
            demand("create", "")
            api.create(
                Target(resource, self._namespace),
                {
                    "metadata": {"name": self._lease},
                    "spec": {
                        "holderIdentity": self._node,
                        "leaseDurationSeconds": self._duration,
                        "acquireTime": micro_text(),
                        "renewTime": micro_text(),
                        "leaseTransitions": 0,
                    },
                },
                call,
            )
            return True
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        renewed = parse_time(spec.get("renewTime"))
        limit = timedelta(seconds=(spec.get("leaseDurationSeconds") or self._duration) * self._scale)
        if holder and holder != self._node and renewed is not None and datetime.now(UTC) < renewed + limit:
            return False
        demand("update", self._lease)
        fresh = {
            **spec,
            "holderIdentity": self._node,
            "leaseDurationSeconds": self._duration,
            "renewTime": micro_text(),
        }
        if holder != self._node:
            fresh["acquireTime"] = micro_text()
            fresh["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        api.update(
            target,
            {
                "metadata": {
                    "name": self._lease,
                    "namespace": self._namespace,
                    "resourceVersion": lease["metadata"]["resourceVersion"],
                },
                "spec": fresh,
            },
            call,
        )
        return True

    async def _take(self) -> None:
        if not self._may_set:
            self._say('could not add ip to device "eth0": operation not permitted')
            return
        opened: list[Listener] = []
        try:
            for host, port, answer, context in self._server.ports(self.address):
                listener = Listener(host, port, answer, context)
                await listener.start()
                opened.append(listener)
        except OSError:
            # A foreign machine has the address: kube-vip says nothing, and the neighbours hear whom they heard before.
            for listener in opened:
                await listener.stop()
            return
        self._listeners = opened
        self._say(f"Node [{self._node}] is assuming leadership of the cluster; {self.address} is set")

    async def _give_up(self) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.stop()

    def _say(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._server.pod_log("kube-vip", line)


def _reads_config_file(image: str) -> bool:
    """`k8s_config_file` is honoured from v1.2.2 on (facts/kube-vip.md A1)."""
    match = re.search(r":v(\d+)\.(\d+)\.(\d+)", image)
    return match is None or tuple(map(int, match.groups())) >= (1, 2, 2)


def _check_lease_times(env: dict[str, str]) -> None:
    try:
        duration, renew, retry = (
            float(env.get(name) or default)
            for name, default in (("vip_leaseduration", 15), ("vip_renewdeadline", 10), ("vip_retryperiod", 2))
        )
    except ValueError as error:
        raise _Broken(f"kube-vip: {error}") from error
    if duration <= renew:
        raise _Broken("kube-vip panics: leaseDuration must be greater than renewDeadline")
    if renew <= 1.2 * retry:
        raise _Broken("kube-vip panics: renewDeadline must be greater than retryPeriod*JitterFactor")


def _mounted(server: "NodeProgram", spec: Obj, container: Obj, env: dict[str, str]) -> dict[str, Any]:
    """The kubeconfig as the container sees it."""
    inside = env.get("k8s_config_file") or "/etc/kubernetes/admin.conf"
    mount = next((item for item in container.get("volumeMounts") or [] if item.get("mountPath") == inside), None)
    if mount is None:
        raise _Broken(f"kube-vip: unable to find kubeconfig: stat {inside}: no such file or directory")
    volume = next((item for item in spec.get("volumes") or [] if item.get("name") == mount.get("name")), None)
    if volume is None:
        raise _Broken(f"Pod is invalid: spec.containers[0].volumeMounts[0].name: Not found: {mount.get('name')!r}")
    path = dig(volume, "hostPath", "path", default="")
    file = server.machine.disk.read(path)
    if file is None:
        raise _Broken(
            f"MountVolume.SetUp failed for volume {mount['name']!r}: hostPath type check failed: {path} is not a file"
        )
    try:
        config = read_yaml(file.text)
    except yaml.YAMLError as error:
        raise _Broken(f"kube-vip: error loading config file: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise _Broken("kube-vip: invalid configuration: no configuration has been provided")
    return config


def _entry(config: dict[str, Any], group: str, name: str, inner: str) -> dict[str, Any]:
    for item in config.get(group) or []:
        if item.get("name") == name:
            found = item.get(inner)
            return found if isinstance(found, dict) else {}
    return {}


def _identity_of(server: "NodeProgram", cluster: "SimCluster", config: dict[str, Any]) -> tuple[Identity, str]:
    """Whom the API server sees, and what stands between: (identity, trouble)."""
    if config.get("apiVersion", "v1") != "v1" or config.get("kind", "Config") != "Config":
        raise _Broken("kube-vip: error loading config file: no kind Config is registered for that version")
    context = _entry(config, "contexts", str(config.get("current-context")), "context")
    if not context:
        raise _Broken("kube-vip: invalid configuration: no context chosen")
    target = _entry(config, "clusters", str(context.get("cluster")), "cluster")
    user = _entry(config, "users", str(context.get("user")), "user")
    address = str(target.get("server", ""))
    host, _, port = address.removeprefix("https://").partition(":")
    own = {"127.0.0.1", "localhost", server.address, server.machine.address}
    if not address.startswith("https://") or host not in own or port.rstrip("/") != "6443":
        return ANONYMOUS, f"error retrieving resource lock: dial tcp {host or address}: connect: connection refused"
    try:
        shown = base64.b64decode(target.get("certificate-authority-data") or "")
        certificate = base64.b64decode(user.get("client-certificate-data") or "")
        key = base64.b64decode(user.get("client-key-data") or "")
        if not shown or x509.load_pem_x509_certificate(shown) != x509.load_pem_x509_certificate(
            cluster.authorities["server-ca.crt"].encode()
        ):
            return ANONYMOUS, "tls: failed to verify certificate: x509: certificate signed by unknown authority"
        name = target.get("tls-server-name") or host
        if name not in server.sans:
            return ANONYMOUS, (
                f"tls: failed to verify certificate: x509: certificate is valid for "
                f"{', '.join(server.sans[:4])}, not {name}"
            )
        if not certificate:
            return ANONYMOUS, ""
        mine = x509.load_pem_x509_certificate(certificate)
        if serialization.load_pem_private_key(key, None).public_key() != mine.public_key():
            raise _Broken("kube-vip: tls: private key does not match public key")
        der = mine.public_bytes(serialization.Encoding.DER)
        return from_certificate(der, cluster.client_authorities), ""
    except Refusal:
        return ANONYMOUS, "error retrieving resource lock: Unauthorized"
    except (ValueError, TypeError, binascii.Error) as error:
        raise _Broken(f"kube-vip: error loading config file: {error}") from error
