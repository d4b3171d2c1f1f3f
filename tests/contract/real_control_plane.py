"""The real kube-apiserver as a backend: etcd, API server and controller manager as plain processes on loopback.

The programs are those of `lab/programs`: taken from its cache, built where Go is at hand. No privileges, no node and no
scheduler. The controller manager runs the controllers whose work the double does itself and no others, so that a case
means the same on both: with the Deployment's controller, for example, a status that a case writes would be written
over by another's.
"""

import asyncio
import ctypes
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from lab.kube.tls import serving_certificate
from lab.programs.build import obtain
from lab.programs.recipes import DEFAULT_VERSION, kube, others
from tests.contract.backend import Authority, pem, public_pem

CONTROLLERS = (
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "disruption-controller",
    "clusterrole-aggregation-controller",
)
STARTS = 240.0
"""Seconds for each step of the start; 3 for all of it where nothing else runs."""
ENDS = 15.0
"""Seconds for a clean end, before it is killed."""
_PR_SET_PDEATHSIG = 1


class NotStarted(Exception):
    """A program did not come up; str() has the last lines of every log."""


class Ended(NotStarted):
    """One of the programs ended at once."""


@dataclass
class RealControlPlane:
    """etcd, kube-apiserver and kube-controller-manager with authorities of the test's own."""

    say: Callable[[str], None]
    """Told when a program is being built, which takes minutes."""
    clients: Authority = field(default_factory=lambda: Authority.make("clients"))
    service_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    version: str = DEFAULT_VERSION
    url: str = ""

    def __post_init__(self) -> None:
        self._servers = Authority.make("servers")
        self.server_ca = self._servers.pem
        self._folder, self._etcd_url = Path(), ""
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        """Returns when the API is ready and the controllers work.

        Raises:
            lab.programs.needs.Missing: the programs cannot be had here.
            NotStarted: one of them did not come up.
        """
        etcd, program = await asyncio.to_thread(self._programs)
        for again in (True, True, False):
            try:
                await self._start(etcd, program)
                return
            except Ended:
                # Somebody may have taken one of the ports since they were found free.
                if not again:
                    raise

    async def _start(self, etcd: Path, program: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
        try:
            self._write()
            ports = _free_ports(3)
            self.url, self._etcd_url = f"https://127.0.0.1:{ports[2]}", f"http://127.0.0.1:{ports[0]}"
            self._run("etcd", [str(etcd), *_flags(self._etcd(*ports[:2]))])
            self._run("kube-apiserver", [str(program), "kube-apiserver", *_flags(self._api_server(ports[0], ports[2]))])
            await self._answer("/readyz")
            # Not earlier: it gives up when the API server lets it wait for ten seconds.
            manager = "kube-controller-manager"
            self._run(manager, [str(program), manager, *_flags(self._controllers())])
            # What the controllers write tells that they work.
            await self._answer("/api/v1/namespaces/default/serviceaccounts/default")
            await self._answer("/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Ends every program and removes its data; a second call does nothing."""
        # An API server that is asked to end waits for open connections; nothing of this data is worth that.
        for process in self._running.values():
            process.send_signal(signal.SIGKILL)
        for process in self._running.values():
            await asyncio.to_thread(process.wait, ENDS)
        self._running.clear()
        if self._folder != Path():
            shutil.rmtree(self._folder, ignore_errors=True)

    async def forget(self) -> None:
        """Compacts etcd. The API server keeps a history of its own of most kinds, but none of Events."""
        async with httpx.AsyncClient(base_url=self._etcd_url, timeout=30) as client:
            header = (await client.post("/v3/kv/range", json={"key": "AA=="})).json()["header"]
            (await client.post("/v3/kv/compaction", json={"revision": header["revision"]})).raise_for_status()

    def _programs(self) -> tuple[Path, Path]:
        etcd = next(recipe for recipe in others() if recipe.name == "etcd")
        return obtain(etcd, self.say), obtain(kube(self.version), self.say)

    def _write(self) -> None:
        chain, key = serving_certificate(
            self._servers.pem, pem(self._servers.key), "kube-apiserver", ["127.0.0.1", "localhost", "kubernetes"]
        )
        manager = self.clients.issue("system:kube-controller-manager", ("system:masters",))
        files = {
            "clients.crt": self.clients.pem,
            "servers.crt": self._servers.pem,
            "api.crt": chain,
            "api.key": key,
            "service.key": pem(self.service_key),
            "service.pub": public_pem(self.service_key),
            "manager.pem": manager,
        }
        for name, content in files.items():
            path = self._folder / name
            path.touch(0o600)
            path.write_bytes(content)

    def _etcd(self, port: int, peers: int) -> dict[str, str]:
        mine, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        return {
            "data-dir": str(self._folder / "etcd"),
            "listen-client-urls": mine,
            "advertise-client-urls": mine,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            "unsafe-no-fsync": "true",
            "log-level": "error",
        }

    def _api_server(self, etcd: int, port: int) -> dict[str, str]:
        return {
            "etcd-servers": f"http://127.0.0.1:{etcd}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(port),
            "cert-dir": str(self._folder),
            "tls-cert-file": str(self._folder / "api.crt"),
            "tls-private-key-file": str(self._folder / "api.key"),
            "client-ca-file": str(self._folder / "clients.crt"),
            # As kubeadm sets them.
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "enable-bootstrap-token-auth": "true",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": str(self._folder / "service.pub"),
            "service-account-signing-key-file": str(self._folder / "service.key"),
            "service-cluster-ip-range": "10.96.0.0/16",
            "endpoint-reconciler-type": "none",
        }

    def _controllers(self) -> dict[str, str]:
        user = str(self._folder / "manager.pem")
        kubeconfig = self._folder / "manager.conf"
        cluster = {"server": self.url, "certificate-authority": str(self._folder / "servers.crt")}
        text = yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": cluster}],
                "users": [{"name": "it", "user": {"client-certificate": user, "client-key": user}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            }
        )
        kubeconfig.write_text(text)
        return {
            "kubeconfig": str(kubeconfig),
            "controllers": ",".join(CONTROLLERS),
            "secure-port": "0",
            "leader-elect": "false",
            "kube-api-qps": "1000",
            "kube-api-burst": "2000",
            "service-account-private-key-file": str(self._folder / "service.key"),
            "root-ca-file": str(self._folder / "servers.crt"),
        }

    def _run(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command,
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_the_tests,
            )

    async def _answer(self, path: str) -> None:
        """Returns when the path is there; raises NotStarted after STARTS seconds, or when a program has ended."""
        context = ssl.create_default_context(cadata=self.server_ca.decode())
        context.load_cert_chain(self._folder / "manager.pem")
        async with httpx.AsyncClient(verify=context, base_url=self.url, timeout=10) as client:
            try:
                async with asyncio.timeout(STARTS):
                    await self._until(client, path)
            except TimeoutError as error:
                raise NotStarted(self._trouble(f"{path} is not there after {STARTS:.0f} s")) from error

    async def _until(self, client: httpx.AsyncClient, path: str) -> None:
        while True:
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise Ended(self._trouble(f"{name} ended with {process.returncode}"))
            try:
                if (await client.get(path)).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.1)

    def _trouble(self, what: str) -> str:
        lines = [f"The real control plane did not start: {what}."]
        for name in self._running:
            log = (self._folder / f"{name}.log").read_text(errors="replace").splitlines()
            lines += [f"-- {name}", *log[-8:]]
        return "\n".join(lines)


def _flags(values: dict[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items()]


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, outside the range that the kernel gives to outgoing connections."""
    found: list[int] = []
    while len(found) < count:
        port = random.randint(20000, 32000)  # noqa: S311
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def _die_with_the_tests() -> None:
    """In the new process: the kernel ends it when the tests are killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
