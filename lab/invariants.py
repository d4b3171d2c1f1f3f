"""What must hold whatever was done to us: checks over plain data, for tests (quality: invariants I1 to I10).

Everything comes in as the JSON that others give: `state` and `journal` from the simulated Proxmox VE (`/lab/state`,
`/lab/journal`), machine rows and clusters from the platform's store. Nothing here asks or changes anything. Every check
returns violations, an empty list when all is well; the rule's number is in each.
"""

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

Json = Any
State = Mapping[str, Json]
Rows = Sequence[Mapping[str, Json]]

MARKER = re.compile(r"trilithon cluster=(?P<cluster>\S+) machine=(?P<machine>\S+)")
"""What our clone call writes into a VM's description (domain/machines.py: Machine.marker)."""
RECORDED = frozenset({"Cloned", "Configured", "Seeded", "Started", "Joined", "Ready"})
"""Phases in which a machine's VM must exist; before them and in `Deleting` it may, in `Gone` it must not."""
DELETE_VM = re.compile(r"^/nodes/[^/]+/qemu/(\d+)$")
SHORTEST_SECRET = 8
"""Characters below which a value would be found by chance."""


@dataclass(frozen=True)
class Violation:
    """A broken rule: its number and what was seen, in words."""

    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


# ------------------------------------------------------------------ machines


def machines_exist_once(
    state: State, machines: Rows, *, workload_pool: str, foreign: Collection[int] = (), settled: bool = True
) -> list[Violation]:
    """I1: the VMs of the workload pool are the machines recorded as existing: no orphan, none twice, none missing.

    `foreign`: VM ids of others that may stand in the pool. `settled`: nothing runs any more, so that a VM whose record
    does not yet say that it exists is a violation too.
    """
    found: list[Violation] = []
    vms = {int(vm["vmid"]): vm for vm in state["vms"] if not vm["template"]}
    living = [m for m in machines if m["phase"] != "Gone"]
    by_id = {str(m["id"]): m for m in living}
    by_vmid = {int(m["vmid"]): m for m in living}
    marks: Counter[str] = Counter()
    for vmid, vm in vms.items():
        mark = MARKER.search(str(vm["config"].get("description") or ""))
        pooled = str(vm["pool"] or "") == workload_pool or str(vm["pool"] or "").startswith(workload_pool + "/")
        if vmid in foreign or not (mark or pooled):
            continue
        if mark is None:
            if vmid not in by_vmid or vm["config"].get("lock") != "clone":
                found.append(
                    Violation("I1", f"VM {vmid} ({vm['name']}) stands in pool {vm['pool']} without our marker")
                )
            continue
        marks[mark["machine"]] += 1
        row = by_id.get(mark["machine"])
        if row is None:
            found.append(
                Violation("I1", f"VM {vmid} ({vm['name']}) says machine {mark['machine']}, which has no record")
            )
        elif int(row["vmid"]) != vmid:
            found.append(Violation("I1", f"VM {vmid} says machine {mark['machine']}, recorded as VM {row['vmid']}"))
        elif settled and row["phase"] not in RECORDED and row["phase"] != "Deleting":
            found.append(Violation("I1", f"VM {vmid} exists, its record says {row['phase']}"))
    found += [Violation("I1", f"machine {m} has {n} VMs") for m, n in sorted(marks.items()) if n > 1]
    for row in living:
        if row["phase"] in RECORDED and int(row["vmid"]) not in vms:
            found.append(
                Violation("I1", f"machine {row['name']} is recorded as {row['phase']}, VM {row['vmid']} is not there")
            )
    return found


def identities_unique(
    state: State,
    machines: Rows,
    *,
    network_of: Mapping[str, str] | None = None,
    virtual_ips: Mapping[str, str] | None = None,
) -> list[Violation]:
    """I2: VM ids, MACs and SMBIOS ids are unique at the site; addresses, virtual ones included, in each network.

    `network_of` maps a cluster's id to the network it stands in (all in one when left out); `virtual_ips` a cluster's
    id to its virtual IP.
    """
    networks, virtual = network_of or {}, virtual_ips or {}
    living = [m for m in machines if m["phase"] != "Gone"]
    found: list[Violation] = []
    for key in ("vmid", "mac", "bios_uuid", "id", "name"):
        scope = Counter((m["cluster_id"] if key == "name" else "", str(m[key]).lower()) for m in living if m.get(key))
        found += [Violation("I2", f"{key} {value} is reserved {n} times") for (_, value), n in scope.items() if n > 1]
    addresses = [(networks.get(m["cluster_id"], ""), m["address"]) for m in living if m.get("address")]
    addresses += [(networks.get(cluster, ""), address) for cluster, address in virtual.items()]
    for (network, address), n in Counter(addresses).items():
        if n > 1:
            found.append(
                Violation("I2", f"address {address} is used {n} times in network {network or '(the only one)'}")
            )
    macs: Counter[str] = Counter()
    for vm in state["vms"]:
        for key, value in vm["config"].items():
            if re.fullmatch(r"net\d+", key):
                macs.update(part.upper() for part in re.findall(r"=((?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2})", str(value)))
    return found + [Violation("I2", f"MAC {mac} is in {n} VMs") for mac, n in macs.items() if n > 1]


