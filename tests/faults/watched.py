"""A platform whose worker dies by plan, whose store can be asked, and what must be true of it afterwards.

Of any laboratory: tests/faults run it on simulated nodes, tests/real on real ones.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from temporalio.client import Client

from domain.contracts.jobs import SITE_MONITOR
from domain.machines import Machine
from lab.invariants import (
    Violation,
    deletions_prepared,
    differences,
    identities_unique,
    machines_exist_once,
    nothing_left,
    secrets_absent,
    teardown_ordered,
)
from store import SecretKey, Store, open_store
from tests.e2e.running import Trilithon
from workers.crash_points import VARIABLE

PATIENCE, ONE_WAIT = 720, 120
"""Seconds until a cluster that does not come is given up: many deaths take their time on a busy machine."""
CLOSING = 180
"""Seconds for the last steps of a job whose cluster is gone already: the worker may die in each of them too."""
NOT_YET = 124
"""Exit code of a `wait` that reached its time limit."""
SOON = {"TRILITHON_STICKY": "0.5", "TRILITHON_RESTART_PAUSE": "0.2"}
"""A dead worker's jobs do not wait for it, and the next one comes at once although many die right after their start."""
POOL = "trilithon"
LEAST_SECRET = 16
"""Characters from which a text in the secret box is looked for elsewhere."""


@dataclass(frozen=True)
class Cluster:
    """What is known of one cluster while it stands."""

    name: str
    id: str
    machines: tuple[Machine, ...]
    secrets: dict[str, str]
    canonical: list[str]
    """The simulated Proxmox VE's state with everything random replaced by words."""


