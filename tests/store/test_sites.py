"""Sites and templates."""

import asyncio

import pytest

from domain.clusters import Distribution
from domain.machines import Phase
from domain.sites import Site, Template
from store import AlreadyExists, Conflict, InUse, NotFound, Store
from tests.store.builders import draft, site, spec
from tests.store.conftest import Clock

V = "v1.36.5+k3s1"


def template(id: str, nodes: dict[str, int], **fields: object) -> Template:
    return Template.model_validate(
        {"id": id, "site_id": "site-lab", "distribution": Distribution.K3S, "version": V, "nodes": nodes} | fields
    )


async def test_sites(store: Store, clock: Clock) -> None:
    made = await store.sites.add(site(region="north", fingerprint="AA:BB"))
    assert (made.version, made.created_at) == (1, clock.now)
    assert await store.sites.get("site-lab") == made
    assert await store.sites.find("lab") == made
    assert await store.sites.find("none") is None
    await store.sites.add(site("alps"))
    assert [found.name for found in await store.sites.list()] == ["alps", "lab"]
    with pytest.raises(AlreadyExists) as error:
        await store.sites.add(site("lab", id="other"))
    assert error.value.existing_id == "site-lab"
    with pytest.raises(AlreadyExists):
        await store.sites.update(site("lab", id="site-alps"), 1)


async def test_of_two_edits_from_one_version_one_wins(store: Store, another: Store) -> None:
    await store.sites.add(site())
    edits = [where.sites.update(site(region=f"r{n}"), 1) for n, where in enumerate((store, another) * 5)]
    done = await asyncio.gather(*edits, return_exceptions=True)
    (winner,) = [made for made in done if isinstance(made, Site)]
    assert len([made for made in done if isinstance(made, Conflict)]) == 9
    assert await store.sites.get("site-lab") == winner
    assert winner.version == 2
    with pytest.raises(NotFound):
        await store.sites.update(site("none"), 1)


async def test_a_site_in_use_stays(store: Store) -> None:
    await store.sites.add(site())
    await store.secrets.put("site/site-lab", "token", b"x")
    made = await store.clusters.create(spec(), "site-lab", "ada")
    await store.templates.add(template("t1", {"pve1": 9002}))
    with pytest.raises(InUse, match=r"cluster clusters/prod, template k3s v1\.36\.5\+k3s1"):
        await store.sites.remove("site-lab")
    await store.templates.remove("t1")
    await store.clusters.request_deletion(made.id, "ada")
    await store.clusters.forget(made.id)
    await store.sites.remove("site-lab")
    assert await store.sites.list() == []
    assert not await store.secrets.has("site/site-lab", "token")
    with pytest.raises(NotFound):
        await store.sites.remove("site-lab")
    await store.sites.add(site("lab", id="again"))


async def test_a_new_range_keeps_the_sequence_going(store: Store) -> None:
    await store.sites.add(site(vmid_first=500, vmid_last=509))
    made = await store.clusters.create(spec(), "site-lab", "ada")
    await store.machines.reserve(made.id, [draft(), draft()])
    await store.sites.update(site(vmid_first=400, vmid_last=600), 1)
    assert (await store.machines.reserve(made.id, [draft()]))[0].vmid == 502
    await store.sites.update(site(vmid_first=700, vmid_last=800), 2)
    assert (await store.machines.reserve(made.id, [draft()]))[0].vmid == 700


async def test_templates(store: Store) -> None:
    await store.sites.add(site(vmid_first=9011, vmid_last=9020))
    local = await store.templates.add(template("local", {"pve1": 9011, "pve2": 9012}))
    shared = await store.templates.add(template("shared", {"pve1": 9002}, shared=True))
    assert await store.templates.get("local") == local
    assert await store.templates.list("site-lab") == [local, shared]
    assert await store.templates.list() == [local, shared]
    assert await store.templates.find("site-lab", Distribution.K3S, V) == shared
    assert await store.templates.find_all("site-lab", Distribution.K3S, V) == [shared, local]
    assert await store.templates.find("site-lab", Distribution.RKE2, V) is None
    with pytest.raises(AlreadyExists) as error:
        await store.templates.add(template("more", {"pve3": 9012}))
    assert error.value.existing_id == "local"
    with pytest.raises(NotFound):
        await store.templates.get("none")
    with pytest.raises(NotFound):
        await store.templates.add(template("more", {"pve3": 1}, site_id="none"))

    made = await store.clusters.create(spec(), "site-lab", "ada")
    (machine,) = await store.machines.reserve(made.id, [draft("prod-1")])
    assert machine.vmid == 9013
    await store.machines.advance(machine.id, Phase.PLACED, node="pve1", template_vmid=9011)
    with pytest.raises(InUse, match="prod-1"):
        await store.templates.remove("local")
    await store.templates.remove("shared")
    await store.machines.advance(machine.id, Phase.CLONED)
    await store.templates.remove("local")
    assert await store.templates.list("site-lab") == []
