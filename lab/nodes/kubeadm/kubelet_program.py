"""kubeadm's kubelet: reads its settings, gets its certificate, runs the static pods and keeps its Node."""

import asyncio
import base64
import re
import ssl
from typing import TYPE_CHECKING, Any

from cryptography import x509

from lab.kube.http import ApiHandler
from lab.kube.objects import Obj, dig, meta, now_text
from lab.kube.tls import server_context
from lab.nodes import flags, kubelet, programs
from lab.nodes.api_server import authentication_refusal
from lab.nodes.authorities import pair_fits
from lab.nodes.cluster import SimCluster
from lab.nodes.kubeadm import etcd, pki, static_pods
from lab.nodes.kubeadm.configuration import Refused
from lab.nodes.kubeadm.discovery import NotYet, Talk
from lab.nodes.node_program import Fatal, NodeProgram, Port
from lab.nodes.versions import minor
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

CONFIG = "/var/lib/kubelet/config.yaml"
FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
KUBECONFIG = "/etc/kubernetes/kubelet.conf"
BOOTSTRAP = "/etc/kubernetes/bootstrap-kubelet.conf"
_OF_KUBEADM = ("--node-ip", "--hostname-override", "--pod-infra-container-image", "--register-with-taints")
_AUTHORITIES = {"server-ca": "ca", "client-ca": "ca", "request-header-ca": "front-proxy-ca"}
_ETCD = ("etcd/server-ca", "etcd/peer-ca")


