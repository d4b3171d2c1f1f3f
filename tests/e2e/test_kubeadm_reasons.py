"""Kubeadm machines that do not become nodes: the job says why, in words from what the machine itself offers.

All of it at once on one platform: clusters of one server, each with a fault of its own; one cluster whose workers each
have one; one whose second server has one. Eleven of the reasons are those of `tests/real/test_reasons.py`, where real
machines say them, in the same words.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.e2e.running import QUICK_LIMITS, ROOT, WAY, Trilithon, trilithon

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

LIMITS = {**QUICK_LIMITS, "boot": 20.0, "ready": 20.0, "available": 20.0, "persist": 15.0}
"""A job asks a person soon; where it was only slow, it is told to go on."""
PATIENCE = 900.0
"""Seconds for everything, on a busy machine."""
SEED = "/etc/trilithon/kubernetes"
EXPIRED = "expird.0123456789abcdef"
"""A join token of before: its Secret has expired, and so the cluster has deleted it."""
POOL = "        - class: worker\n          name: NAME\n          replicas: 1\n"


@dataclass(frozen=True)
class Mutant:
    """One fault and the words that the job must say.

    `fault`: a rule of the simulated nodes (lab/nodes/settings.py). `by_hand`: what somebody does meanwhile.
    `condition`: one that must say so too, as (type, reason, words).
    """

    name: str
    told: tuple[str, ...]
    fault: dict[str, Any] = field(default_factory=dict)
    by_hand: Callable[["Crowd", str], bool] | None = None
    condition: tuple[str, str, str] | None = None


def edit(old: str, new: str) -> dict[str, Any]:
    """The machine reads other boot data than were written."""
    return {"edits": [[old, new]]}


def revoke_token(crowd: "Crowd", name: str) -> bool:
    """An administrator deletes the cluster's own token; False while it has none."""
    rows = crowd.proxmox("GET", "/access/users")
    account = next((row["userid"] for row in rows if crowd.cluster(name)["id"] in str(row.get("comment", ""))), "")
    machines = crowd.get(f"/clusters/clusters/{name}/machines")["items"]
    if not account or not any(row["phase"] in ("Started", "Joined", "Ready") for row in machines):
        return False
    crowd.proxmox("DELETE", f"/access/users/{account}/token/cluster")
    return True


REFUSES = "kubeadm refuses its configuration file"
SINGLE = (
    # The same as on real nodes.
    Mutant("etcd-key", ("A file that the machine needs is missing in its boot data", "the boot data lacks "
           "pki/etcd/ca.key"), edit(f"{SEED}/pki/etcd/ca.key", "/root/ca.key")),
    Mutant("version", ("template does not fit the version", "the template holds kubeadm v1.36.3, wanted is v1.35.4"),
           edit("VERSION='v1.36.3'", "VERSION='v1.35.4'")),
    Mutant("port", ("Another program on the machine holds a port that Kubernetes needs", "[ERROR Port-6443]: Port 6443 "
           "is in use"), {"port_taken": 6443}),
    Mutant("containerd", ("containerd does not run on the machine", "containerd does not start"),
           {"containerd_down": True}),
    Mutant("image", ("An image cannot be fetched", "[ERROR ImagePull]", "registry.k8s.io/kube-apiserver:v1.36.3"),
           {"missing_image": "kube-apiserver"}),
    Mutant("virtual-ip", ("nobody holds the cluster's virtual IP", "does not answer", "kube-vip says there: ", "ens18"),
           edit('value: "?eth0"?', "value: ens18")),
    Mutant("no-cni", ("is not Ready", "cni plugin not initialized"), {"never_ready": True}),
    Mutant("revoked", ("is Ready and not initialised", "Proxmox VE refuses the cluster's own token"),
           by_hand=revoke_token,
           condition=("CloudControllerReady", "TokenRefused", "Proxmox VE refuses the cluster's own token")),
    # Further ones.
    Mutant("swapped", ("An authority's certificate or key on the server is missing or does not fit", "doesn't match "
           "parent's PublicKey"), {"edits": [[f"{SEED}/pki/ca.key", "/root/x"],
           [f"{SEED}/pki/front-proxy-ca.key", f"{SEED}/pki/ca.key"], ["/root/x", f"{SEED}/pki/front-proxy-ca.key"]]}),
    Mutant("algorithm", (REFUSES, 'Invalid encryption algorithm "DES"'),
           edit("encryptionAlgorithm: ECDSA-P256", "encryptionAlgorithm: DES")),
    Mutant("kind", (REFUSES, "kind and apiVersion is mandatory"), edit("kind: InitConfiguration", "sort: none")),
    Mutant("api-flag", ("Kubernetes' own programs do not start on the machine", "kube-apiserver check failed"),
           edit("name: authentication-config", "name: authentication")),
    Mutant("kubelet-flag", ("unknown flag: --cloud-supplier",), edit("name: cloud-provider", "name: cloud-supplier")),
    Mutant("forwarding", ("kubeadm refuses to make a node of this machine", "ip_forward contents are not set to 1"),
           edit("net.ipv4.ip_forward = 1", "net.ipv4.ip_forward = 0")),
)  # fmt: skip
"""Clusters of one server each."""

