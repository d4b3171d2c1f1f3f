"""What commands print: data on standard output, in the format that was asked for."""

import json

import pytest
import yaml

from cli.failures import USAGE, Failure
from cli.output import jsonpath, moment, show

ROWS = [
    {"name": "prod", "count": {"ready": 3}, "tags": ["a", "b"]},
    {"name": "edge", "count": {"ready": 1}, "tags": []},
]
COLUMNS = [("name", lambda r: r["name"]), ("ready", lambda r: r["count"]["ready"])]
WIDE = [("tags", lambda r: ",".join(r["tags"]))]


def printed(capsys: pytest.CaptureFixture[str], output: str, **options: object) -> str:
    show(ROWS, output, kind="cluster", columns=COLUMNS, wide=WIDE, **options)  # type: ignore[arg-type]
    return capsys.readouterr().out


def test_a_table_lines_up_and_leaves_empty_cells_visible(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "table") == "NAME   READY\nprod   3\nedge   1\n"
    assert printed(capsys, "wide").splitlines()[2] == "edge   1       -"
    assert printed(capsys, "table", headers=False).splitlines()[0] == "prod   3"


def test_programs_get_json_and_yaml_with_the_same_content(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "json")) == {"items": ROWS}
    assert yaml.safe_load(printed(capsys, "yaml")) == {"items": ROWS}


def test_one_thing_asked_for_by_name_is_not_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS[:1], "json", kind="cluster", columns=COLUMNS, single=True)
    assert json.loads(capsys.readouterr().out) == ROWS[0]


def test_names_and_paths(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "name") == "cluster/prod\ncluster/edge\n"
    assert printed(capsys, "jsonpath={.items[*].name}") == "prod edge\n"
    assert printed(capsys, "custom-columns=WHO:.name,N:.count.ready,TAG:.tags[0]").splitlines()[1:] == [
        "prod   3   a",
        "edge   1   <none>",
    ]


def test_an_unknown_format_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(Failure, match="xml") as caught:
        show(ROWS, "xml", kind="cluster", columns=COLUMNS)
    assert caught.value.code == USAGE
    assert "jsonpath" in caught.value.remedy


@pytest.mark.parametrize(
    ("template", "text"),
    [("{.a.b}", "1"), ("x{.a.b}y", "x1y"), ("{.missing}", ""), ("{.list[1]}", "two"), ("{.flag}", "true")],
)
def test_jsonpath_reads_what_is_there(template: str, text: str) -> None:
    assert jsonpath({"a": {"b": 1}, "list": ["one", "two"], "flag": True}, template) == text


def test_times_are_told_to_the_second() -> None:
    assert moment("2026-12-01T03:50:12.345678Z") == "2026-12-01T03:50:12Z"
    assert moment("2026-12-01T03:50:12Z") == "2026-12-01T03:50:12Z"
    assert moment(None) == ""
