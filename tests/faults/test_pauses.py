"""A worker is stopped past its heartbeat right before a change and goes on beside the second attempt: one effect.

Two worker processes run. Whichever comes to a point first is stopped there (SIGSTOP); the server misses its heartbeat
and gives the activity to the other. The stopped one goes on in turn when the second attempt comes to the same call, so
that both send it at once, and when the second attempt is done.
"""

import os
import signal

import pytest

from lab.invariants import differences
from tests.faults.running import Hurt
from tests.faults.watched import beside

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(1500)]

STOPS = (
    "proxmox.ensure_token > proxmox POST access/users/token:before",
    "proxmox.clone_machine > proxmox POST nodes/qemu/clone:before",
    "proxmox.configure_machine > proxmox POST nodes/qemu/config:before",
    "proxmox.upload_seed > proxmox POST nodes/storage/upload:before",
    "proxmox.attach_seed > proxmox POST nodes/qemu/config:before",
    "proxmox.start_machine > proxmox POST nodes/qemu/status/start:before",
    "proxmox.detach_seed > proxmox POST nodes/qemu/config:before",
    "proxmox.destroy_machine > proxmox DELETE nodes/qemu:before",
    "proxmox.delete_pool > proxmox DELETE pools:before",
)
ONE_FILE = ("task imgcopy", "proxmox POST nodes/storage/upload")
"""The same bytes sent twice are one file."""

STOPPED, AGAIN = 300, 300
"""Seconds. The server gives a stopped process the tasks for which it had asked: each is lost until its time-out."""


def test_a_worker_that_wakes_up_late_does_nothing_twice(platform: Hurt) -> None:
    platform.forget_points()
    before, mark = platform.state(), platform.mark()
    platform.create("calm", workers=0)
    calm = platform.living("calm")
    platform.delete("calm")
    wanted = platform.effects(mark)

    mark = platform.mark()
    platform.plan(stop=STOPS)
    platform.new_worker()
    with platform.second_worker():
        beside(lambda: _life(platform, calm.canonical, before), lambda: _wake(platform))
    assert [name for name, _ in platform.fired()] == sorted((n for n, _ in platform.fired()), key=STOPS.index)
    assert {name for name, _ in platform.fired()} == set(STOPS)
    done = platform.effects(mark)
    for name in ONE_FILE:
        assert done.pop(name, 0) - wanted.pop(name, 0) in (0, 1)
    assert done == wanted
    platform.forget_points()


def _life(platform: Hurt, wanted: list[str], before: dict) -> None:
    platform.create("pause", workers=0)
    cluster = platform.living("pause")
    assert platform.standing(cluster) == []
    assert differences(wanted, [line.replace("pause", "calm") for line in cluster.canonical]) == []
    platform.delete("pause")
    assert platform.gone(cluster, before) == []


def _wake(platform: Hurt) -> None:
    """Lets each stopped worker go on once the second attempt is where it should be."""
    try:
        for number, point in enumerate(STOPS):
            platform.until(lambda n=number: len(platform.fired()) > n, STOPPED, f"a worker to stop at {point}")
            name, pid = platform.fired()[number]
            mark = name if number % 2 == 0 else f"{name.partition(' > ')[0]}:return"
            passed = platform.passed(mark)
            try:
                platform.until(lambda m=mark, p=passed: platform.passed(m) > p, AGAIN, f"a second attempt at {name}")
            finally:
                os.kill(pid, signal.SIGCONT)
    except BaseException:
        # Nobody would let the next one go on: from now on nothing is stopped, so that the life beside this one ends.
        platform.plan()
        for pid in platform.every_worker():
            os.kill(pid, signal.SIGKILL)
        raise
