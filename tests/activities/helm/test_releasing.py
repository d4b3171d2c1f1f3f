"""Releases brought about by the real Helm against the laboratory's Kubernetes: whole, idle, mended, and in words."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.helm import ChartAbsent, ChartShelf, HelmActivities, Releasing, Turns
from activities.kubernetes.reach import ClusterReach
from activities.kubernetes.workloads import release_unready
from clients.charts import ChartFolder, Helm, HelmTimeout
from clients.kubernetes import Identity, KubernetesClient
from domain.clusters import Cluster, Cni, Distribution, Mark
from domain.conditions import ConditionType
from domain.contracts.activities import ClusterRef
from domain.releases import Chart, Part, Release, pod_network
from store import SecretKey, Store, migrate, open_store
from tests.contract.backend import Double
from tests.domain.builders import cluster as a_cluster
from tests.domain.builders import spec

LAB = Path(__file__).parents[3] / "lab" / "charts"
KUBEADM = {"distribution": Distribution.KUBEADM, "version": "v1.36.3", "pod_cidrs": ("10.60.0.0/16",)}
CLUSTER = a_cluster(spec(**KUBEADM, cni=Cni.CILIUM))
HOOK = """
apiVersion: batch/v1
kind: Job
metadata:
  name: never-ends
  annotations: {"helm.sh/hook": pre-install}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: a, image: a}]}
"""
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {word: {{ .Values.word | quote }}}\n"


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Waits until it is true, a minute at most."""
    async with asyncio.timeout(60):
        while True:
            if await look():
                return
            await asyncio.sleep(0.05)


class Reach:
    """The way to the double, in place of a cluster's own."""

    def __init__(self, client: KubernetesClient, identity: Identity) -> None:
        self.client, self.own = client, identity

    async def any(self, cluster: Cluster, machines: object) -> KubernetesClient:
        return self.client

    async def identity(self, cluster: Cluster) -> Identity:
        return self.own


@dataclass
class World:
    client: KubernetesClient
    reach: Reach
    store: Store
    store_url: str
    charts: Path
    unpacked: Path

    def releasing(self, limit: float = 60.0, life: float = 15.0) -> Releasing:
        shelf = ChartShelf(self.store, ChartFolder(self.charts), self.unpacked)
        return Releasing(cast(ClusterReach, self.reach), shelf, Turns(self.store, life=life), limit=limit)

    async def ensure(self, release: Release, limit: float = 60.0) -> None:
        await self.releasing(limit).ensure_release(CLUSTER, [], release)

    async def killed(self, release: Release, revisions: list[str]) -> None:
        """Begins the release and kills Helm's process once the revisions are these."""
        task = asyncio.create_task(self.ensure(release))
        try:
            await eventually(lambda: self.are(release, revisions))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await self.are(release, revisions)

    async def are(self, release: Release, revisions: list[str]) -> bool:
        return await self.revisions(release.namespace, release.name) == revisions

    async def found(self, path: str) -> dict[str, Any] | None:
        return await self.client.find(path)

    async def revisions(self, namespace: str, name: str) -> list[str]:
        """The statuses of the release's revisions, oldest first."""
        path, selector = f"/api/v1/namespaces/{namespace}/secrets", f"owner=helm,name={name}"
        listed = await self.client.get(path, labelSelector=selector)
        rows = sorted(listed["items"], key=lambda one: int(one["metadata"]["labels"]["version"]))
        return [row["metadata"]["labels"]["status"] for row in rows]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    double = Double()
    await double.start()
    both = double.clients.issue("trilithon", ("system:masters",)).decode()
    border = both.index("-----BEGIN PRIVATE KEY")
    identity = Identity(double.server_ca.decode(), both[:border], both[border:])
    client = KubernetesClient(double.url, identity)
    url = f"sqlite+aiosqlite:///{tmp_path}/store.db"
    await migrate(url)
    store = open_store(url, SecretKey.generate(), clock=lambda: datetime.now(UTC))
    yield World(client, Reach(client, identity), store, url, tmp_path / "charts", tmp_path / "unpacked")
    await client.aclose()
    await store.close()
    await double.stop()


