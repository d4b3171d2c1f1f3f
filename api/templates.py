"""VM templates registered with a site."""

import uuid

from fastapi import APIRouter, Depends, Response

from api.access import AtSite, NeedsSite, Right, not_found
from api.idempotency import Answer, IdempotencyKey, once
from api.models.problems import Violation
from api.models.sites import NewTemplate, TemplateList
from api.models.sites import Template as ShownTemplate
from api.problems import Conflicting, Invalid
from api.rights import proxmox_problem
from api.services import Services
from clients.proxmox import NotThere, ProxmoxError
from clients.proxmox import RightMissing as ProxmoxRightMissing
from domain.clusters import Distribution
from domain.errors import ErrorCode
from domain.sites import Site, Template
from domain.versions import Version
from store import AlreadyExists, InUse, NotFound

router = APIRouter(prefix="/sites/{site}/templates", tags=["templates"])
TOKEN = "token"  # noqa: S105 - the name of the secret in the scope `site/<id>`


@router.get("")
async def list_templates(caller: AtSite = Depends(NeedsSite(Right.SEE_SITE))) -> TemplateList:
    """The templates of a site."""
    found = await caller.services.store.templates.list(caller.site.id)
    return TemplateList(items=[_shown(caller.site, one) for one in found], total=len(found))


@router.post("", status_code=201, response_model=ShownTemplate)
async def register_template(
    body: NewTemplate, key: IdempotencyKey = None, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> Response:
    """Registers a template after looking at its VMs: they must exist on those nodes and be templates."""
    services, site = caller.services, caller.site

    async def work() -> Answer:
        template = Template(id=str(uuid.uuid4()), site_id=site.id, **body.model_dump())
        if wrong := [*_form(template), *await _vms(services, site, template)]:
            raise Invalid(
                ErrorCode.INVALID_REQUEST,
                f"The template was refused: {wrong[0].path}: {wrong[0].message}. Nothing was written.",
                wrong[0].remedy,
                violations=wrong,
            )
        try:
            kept = await services.store.templates.add(template)
        except AlreadyExists as error:
            raise Conflicting(ErrorCode.ALREADY_EXISTS, f"{error}.", "Remove that registration first.") from error
        await _record(caller, kept, "template.register")
        return 201, _shown(site, kept)

    return await once(caller, key, body.model_dump_json(), work)


@router.delete("/{distribution}/{version}", status_code=204)
async def remove_template(
    distribution: Distribution, version: str, caller: AtSite = Depends(NeedsSite(Right.ADMINISTER_SITE))
) -> None:
    """Forgets the templates of a version; refused while machines are being cloned from one. The VMs stay."""
    store = caller.services.store
    found = await store.templates.find_all(caller.site.id, distribution, version)
    if not found:
        raise not_found()
    for template in found:
        try:
            await store.templates.remove(template.id)
        except InUse as error:
            raise Conflicting(ErrorCode.IN_USE, f"The {error.what}.", "Wait until that is done.") from error
        except NotFound:
            # Somebody else removed it in this moment: what was wanted is so.
            continue
        await _record(caller, template, "template.remove")


def _form(template: Template) -> list[Violation]:
    try:
        version = Version.parse(template.version)
    except ValueError as error:
        return [Violation(path="version", code="Malformed", message=str(error), remedy="for example v1.36.5+rke2r1")]
    if version.distribution is not template.distribution:
        message = f"{template.version} is a version of {version.distribution}"
        return [Violation(path="version", code="Conflicts", message=message, remedy="correct one of the two")]
    if template.shared and len(template.nodes) != 1:
        message = "a template on shared storage exists once"
        return [Violation(path="nodes", code="Conflicts", message=message, remedy="name one node, or drop `shared`")]
    return []


async def _vms(services: Services, site: Site, template: Template) -> list[Violation]:
    """Looks at each VM with our own account."""
    try:
        secret = (await services.store.secrets.get(f"site/{site.id}", TOKEN)).decode()
    except NotFound:
        raise Conflicting(
            ErrorCode.CONFLICT, f"Site {site.name} has no token secret.", "Give it one: rotate its token."
        ) from None
    platform = services.gate.platform(site, secret)
    wrong: list[Violation] = []
    try:
        for node, vmid in template.nodes.items():
            path = f"nodes.{node}"
            try:
                config = await platform.get(f"nodes/{node}/qemu/{vmid}/config")
            except (NotThere, ProxmoxRightMissing) as error:
                remedy = f"put it into the pool {site.template_pool}, or correct node and VM id"
                message = f"VM {vmid} cannot be read on {node}: {error.text}"
                wrong.append(Violation(path=path, code="NotAvailable", message=message, remedy=remedy))
                continue
            if int(config.get("template") or 0) != 1:
                message, remedy = f"VM {vmid} is not a template", f"make it one: qm template {vmid}"
                wrong.append(Violation(path=path, code="NotAvailable", message=message, remedy=remedy))
    except ProxmoxError as error:
        raise proxmox_problem(error, site) from error
    finally:
        await platform.aclose()
    return wrong


def _shown(site: Site, template: Template) -> ShownTemplate:
    return ShownTemplate(site=site.name, **template.model_dump(exclude={"id", "site_id"}))


async def _record(caller: AtSite, template: Template, action: str) -> None:
    await caller.services.store.audit.record(
        caller.person.known_as,
        caller.site.token_id,
        action,
        f"site/{caller.site.name}",
        "done",
        {"distribution": template.distribution.value, "version": template.version, "nodes": template.nodes},
        caller.source,
    )
