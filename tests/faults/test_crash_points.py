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
from tests.activities.test_registry import ACTIVITIES
from tests.faults.dying import activities, die_at, undisturbed, verdict
from tests.faults.running import Hurt, hurt
from tests.faults.watched import beside
from workers.registry import name_of

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(1500)]

NOT_PASSED = {
    names.SELF_TEST_STEP: "belongs to no cluster's life; it removes what an attempt left (tests/activities/proxmox)",
    names.OPEN_JOINING: "kubeadm only; its calls are one Secret's (tests/faults/test_already_done.py runs it twice)",
    names.CLOSE_JOINING: "kubeadm only; likewise",
    names.WATCH_SITE: "lasts ten minutes and returns nothing; it only reads",
}
CNI = "cilium"
"""A pod network that k3s does not bring, so that Helm installs it."""


@pytest.fixture(scope="module")
def platforms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hurt, Hurt]]:
    with hurt(tmp_path_factory.mktemp("one")) as one, hurt(tmp_path_factory.mktemp("two")) as two:
        yield one, two


def test_dying_at_every_point_costs_time_only(platforms: tuple[Hurt, Hurt], capsys: pytest.CaptureFixture[str]) -> None:
    calm = undisturbed(platforms[0], lambda name: platforms[0].apply(name, cni=CNI))
    points = calm.points
    assert activities(points) == sorted({name_of(one) for one in ACTIVITIES} - set(NOT_PASSED))

    shares = points[::2], points[1::2]
    beside(
        *(
            lambda p=p, s=s: die_at(p, s, calm, lambda name: p.apply(name, cni=CNI))
            for p, s in zip(platforms, shares, strict=True)
        )
    )
    text = verdict(platforms, points)
    with capsys.disabled():
        sys.stdout.write(f"\n{text}")
