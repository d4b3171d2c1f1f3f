"""What can go wrong between us and an etcd server.

EtcdError
├── Unreachable   nothing answered: refused, no route, time-out, closed in mid-answer
├── TlsMismatch   something answered that is not this cluster's etcd, or does not know our certificate
└── Refused       etcd refused; `status` and `message` are its own
"""


class EtcdError(Exception):
    """Anything that kept a call from its answer. `str()` is fit for people and carries no secret."""


class Unreachable(EtcdError):
    """Nothing answered at the address. A passing fact: never a verdict on a machine by itself."""


class TlsMismatch(EtcdError):
    """The TLS conversation failed: a foreign authority, a name that the certificate lacks, or our own was refused."""


class Refused(EtcdError):
    """etcd's own refusal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"etcd refused with {status}: {message}")
        self.status = status
        self.message = message

    @property
    def not_found(self) -> bool:
        """No member has the id that was named."""
        return self.status == 404

    @property
    def not_the_leader(self) -> bool:
        """The call must go to the leader and went to another member."""
        return "not leader" in self.message

    @property
    def passing(self) -> bool:
        """True when a later try may be answered otherwise (facts/kubernetes.md 1.11).

        "Unhealthy cluster" follows every join and change of leader for some seconds; a learner is "not in sync" until
        it has caught up; a change of leader or a lost majority is answered with 503 or 504.
        """
        return self.status in (429, 500, 502, 503, 504) or "in sync with leader" in self.message
