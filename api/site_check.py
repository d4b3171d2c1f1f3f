"""A read-only look at a site: does it answer, is it the one we pinned, and may our account do what clusters need?

Each missing privilege comes with the lines that grant it.
"""

import asyncio

from api.models.problems import Violation
from api.models.shapes import Command
from api.models.sites import Finding, MissingPrivilege, Severity, SiteReport
from api.problems import Invalid
from api.rights import proxmox_problem
from api.services import Services
from clients.proxmox import NotTrusted, ProxmoxClient, ProxmoxError, Refused, peer_fingerprint
from clients.proxmox.check import CheckLine, SiteFacts, site_check, site_facts
from clients.proxmox.check import Severity as FoundSeverity
from domain.errors import ErrorCode
from domain.sites import Site

WHERE = "a Proxmox VE node, as root"


async def looked_at(services: Services, site: Site, token_secret: str) -> SiteReport:
    """Everything that clusters need of a site. Writes nothing anywhere.

    Raises Invalid where the certificate or the token is not accepted, Away where nothing answers: then there is
    nothing to report on.
    """
    platform = services.gate.platform(site, token_secret)
    try:
        facts = await _first_contact(platform, site)
        lines = await site_check(platform, site, await services.store.templates.list(site.id))
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    finally:
        await platform.aclose()
    return SiteReport(
        site=site.name,
        ok=all(line.severity is not FoundSeverity.ERROR for line in lines),
        at=services.clock(),
        proxmox_version=facts.version,
        nodes=sorted(facts.nodes),
        findings=[_finding(line) for line in lines if not line.privilege],
        missing=[_missing(line) for line in lines if line.privilege],
    )


def _finding(line: CheckLine) -> Finding:
    return Finding(
        severity=Severity(line.severity.value),
        code=line.code,
        subject=line.subject,
        message=line.message,
        remedy=line.remedy,
        commands=[Command(where=WHERE, line=command) for command in line.commands],
    )


def _missing(line: CheckLine) -> MissingPrivilege:
    return MissingPrivilege(
        privilege=line.privilege,
        path=line.path,
        needed_for=line.needed_for,
        # One line to copy: the role gets the privilege, then our account gets the role.
        command=Command(where=WHERE, line=" && ".join(line.commands)),
    )


async def _first_contact(platform: ProxmoxClient, site: Site) -> SiteFacts:
    try:
        return await site_facts(platform)
    except NotTrusted as error:
        raise await _not_trusted(site) from error
    except Refused as error:
        raise Invalid(
            ErrorCode.TOKEN_REFUSED,
            f"Proxmox VE does not accept the API token {site.token_id}.",
            "Give its current secret; `pveum user token list` shows which tokens exist and when they end.",
            violations=[
                Violation(
                    path="token_secret", code="NotAllowed", message="is not accepted", remedy="give the current one"
                )
            ],
            raw=error.text,
        ) from error


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
        ErrorCode.CERTIFICATE_NOT_PINNED,
        f"The certificate of site {site.name} is not the one that was given: the fingerprint shown is {shown}.",
        "Compare it with `pvenode cert info` on the node itself, and give it as `fingerprint` if it is the same.",
        violations=[
            Violation(path=path, code="NotAllowed", message=f"the endpoint shows {shown}", remedy="compare them")
        ],
    )


def refused_site(violations: list[Violation]) -> Invalid:
    return Invalid(
        ErrorCode.INVALID_REQUEST,
        f"The site's settings were refused: {violations[0].path}: {violations[0].message}. Nothing was written.",
        violations[0].remedy,
        violations=violations,
    )
