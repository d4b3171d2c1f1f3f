"""Where a mutating call leaves this process.

Clients pass each mutating call through a `Crossing` before it is sent and after its answer has come. In production
nothing listens. The crash-point tests end the worker process there: before the call, and after it while nobody has
seen the answer; that proves that killing us at any moment costs time only.
"""

from typing import Protocol


class Crossing(Protocol):
    """Called around one mutating outside call; `name` is stable, for example `kubernetes POST secrets`."""

    def before(self, name: str) -> None:
        """The call is about to be sent."""

    def after(self, name: str) -> None:
        """The answer has arrived and nobody has seen it yet: whoever dies here has lost it."""


class Unwatched:
    """The crossing of production: nothing happens."""

    def before(self, name: str) -> None:
        return None

    def after(self, name: str) -> None:
        return None


UNWATCHED: Crossing = Unwatched()
