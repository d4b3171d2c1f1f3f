"""A read-only look at a site: does it answer, is it the one we pinned, and may our account do what clusters need?

Each missing privilege comes with the lines that grant it.
"""

import asyncio
from dataclasses import dataclass, field

from api.gate import Platform
from api.models.problems import Violation
from api.models.shapes import Command
from api.models.sites import Finding, MissingPrivilege, Severity, SiteReport
from api.problems import Invalid
from api.rights import proxmox_problem
from api.services import Services
from clients.proxmox import NotTrusted, ProxmoxError, Refused, peer_fingerprint
from clients.proxmox.setup import (
    CLUSTER_PRIVILEGES,
    CLUSTER_ROLE,
    CLUSTER_STORAGE_PRIVILEGES,
    CLUSTER_STORAGE_ROLE,
    Grant,
    grant_line,
    grants,
    role_line,
)
from domain.sites import Site

WHERE = "a Proxmox VE node, as root"


@dataclass
class _Look:
    """What has been found so far."""

    site: Site
    findings: list[Finding] = field(default_factory=list)
    missing: list[MissingPrivilege] = field(default_factory=list)

    def ok(self, code: str, subject: str, message: str) -> None:
        self.findings.append(Finding(severity=Severity.OK, code=code, subject=subject, message=message))

    def bad(
        self, code: str, subject: str, message: str, remedy: str, *lines: str, severity: Severity = Severity.ERROR
    ) -> None:
        commands = [Command(where=WHERE, line=line) for line in lines]
        self.findings.append(
            Finding(severity=severity, code=code, subject=subject, message=message, remedy=remedy, commands=commands)
        )


async def looked_at(services: Services, site: Site, token_secret: str) -> SiteReport:
    """Everything that clusters need of a site. Writes nothing anywhere.

    Raises Invalid where the certificate or the token is not accepted, Away where nothing answers: then there is
    nothing to report on.
    """
    platform = services.gate.platform(site, token_secret)
    look = _Look(site)
    try:
        version = await _first_contact(platform, site)
        look.ok("reached", site.name, f"Proxmox VE {version} answers")
        nodes = await _nodes(platform, look)
        await _privileges(platform, look, version)
        await _roles(platform, look)
        await _things(platform, look, nodes)
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    finally:
        await platform.aclose()
    return SiteReport(
        site=site.name,
        ok=not look.missing and all(one.severity is not Severity.ERROR for one in look.findings),
        at=services.clock(),
        proxmox_version=version,
        nodes=nodes,
        findings=look.findings,
        missing=look.missing,
    )


async def _first_contact(platform: Platform, site: Site) -> str:
    try:
        answer = await platform.get("version")
    except NotTrusted as error:
        raise await _not_trusted(site) from error
    except Refused as error:
        raise Invalid(
            "token-refused",
            f"Proxmox VE does not accept the API token {site.token_id}.",
            "Give its current secret; `pveum user token list` shows which tokens exist and when they end.",
            violations=[
                Violation(
                    path="token_secret", code="NotAllowed", message="is not accepted", remedy="give the current one"
                )
            ],
            raw=error.text,
        ) from error
    return str(answer.get("version", ""))


async def _not_trusted(site: Site) -> Invalid:
    """Shows the certificate that is there, for a person to compare: never one that we would take by ourselves."""
    shown = "it could not be read"
    for endpoint in site.endpoints:
        try:
            shown = await asyncio.to_thread(peer_fingerprint, endpoint)
            break
        except (ProxmoxError, ValueError):
            continue
    path = "ca" if site.ca else "fingerprint"
    return Invalid(
        "certificate-not-pinned",
        f"The certificate of site {site.name} is not the one that was given: the fingerprint shown is {shown}.",
        "Compare it with `pvenode cert info` on the node itself, and give it as `fingerprint` if it is the same.",
        violations=[
            Violation(path=path, code="NotAllowed", message=f"the endpoint shows {shown}", remedy="compare them")
        ],
    )


