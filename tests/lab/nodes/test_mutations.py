"""The simulated nodes are judged by the tables of mutations (tests/bootstrap/mutations.py), row by row.

All rows run at once, as many as a small machine bears; each has a network of its own.
"""

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from domain.clusters import Distribution
from tests.bootstrap.mutations import KUBEADM_MUTATIONS, MUTATIONS, Mutation
from tests.lab.nodes.judging import Verdict, judge

AT_ONCE = 8

ROWS = [(row, distribution) for row in (*MUTATIONS, *KUBEADM_MUTATIONS) for distribution in row.distributions]
Verdicts = dict[tuple[str, str, str], Verdict | Exception]


def key(row: Mutation, distribution: Distribution) -> tuple[str, str, str]:
    return distribution.value, row.case + str(row.in_template), row.name


@pytest_asyncio.fixture(scope="module")
async def verdicts(request: pytest.FixtureRequest) -> Verdicts:
    """The verdict of every row that was asked for, found once."""
    mine = [
        item for item in request.session.items if isinstance(item, pytest.Function) and item.module is request.module
    ]
    asked: list[dict[str, Any]] = [item.callspec.params for item in mine]
    rows: list[tuple[Mutation, Distribution]] = [(one["row"], one["distribution"]) for one in asked]
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(row: Mutation, distribution: Distribution) -> Verdict | Exception:
        async with gate:
            try:
                async with asyncio.timeout(180):
                    return await judge(row, distribution)
            except Exception as error:
                return error

    found = await asyncio.gather(*(one(row, distribution) for row, distribution in rows))
    return {key(*row): verdict for row, verdict in zip(rows, found, strict=True)}


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a power cut leaves half-open connections
@pytest.mark.parametrize(("row", "distribution"), ROWS, ids=[f"{d.value}: {row.name}" for row, d in ROWS])
async def test_a_row_of_the_table(verdicts: Verdicts, row: Mutation, distribution: Distribution) -> None:
    verdict = verdicts[key(row, distribution)]
    if isinstance(verdict, Exception):
        raise verdict
    assert verdict.joins is row.joins, f"{row.why}\n{verdict.log}"
    if verdict.broken is not None:
        assert verdict.broken is bool(row.breaks), f"{row.why}\n{verdict.log}"
