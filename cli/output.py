"""Standard output is data only: tables for people, JSON, YAML, names and paths for programs."""

import json
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from cli.failures import USAGE, Failure

FORMATS = "table, wide, json, yaml, name, jsonpath=…, custom-columns=…"

Column = tuple[str, Callable[[dict[str, Any]], Any]]


def show(
    rows: Sequence[dict[str, Any]],
    output: str,
    *,
    kind: str,
    columns: Sequence[Column],
    wide: Sequence[Column] = (),
    single: bool = False,
    headers: bool = True,
) -> None:
    """Prints rows in the asked format.

    Args:
        rows: the things, as the API gave them.
        output: one of FORMATS.
        kind: their kind, for `-o name`.
        columns: what a table shows; `wide` adds to it.
        single: one thing was asked for by name: JSON and YAML show it alone, not as a list.
        headers: whether a table starts with its column titles.

    Raises:
        Failure: no such format, or a path that is not one.
    """
    if output in ("table", "wide"):
        _table([*columns, *(wide if output == "wide" else ())], rows, headers)
    elif output == "json":
        write(json.dumps(rows[0] if single else {"items": list(rows)}, indent=2, ensure_ascii=False))
    elif output == "yaml":
        import yaml

        write(
            yaml.safe_dump(rows[0] if single else {"items": list(rows)}, sort_keys=False, allow_unicode=True).rstrip()
        )
    elif output == "name":
        for row in rows:
            write(f"{kind}/{row.get('name') or row.get('id')}")
    elif output.startswith("jsonpath="):
        content = rows[0] if single else {"items": list(rows)}
        write(jsonpath(content, output.removeprefix("jsonpath=")))
    elif output.startswith("custom-columns="):
        asked = [part.partition(":") for part in output.removeprefix("custom-columns=").split(",")]
        custom: list[Column] = [(title, _reader(path)) for title, _, path in asked]
        _table(custom, rows, headers)
    else:
        raise Failure(f"There is no output format {output!r}.", f"Choose one of {FORMATS}.", code=USAGE)


def write(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def say(text: str) -> None:
    """A remark for people, on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def moment(text: str | None) -> str:
    """A time of the API as people read it: to the second, in UTC. Empty where there is none."""
    return f"{text[:19]}Z" if text else ""


def jsonpath(content: Any, template: str) -> str:
    """kubectl's commonest JSONPath: text with `{.a.b[0].c}` and `{.items[*].name}` in it."""
    return re.sub(r"\{([^}]*)\}", lambda found: " ".join(_plain(v) for v in _walk(content, found[1])), template)


def _reader(path: str) -> Callable[[dict[str, Any]], Any]:
    return lambda row: ", ".join(_plain(value) for value in _walk(row, path)) or "<none>"


def _walk(content: Any, path: str) -> list[Any]:
    found = [content]
    for key, index in re.findall(r"\.?([\w-]+)|\[(\*|\d+)\]", path.removeprefix("$")):
        step: list[Any] = []
        for value in found:
            if key and isinstance(value, dict) and key in value:
                step.append(value[key])
            elif index == "*" and isinstance(value, list):
                step.extend(value)
            elif index.isdigit() and isinstance(value, list) and int(index) < len(value):
                step.append(value[int(index)])
        found = step
    return found


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(columns: Sequence[Column], rows: Sequence[dict[str, Any]], headers: bool) -> None:
    cells = [[_cell(read(row)) for _, read in columns] for row in rows]
    titles = [title.upper() for title, _ in columns]
    lines = [titles, *cells] if headers else cells
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]
    for line in lines:
        write("   ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return " ".join(str(value).split())
