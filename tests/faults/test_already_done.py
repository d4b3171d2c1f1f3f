"""Every activity sees that it was already done, and the tests would notice if one did not.

Each registered activity runs in the life of one cluster (tests/faults/life.py): for real, then again when all is done.
The second run changes nothing. Then the mutant, generated for all of them in one way (tests/faults/looks.py): the look
is taken away by answering it with what it was answered the first time. The mutant changes something, so the assertion
about the second run goes red for an activity that has no look.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli import laboratory
from domain.contracts import activities as names
from domain.contracts.activities import Lane, lane
from store import SecretKey, migrate, open_store
from tests.activities.test_registry import ACTIVITIES
from tests.e2e.running import claim_space
from tests.faults.life import Life, laboratory_for, now
from tests.faults.looks import Looks, watch
from workers.registry import name_of

pytestmark = pytest.mark.lab

REGISTERED = sorted(map(name_of, ACTIVITIES))
OBSERVING = {
    names.WAIT_TASK: "looks at a task of Proxmox VE and changes nothing",
    names.AWAIT_API: "waits; remembers in the store that the API answers",
    names.AWAIT_JOINED: "waits; remembers in the store that the node has joined",
    names.AWAIT_READY: "waits; changes nothing",
    names.AWAIT_AVAILABLE: "waits; remembers in the store that the cluster is Available",
    names.LOOK_AT_ETCD: "looks; remembers in the store what it sees of etcd",
    names.WATCH_SITE: "watches; remembers in the store what it sees",
}
WITHOUT_MEMORY = {
    names.SELF_TEST_STEP: "is meant to do everything anew each time, and leaves nothing (tests/activities/proxmox)",
}
MUTATING = [name for name in REGISTERED if name not in OBSERVING and name not in WITHOUT_MEMORY]


@pytest.fixture(scope="module")
async def life(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    """The whole life, lived once."""
    folder: Path = tmp_path_factory.mktemp("life")
    url = f"sqlite+aiosqlite:///{folder}/store.db"
    await migrate(url)
    looks = Looks(folder)
    store = open_store(url, SecretKey.generate(), clock=now)
    with pytest.MonkeyPatch.context() as patch:
        watch(looks, patch)
        claim, space = claim_space()
        lab = laboratory_for(folder / "lab", space)
        lived = Life(lab, store, looks)
        try:
            await lived.live()
            yield lived
        finally:
            await lived.aclose()
            await store.close()
            laboratory.stop(folder / "lab")
            claim.close()


def test_every_registered_activity_is_lived(life: Life) -> None:
    assert sorted(life.seen) == sorted(set(REGISTERED) - set(WITHOUT_MEMORY))


@pytest.mark.parametrize("name", sorted({*MUTATING, *OBSERVING}))
def test_a_second_run_changes_nothing(life: Life, name: str) -> None:
    seen = life.seen[name]
    assert (seen.again, seen.journal, seen.differences) == ([], [], [])


@pytest.mark.parametrize("name", MUTATING)
def test_without_its_look_the_same_assertion_fails(life: Life, name: str) -> None:
    seen = life.seen[name]
    assert seen.first, f"{name} has changed nothing even the first time: it is not mutating, or not lived in earnest"
    assert seen.mutant, f"{name} changed nothing although its looks were taken away: the test would not notice"


@pytest.mark.parametrize("name", OBSERVING)
def test_an_observing_activity_changes_nothing_outside(life: Life, name: str) -> None:
    seen = life.seen[name]
    assert not any(change.startswith(("proxmox", "kubernetes", "helm")) for change in seen.first)


def test_activities_of_the_store_are_counted_by_rows(life: Life) -> None:
    """The records' changes are rows; all other effects' are calls."""
    for name in MUTATING:
        calls = any(change.startswith(("proxmox", "kubernetes", "helm")) for change in life.seen[name].first)
        assert calls is not (lane(name) is Lane.CONTROL or name == names.PLACE_MACHINE), name
