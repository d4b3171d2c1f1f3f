"""Creating, applying, listing, deleting clusters, and taking a kubeconfig: what is written, told and recorded."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509

from domain.clusters import ClusterStatus
from domain.conditions import ConditionType, Reason
from store import StoreUnavailable
from tests.api.test_rights import EDGE, NEW, PROD
from tests.api.world import LOCAL, World
from tests.domain.manifests import edge, prod


async def test_a_create_is_written_told_and_recorded(world: World) -> None:
    answer = await world.person("dev@pve").post("/clusters", json=NEW)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert (body["changed"], body["started"]) == (True, True)
    cluster = body["cluster"]
    assert (cluster["status"], cluster["created_by"], cluster["pending"]) == ("Provisioning", "dev@pve", True)
    assert cluster["pool"] == "trilithon/clusters.fresh"
    assert world.engine.poked == [cluster["id"]]
    entry = (await world.person(LOCAL).get("/audit?action=cluster.create")).json()["items"][0]
    assert (entry["actor"], entry["acting_as"]) == ("dev@pve", world.lab.token_id)
    assert entry["object"] == "cluster/clusters/fresh"
    revision = (await world.person("dev@pve").get("/clusters/clusters/fresh/revisions")).json()["items"][0]
    assert (revision["number"], revision["author"]) == (1, "dev@pve")


async def test_with_the_engine_away_a_create_waits_in_the_store(world: World) -> None:
    world.engine.away = True
    answer = await world.person("dev@pve").post("/clusters", json=NEW)
    assert answer.status_code == 202
    assert answer.json()["started"] is False
    conditions = (await world.person("dev@pve").get("/clusters/clusters/fresh/conditions")).json()["items"]
    pending = next(one for one in conditions if one["type"] == ConditionType.JOB_PENDING)
    assert (pending["status"], pending["reason"], pending["worth_a_look"]) == (True, Reason.ENGINE_AWAY, True)
    row = next(
        row for row in (await world.person("dev@pve").get("/clusters")).json()["items"] if row["name"] == "fresh"
    )
    assert "Temporal" in row["message"]


async def test_fifty_creates_at_once_make_one_cluster(world: World) -> None:
    person = world.person("dev@pve")
    answers = await asyncio.gather(*(person.post("/clusters", json=NEW) for _ in range(50)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201] + [409] * 49
    assert all(one.json()["code"] == "already-exists" for one in answers if one.status_code == 409)
    assert len(await world.store.clusters.all_living()) == 3


async def test_the_same_key_is_the_same_create(world: World) -> None:
    person = world.person("dev@pve")
    headers = {"Idempotency-Key": "a-key-of-mine"}
    first = await person.post("/clusters", json=NEW, headers=headers)
    second = await person.post("/clusters", json=NEW, headers=headers)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert second.headers["idempotency-replayed"] == "true"
    other = await person.post("/clusters", json=edge(), headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-reused")
    assert len(await world.store.clusters.all_living()) == 3


async def test_the_key_of_another_person_is_another_key(world: World) -> None:
    headers = {"Idempotency-Key": "a-key-of-mine"}
    assert (await world.person("dev@pve").post("/clusters", json=NEW, headers=headers)).status_code == 201
    assert (await world.person("admin@pve").post("/clusters", json=NEW, headers=headers)).status_code == 409


async def test_what_was_refused_may_be_mended_and_sent_again(world: World) -> None:
    person = world.person("dev@pve")
    headers = {"Idempotency-Key": "a-key-of-mine"}
    assert (await person.post("/clusters", json=prod(), headers=headers)).status_code in (409, 422)
    await world.store.clusters.request_deletion((await world.store.clusters.all_living())[0].id, "x")
    assert (await person.post("/clusters", json=NEW, headers=headers)).status_code == 201


async def test_an_address_of_another_cluster_is_refused(world: World) -> None:
    document = yaml.safe_load(yaml.safe_dump(NEW))
    document["spec"]["topology"]["variables"][0]["value"] = "127.80.1.50"
    answer = await world.person("dev@pve").post("/clusters", json=document)
    assert answer.status_code == 422
    assert any(one["code"] == "InUse" for one in answer.json()["violations"])


async def test_an_unseen_neighbour_is_not_named(world: World) -> None:
    """The address is refused, but whose it is stays unsaid."""
    document = yaml.safe_load(yaml.safe_dump(NEW))
    document["spec"]["topology"]["variables"][0]["value"] = "127.80.2.50"

    async def sees_nothing(*_: Any) -> Any:
        from api.sight import Seen

        return Seen()

    world.services.sight.clusters = sees_nothing  # type: ignore[method-assign]
    answer = await world.person("dev@pve").post("/clusters", json=document)
    assert answer.status_code == 422
    assert "edge" not in answer.text


async def test_a_site_of_another_name_is_refused(world: World) -> None:
    document = yaml.safe_load(yaml.safe_dump(NEW))
    document["metadata"]["annotations"] = {"trilithon.dev/site": "elsewhere"}
    answer = await world.person("dev@pve").post("/clusters", json=document)
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["violations"]] == ["metadata.annotations[trilithon.dev/site]"]
    document["metadata"]["annotations"] = {"trilithon.dev/site": "lab"}
    assert (await world.person("dev@pve").post("/clusters", json=document)).status_code == 201


async def test_a_change_of_an_existing_cluster_is_named_as_not_built(world: World) -> None:
    document = prod()
    document["spec"]["topology"]["workers"]["machineDeployments"][0]["replicas"] = 5
    answer = await world.person("dev@pve").put(PROD, json=document)
    assert (answer.status_code, answer.json()["code"]) == (501, "not-built")
    assert "pools" in answer.json()["detail"]
    cluster = await world.store.clusters.find("clusters", "prod")
    assert cluster is not None
    assert (cluster.generation, cluster.spec.workers) == (1, 3)


async def test_the_address_and_the_manifest_must_agree(world: World) -> None:
    answer = await world.person("dev@pve").put("/clusters/clusters/other", json=NEW)
    assert answer.status_code == 422
    assert [one["path"] for one in answer.json()["violations"]] == ["metadata.name"]
    assert len(await world.store.clusters.all_living()) == 2


@pytest.mark.parametrize("given", [None, "", "prot", "PROD", "clusters/prod"])
async def test_a_delete_without_the_name_deletes_nothing(world: World, given: str | None) -> None:
    params = {} if given is None else {"confirm": given}
    answer = await world.person("admin@pve").delete(PROD, params=params)
    assert (answer.status_code, answer.json()["code"]) == (422, "name-not-confirmed")
    cluster = await world.store.clusters.find("clusters", "prod")
    assert cluster is not None
    assert not cluster.deleting


async def test_a_delete_is_written_once_and_told_each_time(world: World) -> None:
    person = world.person("owner@pve")
    first = (await person.call("DELETE", PROD, json={"confirm": "prod"})).json()
    second = (await person.delete(f"{PROD}?confirm=prod")).json()
    assert (first["changed"], second["changed"]) == (True, False)
    assert first["cluster"]["status"] == second["cluster"]["status"] == "Deleting"
    assert first["cluster"]["generation"] == second["cluster"]["generation"] == 2
    assert len(world.engine.poked) == 2
    _, total = await world.store.audit.page(action="cluster.delete")
    assert total == 1
    may = second["cluster"]["may"]
    assert may["change"] == {"allowed": False, "missing": None, "reason": "The cluster is being deleted."}
    assert (await person.put(PROD, json=prod())).status_code == 409


async def test_the_kubeconfig_is_short_lived_named_and_recorded(world: World) -> None:
    answer = await world.person("owner@pve").post(f"{PROD}/kubeconfig")
    assert answer.status_code == 200
    assert answer.headers["content-disposition"] == 'attachment; filename="prod.kubeconfig"'
    assert answer.headers["cache-control"] == "no-store"
    config = yaml.safe_load(answer.text)
    assert config["clusters"][0]["cluster"]["server"] == "https://127.80.1.50:6443"
    pem = base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
    certificate = x509.load_pem_x509_certificate(pem)
    assert "owner@pve" in certificate.subject.rfc4514_string()
    assert certificate.not_valid_after_utc - datetime.now(UTC) < timedelta(hours=13)
    entry = (await world.person(LOCAL).get("/audit?action=cluster.kubeconfig")).json()["items"][0]
    assert (entry["actor"], entry["object"]) == ("owner@pve", "cluster/clusters/prod")
    key = config["users"][0]["user"]["client-key-data"]
    assert key not in (await world.person(LOCAL).get("/audit")).text


async def test_a_refused_kubeconfig_is_not_in_the_audit_as_given(world: World) -> None:
    await world.person("dev@pve").post(f"{PROD}/kubeconfig")
    assert await world.store.audit.page(action="cluster.kubeconfig") == ([], 0)


async def test_lists_are_filtered_sorted_and_paged_by_the_server(world: World) -> None:
    person = world.person("dev@pve")

    async def names(query: str) -> tuple[list[str], int, int]:
        page = (await person.get(f"/clusters?{query}")).json()
        return [row["name"] for row in page["items"]], page["total"], page["unfiltered_total"]

    assert await names("") == (["edge", "prod"], 2, 2)
    assert await names("sort=-name") == (["prod", "edge"], 2, 2)
    assert await names("limit=1&offset=1") == (["prod"], 2, 2)
    assert await names("text=pro") == (["prod"], 1, 2)
    assert await names("text=nothing") == ([], 0, 2)
    assert await names(f"status={ClusterStatus.AVAILABLE.value}") == (["prod"], 1, 2)
    assert (await person.get("/clusters?sort=secret")).status_code == 422


async def test_a_row_counts_what_is_ready(world: World) -> None:
    row = (await world.person("dev@pve").get("/clusters?text=prod")).json()["items"][0]
    assert row["control_plane"] == {"ready": 0, "wanted": 3}
    assert row["workers"] == {"ready": 0, "wanted": 3}
    assert (row["site"], row["distribution"], row["version"]) == ("lab", "rke2", "v1.36.5+rke2r1")


async def test_a_pool_closed_to_one_person_is_hidden_although_its_ancestor_is_open(world: World) -> None:
    """NoAccess on one pool: Proxmox VE leaves such a path out of its list, as it leaves out a pool without an ACL."""
    person = world.person("dev@pve")
    permissions = world.services.gate.permissions

    async def closed(site: Any, ticket: Any, path: str | None = None) -> Any:
        answer = dict(await permissions(site, ticket, path))
        answer.pop("/pool/trilithon/clusters.prod", None)
        return answer

    world.services.gate.permissions = closed  # type: ignore[method-assign]
    assert [row["name"] for row in (await person.get("/clusters")).json()["items"]] == ["edge"]
    assert (await person.get(PROD)).status_code == 404
    assert [row["id"] for row in (await person.get("/jobs")).json()["items"]] == ["job-parked"]


async def test_new_clusters_appear_in_the_list_and_deleted_ones_leave_it(world: World) -> None:
    person = world.person("admin@pve")
    assert len((await person.get("/clusters")).json()["items"]) == 2
    await person.post("/clusters", json=NEW)
    assert len((await person.get("/clusters")).json()["items"]) == 3
    made = await world.store.clusters.find("clusters", "fresh")
    assert made is not None
    await world.store.clusters.request_deletion(made.id, "admin@pve")
    await world.store.clusters.forget(made.id)
    assert len((await person.get("/clusters")).json()["items"]) == 2


async def test_with_proxmox_away_reads_go_on_and_changes_do_not(world: World) -> None:
    person = world.person("dev@pve")
    assert (await person.get("/clusters")).status_code == 200
    world.lab.control("POST", "/lab/faults", {"match": {"path": "access/permissions"}, "do": {"cut": "before"}})
    try:
        world.clock.ahead = timedelta(minutes=2)
        assert (await person.get("/clusters")).status_code == 200
        assert (await person.get(PROD)).status_code == 200
        for answer in (
            await person.post("/clusters", json=NEW),
            await person.delete(f"{PROD}?confirm=prod"),
            await world.person("owner@pve").post(f"{PROD}/kubeconfig"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (503, "proxmox-unreachable")
            assert int(answer.headers["retry-after"]) > 0
        world.clock.ahead = timedelta(minutes=6)
        assert (await person.get("/clusters")).status_code == 503
    finally:
        world.lab.control("DELETE", "/lab/faults")
    assert len(await world.store.clusters.all_living()) == 2


async def test_with_the_store_away_one_is_told_when_to_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("locked by somebody at /secret/place")

    monkeypatch.setattr(world.store.sessions, "get", away)
    answer = await world.person("dev@pve").get("/clusters")
    assert (answer.status_code, answer.json()["code"]) == (503, "store-unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert "/secret/place" not in answer.text


async def test_a_fault_of_ours_has_a_reference_and_no_secrets(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the password is hunter-2")

    monkeypatch.setattr(world.store.clusters, "find", broken)
    answer = await world.person("dev@pve").get(PROD)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (500, "internal")
    assert problem["reference"] in problem["remedy"]
    logged = "".join(capsys.readouterr())
    assert problem["reference"] in logged
    assert "hunter-2" not in answer.text + logged


async def test_one_cluster_whole(world: World) -> None:
    cluster = (await world.person("dev@pve").get(EDGE)).json()
    assert cluster["job"]["id"] == "job-parked"
    assert cluster["job"]["links"]["engine"] == "http://temporal.example/job-parked"
    assert cluster["spec"]["endpoint"] == cluster["endpoint"] == "127.80.2.50"
