"""What etcd answers, as values of ours. Member ids are hexadecimal, as `etcdctl` shows them."""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

DEFAULT_QUOTA = 2 * 1024**3
"""Bytes that an etcd without `--quota-backend-bytes` may use; before 3.6 its status does not say so."""


@dataclass(frozen=True)
class Member:
    """One member of the cluster. A member without a name was added and has never started."""

    id: str
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    learner: bool

    @property
    def started(self) -> bool:
        return bool(self.name)


@dataclass(frozen=True)
class Status:
    """What one server says of itself. `leader` is empty while it knows none; sizes in bytes."""

    member_id: str
    version: str
    leader: str
    size: int
    size_in_use: int
    quota: int
    raft_term: int
    learner: bool
    errors: tuple[str, ...]


@dataclass(frozen=True)
class Alarm:
    """One raised alarm: `NOSPACE` (only reads and deletes are allowed) or `CORRUPT`."""

    member_id: str
    kind: str


@dataclass(frozen=True)
class Health:
    """Whether a server could do a read that a majority confirms, and its reason where not."""

    good: bool
    reason: str = ""


def wire_id(member_id: str) -> str:
    """A member id as the gateway wants it: a decimal number in a string."""
    return str(int(member_id, 16))


def member(given: Json) -> Member:
    """One entry of a member list. The gateway leaves out what has its default value."""
    return Member(
        id=_hex(given["ID"]),
        name=given.get("name", ""),
        peer_urls=tuple(given.get("peerURLs") or ()),
        client_urls=tuple(given.get("clientURLs") or ()),
        learner=bool(given.get("isLearner", False)),
    )


def status(given: Json) -> Status:
    header = given.get("header") or {}
    leader = int(given.get("leader", 0))
    return Status(
        member_id=_hex(header.get("member_id", 0)),
        version=given.get("version", ""),
        leader=_hex(leader) if leader else "",
        size=int(given.get("dbSize", 0)),
        size_in_use=int(given.get("dbSizeInUse", 0)),
        quota=int(given.get("dbSizeQuota", 0)) or DEFAULT_QUOTA,
        raft_term=int(given.get("raftTerm", 0)),
        learner=bool(given.get("isLearner", False)),
        errors=tuple(given.get("errors") or ()),
    )


def alarm(given: Json) -> Alarm:
    return Alarm(member_id=_hex(given.get("memberID", 0)), kind=given.get("alarm", "NONE"))


def _hex(number: str | int) -> str:
    return f"{int(number):x}"
