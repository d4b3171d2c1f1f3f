"""The worker process ends itself at every crash point of a create and a delete; only time is lost.

A run without faults tells the points: the return of every activity, and every changing call before it is sent and when
its answer is lost, each in every activity that makes it. The cluster is kubeadm's, with Cilium by Helm: no other
distribution's life passes an activity that this one does not. Then the same cluster is made and deleted again, on some
platforms side by side, while the worker dies at each point once and is started again by the supervisor. What stands
in between and what is left are the same as without faults.
"""

import sys
from collections.abc import Iterator

import pytest

from domain.contracts import activities as names
from tests.activities.test_registry import ACTIVITIES
from tests.faults.dying import Apply, activities, die_at, undisturbed, verdict
from tests.faults.running import Hurt, side_by_side
from tests.faults.watched import beside
from workers.registry import name_of

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(1500)]

NOT_PASSED = {
    names.SELF_TEST_STEP: "belongs to no cluster's life; it removes what an attempt left (tests/activities/proxmox)",
    names.WATCH_SITE: "lasts ten minutes and returns nothing; it only reads",
}
PLATFORMS = 3
"""Side by side: most of a death is waiting until it is noticed."""


@pytest.fixture(scope="module")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Hurt]]:
    with side_by_side([tmp_path_factory.mktemp(f"number{number}") for number in range(PLATFORMS)]) as running:
        yield running


def test_dying_at_every_point_costs_time_only(platforms: list[Hurt], capsys: pytest.CaptureFixture[str]) -> None:
    calm = undisturbed(platforms[0], _apply_to(platforms[0]))
    assert activities(calm.points) == sorted({name_of(one) for one in ACTIVITIES} - set(NOT_PASSED))

    # By turns, so that each platform dies in every stretch of the life.
    shares = [calm.points[number :: len(platforms)] for number in range(len(platforms))]
    beside(
        *(lambda p=p, s=s: die_at(p, s, calm, _apply_to(p)) for p, s in zip(platforms, shares, strict=True))  # type: ignore[misc]
    )
    text = verdict(platforms, calm.points)
    with capsys.disabled():
        sys.stdout.write(f"\n{text}")


def _apply_to(platform: Hurt) -> Apply:
    return lambda name: platform.run("apply", "-f", str(platform.kubeadm(name)))
