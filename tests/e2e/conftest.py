from collections.abc import Iterator

import pytest

from tests.e2e.running import Trilithon, trilithon


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trilithon]:
    """One running Trilithon for all walks that leave it as they found it; signed in as the administrator."""
    with trilithon(tmp_path_factory.mktemp("trilithon")) as running:
        running.login()
        yield running