class KubeletProgram(NodeProgram):
    """One run of the kubelet."""

    def __init__(self, machine: "Machine", version: str, unit: str) -> None:
        super().__init__(machine, "kubeadm", version, unit)
        self.healthy = False
        self.api_serves = False
        """True while this machine's own API server answers."""
        self._arguments: dict[str, str] = {}
        self._running: dict[str, Obj] = {}
        """Static pods that run, by the name of their manifest."""
        self._said: dict[str, str] = {}
        self._port = 6443
        self._networked = False

    @property
    def role(self) -> str:
        return "server" if self.machine.disk.exists(f"{static_pods.FOLDER}/kube-apiserver.yaml") else "worker"

    @property
    def address(self) -> str:
        return self._arguments.get("node-ip") or self.machine.address

    def log(self, line: str, level: str = "info") -> None:
        self.machine.disk.log(self.unit, f'kubelet[1]: {level[0].upper()} "{line}"')

    def pod_log(self, pod: str, line: str) -> None:
        folder = f"/var/log/pods/kube-system_{pod}-{self.node_name}_lab/{pod}"
        self.machine.disk.log(f"{folder}/0.log", f"{now_text()} stderr F {line}")

    def ports(self, host: str) -> list[Port]:
        """The API alone: etcd listens on the node's own address."""
        if self.handler is None or self.context is None:
            return []
        return [(host, self._port, self.handler, self.context)]

    def network_trouble(self, cluster: SimCluster) -> str:
        """kube-proxy and the pod network's programs come to the API by the address for all; what runs once stays."""
        trouble = super().network_trouble(cluster)
        if not trouble and not self._networked and cluster.config.get("endpoint"):
            held = any(server.vip is not None and server.vip.holds for server in cluster.running.values())
            trouble = "" if held else "nobody holds the virtual IP"
        self._networked = self._networked or not trouble
        return trouble

    async def run(self) -> int:
        work: list[asyncio.Task[None]] = []
        try:
            self._read_settings()
            if exits := self.machine.fault.supervisor_exits:
                raise Fatal(exits)
            self.healthy = True
            self.phase = "running"
            loop = asyncio.get_running_loop()
            work = [loop.create_task(part) for part in (self._tend_pods(), self._be_a_node(), self._until_evicted())]
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            return 0
        except Fatal as fatal:
            self.log(f"command failed: {fatal}", "error")
            return 1
        finally:
            self.healthy = self.api_serves = False
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _until_evicted(self) -> None:
        await self._evicted.wait()
        raise Fatal(self._why_evicted)

    def _read_settings(self) -> None:
        disk = self.machine.disk
        if disk.read(CONFIG) is None:
            raise Fatal(
                f"failed to load kubelet config file, path: {CONFIG}, error: failed to read kubelet config file "
                f'"{CONFIG}", error: open {CONFIG}: no such file or directory'
            )
        file = disk.read(FLAGS)
        match = re.search(r'KUBELET_KUBEADM_ARGS="(.*)"', file.text if file else "")
        words = match[1].split() if match else []
        known = [word for word in words if word.partition("=")[0] not in _OF_KUBEADM]
        if name := kubelet.bad_argument({"kubelet-arg": known}):
            raise Fatal(f"failed to parse kubelet flag: unknown flag: --{name}")
        for word in words:
            name, _, value = word.lstrip("-").partition("=")
            self._arguments[name] = value
        self.node_name = self._arguments.get("hostname-override") or disk.hostname
        if not disk.exists(KUBECONFIG) and not disk.exists(BOOTSTRAP):
            raise Fatal(f"unable to load bootstrap kubeconfig: stat {BOOTSTRAP}: no such file or directory")

    # static pods

    async def _tend_pods(self) -> None:
        while True:
            files = self.machine.disk.below(static_pods.FOLDER)
            # etcd first, then the API server: the others need them, and would crash until they are there.
            for name in sorted(files, key=lambda item: (item != "etcd.yaml", item != "kube-apiserver.yaml", item)):
                if name in self._running or not name.endswith((".yaml", ".yml", ".json")):
                    continue
                pod, problem = static_pods.read(files[name].text)
                if problem:
                    self._tell(name, problem)
                elif trouble := await self._start(pod, files[name].text):
                    self._crashed(name, pod, trouble)
                else:
                    self._running[name] = pod
            self._mirror()
            await self._pause(self.world.timing.tick)

    def _tell(self, name: str, problem: str) -> None:
        if self._said.get(name) != problem:
            self._said[name] = problem
            self.log(f"static pod {name}: {problem}", "error")

    def _crashed(self, name: str, pod: Obj, trouble: str) -> None:
        """A container's last words are in its own log; the kubelet says of it only that it came back down."""
        if self._said.get(name) == trouble:
            return
        self._said[name] = trouble
        title = str(pod["metadata"]["name"])
        if trouble.startswith("failed to pull"):
            self.log(f"Error syncing pod, skipping: failed to StartContainer for {title} with ErrImagePull: {trouble}")
            return
        self.pod_log(title, trouble)
        self.log(f"Error syncing pod, skipping: failed to StartContainer for {title} with CrashLoopBackOff", "error")

    async def _start(self, pod: Obj, text: str) -> str:
        """Starts a pod's container; why it ended at once, "" when it runs."""
        name = str(dig(pod, "spec", "containers", 0, "name", default=""))
        image = str(dig(pod, "spec", "containers", 0, "image", default=""))
        missing = self.machine.fault.missing_image
        if missing and missing in image:
            return f'failed to pull and unpack image "{image}": dial tcp: lookup registry.k8s.io: no such host'
        if name == "etcd":
            return await self._start_etcd(pod)
        if name == "kube-apiserver":
            return await self._start_api_server(pod)
        cluster = self.cluster
        if cluster is None or not self.api_serves:
            return f"{name}: dial tcp {self.machine.address}:6443: connect: connection refused"
        if name == "kube-controller-manager":
            ranges = static_pods.arguments_of(pod).get("cluster-cidr", "")
            if cluster.config.get("cluster-cidr", "") != ranges:
                cluster.config["cluster-cidr"] = ranges
                self.world.save_cluster(cluster)
        elif "kube-vip" in image and self.vip is None:
            self._start_kube_vip(cluster, name, text)
        return ""

    async def _start_etcd(self, pod: Obj) -> str:
        disk, given = self.machine.disk, static_pods.arguments_of(pod)
        try:
            context = etcd.context(disk)
        except etcd.Unusable as unusable:
            return f"etcd: {unusable}"
        address = given["listen-client-urls"].rpartition("https://")[2].rpartition(":")[0]
        if address != self.machine.address:
            return f"etcd: listen tcp {address}:2380: bind: cannot assign requested address"
        cluster = self.world.clusters.get(disk.datastore)
        if cluster is None:
            if given.get("initial-cluster-state") == "existing":
                return "etcd: couldn't find local name in the initial cluster configuration"
            try:
                cluster = self._found_cluster(given["name"])
            except (Refused, ValueError) as error:
                return f"etcd: {error}"
        elif disk.id not in cluster.members and disk.id not in cluster.learners:
            return "etcd: the member has been permanently removed from the cluster"
        try:
            await self._listen([(address, 2379, etcd.Gateway(cluster, disk.id), context)])
        except Fatal as fatal:
            return f"etcd: {fatal}"
        self.cluster, disk.datastore, disk.member = cluster, cluster.id, True
        cluster.server_starts(self)
        self.world.save(self.machine)
        return ""

    def _found_cluster(self, name: str) -> SimCluster:
        """A new etcd: what the API server keeps in it comes with the first one that starts."""
        disk = self.machine.disk
        authorities: dict[str, str] = {}
        pairs = {**_AUTHORITIES, **dict.fromkeys(_ETCD, "etcd/ca")}
        for ours, theirs in pairs.items():
            for end in ("crt", "key"):
                file = disk.read(f"{pki.FOLDER}/{theirs}.{end}")
                authorities[f"{ours}.{end}"] = file.text if file else ""
        key = disk.read(f"{pki.FOLDER}/sa.key")
        authorities["service.key"] = key.text if key else ""
        api = disk.read(f"{static_pods.FOLDER}/kube-apiserver.yaml")
        services = static_pods.arguments_of(read_yaml(api.text)).get("service-cluster-ip-range") if api else ""
        cluster = SimCluster.found(
            self.world,
            {
                "distribution": "kubeadm",
                "version": self.version,
                "authorities": authorities,
                "token": "",
                "agent_token": "",
                "critical": {},
                "config": {"service-cidr": services or "10.96.0.0/12", "disable-cloud-controller": True},
                "joinable": True,
            },
        )
        cluster.members[disk.id] = name
        self.world.clusters[cluster.id] = cluster
        return cluster

    async def _start_api_server(self, pod: Obj) -> str:
        cluster, disk, given = self.cluster, self.machine.disk, static_pods.arguments_of(pod)
        if cluster is None:
            return "kube-apiserver: dial tcp 127.0.0.1:2379: connect: connection refused"
        own = {*_API_FLAGS}
        if unknown := flags.unknown_apiserver_flag([f"--{name}" for name in given if name not in own]):
            return f"kube-apiserver: unknown flag: --{unknown}"
        if path := given.get("authentication-config"):
            seen = static_pods.seen_from(pod, path)
            refusal = authentication_refusal(disk.read(seen) if seen else None, path, minor(self.version))
            if refusal:
                return f"kube-apiserver: {refusal}"
        if given["advertise-address"] != self.machine.address:
            return f"kube-apiserver: {given['advertise-address']} is no address of this machine"
        try:
            self.context = self._serving(given)
        except (ssl.SSLError, ValueError) as error:
            return f"kube-apiserver: failed to load certificate: {error}"
        await asyncio.sleep(self.world.timing.api)
        self._port = int(given["secure-port"])
        authorities = [x509.load_pem_x509_certificate(self._file(f"{pki.FOLDER}/ca.crt"))]
        address = f"{self.machine.address}:{self._port}"
        self.handler = ApiHandler(cluster.api, authorities, address, None, lambda: cluster.trouble)
        try:
            await self._listen(self.ports(self.machine.address))
        except Fatal as fatal:
            self.handler = None
            return f"kube-apiserver: {fatal}"
        self.api_serves = True
        return ""

    def _serving(self, given: dict[str, str]) -> ssl.SSLContext:
        chain, key = self._file(given["tls-cert-file"]), self._file(given["tls-private-key-file"])
        if not pair_fits(chain.decode(), key.decode()):
            raise ValueError("tls: private key does not match public key")
        names = x509.load_pem_x509_certificate(chain).extensions.get_extension_for_class(x509.SubjectAlternativeName)
        listed = names.value.get_values_for_type(x509.DNSName)
        self.sans = [*listed, *map(str, names.value.get_values_for_type(x509.IPAddress))]
        return server_context(chain, key, self._file(given["client-ca-file"]))

    def _file(self, path: str) -> bytes:
        file = self.machine.disk.read(path)
        if file is None:
            raise ValueError(f"open {path}: no such file or directory")
        return file.data

    def _mirror(self) -> None:
        """What the API shows of static pods: a pod of the node's name for each, once the Node is there."""
        cluster = self.cluster
        if cluster is None or cluster.trouble or cluster.agents.get(self.node_name) is not self:
            return
        node = cluster.api.find("nodes", "", self.node_name)
        if node is None:
            return
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": meta(node)["uid"]}
        for pod in self._running.values():
            data = pod["metadata"]
            name = f"{data['name']}-{self.node_name}"
            namespace = data.get("namespace", "default")
            if cluster.api.find("pods", namespace, name) is not None:
                continue
            mark = {"kubernetes.io/config.mirror": "lab", "kubernetes.io/config.source": "file"}
            copied: dict[str, Any] = {
                **data,
                "name": name,
                "namespace": namespace,
                "annotations": {**(data.get("annotations") or {}), **mark},
                "ownerReferences": [{**owner, "controller": True}],
            }
            spec = {**pod["spec"], "nodeName": self.node_name, "tolerations": [{"operator": "Exists"}]}
            cluster.api.ensure({"apiVersion": "v1", "kind": "Pod", "metadata": copied, "spec": spec}, "kubelet")

    # the node

    async def _be_a_node(self) -> None:
        await self._get_certificate()
        addresses = [item.split("/")[0] for item in self.machine.addresses]
        if self.address not in addresses:
            wrong = f'node IP: "{self.address}" not found in the host\'s network interfaces'
            self.log(f"failed to validate nodeIP: {wrong}", "error")
            await self._evicted.wait()
        while self.machine.fault.kubelet_stuck or (cluster := self._known_cluster()) is None:
            await self._pause(self.world.timing.tick)
        self.cluster = cluster
        await self._reach_server()
        await asyncio.sleep(self.world.timing.kubelet)
        external = self._arguments.get("cloud-provider") == "external"
        taints = [{"key": kubelet.UNINITIALISED, "value": "true", "effect": "NoSchedule"}] if external else []
        given = {"alpha.kubernetes.io/provided-node-ip": self.address} if self._arguments.get("node-ip") else {}
        looks = kubelet.Looks(
            self.node_name,
            self.address,
            self.version,
            f"containerd://{programs.in_place(self.machine.disk, 'containerd')}",
            taints=tuple(taints),
            annotations={"volumes.kubernetes.io/controller-managed-attach-detach": "true", **given},
        )
        await self._keep_node(cluster, looks, None)

    async def _reach_server(self) -> None:
        """Until the server that `kubelet.conf` names answers: no node is registered before."""
        talk, said = Talk(self.machine), ""
        while True:
            file = self.machine.disk.read(KUBECONFIG)
            cluster = dig(read_yaml(file.text if file else ""), "clusters", 0, "cluster", default={})
            try:
                await talk.get(
                    str(cluster["server"]), "/version", base64.b64decode(cluster["certificate-authority-data"])
                )
                return
            except NotYet as error:
                if str(error) != said:
                    said = str(error)
                    self.log(f"Unable to register node with API server: {said}", "error")
            await self._pause(self.world.timing.tick)

    def _known_cluster(self) -> SimCluster | None:
        """The cluster, once somebody in it answers: a server asks its own API server."""
        if self.role == "server":
            return self.cluster if self.api_serves else None
        found = self.world.clusters.get(self.machine.disk.datastore)
        return found if found is not None and found.running else None

    async def _get_certificate(self) -> None:
        """With the token in `bootstrap-kubelet.conf`, from the server that it names; until it has one."""
        disk, talk, said = self.machine.disk, Talk(self.machine), ""
        while not disk.exists(KUBECONFIG):
            file = disk.read(BOOTSTRAP)
            if file is not None:
                config = read_yaml(file.text)
                cluster = dig(config, "clusters", 0, "cluster", default={})
                authority = base64.b64decode(cluster["certificate-authority-data"])
                token = str(dig(config, "users", 0, "user", "token", default=""))
                try:
                    await talk.node(str(cluster["server"]), authority, token, self.node_name)
                except (NotYet, Refused) as error:
                    if str(error) != said:
                        said = str(error)
                        self.log(f"cannot create certificate signing request: {said}", "error")
                else:
                    disk.write(
                        KUBECONFIG, pki.kubeconfig_text(str(cluster["server"]), authority, self.node_name), 0o600
                    )
                    return
            await self._pause(self.world.timing.tick)


_API_FLAGS = (
    *("advertise-address", "allow-privileged", "authorization-mode", "client-ca-file", "enable-bootstrap-token-auth"),
    *("etcd-cafile", "etcd-certfile", "etcd-servers", "secure-port", "service-account-signing-key-file"),
    *("service-cluster-ip-range", "tls-cert-file", "tls-private-key-file"),
)
"""Those that kubeadm itself sets."""
