"""One simulated datacenter as a process of its own, spoken to by HTTP only."""

import json
import os
import select
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-lab" / "bin" / "python"
Json = Any


class Reply:
    """An answer of the API: status, data, message and errors."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        body = answer.json() if answer.headers.get("content-type", "").startswith("application/json") else {}
        self.data: Json = body.get("data")
        self.message: str = (body.get("message") or "").strip()
        self.errors: dict[str, str] = body.get("errors") or {}
        self.reason = answer.reason_phrase


class Caller:
    """Somebody who calls the API: a person with a ticket, or a token."""

    def __init__(self, lab: "Lab", headers: dict[str, str], cookies: dict[str, str] | None = None) -> None:
        self.lab, self.headers, self.cookies = lab, headers, cookies or {}

    def call(self, method: str, path: str, /, node: int = 1, **params: Json) -> Reply:
        """One call at the endpoint of node number `node`; keyword `_files` uploads."""
        files = params.pop("_files", None)
        params = {k.replace("__", "-"): v for k, v in params.items()}
        headers = dict(self.headers)
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        url = self.lab.endpoints[node - 1] + "/api2/json" + path
        kwargs: dict[str, Json] = {"params": params} if method in ("GET", "DELETE") else {"data": params}
        return Reply(self.lab.http.request(method, url, headers=headers, files=files, **kwargs))

    def get(self, path: str, /, **params: Json) -> Reply:
        return self.call("GET", path, **params)

    def post(self, path: str, /, **params: Json) -> Reply:
        return self.call("POST", path, **params)

    def put(self, path: str, /, **params: Json) -> Reply:
        return self.call("PUT", path, **params)

    def delete(self, path: str, /, **params: Json) -> Reply:
        return self.call("DELETE", path, **params)

    def task(self, reply: Reply) -> str:
        """Wait for the task of an accepted call; answers its exit status."""
        assert reply.status == 200, (reply.status, reply.message, reply.errors)
        node = reply.data.split(":")[1]
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            state = self.get(f"/nodes/{node}/tasks/{reply.data}/status").data
            if state["status"] == "stopped":
                return str(state["exitstatus"])
            select.select([], [], [], 0.02)
        raise AssertionError(f"{reply.data} does not end")


class Lab:
    """The process, its addresses and its control endpoints."""

    def __init__(self, ready: dict[str, Json]) -> None:
        self.ready = ready
        self.endpoints: list[str] = ready["endpoints"]
        trust = ssl.create_default_context(cadata=ready["ca"])
        self.http = httpx.Client(verify=trust, timeout=20)
        people = self.control("GET", "/lab/people")
        self.platform_id = people["platform"]["id"]
        self.platform_secret = people["platform"]["secret"]
        self.people = {p["userid"]: p for p in people["people"]}

    def control(self, method: str, path: str, body: Json = None) -> Json:
        """One call of a control endpoint."""
        answer = self.http.request(method, self.ready["control"] + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def token(self, tokenid: str, secret: str) -> Caller:
        return Caller(self, {"Authorization": f"PVEAPIToken={tokenid}={secret}"})

    @property
    def platform(self) -> Caller:
        return self.token(self.platform_id, self.platform_secret)

    def anyone(self) -> Caller:
        return Caller(self, {})

    def sign_in(self, userid: str, password: str | None = None) -> Caller:
        """A person without a second factor."""
        password = password or ("lab-root" if userid == "root@pam" else self.people[userid]["password"])
        reply = self.anyone().post("/access/ticket", username=userid, password=password)
        assert reply.status == 200, reply.message
        return self.with_ticket(reply.data)

    def with_ticket(self, data: dict[str, str]) -> Caller:
        return Caller(self, {"CSRFPreventionToken": data["CSRFPreventionToken"]}, {"PVEAuthCookie": data["ticket"]})

    def state(self) -> dict[str, Json]:
        answer: dict[str, Json] = self.control("GET", "/lab/state")
        return answer


def start(*more: str) -> tuple[subprocess.Popen[str], dict[str, Json]]:
    """Start the datacenter; answers the process and its ready line."""
    env = dict(os.environ, PYTHONPATH=str(ROOT / "lab" / "pve"))
    command = [str(PYTHON), "-m", "labpve", "--port", "0", "--control-port", "0", "--verbose", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "labpve did not start"
    return process, json.loads(line)


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(10)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(scope="session")
def lab_process() -> Iterator[Lab]:
    if not PYTHON.exists():
        pytest.fail("make the lab's own environment first: make setup")
    process, ready = start("--address-base", "127.0.71")
    lab = Lab(ready)
    yield lab
    lab.http.close()
    stop(process)


@pytest.fixture
def lab(lab_process: Lab) -> Lab:
    """The datacenter in its first state, with short tasks."""
    lab_process.control("POST", "/lab/reset")
    lab_process.control("PUT", "/lab/latency", {"clone": 0.1, "start": 0.02, "stop": 0.02, "create": 0.02})
    return lab_process
