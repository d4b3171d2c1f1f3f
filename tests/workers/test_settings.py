"""What a worker process reads from its environment."""

import pytest

from workers.settings import WorkerSettings, from_environment

STORE = {"TRILITHON_STORE": "sqlite+aiosqlite:///x.db"}


def test_times_are_read_in_seconds_and_have_defaults() -> None:
    told = from_environment({**STORE, "TRILITHON_STICKY": "0.5", "TRILITHON_GRACE": "3"})
    assert (told.sticky_seconds, told.grace_seconds) == (0.5, 3.0)
    silent, known = from_environment(STORE), WorkerSettings(store_url="")
    assert (silent.sticky_seconds, silent.grace_seconds) == (known.sticky_seconds, known.grace_seconds)


@pytest.mark.parametrize("name", ["TRILITHON_STICKY", "TRILITHON_GRACE", "TRILITHON_LIMITS"])
def test_a_wrong_value_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        from_environment({**STORE, name: "soon"})
