"""How kubectl names things: `cluster/prod`, `clusters prod`, `job/…`; and the columns each kind is listed with."""

from typing import Any

from cli.failures import USAGE, Failure
from cli.output import Column, moment

KINDS = {
    "cluster": ("cluster", "clusters", "cl"),
    "machine": ("machine", "machines", "ma"),
    "job": ("job", "jobs"),
    "site": ("site", "sites"),
    "template": ("template", "templates"),
}


def kind_and_name(words: list[str]) -> tuple[str, str | None]:
    """`["cluster/prod"]` and `["clusters", "prod"]` alike become `("cluster", "prod")`.

    Raises:
        Failure: no such kind of thing.
    """
    first, _, name = words[0].partition("/")
    rest = [name] if name else words[1:]
    for kind, spellings in KINDS.items():
        if first in spellings:
            return kind, rest[0] if rest else None
    raise Failure(f"There is no kind of thing called {first!r}.", f"Kinds: {', '.join(KINDS)}.", code=USAGE)


def _ready(key: str) -> Any:
    return lambda row: f"{row[key]['ready']}/{row[key]['wanted']}"


CLUSTER: list[Column] = [
    ("name", lambda r: r["name"]),
    ("status", lambda r: r["status"]),
    ("version", lambda r: r["version"]),
    ("servers", _ready("control_plane")),
    ("workers", _ready("workers")),
    ("endpoint", lambda r: r["endpoint"]),
]
CLUSTER_WIDE: list[Column] = [
    ("namespace", lambda r: r["namespace"]),
    ("distribution", lambda r: r["distribution"]),
    ("site", lambda r: r["site"]),
    ("created", lambda r: moment(r["created_at"])),
    ("message", lambda r: r["message"]),
]
MACHINE: list[Column] = [
    ("name", lambda r: r["name"]),
    ("role", lambda r: r["role"]),
    ("phase", lambda r: r["phase"]),
    ("version", lambda r: r["version"]),
    ("address", lambda r: r["address"]),
    ("vmid", lambda r: r["vmid"]),
    ("node", lambda r: r["node"]),
]
MACHINE_WIDE: list[Column] = [("pool", lambda r: r["pool"]), ("message", lambda r: r["message"])]
JOB: list[Column] = [
    ("id", lambda r: r["id"]),
    ("kind", lambda r: r["kind"]),
    ("cluster", lambda r: r["cluster"]["name"] if r["cluster"] else None),
    ("phase", lambda r: r["phase"]),
    ("started", lambda r: moment(r["started_at"])),
]
JOB_WIDE: list[Column] = [
    ("waiting for", lambda r: r["waiting"]["waiting_for"] if r["waiting"] else None),
    ("error", lambda r: r["error"]),
    ("by", lambda r: r["requested_by"]),
]
SITE: list[Column] = [
    ("name", lambda r: r["name"]),
    ("endpoints", lambda r: ",".join(r["endpoints"])),
    ("pool", lambda r: r["workload_pool"]),
    ("storages", lambda r: ",".join(r["storages"])),
    ("clusters", lambda r: r["clusters"]),
]
TEMPLATE: list[Column] = [
    ("distribution", lambda r: r["distribution"]),
    ("version", lambda r: r["version"]),
    ("nodes", lambda r: ",".join(f"{node}:{vmid}" for node, vmid in sorted(r["nodes"].items()))),
    ("shared", lambda r: str(r["shared"]).lower()),
]