def written(folder: Path, name: str = "some", **templates: str) -> Release:
    """A chart in the folder, and a release of it."""
    (folder / name / "templates").mkdir(parents=True, exist_ok=True)
    for old in (folder / name / "templates").iterdir():
        old.unlink()
    (folder / name / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n")
    for file, text in templates.items():
        (folder / name / "templates" / f"{file}.yaml").write_text(text)
    chart = Chart(name=name, version="1.0.0", repository="https://charts.example.org")
    return Release(name=name, namespace="default", chart=chart, part=Part.POD_NETWORK, values={"word": "a"})


async def test_a_release_is_made_left_alone_and_changed(world: World) -> None:
    release = written(world.charts, map=MAP)
    await world.ensure(release)
    await world.ensure(release)
    assert await world.revisions("default", "some") == ["deployed"]
    await world.ensure(release.model_copy(update={"values": {"word": "b"}}))
    assert await world.revisions("default", "some") == ["superseded", "deployed"]
    made = await world.found("/api/v1/namespaces/default/configmaps/made")
    assert made is not None
    assert made["data"] == {"word": "b"}
    assert {one["manager"] for one in made["metadata"]["managedFields"]} == {"trilithon-helm"}


async def test_a_release_left_pending_by_a_killed_helm_is_mended(world: World) -> None:
    release = written(world.charts, map=MAP, hook=HOOK)
    await world.killed(release, ["pending-install"])
    await world.ensure(written(world.charts, map=MAP))
    assert await world.revisions("default", "some") == ["deployed"]


async def test_a_pending_upgrade_goes_back_to_what_was_deployed_first(world: World) -> None:
    release = written(world.charts, map=MAP)
    await world.ensure(release)
    changed = release.model_copy(update={"values": {"word": "b"}})
    written(world.charts, map=MAP, hook=HOOK.replace("pre-install", "pre-upgrade"))
    await world.killed(changed, ["deployed", "pending-upgrade"])
    written(world.charts, map=MAP)
    await world.ensure(changed)
    assert (await world.revisions("default", "some"))[-1] == "deployed"
    made = await world.found("/api/v1/namespaces/default/configmaps/made")
    assert made is not None
    assert made["data"] == {"word": "b"}


async def test_a_chart_that_cannot_be_rendered_is_final_and_says_why(world: World) -> None:
    with pytest.raises(ApplicationError, match=r"some 1\.0\.0") as failed:
        await world.ensure(written(world.charts, bad='{{ fail "no such thing" }}'))
    assert "no such thing" in failed.value.message


async def test_a_release_that_fails_says_which_object_and_why(world: World) -> None:
    pods = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}"
    web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {a: b}}, "
    release = written(world.charts, web=f"{web}{pods}}}", hook=HOOK.replace("pre-install", "post-install"))
    with pytest.raises(ApplicationError) as failed:
        await world.ensure(release, limit=15.0)
    assert failed.value.type == "ReleaseFailed"
    assert failed.value.message.startswith("The release some (some 1.0.0) failed: failed post-install: ")
    assert "Job/default/never-ends not ready" in failed.value.message
    assert "; Deployment default/web: 0 of 1 ready" in failed.value.message

    other = written(world.charts, "other", web=f"{web}{pods}}}")
    with pytest.raises(ApplicationError, match='Deployment "web" in namespace "default" exists and cannot be imported'):
        await world.ensure(other)


async def test_a_first_install_that_failed_is_tried_anew(world: World) -> None:
    broken = written(world.charts, bad="apiVersion: nowhere/v1\nkind: Nothing\nmetadata: {name: x}\n")
    with pytest.raises(ApplicationError, match="unable to build"):
        await world.ensure(broken)
    await world.ensure(written(world.charts, map=MAP))
    assert (await world.revisions("default", "some"))[-1] == "deployed"


async def test_a_chart_that_nobody_brought_is_final_and_says_what_brings_it(world: World) -> None:
    (cilium,) = pod_network(CLUSTER.spec)
    with pytest.raises(ApplicationError, match="trilithon chart pull cilium") as failed:
        await world.ensure(cilium)
    assert failed.value.type == "ChartMissing"
    assert failed.value.non_retryable


async def test_the_cache_comes_before_the_folder_and_is_written_anew_when_spoilt(world: World) -> None:
    release = written(world.charts, map=MAP)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.add(world.charts / "some", arcname="some")
    kept = await world.store.charts.put("some", "1.0.0", out.getvalue(), "upload")
    shelf = ChartShelf(world.store, ChartFolder(world.charts), world.unpacked)
    path = Path(await shelf.find(release.chart))
    assert path.name == f"{kept.digest}.tgz"
    path.write_bytes(b"spoilt")  # noqa: ASYNC240
    assert Path(await shelf.find(release.chart)).read_bytes() == out.getvalue()  # noqa: ASYNC240
    with pytest.raises(ChartAbsent):
        await shelf.find(release.chart.model_copy(update={"version": "9.9.9"}))


