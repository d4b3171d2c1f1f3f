"""`trilithon lab`: into the network and the nodes of the laboratory of real nodes beside `up --lab real`."""

import json
import os
import sys
from typing import Annotated

import typer

from cli.datafolder import DataFolder, default_folder
from cli.failures import Failure
from cli.installation import Data

lab = typer.Typer(help="The nodes beside `up --lab real`.", no_args_is_help=True, rich_markup_mode=None)


@lab.command()
def shell(
    node: Annotated[str, typer.Argument(help="Name of a node; without it the laboratory's own network.")] = "",
    data: Data = None,
) -> None:
    """Open a shell in a node, or in the laboratory's network, where a kubeconfig's address answers."""
    _enter(data, node)


@lab.command(name="exec", context_settings={"ignore_unknown_options": True})
def execute(
    node: Annotated[str, typer.Argument(help="Name of a node.")],
    command: Annotated[list[str], typer.Argument(help="What runs there.")],
    data: Data = None,
) -> None:
    """Run a command in a node, as root."""
    _enter(data, node, *command)


def _enter(data: Data, *words: str) -> None:
    from cli import laboratory

    root, folder = laboratory.checkout(), DataFolder((data or default_folder()).absolute())
    try:
        known = json.loads((folder.lab / "lab.json").read_text())
    except (FileNotFoundError, ValueError):
        known = {}
    if root is None or known.get("kind") != "real":
        raise Failure("No laboratory of real nodes runs here.", "Start one: trilithon up --lab real")
    os.chdir(root)
    line = [sys.executable, "-m", "lab.real.enter", "--space", str(known["space"]), *words]
    os.execv(line[0], line)  # noqa: S606 - going in is what is asked for
