"""The API process gives the jobs that it starts the same time limits as a worker does."""

import pytest

from api.main import from_environment

STORE = {"TRILITHON_STORE": "sqlite+aiosqlite:///x"}


def test_limits_come_from_the_environment() -> None:
    settings = from_environment({**STORE, "TRILITHON_LIMITS": '{"heartbeat": 2.0}'})
    assert settings.engine.limits.heartbeat == 2.0
    assert from_environment(STORE).engine.limits.heartbeat == 10.0


def test_unreadable_limits_are_named() -> None:
    with pytest.raises(ValueError, match="TRILITHON_LIMITS"):
        from_environment({**STORE, "TRILITHON_LIMITS": "{"})
