"""One platform for the modules that leave it as they found it; the others have their own."""

from collections.abc import Iterator

import pytest

from tests.faults.running import Hurt, hurt


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hurt]:
    """A running platform, signed in as the administrator. Whoever makes rules or plans points takes them back."""
    with hurt(tmp_path_factory.mktemp("shared")) as running:
        yield running
