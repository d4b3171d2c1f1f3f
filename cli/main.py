"""The command `trilithon`."""

import os
import sys
from typing import Annotated

import typer

from cli import charts, clusters, installation, jobs, labs, session, sites
from cli.connection import CHOSEN, close_all
from cli.failures import ERROR, INTERRUPTED, Failure, Refusal

app = typer.Typer(
    help="Kubernetes clusters on the machines you own.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    installation.up,
    installation.reset,
    session.login,
    session.logout,
    session.whoami,
    clusters.apply,
    clusters.create,
    clusters.get,
    clusters.describe,
    clusters.wait,
    jobs.logs,
    jobs.retry,
    jobs.abort,
    clusters.kubeconfig,
    clusters.delete,
    installation.worker,
    installation.api,
    installation.migrate,
):
    app.command()(command)
app.add_typer(sites.site, name="site")
app.add_typer(sites.template, name="template")
app.add_typer(charts.chart, name="chart")
app.add_typer(labs.lab, name="lab")


@app.callback()
def everywhere(
    context: Annotated[str | None, typer.Option("--context", help="Which Trilithon of your configuration.")] = None,
) -> None:
    """Kubernetes clusters on the machines you own."""
    CHOSEN["context"] = context


def main() -> None:
    """Runs the command and ends the process.

    It ends by `os._exit` after a flush: Temporal's native threads crash the interpreter's own ending about once in
    five short runs (sdk-python #300; measured).
    """
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def run(arguments: list[str]) -> int:
    """Runs one command line and returns its exit code; all words for people go to standard error."""
    try:
        result = app(args=arguments, prog_name="trilithon", standalone_mode=False)
    except Failure as failure:
        sys.stderr.write(f"Error: {failure}\n")
        for line in failure.lines() if isinstance(failure, Refusal) else []:
            sys.stderr.write(f"  {line}\n")
        if failure.remedy:
            sys.stderr.write(f"{failure.remedy}\n")
        return failure.code
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("\nInterrupted. A job that was started goes on; `trilithon get jobs` shows it.\n")
        return INTERRUPTED
    except Exception as error:
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", ERROR))
    finally:
        close_all()
    return int(result) if isinstance(result, int) else 0