async def _nodes(platform: Platform, look: _Look) -> list[str]:
    rows = await platform.get("nodes")
    for row in rows:
        if row.get("status") != "online":
            look.bad(
                "node-offline",
                str(row["node"]),
                "this node is offline",
                "Machines are placed on the others; deleting a cluster waits for it.",
                severity=Severity.WARNING,
            )
    return sorted(str(row["node"]) for row in rows)


async def _privileges(platform: Platform, look: _Look, version: str) -> None:
    wanted = grants(look.site, version)
    for grant in wanted:
        answer = await platform.get("access/permissions", path=grant.path)
        held = set(answer.get(grant.path, {}))
        lacking = [privilege for privilege in grant.privileges if privilege not in held]
        look.missing.extend(_missing(look.site, grant, privilege) for privilege in lacking)
        if not lacking:
            look.ok("privileges", grant.path, f"our account may do what it must here: {grant.needed_for}")


def _missing(site: Site, grant: Grant, privilege: str) -> MissingPrivilege:
    line = f"{role_line(grant.role, grant.privileges)} || {role_line(grant.role, grant.privileges, known=True)}"
    return MissingPrivilege(
        privilege=privilege,
        path=grant.path,
        needed_for=grant.needed_for,
        command=Command(where=WHERE, line=f"{line}; {grant_line(grant, site.token_id)}"),
    )


async def _roles(platform: Platform, look: _Look) -> None:
    """The roles that the clusters' own accounts get. Our account cannot make them itself."""
    roles = {
        str(row["roleid"]): set(str(row.get("privs", "")).split(",")) for row in await platform.get("access/roles")
    }
    for role, privileges in ((CLUSTER_ROLE, CLUSTER_PRIVILEGES), (CLUSTER_STORAGE_ROLE, CLUSTER_STORAGE_PRIVILEGES)):
        if role not in roles:
            look.bad("role-missing", role, "this role does not exist", "Make it.", role_line(role, privileges))
        elif roles[role] != set(privileges):
            line = role_line(role, privileges, known=True)
            look.bad("role-differs", role, "this role does not hold what it must, or more", "Set it.", line)
        else:
            look.ok("role", role, "exists with the right privileges")


async def _things(platform: Platform, look: _Look, nodes: list[str]) -> None:
    """Storages, bridges and pools: whether they exist where they are needed."""
    site = look.site
    storages = {str(row["storage"]): row for row in await platform.get("storage")}
    for name in dict.fromkeys((*site.storages, site.iso_storage)):
        wanted = [kind for kind, uses in (("images", name in site.storages), ("iso", name == site.iso_storage)) if uses]
        contents = str(storages.get(name, {}).get("content", "")).split(",")
        if name not in storages:
            look.bad(
                "storage-missing",
                name,
                "there is no storage of this name, or our account may not see it",
                "Correct it.",
            )
        elif lacking := [kind for kind in wanted if kind not in contents]:
            line = f"pvesm set {name} --content {','.join(dict.fromkeys((*filter(None, contents), *lacking)))}"
            look.bad("storage-content", name, f"takes no {', '.join(lacking)}", "Let it take them.", line)
        else:
            look.ok("storage", name, f"takes {', '.join(wanted)}")
    for pool in (site.workload_pool, site.template_pool):
        try:
            await platform.get("pools", poolid=pool)
            look.ok("pool", pool, "exists")
        except ProxmoxError as error:
            look.bad("pool-missing", pool, f"cannot be read: {error.text}", "Make it.", f"pveum pool add {pool}")
    for node in nodes:
        await _bridges(platform, look, node)


async def _bridges(platform: Platform, look: _Look, node: str) -> None:
    try:
        rows = await platform.get(f"nodes/{node}/network", type="any_bridge")
    except ProxmoxError:
        # An offline node answers nothing; it was named above.
        return
    names = {str(row["iface"]) for row in rows}
    for bridge in look.site.bridges:
        if bridge not in names:
            look.bad(
                "bridge-missing",
                f"{bridge} on {node}",
                "there is no such bridge on this node",
                "Make it, or leave it out.",
            )


def refused_site(violations: list[Violation]) -> Invalid:
    return Invalid(
        "invalid-site",
        f"The site's settings were refused: {violations[0].path}: {violations[0].message}. Nothing was written.",
        violations[0].remedy,
        violations=violations,
    )
