"""k3s and RKE2 on one machine: read the configuration, refuse what the real one refuses, be a server or an agent."""

import asyncio
import ipaddress
import re
import secrets
import ssl
from typing import TYPE_CHECKING, Any

import yaml

from lab.kube.http import ApiHandler
from lab.kube.tls import server_context, serving_certificate
from lab.nodes import flags, joining, kubelet, manifests
from lab.nodes.api_server import authentication_refusal
from lab.nodes.authorities import from_disk, pair_fits
from lab.nodes.authorities import generate as generate_authorities
from lab.nodes.cluster import SimCluster
from lab.nodes.node_program import Fatal, NodeProgram, Port
from lab.nodes.registration import Registration
from lab.nodes.versions import minor
from lab.yaml_reader import read_yaml

if TYPE_CHECKING:
    from lab.nodes.machine import Machine


class Supervisor(NodeProgram):
    """One run of `<program> server|agent`, from start to exit."""

    def __init__(self, machine: "Machine", distribution: str, version: str, arguments: list[str], unit: str) -> None:
        super().__init__(machine, distribution, version, unit)
        self._role = arguments[0] if arguments else ""
        self.arguments = arguments[1:]
        self.config: dict[str, Any] = {}
        self.registration: Registration | None = None

    # what the outside sees

    @property
    def role(self) -> str:
        return self._role

    @property
    def config_path(self) -> str:
        return f"/etc/rancher/{self.distribution}/config.yaml"

    @property
    def data(self) -> str:
        return f"/var/lib/rancher/{self.distribution}"

    def log(self, line: str, level: str = "info") -> None:
        quoted = line.replace('"', '\\"')
        self.machine.disk.log(self.unit, f'{self.distribution}[1]: level={level} msg="{quoted}"')

    # running

    async def run(self) -> int:
        """Runs until the power goes or the supervisor ends by itself; returns its exit status."""
        try:
            self._read_config()
            if exits := self.machine.fault.supervisor_exits:
                raise Fatal(exits)
            self.log(f"Starting {self.distribution} {self.version}")
            if self.role == "server":
                await self._server()
            else:
                await self._agent()
            self.phase = "running"
            await self._live()
            raise Fatal(self._why_evicted)
        except (Fatal, joining.JoinRefused) as fatal:
            self.log(str(fatal), "fatal")
            return 1

    def _read_config(self) -> None:
        if self.role not in ("server", "agent"):
            raise Fatal(f"No help topic for '{self.role}'")
        file = self.machine.disk.read(self.config_path)
        text = file.text if file else ""
        for path, extra in self.machine.disk.below(f"{self.config_path}.d").items():
            text += f"\n{extra.text}" if path.endswith(".yaml") else ""
        try:
            config = read_yaml(text) or {}
        except yaml.YAMLError as error:
            problem = str(error).replace("\n", " ")
            raise Fatal(f"failed to read config file {self.config_path}: yaml: {problem}") from error
        if not isinstance(config, dict):
            raise Fatal(
                f"failed to read config file {self.config_path}: yaml: unmarshal errors: cannot unmarshal into "
                "yaml.MapSlice"
            )
        for argument in self.arguments:
            name, _, value = argument.lstrip("-").partition("=")
            config.setdefault(name, value or True)
        known = flags.known_keys(self.distribution, self.role)
        for key in config:
            if str(key).rstrip("+") in known:
                continue
            # Only k3s's agent hands what it does not know to its parser of flags (k3s-io/k3s#6565, #8266).
            if self.distribution == "k3s" and self.role == "agent":
                raise Fatal(f"flag provided but not defined: -{key}")
            self.log(f"Unknown flag --{key} found in config.yaml, skipping", "warning")
        self.config = {str(key).rstrip("+"): value for key, value in config.items()}
        self.node_name = str(self.config.get("node-name") or self.machine.disk.hostname or "localhost")
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", self.node_name):
            raise Fatal(f"Error: failed to validate node name: invalid node name {self.node_name!r}")
        if name := kubelet.bad_argument(self.config):
            raise Fatal(f"kubelet exited: failed to parse kubelet flag: unknown flag: --{name}")

    @property
    def address(self) -> str:
        """The node's address as the supervisor takes it."""
        given = flags.split_list(self.config.get("node-ip"))
        return given[0] if given else self.machine.address

    async def _server(self) -> None:
        disk = self.machine.disk
        self._check_server_settings()
        known = self.world.clusters.get(disk.datastore)
        if known is not None:
            if disk.id not in known.members and disk.id not in known.learners:
                raise Fatal(
                    "this server has been removed from the cluster, and its etcd database must be deleted "
                    "before it can rejoin"
                )
            self._check_settled(known)
            self.cluster = known
        elif self.config.get("server"):
            if not self.config.get("token"):
                raise Fatal("--token is required to join a cluster")
            self.cluster = await joining.join_server(self)
        else:
            self.cluster = self._initialise()
        cluster = self.cluster
        self._serve_certificate(cluster)
        await asyncio.sleep(self.world.timing.api)
        disk.datastore, disk.member = cluster.id, True
        await self._serve(cluster)
        cluster.server_starts(self)
        self.world.save(self.machine)
        self.log(f"Kube API server is now running; {self.distribution} is up and running")
        for line in manifests.apply_folder(
            cluster.api, disk.below(f"{self.data}/server/manifests"), flags.split_list(self.config.get("disable"))
        ):
            self.log(line, "error")
        self._start_static_pods(cluster)

    def _check_server_settings(self) -> None:
        if not self.machine.addresses:
            raise Fatal("failed to get default interface: no default routes found in /proc/net/route")
        for key in ("cluster-cidr", "service-cidr", "cluster-dns"):
            for value in flags.split_list(self.config.get(key)):
                try:
                    if key == "cluster-dns":
                        ipaddress.ip_address(value)
                    elif "/" not in value:
                        raise ValueError(f"invalid CIDR address: {value}")
                    else:
                        ipaddress.ip_network(value)
                except ValueError as error:
                    raise Fatal(f"invalid argument for {key}: {error}") from error
        arguments = flags.as_list(self.config.get("kube-apiserver-arg"))
        if unknown := flags.unknown_apiserver_flag(arguments):
            raise Fatal(f"kube-apiserver exited: unknown flag: --{unknown}")
        names = {argument.lstrip("-").partition("=")[0] for argument in arguments}
        if "authentication-config" in names and any(name.startswith("oidc-") for name in names):
            raise Fatal("kube-apiserver exited: authentication-config file and oidc-* flags are mutually exclusive")
        for argument in arguments:
            name, _, value = argument.lstrip("-").partition("=")
            if name == "authentication-config":
                self._check_authentication(value)
        if self.distribution == "rke2":
            for cni in flags.split_list(self.config.get("cni")):
                if cni not in ("none", "canal", "calico", "cilium", "flannel", "multus"):
                    raise Fatal(f"invalid value {cni!r} for flag --cni")
        elif str(self.config.get("flannel-backend", "vxlan")) not in ("none", "vxlan", "host-gw", "wireguard-native"):
            raise Fatal(f"unknown flannel backend {self.config['flannel-backend']!r}")
        if flags.truth(self.config.get("cluster-init", False)) and self.distribution == "rke2":
            self.log("cluster-init is ignored", "warning")

    def _check_authentication(self, path: str) -> None:
        """The API server exits when its authentication configuration is missing or wrong (facts 2.11)."""
        seen = path
        if self.distribution == "rke2":
            for mount in flags.as_list(self.config.get("kube-apiserver-extra-mount")):
                host, _, rest = mount.partition(":")
                inside = rest.split(":")[0]
                if inside and (path == inside or path.startswith(inside.rstrip("/") + "/")):
                    seen = host.rstrip("/") + path[len(inside.rstrip("/")) :]
        if refusal := authentication_refusal(self.machine.disk.read(seen), path, minor(self.version)):
            raise Fatal(f"kube-apiserver exited: {refusal}")

    def _check_settled(self, cluster: SimCluster) -> None:
        if minor(self.version) < minor(cluster.api.version) - 1:
            raise Fatal(f"server {self.version} is older than its data of {cluster.api.version}")

    def _initialise(self) -> SimCluster:
        found = from_disk(self.machine.disk, f"{self.data}/server/tls")
        authorities = found or {}
        authorities = {**generate_authorities(self.distribution, set(authorities)), **authorities}
        token = str(self.config.get("token") or secrets.token_hex(16))
        if token.startswith("K10"):
            token = token.rsplit(":", 1)[-1]
        embedded = self.distribution == "rke2" or flags.truth(self.config.get("cluster-init", False))
        for name in ("server-ca", "client-ca", "etcd/server-ca"):
            if not pair_fits(authorities[f"{name}.crt"], authorities[f"{name}.key"]):
                raise Fatal(f"failed to load {name}: tls: private key does not match public key")
        cluster = self._founded(
            {
                "distribution": self.distribution,
                "version": self.version,
                "authorities": authorities,
                "token": token,
                "agent_token": str(self.config.get("agent-token") or token),
                "critical": flags.critical(self.distribution, self.config),
                "config": self.config,
                "joinable": embedded,
            },
        )
        cluster.members[self.machine.disk.id] = self.node_name
        self.world.clusters[cluster.id] = cluster
        self.log("Managed etcd cluster initializing" if embedded else "Using SQLite: no other server can join")
        return cluster

    def _founded(self, facts: dict[str, Any]) -> SimCluster:
        try:
            return SimCluster.found(self.world, facts)
        except ValueError as error:
            raise Fatal(f"kube-apiserver exited: failed to read a key or certificate: {error}") from error

    def _serve_certificate(self, cluster: SimCluster) -> None:
        service = ipaddress.ip_network(flags.split_list(self.config.get("service-cidr", "10.43.0.0/16"))[0])
        domain = str(self.config.get("cluster-domain", "cluster.local"))
        self.sans = [
            *flags.split_list(self.config.get("tls-san")),
            self.address,
            self.node_name,
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            f"kubernetes.default.svc.{domain}",
            str(service[1]),
        ]
        try:
            chain, key = serving_certificate(
                cluster.authorities["server-ca.crt"].encode(),
                cluster.authorities["server-ca.key"].encode(),
                self.distribution,
                self.sans,
            )
            self.context = server_context(chain, key, cluster.authorities["client-ca.crt"].encode())
        except (ValueError, ssl.SSLError) as error:
            raise Fatal(f"failed to load server certificate authority: {error}") from error

    async def _serve(self, cluster: SimCluster) -> None:
        if self.context is None:
            raise Fatal("no serving certificate")
        self.registration = Registration(cluster)
        self.handler = ApiHandler(
            cluster.api,
            cluster.client_authorities,
            f"{self.address}:6443",
            self.registration if self.distribution == "k3s" else None,
            lambda: cluster.trouble,
        )
        await self._listen(self.ports(self.machine.address))

    def ports(self, host: str) -> list[Port]:
        """The API, and with RKE2 the supervisor's own port."""
        if self.handler is None or self.registration is None or self.context is None:
            return []
        found: list[Port] = [(host, 6443, self.handler, self.context)]
        if self.distribution == "rke2":
            found.append((host, 9345, self.registration.only, self.context))
        return found

    def _start_static_pods(self, cluster: SimCluster) -> None:
        for name, file in self.machine.disk.below(f"{self.data}/agent/pod-manifests").items():
            if not name.endswith((".yaml", ".yml", ".json")):
                continue
            self._start_kube_vip(cluster, name, file.text)

    async def _agent(self) -> None:
        if not self.config.get("token"):
            raise Fatal("--token is required")
        if not self.config.get("server"):
            raise Fatal("--server is required")
        self.cluster = await joining.join_agent(self)

    async def _live(self) -> None:
        """Registers the node and keeps it alive until the server is thrown out."""
        cluster = self.cluster
        if cluster is None:
            raise Fatal("no cluster")
        await asyncio.sleep(self.world.timing.kubelet)
        if self.address not in [item.split("/")[0] for item in self.machine.addresses]:
            self.log(f'kubelet: node IP: "{self.address}" not found in the host\'s network interfaces', "error")
        elif not self.machine.fault.kubelet_stuck:
            looks = kubelet.supervised(
                self.distribution, self.config, self.node_name, self.address, self.version, server=self.role == "server"
            )
            await self._keep_node(cluster, looks, True if self.role == "server" and cluster.joinable else None)
        await self._evicted.wait()
