"""The simulated datacenter beside `trilithon up --lab`, where a checkout brings one. Never part of the wheel."""

import contextlib
import json
import socket
import subprocess
import sys
import uuid
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from cli.failures import Failure
from cli.installation import listens
from domain.clusters import Distribution
from domain.sites import Site, Template
from store import Store

SITE = "lab"
KINDS = ("simulated", "real")
"""What the nodes of the laboratory are; the first by default."""
_TEMPLATES: tuple[tuple[Distribution, str, dict[str, int], bool], ...] = (
    (Distribution.RKE2, "v1.36.5+rke2r1", {"pve1": 9001}, True),
    (Distribution.K3S, "v1.36.5+k3s1", {"pve1": 9002}, True),
    (Distribution.KUBEADM, "v1.36.3", {"pve1": 9003}, True),
)


def checkout() -> Path | None:
    """The folder of the checkout that we run from, when it has a laboratory."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "lab" / "session.py").is_file() else None


def start(data: Path, space: int, kind: str = KINDS[0]) -> dict[str, Any]:
    """Starts the laboratory's session, or finds it running; returns its description.

    Raises:
        Failure: this is no checkout, a part did not start, or this machine cannot run real nodes.
    """
    return dict(json.loads(_session("start", data, "--space", str(space), "--kind", kind)))


def open_ways(lab: dict[str, Any], ports: tuple[int, ...]) -> None:
    """Real nodes live in a network of their own, and so does the platform beside them: ways in for these ports."""
    if lab.get("proxy"):
        for port in ports:
            way = {"outside": f"127.0.0.1:{port}", "inside": f"127.0.0.1:{port}"}
            httpx.put(f"{lab['nodes']}/forwards", json=way, trust_env=False).raise_for_status()


def close_ways(data: Path) -> None:
    """Closes what `open_ways` opened, also by an `up` that was killed: its ports must not look taken."""
    with contextlib.suppress(OSError, ValueError, KeyError, httpx.HTTPError):
        lab = json.loads((data / "lab.json").read_text())
        if lab.get("proxy"):
            for way in httpx.get(f"{lab['nodes']}/forwards", trust_env=False).json():
                if way["outside"].startswith("127.0.0.1:"):
                    httpx.delete(f"{lab['nodes']}/forwards/{way['outside']}", trust_env=False)


def listens_inside(lab: dict[str, Any] | None, port: int) -> bool:
    """True when a process listens on the port where the platform's processes live."""
    if not (lab or {}).get("proxy"):
        return listens(port)
    host, _, number = str((lab or {})["proxy"]).removeprefix("http://").rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(number)), timeout=2) as way:
        way.sendall(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n".encode())
        return b" 200 " in way.recv(64)
    return False


def stop(data: Path) -> None:
    """Ends the laboratory's session."""
    if checkout() is not None:
        _session("stop", data)


async def register(store: Store, lab: dict[str, Any], now: datetime) -> None:
    """Makes the laboratory a site with its templates; a laboratory that was begun anew replaces its old endpoints."""
    token_id, secret = platform_token(lab)
    known = await store.sites.find(SITE)
    site = Site(
        id=known.id if known else uuid.uuid4().hex,
        name=SITE,
        endpoints=tuple(lab["endpoints"]),
        fingerprint=lab["fingerprint"],
        token_id=token_id,
        workload_pool="trilithon",
        template_pool="trilithon-templates",
        bridges=("vmbr0",),
        storages=("shared", "fast"),
        iso_storage="iso",
        artifact_url=lab["artifacts"],
        region="lab",
        lab=True,
        version=known.version if known else 1,
        created_at=known.created_at if known else now,
    )
    if known is None:
        await store.sites.add(site)
        for distribution, version, nodes, shared in _templates(lab):
            template = Template(
                id=uuid.uuid4().hex,
                site_id=site.id,
                distribution=distribution,
                version=version,
                nodes=nodes,
                shared=shared,
                created_at=now,
            )
            await store.templates.add(template)
    elif site != known:
        await store.sites.update(site, expected_version=known.version)
    await store.secrets.put(f"site/{site.id}", "token", secret.encode())


def _templates(lab: dict[str, Any]) -> Sequence[tuple[Distribution, str, dict[str, int], bool]]:
    """Real nodes are kubeadm only, at the versions that were built."""
    if "templates" not in lab:
        return _TEMPLATES
    return [
        (Distribution(row["distribution"]), row["version"], {"pve1": row["vmid"]}, True) for row in lab["templates"]
    ]


def platform_token(lab: dict[str, Any]) -> tuple[str, str]:
    """The platform's token in the laboratory: id and secret."""
    platform = lab["people"]["platform"]
    return str(platform["id"]), str(platform["secret"])


def _session(what: str, data: Path, *more: str) -> str:
    root = checkout()
    if root is None:
        raise Failure(
            "The simulated datacenter comes with a checkout of Trilithon, not with the installed program.",
            "Start without --lab and add a site of your own: trilithon site add --help",
        )
    command = [sys.executable, "-m", "lab.session", what, "--data", str(data), *more]
    # What it says goes on to the person at once: real nodes are built at their first start, for minutes.
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"The laboratory did not {what}: lab.session ended with {done.returncode}, its words are above.")
    return done.stdout