# ------------------------------------------------------------------- journal


def _done(entry: Mapping[str, Json]) -> bool:
    """True when the call had its effect: accepted, or accepted with the answer lost."""
    return entry["kind"] == "call" and entry.get("status") is not None and int(entry["status"]) < 400


def deletions_prepared(journal: Rows, *, reasons: Mapping[int, str] | None = None) -> list[Violation]:
    """I4: before a VM is deleted it leaves high availability, and its node was drained or the reason not to is known.

    `reasons`: VM id -> "drained" or why not; left out, only high availability is looked at.
    """
    found: list[Violation] = []
    managed: set[int] = set()
    for entry in journal:
        if not _done(entry):
            continue
        method, path = entry["method"], entry["path"]
        if method == "POST" and path == "/cluster/ha/resources":
            managed.add(int(str(entry["params"]["sid"]).removeprefix("vm:")))
        elif method == "DELETE" and path.startswith("/cluster/ha/resources/"):
            managed.discard(int(path.rsplit("/", 1)[1].removeprefix("vm:")))
        elif method == "DELETE" and (match := DELETE_VM.match(path)):
            vmid = int(match[1])
            if vmid in managed:
                found.append(
                    Violation("I4", f"VM {vmid} was deleted (entry {entry['seq']}) while in high availability")
                )
            if reasons is not None and not reasons.get(vmid):
                found.append(
                    Violation("I4", f"VM {vmid} was deleted (entry {entry['seq']}) without a drain or a reason")
                )
    return found


def teardown_ordered(journal: Rows) -> list[Violation]:
    """I4, of a whole cluster: its token or user goes before its ACL and its pool.

    Otherwise the cloud controller sees an empty list of VMs and deletes nodes (facts: proxmox-addons.md).
    """
    found: list[Violation] = []
    accounts: dict[str, set[str]] = {}
    for entry in journal:
        if not _done(entry):
            continue
        method, path, given = entry["method"], entry["path"], entry["params"]
        if method == "PUT" and path == "/access/acl" and str(given.get("path", "")).startswith("/pool/"):
            names = {u.partition("!")[0] for key in ("users", "tokens") for u in _split(given.get(key))}
            pool = str(given["path"]).removeprefix("/pool/")
            if str(given.get("delete", "0")) in ("1", "true"):
                early = accounts.get(pool, set()) & names
                found += [
                    Violation("I4", f"the ACL of {u} on pool {pool} went before its token") for u in sorted(early)
                ]
            else:
                accounts.setdefault(pool, set()).update(names)
        elif method == "DELETE" and path.startswith("/access/users/"):
            user = path.split("/")[3]
            for holders in accounts.values():
                holders.discard(user)
        elif method == "DELETE" and path == "/pools":
            left = accounts.pop(str(given.get("poolid")), set())
            found += [Violation("I4", f"pool {given.get('poolid')} went before the token of {u}") for u in sorted(left)]
    return found


def no_writes(journal: Rows, *, after: int, users: Collection[str] = ()) -> list[Violation]:
    """I10: at rest nothing is written. `after`: the journal's number at which rest began; `users`: only these."""
    return [
        Violation("I10", f"{e['user']} called {e['method']} {e['path']} (entry {e['seq']}) at rest")
        for e in journal
        if e["kind"] == "call" and e["seq"] > after and (not users or e["user"] in users)
    ]


def _split(text: Json) -> list[str]:
    return [part for part in re.split(r"[\s,;]+", str(text or "")) if part]


# ------------------------------------------------------------------ leftovers


def account_of(cluster_id: str) -> str:
    """The Proxmox VE user of a cluster: `trilithon-<8 hex of sha256(cluster id)>@pve`."""
    return f"trilithon-{hashlib.sha256(cluster_id.encode()).hexdigest()[:8]}@pve"


