"""After each module of simulated nodes its garbage is collected here, and not in the middle of another one's test."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def swept() -> Iterator[None]:
    """`harness._sweep` collects what is young; what grew old meanwhile (see there) goes with the module."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