class Watched(Trilithon):
    """A platform with a plan of crash points and a view of its store.

    Args:
        folder: everything it keeps.
        environment: more variables for its processes.
    """

    patience: float = PATIENCE

    def __init__(self, folder: Path, environment: dict[str, str] | None = None) -> None:
        super().__init__(folder, {**SOON, **(environment or {})})
        folder.mkdir(parents=True, exist_ok=True)
        self.plan_file = folder / "points.json"
        self.fired_file, self.seen_file = folder / "fired", folder / "seen"
        self.environment[VARIABLE] = str(self.plan_file)
        self.plan()

    # --- crash points ---

    def plan(self, *, die: Sequence[str] = (), stop: Sequence[str] = ()) -> None:
        """What worker processes that begin from now on do at which points."""
        plan = {"die": list(die), "stop": list(stop), "fired": str(self.fired_file), "seen": str(self.seen_file)}
        self.plan_file.write_text(json.dumps(plan))

    def fired(self) -> list[tuple[str, int]]:
        """Points and process ids, in order."""
        if not self.fired_file.exists():
            return []
        rows = (line.split("\t") for line in self.fired_file.read_text().splitlines())
        return [(name, int(pid)) for name, pid in rows]

    def seen(self) -> set[str]:
        """Every point that any worker has passed, without its number."""
        if not self.seen_file.exists():
            return set()
        return {line.partition("#")[0] for line in self.seen_file.read_text().splitlines()}

    def new_worker(self) -> None:
        """Ends the worker; the one that follows has read the plan as it is now."""
        (old,) = self.workers()
        os.kill(old, signal.SIGKILL)
        self.until(lambda: bool(self.workers()) and self.workers() != [old], 30, "another worker")

    def passed(self, point: str) -> int:
        """How often a point was passed so far, by any worker."""
        if not self.seen_file.exists():
            return 0
        return sum(line.partition("#")[0] == point for line in self.seen_file.read_text().splitlines())

    def forget_points(self) -> None:
        """From now on no point has fired or was seen, for workers that begin after this."""
        self.plan()
        self.fired_file.unlink(missing_ok=True)
        self.seen_file.unlink(missing_ok=True)

    # --- clusters ---

    def patiently(self, name: str, wanted: str) -> None:
        """`wait`, as often as it says that it is not so far yet, at most PATIENCE seconds."""
        for _ in range(int(self.patience) // ONE_WAIT):
            done = self.run("wait", f"cluster/{name}", f"--for={wanted}", f"--timeout={ONE_WAIT}s", check=False)
            if done.returncode != NOT_YET:
                break
        assert done.returncode == 0, done.stderr

    def nodes(self, name: str) -> dict[str, Any]:
        """What the real kubectl says of a cluster's nodes, by name."""
        path = self.folder / f"{name}.kubeconfig"
        self.run("kubeconfig", name, "-f", str(path))
        listed = json.loads(self.kubectl(path, "get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"]: node for node in listed}

    def mark(self) -> int:
        """The number of the journal's last entry."""
        return max((int(entry["seq"]) for entry in self.journal()), default=0)

    # --- the store ---

    def ask(self, question: Callable[[Store], Any]) -> Any:
        """Asks the platform's store directly: `question` gives a coroutine."""

        async def asked() -> Any:
            store = open_store(
                f"sqlite+aiosqlite:///{self.data}/trilithon.db",
                SecretKey.load(self.data / "secret.key"),
                clock=lambda: datetime.now(UTC),
            )
            try:
                return await question(store)
            finally:
                await store.close()

        return _run(asked)

    def living(self, name: str) -> Cluster:
        """One cluster as it stands, with the secrets that must show nowhere."""

        async def question(store: Store) -> tuple[str, list[Machine], dict[str, bytes]]:
            found = await store.clusters.find("clusters", name)
            assert found is not None, f"{name} is not recorded"
            scope = f"cluster/{found.id}"
            secrets = {item: await store.secrets.get(scope, item) for item in await store.secrets.names(scope)}
            return found.id, await store.machines.of_cluster(found.id), secrets

        cluster_id, machines, secrets = self.ask(question)
        machines.sort(key=lambda machine: (not machine.is_server, machine.vmid))
        lines = canonical(self.state(), cluster_id, machines)
        # Two laboratories differ in their addresses.
        lines = [line.replace(f"127.{self.space + 10}.", "127.N.") for line in lines]
        return Cluster(name, cluster_id, tuple(machines), _secret_texts(secrets), lines)

    # --- what must be true ---

    def standing(self, cluster: Cluster) -> list[Violation]:
        """I1 and I2 while a cluster stands."""
        rows = [machine.model_dump(mode="json") for machine in cluster.machines]
        state = self.state()
        return [*machines_exist_once(state, rows, workload_pool=POOL), *identities_unique(state, rows)]

    def gone(self, cluster: Cluster, before: dict[str, Any]) -> list[str]:
        """Everything that is wrong after a cluster was deleted: state, I1, I4, I7, I8, open workflows, secrets."""

        async def question(store: Store) -> tuple[list[Any], list[Any], list[str]]:
            living = await store.clusters.all_living()
            (site,) = await store.sites.list()
            return living, await store.machines.of_site(site.id), await store.secrets.names(f"cluster/{cluster.id}")

        clusters, machines, secrets = self.ask(question)
        rows = [machine.model_dump(mode="json") for machine in machines]
        known = [{"id": c.id, "namespace": c.namespace, "name": c.name} for c in clusters]
        state, journal = self.state(), self.journal()
        found = [*differences(before, state)]
        found += map(str, machines_exist_once(state, rows, workload_pool=POOL))
        found += map(str, nothing_left(state, rows, known, workload_pool=POOL, before=before))
        found += map(str, [*deletions_prepared(journal), *teardown_ordered(journal)])
        found += map(str, secrets_absent(self.texts(), cluster.secrets))
        found += [f"secret {name} is left" for name in secrets]
        found += [f"machine {row['name']} is still reserved" for row in rows if row["cluster_id"] == cluster.id]
        self.until(lambda: not self.open_workflows(), CLOSING, f"workflows to close: {self.open_workflows()}")
        return found

    def open_workflows(self) -> list[str]:
        """Workflows that run, without the sites' monitors."""

        async def asked() -> list[str]:
            client = await Client.connect(f"127.0.0.1:{self.temporal_port}")
            listed = client.list_workflows("ExecutionStatus = 'Running'")
            return [run.id async for run in listed if run.workflow_type != SITE_MONITOR]

        return list(_run(asked))

    def texts(self) -> dict[str, bytes]:
        """Everything in which no secret may show: Temporal's data, our store and our logs."""
        files = [*self.data.glob("*.db*"), *(self.data / "logs").glob("*.log"), *self.folder.glob("up.*")]
        found = {}
        for path in files:
            with contextlib.suppress(FileNotFoundError):  # SQLite's journal comes and goes
                found[str(path.relative_to(self.folder))] = path.read_bytes()
        return found


def canonical(state: dict[str, Any], cluster_id: str, machines: Sequence[Machine]) -> list[str]:
    """A state as lines, with words for what differs from run to run: ids, names, MACs, hashes, and the nodes chosen."""
    words = [(cluster_id, "CLUSTER")]
    for index, machine in enumerate(machines):
        words += [
            (machine.id, f"MACHINE{index}"),
            (machine.name, f"NAME{index}"),
            (machine.mac.upper(), f"MAC{index}"),
            (machine.bios_uuid, f"UUID{index}"),
        ]
    kept = {**state, "vms": [{**vm, "node": "NODE", "disk_id": "DISK"} for vm in state["vms"] if not vm["template"]]}
    text = json.dumps(kept, indent=0, sort_keys=True)
    for old, new in words:
        text = text.replace(old, new)
    for index, machine in enumerate(machines):
        text = re.sub(rf"\b{machine.vmid}\b", f"VMID{index}", text)
    text = re.sub(r"trilithon-[0-9a-f]{8}@pve", "ACCOUNT", text)
    text = re.sub(r'"(hash|sha256|smbios1|vmgenid|digest)": "[^"]*"', r'"\1": "*"', text)
    return text.splitlines()


def beside(*work: Callable[[], None]) -> None:
    """Runs several things at once and raises what the first of them raised."""
    errors: list[BaseException] = []

    def kept(one: Callable[[], None]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=kept, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def _run(work: Callable[[], Any]) -> Any:
    """Runs a coroutine in a loop of its own, whatever loop the caller's thread has."""
    found: list[Any] = []
    beside(lambda: found.append(asyncio.run(work())))
    return found[0]


def _secret_texts(secrets: dict[str, bytes]) -> dict[str, str]:
    """Every secret text in the box by where it lies; certificates are public, and so are names and digests."""
    found: dict[str, str] = {}

    def walk(where: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{where}/{key}", inner)
        elif isinstance(value, str) and len(value) >= LEAST_SECRET and "BEGIN CERTIFICATE" not in value:
            found[where] = value

    for name, raw in secrets.items():
        if name.startswith("seed-"):
            continue
        if name == "proxmox-token":
            found[name] = raw.decode().partition("=")[2]
        else:
            walk(name, json.loads(raw))
    return found
