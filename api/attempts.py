"""Slows down guessing: failed sign-ins are counted per person and per source, in this process.

A limit per person alone would let a stranger lock somebody out; so the pair of person and source is limited tightly,
and each source loosely. Proxmox VE has limits of its own behind this.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta

from api.problems import TooManyAttempts
from domain.errors import ErrorCode

WINDOW = timedelta(minutes=5)
PER_PERSON = 5
PER_SOURCE = 30
REMEMBERED = 10_000
"""Keys kept at most; the oldest go first, so that guessing cannot fill the memory."""


class Attempts:
    """Counts failures within the last five minutes."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._failures: OrderedDict[tuple[str, ...], list[datetime]] = OrderedDict()

    def check(self, source: str, person: str) -> None:
        """Raises TooManyAttempts when this person from this source, or this source at all, failed too often."""
        for key, limit in (((source, person), PER_PERSON), ((source,), PER_SOURCE)):
            recent = self._recent(key)
            if len(recent) >= limit:
                wait = int((recent[0] + WINDOW - self._clock()).total_seconds()) + 1
                raise TooManyAttempts(
                    ErrorCode.TOO_MANY_ATTEMPTS,
                    "Sign-in failed too often from here.",
                    f"Wait {wait} s, then try again.",
                    headers={"Retry-After": str(wait)},
                )

    def failed(self, source: str, person: str) -> None:
        for key in ((source, person), (source,)):
            self._failures[key] = [*self._recent(key), self._clock()]
            self._failures.move_to_end(key)
        while len(self._failures) > REMEMBERED:
            self._failures.popitem(last=False)

    def succeeded(self, source: str, person: str) -> None:
        """Forgets the person's failures; the source's stay, or one known account would reset it for guessing."""
        self._failures.pop((source, person), None)

    def _recent(self, key: tuple[str, ...]) -> list[datetime]:
        since = self._clock() - WINDOW
        return [at for at in self._failures.get(key, []) if at > since]
