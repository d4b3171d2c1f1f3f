"""The chart cache from the command line."""

import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from cli.connection import Connection
from cli.failures import USAGE, Failure
from cli.output import FORMATS, Column, moment, say, show, write

chart = typer.Typer(help="Helm charts that clusters are made with: list, pull, upload, delete.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the chart.")]
COLUMNS: list[Column] = [
    ("name", lambda c: c["name"]),
    ("version", lambda c: c["version"]),
    ("digest", lambda c: c["digest"][:12]),
    ("size", lambda c: f"{-(-c['size'] // 1024)} KiB"),
    ("used", lambda c: c["used"]),
    ("source", lambda c: c["source"]),
]
WIDE: list[Column] = [
    ("added", lambda c: moment(c["created_at"])),
    ("used by", lambda c: ", ".join(c["used_by"])),
    ("sha256", lambda c: c["digest"]),
]


@chart.command("list")
def list_charts(
    output: Annotated[str, typer.Option("--output", "-o", help=FORMATS)] = "table",
    no_headers: Annotated[bool, typer.Option("--no-headers", help="No column titles.")] = False,
) -> None:
    """The kept charts, and which of those that are needed nobody has brought yet."""
    answer = Connection().get("/charts")
    if answer["items"] or output not in ("table", "wide"):
        show(answer["items"], output, kind="chart", columns=COLUMNS, wide=WIDE, headers=not no_headers)
    else:
        say("The cache holds no charts; clusters are made with those of the chart folder.")
    for one in answer["wanted"]:
        if not one["at_hand"]:
            say(f"{one['name']} {one['version']} is not here: trilithon chart pull {one['name']}")


@chart.command()
def pull(
    name: Name,
    version: Annotated[str | None, typer.Option(help="Instead of the one that this release is made for.")] = None,
    repository: Annotated[str | None, typer.Option(help="https:// or oci:// address, instead of its own.")] = None,
) -> None:
    """Download a chart from its own repository into the cache; its digest is checked."""
    body = {"name": name, "version": version, "repository": repository}
    kept = Connection().send("POST", "/charts/pull", json=body)
    write(f"chart/{kept['name']}-{kept['version']} kept (sha256 {kept['digest'][:12]}, from {kept['source']})")


@chart.command()
def upload(file: Annotated[Path, typer.Argument(help="A packed chart, NAME-VERSION.tgz.")]) -> None:
    """Put a packed chart into the cache."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Failure(f"{file} cannot be read: {error.strerror}", "Name a packed chart (`helm package`).") from error
    headers = {"Content-Type": "application/gzip"}
    kept = Connection().send("POST", "/charts", content=data, headers=headers)
    write(f"chart/{kept['name']}-{kept['version']} kept (sha256 {kept['digest'][:12]})")


@chart.command()
def delete(
    name: Name,
    version: Annotated[str, typer.Argument(help="Its version, as `trilithon chart list` shows it.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the name.")] = False,
) -> None:
    """Delete a chart from the cache; refused while a cluster needs it."""
    if not yes:
        if not sys.stdin.isatty():
            raise Failure("There is no terminal to ask for the name on.", "Use --yes.", code=USAGE)
        sys.stderr.write(f"{name} {version} will leave the cache. Type the chart's name to confirm: ")
        sys.stderr.flush()
        if sys.stdin.readline().strip() != name:
            raise Failure("That is not its name; nothing was deleted.")
    Connection().answer("DELETE", f"/charts/{quote(name, safe='')}/{quote(version, safe='')}")
    write(f"chart/{name}-{version} deleted")
