"""The rendered boot data is what was reviewed last."""

import pytest

from bootstrap import BootInput, boot_data
from tests.bootstrap.make_golden import FOLDER, cases, golden_texts

CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_boot_data_is_the_reviewed_one(name: str) -> None:
    texts = golden_texts(boot_data(CASES[name]))
    for file, text in texts.items():
        assert text == (FOLDER / name / file).read_text(), f"{name}/{file}: see make_golden.py"


def test_no_golden_file_is_left_over() -> None:
    folders = {path.parent.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert folders == set(CASES)


def test_rendering_again_gives_the_same_bytes() -> None:
    given: BootInput = next(iter(CASES.values()))
    assert boot_data(given) == boot_data(given)
