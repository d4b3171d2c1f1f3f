"""The worker process ends itself at every crash point of a create and a delete; only time is lost.

A run without faults tells the points: the return of every activity, and every changing call before it is sent and when
its answer is lost, each in every activity that makes it. Then the same cluster is made and deleted again, on two
platforms side by side, while the worker dies at each point once and is started again by the supervisor. What stands
in between and what is left are the same as without faults.
"""

import sys
from collections.abc import Iterator

import pytest

from domain.contracts import activities as names
from lab.invariants import differences
from tests.activities.test_registry import ACTIVITIES
from tests.faults.running import Hurt, beside, hurt
from workers.registry import name_of

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(1500)]

NOT_PASSED = {
    names.SELF_TEST_STEP: "belongs to no cluster's life; it removes what an attempt left (tests/activities/proxmox)",
    names.OPEN_JOINING: "kubeadm only; its calls are one Secret's (tests/faults/test_already_done.py runs it twice)",
    names.CLOSE_JOINING: "kubeadm only; likewise",
    names.WATCH_SITE: "lasts ten minutes and returns nothing; it only reads",
}
BUSY = {
    "match": {"method": "POST", "path": "/clone$", "times": 4},
    "do": {"status": 500, "text": "can't lock file '/var/lock/qemu-server/lock-9002.conf' - got timeout"},
}
"""The first clones find a lock, so that a job waits for something and `records.report_job` is passed too: more than
once, since a worker that dies over such an answer has not told of it."""
CNI = "cilium"
"""A pod network that k3s does not bring, so that Helm installs it."""
QUESTIONS = "/agent/"
"""Commands to a guest agent only ask, and are sent only when a machine is slow."""


@pytest.fixture(scope="module")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hurt, Hurt]]:
    with hurt(tmp_path_factory.mktemp("one")) as one, hurt(tmp_path_factory.mktemp("two")) as two:
        yield one, two


def test_dying_at_every_point_costs_time_only(platforms: tuple[Hurt, Hurt], capsys: pytest.CaptureFixture[str]) -> None:
    first, _ = platforms
    before = first.state()
    first.faults(BUSY)
    first.create("calm", cni=CNI)
    calm = first.living("calm")
    assert first.standing(calm) == []
    first.delete("calm")
    assert first.gone(calm, before) == []
    points = sorted(point for point in first.seen() if QUESTIONS not in point)
    assert _activities(points) == sorted({name_of(one) for one in ACTIVITIES} - set(NOT_PASSED))

    shares = points[::2], points[1::2]
    beside(*(lambda p=p, s=s: _die_at(p, s, calm.canonical) for p, s in zip(platforms, shares, strict=True)))

    fired = [row for platform in platforms for row in platform.fired()]
    processes = {pid for _, pid in fired}
    with capsys.disabled():
        sys.stdout.write(
            f"\ncrash points: fired {len(fired)} / expected {len(points)}, in {len(processes)} worker processes\n"
            f"process ids: {' '.join(map(str, sorted(processes)))}\n"
        )
    assert sorted(name for name, _ in fired) == points
    assert len(processes) == len(fired), "every death ends a process of its own"


def _die_at(platform: Hurt, points: list[str], wanted: list[str]) -> None:
    """One create and delete on one platform, with a death at each of the points."""
    before = platform.state()
    platform.plan(die=points)
    platform.new_worker()
    platform.faults(BUSY)
    platform.create("crash", cni=CNI)
    cluster = platform.living("crash")
    assert platform.standing(cluster) == []
    assert differences(wanted, [line.replace("crash", "calm") for line in cluster.canonical]) == []
    assert set(platform.nodes("crash")) == {machine.name for machine in cluster.machines}
    platform.delete("crash")
    assert platform.gone(cluster, before) == []


def _activities(points: list[str]) -> list[str]:
    return sorted(point.removesuffix(":return") for point in points if point.endswith(":return"))
