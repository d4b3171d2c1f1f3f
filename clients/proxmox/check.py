"""A read-only look at a site: may our account do everything, and is everything there that clusters need?

Every finding is data: what was looked at, how it is, and the lines that mend it. The API shows it when a site is added
and on demand; nothing is written on Proxmox VE.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from clients.proxmox.client import ProxmoxClient
from clients.proxmox.errors import NotThere, ProxmoxError, Refused, RightMissing
from clients.proxmox.setup import (
    CLUSTER_PRIVILEGES,
    CLUSTER_ROLE,
    CLUSTER_STORAGE_PRIVILEGES,
    CLUSTER_STORAGE_ROLE,
    Grant,
    account_of,
    grant_line,
    grants,
    release_of,
    role_line,
)
from clients.proxmox.signin import permissions
from domain.sites import Site, Template

Row = Mapping[str, Any]

OLDEST_RELEASE = 8


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    """Clusters can be made, but something is worse than it looks."""
    ERROR = "error"
    """Clusters cannot be made."""


@dataclass(frozen=True)
class CheckLine:
    """One thing that was looked at. `privilege` and `path` are set where a privilege is missing."""

    severity: Severity
    code: str
    subject: str
    message: str
    remedy: str = ""
    commands: tuple[str, ...] = ()
    privilege: str = ""
    path: str = ""
    needed_for: str = ""


@dataclass(frozen=True)
class SiteFacts:
    """What the checks are made on."""

    version: str
    nodes: dict[str, bool]
    """Name -> online."""
    separate: bool
    """The token is privilege-separated: rights must be given to it as well as to its user."""

    @property
    def online(self) -> list[str]:
        return sorted(name for name, online in self.nodes.items() if online)


async def site_facts(client: ProxmoxClient) -> SiteFacts:
    """Version, nodes and kind of token. Raises ProxmoxError where the site does not answer or refuses our token."""
    version = str((await client.get("version")).get("version") or "")
    nodes = {str(row["node"]): row.get("status") == "online" for row in await client.get("nodes")}
    user, _, name = client.account.partition("!")
    separate = False
    if name:
        try:
            row = await client.get(f"access/users/{user}/token/{name}")
            separate = bool(int(row.get("privsep", 1)))
        except (RightMissing, NotThere):
            separate = False
    return SiteFacts(version, nodes, separate)


async def site_check(client: ProxmoxClient, site: Site, templates: Sequence[Template] = ()) -> list[CheckLine]:
    """Everything that clusters need at a site; never raises for what it finds.

    `templates` are the ones that are registered with the site.
    """
    try:
        facts = await site_facts(client)
    except Refused as error:
        text = f"Proxmox VE refuses the token {client.account}: {error.text}"
        return [_error("token", client.account, text, "Make a new token and give it to the site.")]
    except ProxmoxError as error:
        return [_error("reachable", ", ".join(site.endpoints), str(error), "Check address, port and certificate.")]
    lines = [_version(facts), *_nodes(facts)]
    for part in (
        _endpoints(client),
        _quorum(client),
        _privileges(client, site, facts),
        _roles(client),
        _pools(client, site),
        _storages(client, site, facts),
        _bridges(client, site, facts),
        _vm_ids(client, site),
        _templates(client, templates),
    ):
        try:
            lines += await part
        except ProxmoxError as error:
            lines.append(_error("check", error.path or "site", f"This could not be looked at: {error}"))
    return lines


def _ok(code: str, subject: str, message: str) -> CheckLine:
    return CheckLine(Severity.OK, code, subject, message)


def _warning(code: str, subject: str, message: str, remedy: str = "", *commands: str) -> CheckLine:
    return CheckLine(Severity.WARNING, code, subject, message, remedy, commands)


def _error(code: str, subject: str, message: str, remedy: str = "", *commands: str) -> CheckLine:
    return CheckLine(Severity.ERROR, code, subject, message, remedy, commands)


def _version(facts: SiteFacts) -> CheckLine:
    if release_of(facts.version) < OLDEST_RELEASE:
        return _error("version", "Proxmox VE", f"Version {facts.version} is too old.", "Upgrade to 8 or newer.")
    return _ok("version", "Proxmox VE", f"Version {facts.version}.")


def _nodes(facts: SiteFacts) -> Iterable[CheckLine]:
    for name, online in sorted(facts.nodes.items()):
        if online:
            yield _ok("node", name, "Online.")
        else:
            yield _warning(
                "node", name, "Offline: no machine is placed there, and none of its machines can be removed."
            )


async def _endpoints(client: ProxmoxClient) -> list[CheckLine]:
    """Each address on its own: a fail-over that was never tried is none."""
    lines = []
    for endpoint in client.endpoints:
        alone = ProxmoxClient([endpoint], client.credential, client.trust, client.timeout)
        try:
            await alone.get("version")
        except ProxmoxError as error:
            text = f"It does not answer us: {error.text}"
            lines.append(_warning("endpoint", endpoint, text, "Correct or remove this address, or its pin."))
        else:
            lines.append(_ok("endpoint", endpoint, "Answers with the pinned certificate."))
        finally:
            await alone.aclose()
    return lines


async def _quorum(client: ProxmoxClient) -> list[CheckLine]:
    try:
        rows = await client.get("cluster/status")
    except RightMissing:
        return []  # named among the privileges
    row = next((row for row in rows if row.get("type") == "cluster"), None)
    if row is None:
        return [_ok("quorum", "stand-alone node", "One node without a datacenter around it.")]
    if not int(row.get("quorate") or 0):
        return [_error("quorum", str(row.get("name")), "No quorum: nothing can be written.", "Bring its nodes back.")]
    return [_ok("quorum", str(row.get("name")), "The datacenter is quorate.")]


async def _privileges(client: ProxmoxClient, site: Site, facts: SiteFacts) -> list[CheckLine]:
    lines = []
    for grant in grants(site, facts.version):
        held = (await permissions(client, grant.path)).get(grant.path, {})
        # the value is only the propagate flag: 0 still means held
        missing = [privilege for privilege in grant.privileges if privilege not in held]
        if not missing:
            lines.append(_ok("privileges", grant.path, f"Everything for {grant.needed_for}."))
        lines += [_missing(privilege, grant, site, facts) for privilege in missing]
    return lines


def _missing(privilege: str, grant: Grant, site: Site, facts: SiteFacts) -> CheckLine:
    return CheckLine(
        Severity.ERROR,
        "privilege",
        grant.path,
        f"{account_of(site.token_id)} lacks {privilege} on {grant.path}; it is needed for {grant.needed_for}.",
        "Run this on Proxmox VE.",
        (
            role_line(grant.role, grant.privileges, known=None),
            grant_line(grant, site.token_id, separate=facts.separate),
        ),
        privilege,
        grant.path,
        grant.needed_for,
    )


async def _roles(client: ProxmoxClient) -> list[CheckLine]:
    lines = []
    wanted = {CLUSTER_ROLE: CLUSTER_PRIVILEGES, CLUSTER_STORAGE_ROLE: CLUSTER_STORAGE_PRIVILEGES}
    for role, privileges in wanted.items():
        try:
            have = set(await client.get(f"access/roles/{role}"))
        except NotThere:
            text = "This role of the clusters' own accounts does not exist."
            lines.append(_error("role", role, text, "Run this on Proxmox VE.", role_line(role, privileges)))
            continue
        if set(privileges) - have:
            text = f"It lacks {', '.join(sorted(set(privileges) - have))}."
            line = role_line(role, privileges, known=True)
            lines.append(_error("role", role, text, "Run this on Proxmox VE.", line))
        elif have - set(privileges):
            text = f"It holds more than the clusters' accounts need: {', '.join(sorted(have - set(privileges)))}."
            lines.append(_warning("role", role, text, "Take them away.", role_line(role, privileges, known=True)))
        else:
            lines.append(_ok("role", role, "Exactly what the clusters' accounts need."))
    return lines


async def _pools(client: ProxmoxClient, site: Site) -> list[CheckLine]:
    lines = []
    for pool, what in ((site.workload_pool, "workload"), (site.template_pool, "template")):
        try:
            await client.get("pools", poolid=pool)
        except NotThere:
            text = f"The {what} pool does not exist."
            lines.append(_error("pool", pool, text, "Run this on Proxmox VE.", f"pveum pool add {pool}"))
        except RightMissing:
            continue  # named among the privileges
        else:
            lines.append(_ok("pool", pool, f"The {what} pool is there."))
    if site.workload_pool.count("/") > 1:
        text = "The workload pool has three levels already; a cluster's own pool would be the fourth."
        lines.append(_error("pool", site.workload_pool, text, "Choose a workload pool of at most two levels."))
    return lines


async def _storages(client: ProxmoxClient, site: Site, facts: SiteFacts) -> list[CheckLine]:
    seen: dict[str, dict[str, Row]] = {}
    for node in facts.online:
        for row in await client.get(f"nodes/{node}/storage"):
            seen.setdefault(str(row["storage"]), {})[node] = row
    lines = []
    wanted = [(name, "images", "disks") for name in site.storages] + [(site.iso_storage, "iso", "boot ISOs")]
    for name, content, what in wanted:
        rows = seen.get(name, {})
        usable = [node for node, row in rows.items() if content in str(row.get("content") or "").split(",")]
        active = [
            node for node in usable if int(row_flag(rows[node], "active")) and int(row_flag(rows[node], "enabled"))
        ]
        if not rows:
            text = "Our account sees no such storage on any node."
            lines.append(_error("storage", name, text, "Correct its name, or grant the privileges named here."))
        elif not usable:
            text = f"It is not set up for {what} (content type `{content}`)."
            have = str(next(iter(rows.values())).get("content") or "")
            command = f"pvesm set {name} --content {','.join(filter(None, [have, content]))}"
            lines.append(_error("storage", name, text, "Run this on Proxmox VE.", command))
        elif set(facts.online) - set(active):
            text = f"Not usable on {', '.join(sorted(set(facts.online) - set(active)))}: no machine is placed there."
            lines.append(_warning("storage", name, text))
        else:
            kind = "shared" if int(rows[active[0]].get("shared") or 0) else "local to each node"
            lines.append(_ok("storage", name, f"Takes {what} on every node that is online; {kind}."))
    return lines


def row_flag(row: Row, key: str) -> int:
    """A flag of a storage row; what an older release leaves out counts as set."""
    value = row.get(key)
    return 1 if value is None else int(value)


async def _bridges(client: ProxmoxClient, site: Site, facts: SiteFacts) -> list[CheckLine]:
    have: dict[str, set[str]] = {}
    for node in facts.online:
        rows = await client.get(f"nodes/{node}/network", type="any_bridge")
        have[node] = {str(row.get("iface")) for row in rows}
    lines = []
    for bridge in site.bridges:
        without = sorted(node for node, bridges in have.items() if bridge not in bridges)
        if len(without) == len(have):
            text = "No node that is online shows this bridge to our account."
            lines.append(_error("bridge", bridge, text, "Correct its name, or grant SDN.Use on it."))
        elif without:
            lines.append(_warning("bridge", bridge, f"Not on {', '.join(without)}: no machine is placed there."))
        else:
            lines.append(_ok("bridge", bridge, "On every node that is online."))
    return lines


async def _vm_ids(client: ProxmoxClient, site: Site) -> list[CheckLine]:
    span = f"{site.vmid_first}-{site.vmid_last}"
    if site.vmid_first > site.vmid_last:
        return [_error("vm-ids", span, "The range is empty.", "Give a range whose end is not below its start.")]
    rows = await client.get("cluster/resources", type="vm")
    inside = [row for row in rows if site.vmid_first <= int(row["vmid"]) <= site.vmid_last]
    strange = [row for row in inside if not str(row.get("pool") or "").startswith(f"{site.workload_pool}/")]
    if strange:
        shown = ", ".join(str(row["vmid"]) for row in strange[:5])
        text = f"{len(strange)} machines of others have ids of our range ({shown}). Their ids are left out."
        return [_warning("vm-ids", span, text, "Choose a range of its own where that is easy.")]
    options = await client.get("cluster/options")
    automatic = options.get("next-id") if isinstance(options, dict) else None
    if isinstance(automatic, dict) and automatic.get("lower") and automatic.get("upper"):
        low, high = int(automatic["lower"]), int(automatic["upper"])
        if low <= site.vmid_last and site.vmid_first < high:
            text = f"Proxmox VE hands out ids of {low}-{high - 1} by itself, which meet ours."
            return [_warning("vm-ids", span, text, "Choose a range outside of it.")]
    return [_ok("vm-ids", span, "Nobody else uses this range.")]


async def _templates(client: ProxmoxClient, templates: Sequence[Template]) -> list[CheckLine]:
    if not templates:
        text = "No template is registered yet."
        return [_warning("template", "none", text, "Make one (docs/guide) and register it with `template add`.")]
    rows = {int(row["vmid"]): row for row in await client.get("cluster/resources", type="vm")}
    return [
        await _template(client, template, vmid, rows.get(vmid))
        for template in templates
        for vmid in sorted(set(template.nodes.values()))
    ]


async def _template(client: ProxmoxClient, template: Template, vmid: int, row: Row | None) -> CheckLine:
    subject = f"{template.distribution} {template.version} (VM {vmid})"
    if row is None:
        return _error("template", subject, "It is not there, or our account cannot see it.", "Register it again.")
    if not int(row.get("template") or 0):
        remedy = "Run this on its node."
        return _error("template", subject, "This VM is not a template.", remedy, f"qm template {vmid}")
    config = await client.get(f"nodes/{row['node']}/qemu/{vmid}/config")
    cloud_drives = [key for key, value in config.items() if isinstance(value, str) and "cloudinit" in value]
    if cloud_drives:
        text = f"It has a cloud-init drive ({cloud_drives[0]}), which competes with our boot ISO; clones lose it."
        return _warning("template", subject, text)
    if not str(config.get("agent") or "").startswith(("1", "enabled=1")):
        return _warning("template", subject, "Its guest agent is switched off; it is switched on in every clone.")
    return _ok("template", subject, f"On node {row['node']}.")