@pytest.mark.parametrize("cni", [Cni.CILIUM, Cni.CALICO])
async def test_the_pod_network_of_a_spec_is_installed_once(world: World, cni: Cni) -> None:
    world.charts = LAB
    made = a_cluster(spec(**KUBEADM, cni=cni, kube_proxy_replacement=cni is Cni.CILIUM))
    releasing = world.releasing()
    for _ in range(2):
        for release in pod_network(made.spec):
            await releasing.ensure_release(made, [], release)
    if cni is Cni.CILIUM:
        assert await world.revisions("kube-system", "cilium") == ["deployed"]
        daemon = await world.found("/apis/apps/v1/namespaces/kube-system/daemonsets/cilium")
        assert daemon is not None
        text = await release_unready(world.client, pod_network(made.spec))
        assert text.startswith("DaemonSet kube-system/cilium: 0 of 0 ready")
    else:
        assert await world.revisions("tigera-operator", "calico") == ["deployed"]
        installation = await world.found("/apis/operator.tigera.io/v1/installations/default")
        assert installation is not None
        assert installation["spec"]["calicoNetwork"]["ipPools"][0]["cidr"] == "10.60.0.0/16"
        definition = await world.found(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/installations.operator.tigera.io"
        )
        assert definition is not None
        assert definition["metadata"]["annotations"]["trilithon-chart"] == "crd.projectcalico.org.v1 v3.32.1"
        assert (
            await release_unready(world.client, pod_network(made.spec)) == "DaemonSet calico-node does not exist yet."
        )


async def test_an_unready_daemon_names_its_pod_and_why(world: World) -> None:
    labels = {"k8s-app": "cilium"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    await world.client.create(
        "/apis/apps/v1/namespaces/kube-system/daemonsets",
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cilium"},
         "spec": {"selector": {"matchLabels": labels}, "template": pod}},
    )  # fmt: skip
    await world.client.create(
        "/api/v1/namespaces/kube-system/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cilium-x", "labels": labels}, "spec": pod["spec"]},
    )
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image a"}
    status = {"containerStatuses": [{"name": "a", "image": "a", "imageID": "", "ready": False, "restartCount": 0,
                                     "state": {"waiting": waiting}}]}  # fmt: skip
    await world.client.patch("/api/v1/namespaces/kube-system/pods/cilium-x/status", {"status": status})
    text = await release_unready(world.client, pod_network(CLUSTER.spec))
    assert "pod cilium-x: a: ImagePullBackOff (Back-off pulling image a)" in text


async def test_a_hanging_helm_is_killed(world: World) -> None:
    release = written(world.charts, hook=HOOK)
    shelf = ChartShelf(world.store, ChartFolder(world.charts), world.unpacked)
    kubeconfig = await world.releasing()._kubeconfig(CLUSTER, world.client)
    with pytest.raises(HelmTimeout):
        await Helm(kubeconfig, limit=3.0).ensure(
            "some", "default", await shelf.find(release.chart), {}, version="1.0.0"
        )


async def test_the_activity_marks_the_cluster(world: World) -> None:
    class Clusters:
        def __init__(self) -> None:
            self.marks: list[Mark] = []
            self.conditions: list[ConditionType] = []

        async def get(self, cluster_id: str) -> Cluster:
            return CLUSTER

        async def add_marks(self, cluster_id: str, *marks: Mark) -> None:
            self.marks += marks

        async def set_condition(self, cluster_id: str, condition: Any) -> None:
            self.conditions.append(condition.type)

    class Machines:
        async def of_cluster(self, cluster_id: str) -> list[object]:
            return []

    class Rows:
        clusters, machines = Clusters(), Machines()

    world.charts = LAB
    releasing = world.releasing()
    activities = HelmActivities(cast(Store, Rows()), releasing)
    ref = ClusterRef(job_id="", cluster_id=CLUSTER.id, site_id="site-1")
    await ActivityEnvironment().run(activities.install_pod_network, ref)
    assert Rows.clusters.marks == [Mark.POD_NETWORK]
    assert Rows.clusters.conditions == [ConditionType.POD_NETWORK_READY]
