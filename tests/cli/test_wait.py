"""`trilithon wait`: what a person sees while nothing is wrong, and how it ends. A stand-in answers for the API."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from cli import clusters
from cli.failures import ERROR
from cli.main import run

GONE = {"status": 404, "detail": "There is nothing of that name here."}


class Api:
    """Answers one cluster after the other; the last one again and again."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                row = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
                self.send_response(int(row["status"]) if row is GONE else 200)
                self.end_headers()
                self.wfile.write(json.dumps(row).encode())

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Api]:
    api = Api()
    monkeypatch.setenv("TRILITHON_CONFIG", str(tmp_path))
    monkeypatch.setenv("TRILITHON_URL", api.url)
    monkeypatch.setattr(clusters, "LOOK_EVERY", 0.0)
    thread = threading.Thread(target=api.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield api
    api.server.shutdown()
    thread.join()
    api.server.server_close()


def row(servers: int, workers: int, *, waiting: str = "", phase: str = "running", available: bool = False) -> Any:
    return {
        "status": "Provisioning",
        "control_plane": {"ready": servers, "wanted": 3},
        "workers": {"ready": workers, "wanted": 2},
        "conditions": [{"type": "Available", "status": available, "reason": "", "message": ""}],
        "job": {
            "id": "7",
            "phase": phase,
            "error": "no node fits",
            "waiting": {"waiting_for": waiting, "since": "2026-12-01T00:00:00Z"} if waiting else None,
        },
    }


def test_each_step_forward_is_told_once(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = [
        *(row(0, 0), row(0, 0), row(1, 0), row(1, 0, waiting="pve2 to come back"), row(1, 2)),
        row(3, 2, available=True),
    ]
    assert run(["wait", "cluster/prod", "--for=condition=Available"]) == 0
    printed = capsys.readouterr()
    assert [line.partition(" ")[2] for line in printed.err.splitlines()] == [
        "0 of 3 servers ready, 0 of 2 workers ready",
        "1 of 3 servers ready, 0 of 2 workers ready",
        "waiting for pve2 to come back",
        "1 of 3 servers ready, 2 of 2 workers ready",
    ]
    assert printed.out == "cluster/prod condition met\n"


def test_a_job_that_needs_a_decision_ends_it_with_the_ways_on(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = [row(0, 0), row(0, 0, phase="awaiting-decision")]
    assert run(["wait", "cluster/prod", "--for=condition=Available"]) == ERROR
    assert "no node fits" in (told := capsys.readouterr().err)
    assert "trilithon retry job/7" in told


def test_a_deletion_is_waited_for_until_nothing_is_there(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    api.answers = [{**row(3, 2), "status": "Deleting"}, GONE]
    assert run(["wait", "cluster/prod", "--for=delete"]) == 0
    printed = capsys.readouterr()
    assert "deleting" in printed.err
    assert "servers" not in printed.err
    assert printed.out == "cluster/prod deleted\n"


def test_a_parked_create_does_not_end_the_wait_for_its_clusters_deletion(
    api: Api, capsys: pytest.CaptureFixture[str]
) -> None:
    parked = {**row(0, 0, phase="awaiting-decision"), "status": "Deleting"}
    of = {kind: {**parked, "job": {**parked["job"], "kind": kind}} for kind in ("CreateCluster", "DeleteCluster")}
    recorded = {"deletion_requested_at": "2026-12-01T00:00:00Z"}
    api.answers = [{**of["CreateCluster"], **recorded}, GONE]
    assert run(["wait", "cluster/prod", "--for=delete"]) == 0
    assert "deleted" in capsys.readouterr().out
    for still in (of["CreateCluster"], {**of["DeleteCluster"], **recorded}):  # nobody deletes; nobody but a person can
        api.answers = [still]
        assert run(["wait", "cluster/prod", "--for=delete"]) == ERROR
        assert "trilithon retry job/7" in capsys.readouterr().err