JOINS = (
    # The same as on real nodes.
    Mutant("secret", ("The machine's join token is another one than the cluster's", "failed to verify JWS signature"),
           edit(r'(token: "?[a-z0-9]{6}\.)[a-z0-9]{16}', r"\g<1>0123456789abcdef")),
    Mutant("expired", ("The cluster does not know the machine's join token", "could not find a JWS signature"),
           edit(r'token: "?[a-z0-9]{6}\.[a-z0-9]{16}"?', f"token: {EXPIRED}")),
    Mutant("authority", ("The machine does not trust the server it joins", "cluster CA found in"),
           edit("sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}")),
    # Further ones.
    Mutant("no-token", (REFUSES, "the bootstrap token is invalid"),
           edit(r'token: "?[a-z0-9]{6}\.[a-z0-9]{16}"?', "token: none")),
    Mutant("no-config", ("the boot data lacks kubeadm.yaml",), edit(f"{SEED}/kubeadm.yaml", "/root/kubeadm.yaml")),
    Mutant("task", ("the boot data lacks pki/ca.crt",), edit("TASK='join-worker'", "TASK='init'")),
    Mutant("socket", ("containerd does not run on the machine", "[ERROR CRI]: could not connect"),
           edit("unix:///run/containerd/containerd.sock", "unix:///run/nobody.sock")),
    Mutant("endpoint", ("The machine cannot reach the server it joins", ":6449/api/v1/"),
           edit("(apiServerEndpoint: .*):6443", r"\1:6449")),
    Mutant("cut-off", ("The machine cannot reach the server it joins", "failed to request the cluster-info"),
           {"unreachable": True}),
    Mutant("ca-kind", ("The machine does not trust the server it joins", "invalid discovery toke"),
           edit("sha256:[0-9a-f]{64}", "md5:abcd")),
)  # fmt: skip
"""Workers that a sound server does not take in; one cluster has all of them."""

SERVER = Mutant(
    "etcd-authority",
    ("etcd does not answer the joining server", "error syncing endpoints with etcd"),
    {
        "edits": [
            [f"{SEED}/pki/etcd/ca", "/root/x"],
            [f"{SEED}/pki/front-proxy-ca", f"{SEED}/pki/etcd/ca"],
            ["/root/x", f"{SEED}/pki/front-proxy-ca"],
        ]
    },
)
"""The second server of a cluster of three."""


