"""The simulated datacenter beside `trilithon up --lab`, where a checkout brings one. Never part of the wheel."""

import json
import subprocess
import sys
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

from cli.failures import Failure
from domain.clusters import Distribution
from domain.sites import Site, Template
from store import Store

SITE = "lab"
_TEMPLATES: tuple[tuple[Distribution, str, dict[str, int], bool], ...] = (
    (Distribution.RKE2, "v1.36.5+rke2r1", {"pve1": 9001}, True),
    (Distribution.K3S, "v1.36.5+k3s1", {"pve1": 9002}, True),
)


def checkout() -> Path | None:
    """The folder of the checkout that we run from, when it has a laboratory."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "lab" / "session.py").is_file() else None


def start(data: Path, space: int) -> dict[str, Any]:
    """Starts the laboratory's session, or finds it running; returns its description.

    Raises:
        Failure: this is no checkout, or a part did not start.
    """
    return dict(json.loads(_session("start", data, "--space", str(space))))


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
        for distribution, version, nodes, shared in _TEMPLATES:
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
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(done.stderr.strip() or f"lab.session {what} ended with {done.returncode}")
    return done.stdout
