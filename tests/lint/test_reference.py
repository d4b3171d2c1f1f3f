"""The reference names everything that a person can meet: codes, violations, reasons to park, conditions."""

import re
from pathlib import Path

from domain.conditions import ConditionType, Reason
from domain.contracts.activities import FINAL_ERRORS
from domain.errors import FACES, ErrorCode, ViolationCode

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def rows(page: str) -> list[list[str]]:
    """The cells of every table of a page."""
    lines = (REFERENCE / page).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


def words(page: str) -> set[str]:
    return {word for cells in rows(page) for word in re.findall(r"`([^`]+)`", cells[0])}


def test_every_error_is_told_with_its_status_and_exit_code() -> None:
    told = {cells[0].strip("`"): (int(cells[2]), int(cells[3])) for cells in rows("errors.md") if len(cells) == 5}
    assert told == {str(code): (FACES[code].http, FACES[code].exit) for code in ErrorCode}


def test_every_violation_and_every_reason_to_park_is_told() -> None:
    assert words("errors.md") == {*map(str, ErrorCode), *map(str, ViolationCode), *FINAL_ERRORS}


def test_every_condition_and_reason_is_told() -> None:
    assert words("conditions.md") == {*map(str, ConditionType), *map(str, Reason)}
