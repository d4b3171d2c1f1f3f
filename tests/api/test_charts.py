"""The chart cache: who may fill it, what is refused, and that no cluster is begun without its charts."""

from pathlib import Path

import pytest

from api.services import Services
from clients.charts import ChartFolder
from domain.releases import CHARTS, CLOUD_CONTROLLER
from tests.api.test_jobs import events, served
from tests.api.world import EVERYBODY, LOCAL, World
from tests.clients.charts.test_repository import packed
from tests.domain.manifests import edge

MAY = {"admin@pve", LOCAL}
GZIP = {"Content-Type": "application/gzip"}


@pytest.mark.parametrize("name", EVERYBODY)
async def test_everybody_signed_in_reads_and_administrators_fill(world: World, name: str) -> None:
    person = world.person(name)
    listed = await person.get("/charts")
    assert listed.status_code == (401 if name == "nobody" else 200)
    put = await person.post("/charts", content=packed(), headers=GZIP)
    pulled = await person.post("/charts/pull", json={"name": "no-such-chart"})
    removed = await person.delete("/charts/some/1.2.3")
    expected = (201, 422, 204) if name in MAY else (401,) * 3 if name == "nobody" else (403,) * 3
    assert (put.status_code, pulled.status_code, removed.status_code) == expected


async def test_where_there_are_several_sites_only_the_local_administrator_fills(world: World) -> None:
    """What one site's administrator puts there would be installed in the clusters of the other."""
    (site,) = await world.store.sites.list()
    await world.store.sites.add(site.model_copy(update={"id": "site-two", "name": "two"}))
    person = world.person("admin@pve")
    for answer in (
        await person.post("/charts", content=packed(), headers=GZIP),
        await person.post("/charts/pull", json={"name": "cilium"}),
        await person.delete("/charts/some/1.2.3"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "right-missing")
        assert "all sites" in answer.json()["detail"]
        assert "local administrator" in answer.json()["remedy"]
    may = (await person.get("/session")).json()["may"]["administer_charts"]
    assert (may["allowed"], may["missing"]) == (False, None)
    assert "all sites" in may["reason"]
    assert (await world.person(LOCAL).post("/charts", content=packed(), headers=GZIP)).status_code == 201


@pytest.mark.parametrize("name", EVERYBODY[:-1])
async def test_the_session_says_who_may_fill(world: World, name: str) -> None:
    may = (await world.person(name).get("/session")).json()["may"]["administer_charts"]
    assert may["allowed"] is (name in MAY)
    if name not in MAY:
        assert may["missing"]["path"] == "/"


async def test_everybody_hears_of_a_chart_that_came(world: World) -> None:
    begin = await world.store.feed.last()
    await world.person(LOCAL).post("/charts", content=packed(), headers=GZIP)
    async with served(world) as url:
        for name in ("stranger@pve", LOCAL):
            (heard,) = [one async for one in events(world, f"{url}/events?after={begin}", name, count=1)]
            assert heard[2]["kind"] == "chart"


async def test_an_uploaded_chart_is_listed_with_what_is_known_of_it(world: World) -> None:
    person = world.person(LOCAL)
    kept = (await person.post("/charts", content=packed(), headers=GZIP)).json()
    assert (kept["name"], kept["version"], kept["source"], kept["used"]) == ("some", "1.2.3", "upload", 0)
    answer = (await world.person("dev@pve").get("/charts")).json()
    assert answer["items"] == [kept]
    assert {one["name"] for one in answer["wanted"]} == {chart.name for chart in CHARTS}
    again = await person.post("/charts", content=packed(), headers=GZIP)
    assert (again.status_code, again.json()) == (201, kept)


async def test_a_version_means_one_content(world: World) -> None:
    person = world.person(LOCAL)
    await person.post("/charts", content=packed(), headers=GZIP)
    other = await person.post("/charts", content=packed(**{"some/values.yaml": b"a: 1\n"}), headers=GZIP)
    assert (other.status_code, other.json()["code"]) == (409, "already-exists")


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (b"hello", 422, "no gzipped tar"),
        (packed(version="x"), 422, "no version"),
        (b"\0" * (10 * 1024 * 1024 + 1), 413, "larger than"),
    ],
)
async def test_what_is_no_chart_is_refused(world: World, body: bytes, status: int, why: str) -> None:
    answer = await world.person(LOCAL).post("/charts", content=body, headers=GZIP)
    assert answer.status_code == status
    assert why in answer.json()["detail"]
    assert (await world.person(LOCAL).get("/charts")).json()["items"] == []


async def test_a_chart_that_a_cluster_needs_stays(world: World) -> None:
    name, version = CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version
    await world.person(LOCAL).post("/charts", content=packed(name, version), headers=GZIP)
    seen = (await world.person("admin@pve").get("/charts")).json()["items"][0]
    assert (seen["used"], seen["used_by"]) == (2, ["clusters/edge", "clusters/prod"])
    hidden = (await world.person("stranger@pve").get("/charts")).json()["items"][0]
    assert (hidden["used"], hidden["used_by"]) == (2, [])
    refused = await world.person(LOCAL).delete(f"/charts/{name}/{version}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    assert "clusters/" not in refused.text


async def test_a_chart_that_is_not_there_cannot_be_removed(world: World) -> None:
    assert (await world.person(LOCAL).delete("/charts/some/1.2.3")).status_code == 404


async def test_a_repository_that_does_not_answer_keeps_nothing(world: World) -> None:
    body = {"name": "some", "version": "1.2.3", "repository": "http://127.0.0.1:1/charts"}
    answer = await world.person(LOCAL).post("/charts/pull", json=body)
    assert answer.status_code == 422
    assert "does not answer" in answer.json()["detail"]
    assert "chart upload" in answer.json()["remedy"]


async def test_no_cluster_is_begun_without_its_charts(empty: World, tmp_path: Path) -> None:
    services: Services = empty.services
    services.charts = ChartFolder(tmp_path)
    person = empty.person("admin@pve")
    preview = (await person.post("/clusters?dryRun=true", json=edge())).json()
    refused = await person.post("/clusters", json=edge())
    assert refused.status_code == 422
    (violation,) = refused.json()["violations"]
    assert preview["violations"] == [violation]
    assert CLOUD_CONTROLLER.label in violation["message"]
    assert f"trilithon chart pull {CLOUD_CONTROLLER.name}" in violation["remedy"]
    assert await empty.store.clusters.all_living() == []
    archive = packed(CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version)
    await empty.person(LOCAL).post("/charts", content=archive, headers=GZIP)
    assert (await person.post("/clusters", json=edge())).status_code == 201


async def test_the_folder_serves_as_well_as_the_cache(empty: World, tmp_path: Path) -> None:
    empty.services.charts = ChartFolder(tmp_path)
    (tmp_path / "x.tgz").write_bytes(packed(CLOUD_CONTROLLER.name, CLOUD_CONTROLLER.version))
    assert (await empty.person("admin@pve").post("/clusters", json=edge())).status_code == 201