class Crowd:
    """All clusters, and what was told of each mutant when its job had said enough."""

    def __init__(self, platform: Trilithon) -> None:
        self.platform = platform
        self.http = httpx.Client(base_url=f"{platform.url}/api/v1", timeout=60)
        sign_in = {"site": "lab", "realm": "pve", "username": "admin", "password": "lab-admin"}
        self.http.headers["X-CSRF-Token"] = self.http.post("/session", json=sign_in).json()["csrf"]
        control, nodes = platform.lab["control"], platform.lab["nodes"]
        for number in (1, 2, 3):  # more machines than the laboratory's nodes have room for
            WAY.put(f"{control}/lab/nodes/pve{number}", json={"maxmem": 2**38}, timeout=10).raise_for_status()
        WAY.put(f"{control}/lab/latency", json={"clone": 0.1, "start": 0.05}, timeout=10).raise_for_status()
        WAY.put(f"{nodes}/timing", json={"kubeadm": 6.0}, timeout=10).raise_for_status()
        self.before = platform.state()
        self.mutants = {**{one.name: [one] for one in SINGLE}, "joins": list(JOINS), "servers": [SERVER]}
        rules = [{"name": f"{one.name}-cp-*", **one.fault} for one in SINGLE if one.fault]
        rules += [{"name": f"joins-{one.name}-*", **one.fault} for one in JOINS]
        WAY.post(f"{nodes}/faults", json=rules, timeout=10).raise_for_status()
        self.told: dict[str, dict[str, Any]] = {}
        """Cluster -> its job and conditions when everything was said."""
        self.last: dict[str, str] = {}
        self.laid = False

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        answer.raise_for_status()
        return answer.json()

    def cluster(self, name: str) -> dict[str, Any]:
        return dict(self.get(f"/clusters/clusters/{name}"))

    def proxmox(self, method: str, path: str) -> Any:
        """One call of Proxmox VE's API as its administrator."""
        token = self.platform.lab["people"]["platform"]
        headers = {"Authorization": f"PVEAPIToken={token['id']}={token['secret']}"}
        answer = WAY.request(method, f"{self.platform.lab['endpoints'][0]}/api2/json{path}", headers=headers)
        answer.raise_for_status()
        return answer.json()["data"]

    def create(self) -> None:
        text = (ROOT / "examples" / "dev-kubeadm.yaml").read_text()
        head, _, rest = text.partition("    workers:\n")
        tail = rest[rest.index("    variables:\n") :]
        for number, (name, mutants) in enumerate(self.mutants.items(), 10):
            pools = "".join(POOL.replace("NAME", one.name) for one in mutants) if name == "joins" else ""
            workers = f"    workers:\n      machineDeployments:\n{pools}" if pools else ""
            made = (head + workers + tail).replace("name: dev\n", f"name: {name}\n")
            made = made.replace("replicas: 1\n", "replicas: 3\n", 1) if name == "servers" else made
            made = made.replace("172.30.70.59", "172.30.70.79")
            made = made.replace("172.30.70.", f"127.{self.platform.space + 10}.{number}.")
            answer = self.http.post("/clusters", content=made, headers={"Content-Type": "application/yaml"})
            assert answer.status_code < 300, f"{name}: {answer.text}"

    def listen(self) -> None:
        """Until every job has said everything; a job that was only slow is told to go on."""
        waiting, by_hand = dict(self.mutants), [one for one in SINGLE if one.by_hand]
        deadline, jobs = time.monotonic() + PATIENCE, {}
        while waiting and time.monotonic() < deadline:
            by_hand = [one for one in by_hand if one.by_hand is None or not one.by_hand(self, one.name)]
            self._second_server()
            for name, mutants in list(waiting.items()):
                if name not in jobs:
                    jobs[name] = (self.cluster(name).get("job") or {}).get("id")
                    continue
                job = self.get(f"/jobs/{jobs[name]}") if jobs[name] else jobs.pop(name)
                if job is None:
                    continue
                self.last[name] = f"{job['phase']}: {job['error']} {job['waiting']}"
                if job["phase"] != "awaiting-decision":
                    continue
                if all(words in told_of(job, name, one) for one in mutants for words in one.told):
                    rows = self.cluster(name)["conditions"]
                    self.told[name] = {"job": job, "conditions": {row["type"]: row for row in rows}}
                    del waiting[name]
                elif "still not there" in job["error"]:
                    self.http.post(f"/jobs/{job['id']}/retry")
            time.sleep(1.0)  # the jobs tell nobody here, and many questions would only hold them up

    def _second_server(self) -> None:
        """Its fault is laid as soon as its name is known, which is long before it gets power."""
        if self.laid:
            return
        rows = [row for row in self.get("/clusters/clusters/servers/machines")["items"] if not row["initialiser"]]
        if rows:
            self.laid = True
            rules = [{"name": row["name"], **SERVER.fault} for row in rows]
            WAY.post(f"{self.platform.lab['nodes']}/faults", json=rules, timeout=10).raise_for_status()

    def delete(self) -> None:
        for name in self.mutants:
            answer = self.http.request("DELETE", f"/clusters/clusters/{name}", json={"confirm": name})
            assert answer.status_code < 300, answer.text
        self.platform.until(lambda: not self.get("/clusters")["items"], PATIENCE, "every cluster to be gone")
        WAY.delete(f"{self.platform.lab['nodes']}/faults", timeout=10).raise_for_status()


def told_of(job: dict[str, Any], cluster: str, mutant: Mutant) -> str:
    """What a job's page says: its own error, or where many machines have one the (short) step of this one."""
    if cluster != "joins":
        return str(job["error"])
    begins = f"joins-{mutant.name}-"
    return " ".join(step["error"] for step in job["steps"] if str(step["machine"] or "").startswith(begins))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crowd]:
    """All mutants, told; when the last has gone, nothing of them is left."""
    with trilithon(tmp_path_factory.mktemp("reasons"), {"TRILITHON_LIMITS": json.dumps(LIMITS)}) as running:
        running.login()
        made, began = Crowd(running), time.monotonic()
        try:
            made.create()
            made.listen()
            took = time.monotonic() - began
            sys.stderr.write(f"\n{len(made.told)} clusters have told their reasons in {took:.0f} s\n")
            yield made
            made.delete()
        finally:
            made.http.close()
        assert running.state() == made.before, "lab/pve/README.md names what is left out"


@pytest.mark.parametrize("mutant", [*SINGLE, *JOINS, SERVER], ids=lambda one: one.name)
def test_the_job_says_the_reason(crowd: Crowd, mutant: Mutant) -> None:
    name = next(name for name, mutants in crowd.mutants.items() if mutant in mutants)
    assert name in crowd.told, f"{name} says {crowd.last.get(name)}"
    told = crowd.told[name]
    for words in mutant.told:
        assert words in told_of(told["job"], name, mutant)
    assert told["job"]["phase"] == "awaiting-decision"
    assert EXPIRED not in told["job"]["error"]
    if mutant.condition:
        kind, reason, words = mutant.condition
        found = told["conditions"][kind]
        assert (found["status"], found["reason"]) == (False, reason)
        assert words in found["message"]
    assert told["conditions"]["Available"]["status"] is False
