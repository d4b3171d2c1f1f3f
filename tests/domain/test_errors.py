"""The tree of errors in the docstring and the table for programs are one."""

import re

from domain import errors
from domain.errors import FACES, ErrorCode, shown

_ROW = re.compile(
    r"^    (?P<code>[a-z][a-z-]+) +(?P<cls>user|rights|capacity|proxmox|network|bug)"
    r" +(?P<http>\d{3}) +(?P<exit>\d+) +\S"
)


def test_the_docstring_and_the_table_agree() -> None:
    rows = [found for line in (errors.__doc__ or "").splitlines() if (found := _ROW.match(line))]
    told = {row["code"]: (row["cls"], int(row["http"]), int(row["exit"])) for row in rows}
    assert told == {str(code): (str(face.error_class), face.http, face.exit) for code, face in FACES.items()}
    assert set(FACES) == set(ErrorCode)


def test_values_are_shown_short_and_on_one_line() -> None:
    assert shown("a\nb") == "'a\\nb'"
    assert len(shown("x" * 500)) == 60
    assert shown(10**5000) == "a value too large to show"
    assert shown(3) == "3"
    assert shown("\ud800").isprintable()
