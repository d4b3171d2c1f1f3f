"""A real machine that does not become a node: the job says why, and what to do, from what the machine itself offers.

All clusters are made at the same time, as many as the machine below has room for; each test then looks at its own.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from domain.diagnosis import mask
from tests.e2e.running import ROOT
from tests.real.checks import assert_nothing_is_left
from tests.real.mutants import EXPIRED, JOINS, SINGLE, Mutant, expired_secret
from tests.real.running import RealTrilithon

pytestmark = [pytest.mark.real, pytest.mark.timeout(7200)]

LIMITS = {"boot": 40.0, "ready": 40.0, "available": 40.0}
"""A job asks a person soon. On a busy machine sooner than the reason shows: then it is told to go on."""
ROOM = 4
"""Machines at the same time: each takes a share of the kernel's 128 inotify instances."""
PATIENCE = 900.0
POOL = """        - class: worker
          name: NAME
          replicas: 1
"""


@dataclass(frozen=True)
class Told:
    """What was told of a mutant when its job stopped: the job as its page shows it, and the cluster's conditions."""

    job: dict[str, Any]
    conditions: dict[str, dict[str, Any]]
    retries: int
    seconds: float


def said(job: dict[str, Any], *, waits: bool) -> str:
    """What a job's page says: why it stopped, or what it waits for."""
    return str((job["waiting"] or {}).get("waiting_for", "") if waits else job["error"])


class Room:
    """Lets clusters in while there is room for their machines."""

    def __init__(self, machines: int) -> None:
        self._free = machines
        self._changed = threading.Condition()

    def take(self, machines: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._free >= machines, PATIENCE), "no room came free"
            self._free -= machines

    def give(self, machines: int) -> None:
        with self._changed:
            self._free += machines
            self._changed.notify_all()


class Crowd:
    """Makes all clusters, as many at a time as there is room for; keeps what was told of each, and deletes it."""

    def __init__(self, platform: RealTrilithon) -> None:
        self.platform = platform
        self._room = Room(ROOM)
        self._threads = ThreadPoolExecutor(len(SINGLE) + 1)
        rules = [{"name": f"{one.name}-cp-*", **one.fault} for one in SINGLE if one.fault]
        rules += [{"name": f"joins-{one.pool}-*", **one.fault} for one in JOINS]
        platform.nodes_call("POST", "/faults", rules)
        self.told: dict[str, Future[Told]] = {}
        self._room.take(len(JOINS) + 1)  # the large one first: it would wait for ever while small ones come and go
        joins = self._threads.submit(self._joins)
        self.told |= {one.name: joins for one in JOINS}
        self.told |= {one.name: self._threads.submit(self._single, one, n) for n, one in enumerate(SINGLE, 1)}

    def end(self) -> None:
        """Waits until every cluster was deleted."""
        self._threads.shutdown(wait=True)
        self.platform.nodes_call("DELETE", "/faults")
        self.platform.nodes_call("DELETE", "/strangers")

    def _single(self, mutant: Mutant, number: int) -> Told:
        machines = 0 if mutant.waits else 1
        self._room.take(machines)
        try:
            began = time.monotonic()
            network = self._apply(mutant.name, number, ())
            if mutant.by_hand:
                mutant.by_hand(self.platform, mutant.name, network)
            told = self._stopped(mutant.name, began, mutant.told, waits=mutant.waits)
            self.platform.delete(mutant.name)
            return told
        finally:
            self._room.give(machines)

    def _joins(self) -> Told:
        try:
            began = time.monotonic()
            self._apply("joins", 0, [one.pool for one in JOINS])
            self.platform.look("the server to be Ready", PATIENCE, self._joins_server_is_ready)
            told = self._stopped("joins", began, [words for one in JOINS for words in one.told])
            self.platform.delete("joins")
            return told
        finally:
            self._room.give(len(JOINS) + 1)

    def _joins_server_is_ready(self) -> bool:
        """Makes the expired token's Secret as soon as the API server takes it."""
        self._retry_where_it_was_only_slow(self.platform.job("joins"))
        servers = [row for row in self.platform.machines("joins") if row["role"] != "worker"]
        assert servers, "it has no machines yet"
        text = json.dumps(expired_secret())
        kubectl = "kubectl --kubeconfig /etc/kubernetes/super-admin.conf apply -f -"
        self.platform.inside(servers[0]["vmid"], "sh", "-c", f"echo '{text}' | {kubectl}")
        return True

    def _apply(self, name: str, number: int, pools: Sequence[str]) -> str:
        """Applies the example under another name and with addresses of its own; the first numbers of these."""
        network = f"172.30.{self.platform.space}.{10 + number}"
        text = self.platform.moved((ROOT / "examples" / "dev-kubeadm.yaml").read_text())
        text = text.replace("name: dev\n", f"name: {name}\n")
        head, _, rest = text.partition("    workers:\n")
        tail = rest[rest.index("    variables:\n") :]
        workers = "".join(POOL.replace("NAME", pool) for pool in pools)
        text = head + (f"    workers:\n      machineDeployments:\n{workers}" if workers else "") + tail
        text = text.replace(f"172.30.{self.platform.space}.5", network)
        target = Path(self.platform.folder / f"{name}.yaml")
        target.write_text(text)
        self.platform.run("apply", "-f", str(target))
        return network

    def _stopped(self, name: str, began: float, words: Sequence[str], *, waits: bool = False) -> Told:
        """Waits until a job has said everything that it should."""
        retries = 0

        def stopped() -> Told | None:
            nonlocal retries
            job = self.platform.job(name)
            text = said(job, waits=waits)
            missing = [one for one in words if one not in text]
            if not missing:
                conditions = {row["type"]: row for row in self.platform.cluster(name)["conditions"]}
                return Told(job, conditions, retries, time.monotonic() - began)
            retries += self._retry_where_it_was_only_slow(job)
            raise AssertionError(f"{name} does not say {missing}; its job is {job['phase']}: {text}")

        found = self.platform.look(f"the reason of {name}", PATIENCE, stopped)
        assert found is not None
        return found

    def _retry_where_it_was_only_slow(self, job: dict[str, Any]) -> bool:
        """Tells a job to go on that has asked a person because a limit passed."""
        if job["phase"] != "awaiting-decision" or "still not there" not in job["error"]:
            return False
        return self.platform.goes_on(job)


@pytest.fixture(scope="module")
def crowd(platform: RealTrilithon) -> Iterator[Crowd]:
    """All mutants under way; when the last has gone, nothing of them is left."""
    before = platform.state()
    platform.again(**LIMITS)
    running = Crowd(platform)
    yield running
    running.end()
    platform.again()
    assert_nothing_is_left(platform, "joins", before)


@pytest.mark.parametrize("mutant", [*JOINS, *SINGLE], ids=lambda one: one.name)
def test_the_job_says_the_reason(crowd: Crowd, mutant: Mutant) -> None:
    told = crowd.told[mutant.name].result(PATIENCE * 2)
    text = said(told.job, waits=mutant.waits)
    sys.stderr.write(f"\n{mutant.name}: {told.seconds:.0f} s, {told.retries} retries: {text}\n")
    for words in mutant.told:
        assert words in text
    assert told.job["phase"] == ("waiting" if mutant.waits else "awaiting-decision")
    assert EXPIRED not in text
    assert mask(text[:300]) == text[:300], "no token and no key in it"
    if mutant.condition:
        kind, reason, words = mutant.condition
        found = told.conditions[kind]
        assert (found["status"], found["reason"]) == (False, reason)
        assert words in found["message"]
    assert told.conditions["Available"]["status"] is False
