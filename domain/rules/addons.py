"""Rules of the wizard's page Add-ons: Headlamp, Rancher, automatic upgrades."""

import re
from collections.abc import Iterator

from domain.clusters import ClusterSpec
from domain.errors import Violation, ViolationCode, shown
from domain.rules.context import SiteContext
from domain.rules.forms import (
    bounded,
    conflicts,
    duplicate,
    is_hostname,
    is_object_name,
    malformed,
    out_of_range,
    variable,
)

RANCHER_CORES = 4
"""The least that Rancher's documentation sizes a node for."""
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SHORTEST_WINDOW, LONGEST_WINDOW = 5, 1440
"""Minutes. A window of a day is always open on its days."""
_TIME = re.compile(r"(?:[01][0-9]|2[0-3]):[0-5][0-9]")
_HOSTNAME_FORM = "use a DNS name in lower case, like headlamp.example.org (labels of at most 63 characters)"


def check(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    """Everything wrong on this page."""
    yield from _headlamp(spec)
    yield from _rancher(spec)
    yield from _window(spec, context)


def _headlamp(spec: ClusterSpec) -> Iterator[Violation]:
    headlamp = spec.headlamp
    if headlamp.hostname is not None and not is_hostname(headlamp.hostname):
        yield malformed(variable("headlamp", "hostname"), headlamp.hostname, "a host name", _HOSTNAME_FORM)
    if headlamp.tls_secret is None:
        return
    path = variable("headlamp", "tlsSecret")
    if not is_object_name(headlamp.tls_secret):
        yield malformed(path, headlamp.tls_secret, "a name of a Secret", "use its name in the headlamp namespace")
    if headlamp.hostname is None:
        yield conflicts(
            path, "a certificate without a host name serves nothing", "set hostname too, or leave tlsSecret out"
        )


def _rancher(spec: ClusterSpec) -> Iterator[Violation]:
    rancher = spec.rancher
    path = variable("rancher", "hostname")
    if rancher.hostname is not None and not is_hostname(rancher.hostname):
        yield malformed(path, rancher.hostname, "a host name", _HOSTNAME_FORM)
    if rancher.hostname is not None and rancher.hostname == spec.headlamp.hostname:
        yield conflicts(path, f"{shown(rancher.hostname)} is Headlamp's host name", "give each a name of its own")
    if not rancher.install:
        return
    if rancher.hostname is None:
        yield Violation(
            path=path,
            code=ViolationCode.REQUIRED,
            message="Rancher needs a host name that people and clusters reach it at",
            remedy="set hostname to a name that resolves to the cluster's ingress controller",
        )
    if "registers" in rancher.model_fields_set and rancher.registers:
        yield conflicts(
            variable("rancher", "register"),
            "the cluster that runs Rancher does not register with it",
            "leave register out, or do not install Rancher here",
        )
    sizes = [("controlPlaneMachine", spec.control_plane_machine.cores)]
    sizes += [("workerMachine", spec.worker_machine.cores)] if spec.workers else []
    for name, cores in sizes:
        if cores < RANCHER_CORES:
            yield out_of_range(
                variable(name, "cores"),
                f"{shown(cores)} cores are too few for a node of the cluster that runs Rancher",
                f"use at least {RANCHER_CORES}",
            )


def _window(spec: ClusterSpec, context: SiteContext) -> Iterator[Violation]:
    window = spec.upgrades.window
    if window is None:
        return
    path = variable("upgrades", "window")
    if not window.weekdays:
        yield out_of_range(f"{path}.weekdays", "the window has no days", "name at least one, like Sat")
    for index, day in enumerate(window.weekdays[: 2 * len(WEEKDAYS)]):
        if day not in WEEKDAYS:
            yield Violation(
                path=f"{path}.weekdays[{index}]",
                code=ViolationCode.NOT_SUPPORTED,
                message=f"{shown(day)} is no day of the week",
                remedy=f"use {', '.join(WEEKDAYS)}",
            )
        elif day in window.weekdays[:index]:
            yield duplicate(f"{path}.weekdays[{index}]", day)
    if not _TIME.fullmatch(window.start):
        yield malformed(f"{path}.start", window.start, "a time of day", 'write it like "02:00", in quotes')
    yield from bounded(
        f"{path}.durationMinutes", window.duration_minutes, SHORTEST_WINDOW, LONGEST_WINDOW, "a window's length"
    )
    if window.time_zone not in context.time_zones:
        yield Violation(
            path=f"{path}.timeZone",
            code=ViolationCode.NOT_SUPPORTED,
            message=f"there is no time zone {shown(window.time_zone)}",
            remedy="use an IANA name like Europe/Berlin or UTC",
        )