def nothing_left(
    state: State, machines: Rows, clusters: Rows, *, workload_pool: str, before: State | None = None
) -> list[Violation]:
    """I7: no ISO, account, ACL, pool, disk, rule or resource without a living cluster or machine that it belongs to.

    `clusters`: rows with id, namespace, name of those that live. `before`: what stood there already is not ours.
    """
    found: list[Violation] = []
    living = {int(m["vmid"]): m for m in machines if m["phase"] != "Gone"}
    accounts = {account_of(str(c["id"])) for c in clusters}
    pools = {f"{workload_pool}/{c['namespace']}.{c['name']}" for c in clusters}
    old = before or {}
    vms = {int(vm["vmid"]) for vm in state["vms"]}
    for sid, store in state["storages"].items():
        known = old.get("storages", {}).get(sid, {}).get("volumes", {})
        for volume, has in store["volumes"].items():
            iso = re.fullmatch(r"iso/user-data-(\d+)\.iso", volume)
            row = living.get(int(iso[1])) if iso else None
            if volume in known:
                continue
            if iso and (row is None or row["phase"] == "Ready"):
                found.append(Violation("I7", f"boot ISO {sid}:{volume} is left"))
            elif not iso and has.get("vmid") is not None and int(has["vmid"]) not in vms:
                found.append(Violation("I7", f"volume {sid}:{volume} is left without its VM {has['vmid']}"))
    for user in state["users"]:
        if user.startswith("trilithon-") and user not in accounts and user not in old.get("users", {}):
            found.append(Violation("I7", f"user {user} is left"))
    for pool in state["pools"]:
        if pool.startswith(workload_pool + "/") and pool not in pools and pool not in old.get("pools", {}):
            found.append(Violation("I7", f"pool {pool} is left"))
    known_acl = [tuple(sorted(row.items())) for row in old.get("acl", [])]
    for row in state["acl"]:
        lost = row["path"].startswith(f"/pool/{workload_pool}/") and row["path"].removeprefix("/pool/") not in pools
        stray = str(row["ugid"]).startswith("trilithon-") and str(row["ugid"]).partition("!")[0] not in accounts
        if (lost or stray) and tuple(sorted(row.items())) not in known_acl:
            found.append(Violation("I7", f"ACL of {row['ugid']} with {row['roleid']} on {row['path']} is left"))
    return found + _ha_left(state, vms, old)


def _ha_left(state: State, vms: Collection[int], old: State) -> list[Violation]:
    """Resources and rules of high availability that name VMs which are gone."""
    found: list[Violation] = []
    for sid in state["ha"]["resources"]:
        if int(sid.removeprefix("vm:")) not in vms:
            found.append(Violation("I7", f"HA resource {sid} is left"))
    for name, rule in state["ha"]["rules"].items():
        gone = [sid for sid in _split(rule.get("resources")) if int(sid.removeprefix("vm:")) not in vms]
        if gone and name not in old.get("ha", {}).get("rules", {}):
            found.append(Violation("I7", f"HA rule {name} names {', '.join(gone)}"))
    return found


def differences(before: Json, after: Json, path: str = "") -> list[str]:
    """Where two states differ, as paths with both values: for 'identical before a create and after the delete'."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found = []
        for key in sorted({*before, *after}, key=str):
            here = f"{path}/{key}"
            if key not in before:
                found.append(f"{here}: appeared: {_short(after[key])}")
            elif key not in after:
                found.append(f"{here}: vanished: {_short(before[key])}")
            else:
                found += differences(before[key], after[key], here)
        return found
    if isinstance(before, list) and isinstance(after, list):
        gone, new = [x for x in before if x not in after], [x for x in after if x not in before]
        found = [f"{path}: vanished: {_short(x)}" for x in gone] + [f"{path}: appeared: {_short(x)}" for x in new]
        return found or ([f"{path}: other order"] if before != after else [])
    return [] if before == after else [f"{path}: {_short(before)} -> {_short(after)}"]


def _short(value: Json) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return text if len(text) <= 200 else text[:200] + "..."


# -------------------------------------------------------------------- secrets


def _forms(secret: str) -> Iterable[bytes]:
    """The ways a secret shows up in a text: as it is, in JSON, in a URL, in base64 at any offset, line by line."""
    raw = secret.encode()
    yield raw
    yield json.dumps(secret)[1:-1].encode()
    yield quote(secret, safe="").encode()
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + raw)
        # Cut what the neighbours of the secret in the encoded text would change.
        body = coded[(0, 2, 3)[offset] :].rstrip(b"=")[:-1]
        if len(body) >= SHORTEST_SECRET:
            yield body
    for line in secret.splitlines():
        if len(line) >= 40 and not line.startswith("-----"):
            yield line.strip().encode()


def secrets_absent(texts: Mapping[str, str | bytes], secrets: Mapping[str, str | bytes]) -> list[Violation]:
    """I8: no secret value in any text. `texts`: where -> content; `secrets`: name -> value (never put into the answer).

    Raises ValueError for a value that is too short to be looked for.
    """
    found: list[Violation] = []
    for name, value in secrets.items():
        secret = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if len(secret.strip()) < SHORTEST_SECRET:
            raise ValueError(f"secret {name} has fewer than {SHORTEST_SECRET} characters")
        forms = set(_forms(secret.strip()))
        for where, text in texts.items():
            content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
            if any(form in content for form in forms):
                found.append(Violation("I8", f"secret {name} is in {where}"))
    return found
