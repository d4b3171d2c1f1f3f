"""Kubernetes versions in each distribution's own form: parsing, order, ranges, and which upgrades are possible.

`v1.36.5` (kubeadm), `v1.36.5+rke2r1` (RKE2), `v1.36.5+k3s1` (k3s). The number after the plus sign counts a
distribution's own releases of one Kubernetes version and takes part in the order. Versions of different distributions
have no order: no cluster ever moves from one to another.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import total_ordering

from domain.clusters import Distribution

_FORM = re.compile(
    r"v(?P<major>0|[1-9]\d{0,3})\.(?P<minor>0|[1-9]\d{0,3})\.(?P<patch>0|[1-9]\d{0,3})"
    r"(?:\+(?P<kind>rke2r|k3s)(?P<release>[1-9]\d{0,3}))?",
    re.ASCII,
)
_KINDS = {None: Distribution.KUBEADM, "rke2r": Distribution.RKE2, "k3s": Distribution.K3S}

EXAMPLES = {
    Distribution.KUBEADM: "v1.36.5",
    Distribution.RKE2: "v1.36.5+rke2r1",
    Distribution.K3S: "v1.36.5+k3s1",
}
"""One version in each form, for messages."""

OLDEST = (1, 30)
"""Oldest minor that we build: API servers get an authentication configuration file, which exists from 1.30 on."""


@total_ordering
@dataclass(frozen=True)
class Version:
    """One release of one distribution. `release` is 0 for kubeadm, which has no releases of its own."""

    distribution: Distribution
    major: int
    minor: int
    patch: int
    release: int = 0

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read a version in any of the three forms; ValueError for anything else (release candidates too)."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError("not a Kubernetes version in the form of a distribution")
        major, minor, patch = (int(match[part]) for part in ("major", "minor", "patch"))
        return cls(_KINDS[match["kind"]], major, minor, patch, int(match["release"] or 0))

    @property
    def branch(self) -> tuple[int, int]:
        """Major and minor, as in `1.36`."""
        return self.major, self.minor

    @property
    def _order(self) -> tuple[int, int, int, int]:
        return self.major, self.minor, self.patch, self.release

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version) or other.distribution is not self.distribution:
            return NotImplemented
        return self._order < other._order

    def __str__(self) -> str:
        plain = f"v{self.major}.{self.minor}.{self.patch}"
        if self.distribution is Distribution.RKE2:
            return f"{plain}+rke2r{self.release}"
        if self.distribution is Distribution.K3S:
            return f"{plain}+k3s{self.release}"
        return plain


@dataclass(frozen=True)
class VersionRange:
    """Minors from `first` to `last`, both included; None leaves that end open. Bounds what an add-on runs on."""

    first: tuple[int, int] | None = None
    last: tuple[int, int] | None = None

    def __contains__(self, version: Version) -> bool:
        above = self.first is None or version.branch >= self.first
        return above and (self.last is None or version.branch <= self.last)


def upgrade_ok(current: Version, new: Version) -> bool:
    """True when a cluster at `current` may go to `new`: forward, at most one minor, within its distribution."""
    return (
        current.distribution is new.distribution
        and current.major == new.major
        and new > current
        and new.minor - current.minor in (0, 1)
    )


def newest_of_each_minor(versions: Iterable[Version]) -> dict[tuple[int, int], Version]:
    """The newest release of every minor; give it versions of one distribution only."""
    newest: dict[tuple[int, int], Version] = {}
    for version in versions:
        known = newest.get(version.branch)
        if known is None or version > known:
            newest[version.branch] = version
    return newest


def upgrade_targets(current: Version, offered: Iterable[Version]) -> list[Version]:
    """What an upgrade offers: the newest release of the cluster's own minor and that of the next (F-090).

    `offered` may hold every minor, also those no longer offered for new clusters.
    """
    reachable = [version for version in offered if upgrade_ok(current, version)]
    return sorted(newest_of_each_minor(reachable).values())
