"""The chart cache from the command line."""

from pathlib import Path
from typing import Annotated

import typer

from cli.connection import Connection
from cli.failures import Failure
from cli.output import say, write

chart = typer.Typer(help="Helm charts that clusters are made with: list, pull, upload, remove.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="Name of the chart.")]


@chart.command("list")
def list_charts() -> None:
    """The kept charts, and which of those that are needed nobody has brought yet."""
    answer = Connection().get("/charts")
    rows = [("NAME", "VERSION", "DIGEST", "SIZE", "USED", "SOURCE")]
    rows += [
        (c["name"], c["version"], c["digest"][:12], f"{c['size'] // 1024} KiB", str(c["used"]), c["source"])
        for c in answer["items"]
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
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
        raise Failure(f"{file} cannot be read: {error.strerror}") from error
    headers = {"Content-Type": "application/gzip"}
    kept = Connection().send("POST", "/charts", content=data, headers=headers)
    write(f"chart/{kept['name']}-{kept['version']} kept (sha256 {kept['digest'][:12]})")


@chart.command()
def remove(name: Name, version: str) -> None:
    """Forget a chart; refused while a cluster needs it."""
    Connection().answer("DELETE", f"/charts/{name}/{version}")
    write(f"chart/{name}-{version} removed")
