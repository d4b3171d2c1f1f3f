"""What can go wrong between us and an API server.

KubernetesError
├── Unreachable      nothing answered: refused, no route, time-out, closed in mid-answer
├── TlsMismatch      something answered that is not this cluster's API server, or does not know our certificate
└── ApiError         the API server refused; `status`, `reason` and `message` are its own
"""


class KubernetesError(Exception):
    """Anything that kept a call from its answer. `str()` is fit for people and carries no secret."""


class Unreachable(KubernetesError):
    """Nothing answered at the address. A passing fact: never a verdict on a machine by itself."""


class TlsMismatch(KubernetesError):
    """The TLS conversation failed: a foreign authority, a name that the certificate lacks, or our own was refused."""


class ApiError(KubernetesError):
    """The API server's own refusal (a `Status` object where it sent one)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def conflict(self) -> bool:
        return self.status == 409

    @property
    def passing(self) -> bool:
        """True when a later try may be answered otherwise (start-up, overload, a lost race)."""
        return self.status in (409, 429) or self.status >= 500 or self.status in (401, 403)
