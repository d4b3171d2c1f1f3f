"""The worker process ends itself at crash points of a kubeadm cluster's create and delete on real nodes.

A life without deaths tells the points and what must stand in between and be left (tests/faults/dying.py). Then the same
cluster comes and goes while the worker dies at ten of them, chosen by a seed over create and delete, each death in a
process of its own. `make crash-real` takes all points.
"""

import os
import random
import sys
import time
from collections.abc import Iterator

import pytest

from domain.contracts import activities as names
from tests.activities.test_registry import ACTIVITIES
from tests.faults.dying import Calm, activities, die_at, undisturbed, verdict
from tests.real.hurt import RealWatched
from workers.registry import name_of

pytestmark = [pytest.mark.real, pytest.mark.crash, pytest.mark.timeout(7200)]

NOT_PASSED = {
    names.SELF_TEST_STEP: "belongs to no cluster's life; it removes what an attempt left (tests/activities/proxmox)",
    names.WATCH_SITE: "lasts ten minutes and returns nothing; it only reads",
}
ALL = "TRILITHON_CRASH_REAL"
"""The environment variable that asks for every point (`make crash-real`)."""
SEED = 4
OPENING, CLOSING = f"{names.OPEN_JOINING} > ", f"{names.CLOSE_JOINING} > "
"""The calls of kubeadm's own activities: one of each is among the ten."""
IN_CREATE, IN_DELETE = 5, 3
"""How many others of a create, and of a delete."""


@pytest.fixture(scope="module")
def calm(platform: RealWatched) -> Iterator[Calm]:
    """A life without deaths; deaths are noticed soon until the module ends."""
    platform.quick()
    platform.forget_points()
    platform.new_worker()
    yield undisturbed(platform, platform.apply_small)
    platform.faults()
    platform.forget_points()
    platform.again()


def test_dying_at_points_of_a_real_life_costs_time_only(
    platform: RealWatched, calm: Calm, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    assert activities(calm.points) == sorted({name_of(one) for one in ACTIVITIES} - set(NOT_PASSED))
    chosen = calm.points if os.environ.get(ALL) else ten(calm)
    die_at(platform, chosen, calm, platform.apply_small)
    text = verdict([platform], chosen)
    with capsys.disabled():
        sys.stdout.write(f"\nreal nodes, {time.monotonic() - begun:.0f} s, {text}")


def ten(calm: Calm) -> list[str]:
    """Ten points: one call of the opening and one of the closing of joining, and others spread over the life."""
    dice = random.Random(SEED)  # noqa: S311 - a seeded choice
    own = [dice.choice([point for point in calm.creating if point.startswith(what)]) for what in (OPENING, CLOSING)]
    others = [point for point in calm.creating if not point.startswith((names.OPEN_JOINING, names.CLOSE_JOINING))]
    return sorted([*own, *dice.sample(others, IN_CREATE), *dice.sample(calm.deleting, IN_DELETE)])
