"""A cluster's life in which the worker dies by plan, judged by one that was left alone. For any laboratory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.invariants import differences
from tests.faults.watched import Watched

BUSY = {
    "match": {"method": "POST", "path": "/clone$", "times": 4},
    "do": {"status": 500, "text": "can't lock file '/var/lock/qemu-server/lock-9002.conf' - got timeout"},
}
"""The first clones find a lock, so that a job waits for something and `records.report_job` is passed too: more than
once, since a worker that dies over such an answer has not told of it."""
QUESTIONS = "/agent/"
"""Commands to a guest agent only ask, and are sent only when a machine is slow."""
CALM, CRASH = "calm", "crash"
"""Names of the two clusters."""
LIVES = 3
"""At most, until every point has fired."""
Apply = Callable[[str], object]
"""Asks for a cluster of the given name; does not wait for it."""


@dataclass(frozen=True)
class Calm:
    """A life without deaths: how the cluster stood, and which points a worker passes while it comes and goes."""

    canonical: list[str]
    creating: tuple[str, ...]
    deleting: tuple[str, ...]

    @property
    def points(self) -> list[str]:
        return sorted(self.creating + self.deleting)


def undisturbed(platform: Watched, apply: Apply) -> Calm:
    """Makes and deletes a cluster while nobody dies."""
    before = platform.state()
    platform.faults(BUSY)
    apply(CALM)
    platform.patiently(CALM, "condition=Available")
    cluster = platform.living(CALM)
    assert platform.standing(cluster) == []
    creating = _points(platform)
    platform.run("delete", f"cluster/{CALM}", "--yes")
    platform.patiently(CALM, "delete")
    assert platform.gone(cluster, before) == []
    return Calm(cluster.canonical, tuple(creating), tuple(sorted(set(_points(platform)) - set(creating))))


def die_at(platform: Watched, points: Sequence[str], calm: Calm, apply: Apply) -> None:
    """Makes and deletes a cluster while the worker dies at each of the points; all is as in the calm life.

    A death may cut off what another activity has sent in the same moment: that is found done later, and its own point
    is not passed again. Such points get another life.
    """
    left = list(points)
    for _ in range(LIVES):
        platform.plan(die=left)
        platform.new_worker()
        _live(platform, calm, apply)
        fired = {name for name, _ in platform.fired()}
        left = [point for point in points if point not in fired]
        if not left:
            return


def _live(platform: Watched, calm: Calm, apply: Apply) -> None:
    before = platform.state()
    platform.faults(BUSY)
    apply(CRASH)
    platform.patiently(CRASH, "condition=Available")
    cluster = platform.living(CRASH)
    assert platform.standing(cluster) == []
    assert differences(calm.canonical, [line.replace(CRASH, CALM) for line in cluster.canonical]) == []
    assert set(platform.nodes(CRASH)) == {machine.name for machine in cluster.machines}
    platform.run("delete", f"cluster/{CRASH}", "--yes")
    platform.patiently(CRASH, "delete")
    assert platform.gone(cluster, before) == []


def activities(points: Sequence[str]) -> list[str]:
    """The activities whose return is among the points."""
    return sorted(point.removesuffix(":return") for point in points if point.endswith(":return"))


def verdict(platforms: Sequence[Watched], points: Sequence[str]) -> str:
    """What fired, for people; fails where a point did not fire, fired twice, or two died in one process."""
    fired = [row for platform in platforms for row in platform.fired()]
    processes = {pid for _, pid in fired}
    assert sorted(name for name, _ in fired) == sorted(points)
    assert len(processes) == len(fired), "every death ends a process of its own"
    return (
        f"crash points: fired {len(fired)} / expected {len(points)}, in {len(processes)} worker processes\n"
        f"process ids: {' '.join(map(str, sorted(processes)))}\n"
    )


def _points(platform: Watched) -> list[str]:
    return sorted(point for point in platform.seen() if QUESTIONS not in point)
