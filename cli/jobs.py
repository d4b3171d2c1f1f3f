"""Jobs from the command line: their log, and a word to one that is parked."""

import time
from typing import Annotated, Any

import typer

from cli import things
from cli.connection import Connection
from cli.failures import USAGE, Failure, Refusal
from cli.output import moment, say, write

Namespace = Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the cluster.")]
Which = Annotated[str, typer.Argument(help="job/ID, or cluster/NAME for its newest job.")]
_ENDED = ("done", "aborted", "superseded", "failed")


def logs(
    which: Which,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    namespace: Namespace = "clusters",
) -> None:
    """Print the log of a job. Ctrl-C leaves the job alone."""
    api = Connection()
    job = _job(api, which, namespace)
    after = _print_log(api, job["id"], 0)
    while follow:
        try:
            for event, data in api.events(f"/jobs/{job['id']}/events", after):
                if event == "log" and data["seq"] > after:
                    after = _print_line(data)
                elif event == "job" and data["phase"] == "awaiting-decision":
                    _parked(data)
                elif event == "end":
                    return
        except Refusal:
            raise
        except Failure as failure:
            say(f"{failure}; the job goes on. Reconnecting.")
            time.sleep(1.0)
        job = api.get(f"/jobs/{job['id']}")
        if job["phase"] in _ENDED:
            _print_log(api, job["id"], after)
            return


def retry(which: Which, namespace: Namespace = "clusters") -> None:
    """Let a parked job go on where it stands; finished steps are not done again."""
    _decide(which, namespace, "retry")


def abort(which: Which, namespace: Namespace = "clusters") -> None:
    """End a parked job where it stands; what was made stays."""
    _decide(which, namespace, "abort")


def _decide(which: str, namespace: str, decision: str) -> None:
    api = Connection()
    job = _job(api, which, namespace)
    api.send("POST", f"/jobs/{job['id']}/{decision}")
    write(f"job/{job['id']} {decision} accepted")


def _job(api: Connection, which: str, namespace: str) -> dict[str, Any]:
    kind, name = things.kind_and_name([which])
    if name is None or kind not in ("job", "cluster"):
        raise Failure("Say which job: job/ID or cluster/NAME.", code=USAGE)
    if kind == "job":
        return dict(api.get(f"/jobs/{name}"))
    jobs = api.get(f"/clusters/{namespace}/{name}/jobs", limit=1)["items"]
    if not jobs:
        raise Failure(f"No job has run for cluster/{name} yet.")
    return dict(jobs[0])


def _print_log(api: Connection, job_id: str, after: int) -> int:
    while True:
        log = api.get(f"/jobs/{job_id}/log", after=after, limit=1000)
        for line in log["items"]:
            after = _print_line(line)
        if len(log["items"]) < 1000:
            return after


def _print_line(line: dict[str, Any]) -> int:
    level = "" if line["level"] == "info" else f"{line['level'].upper()} "
    write(f"{moment(line['at'])} {level}{line['text']}")
    return int(line["seq"])


def _parked(job: dict[str, Any]) -> None:
    say(f"The job needs a decision: {job['error']}")
    say(f"  trilithon retry job/{job['id']}   or   trilithon abort job/{job['id']}")
