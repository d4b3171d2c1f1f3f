"""The whole life of a kubeadm cluster: what stands in it when its machines have joined, and that it can be deleted.

Every case runs unchanged on simulated nodes and on real ones; both sides are spoken to by the simulated Proxmox VE's
API and by the cluster's own. One cluster a side, made once; the last case deletes it.
"""

import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from bootstrap.bootstrap_token import secret_path
from lab.programs.needs import missing_for_nodes
from tests.contract.kubeadm_laboratory import VERSION, KubeadmCluster, Laboratory

pytestmark = [pytest.mark.lab, pytest.mark.timeout(5400)]

SYSTEM = "/api/v1/namespaces/kube-system"
INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
UNINITIALISED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
TOKEN = "bootstrap.kubernetes.io/token"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-vip")


@pytest_asyncio.fixture(scope="module", params=["simulated", pytest.param("real", marks=pytest.mark.real)])
async def laboratory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Laboratory]:
    """The machines, joined."""
    if request.param == "real" and (lacks := missing_for_nodes()):
        pytest.skip(f"no real nodes here: {'; '.join(lacks)}")
    running = Laboratory(request.param, tmp_path_factory.mktemp(request.param))
    try:
        await running.make()
        yield running
    finally:
        await running.end()


@pytest.fixture
def made(laboratory: Laboratory) -> KubeadmCluster:
    return laboratory.cluster


async def test_nodes_are_registered_as_their_boot_data_say(made: KubeadmCluster) -> None:
    nodes = await made.items("/api/v1/nodes")
    assert set(nodes) == set(made.machines)
    for name, node in nodes.items():
        machine, status = made.machines[name], node["status"]
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == name
        assert status["nodeInfo"]["kubeletVersion"] == VERSION
        assert status["nodeInfo"]["systemUUID"].lower() == made.uuids[name]
        assert {row["type"]: row["address"] for row in status["addresses"]}["InternalIP"] == machine.address
        assert node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] == machine.address
        assert "providerID" not in node["spec"], "that is the cloud controller's to say"


async def test_every_node_waits_for_a_cloud_controller_and_no_server_is_tainted(made: KubeadmCluster) -> None:
    for name, node in (await made.items("/api/v1/nodes")).items():
        taints = node["spec"].get("taints") or []
        assert UNINITIALISED in taints, f"{name}: {taints}"
        assert CONTROL_PLANE not in {taint["key"] for taint in taints}, "the boot data ask for none"


async def test_servers_are_labelled_and_workers_are_not(made: KubeadmCluster) -> None:
    nodes = await made.items("/api/v1/nodes")
    for machine in made.machines.values():
        labels = nodes[machine.name]["metadata"]["labels"]
        assert (CONTROL_PLANE in labels) is machine.is_server
        assert ("node.kubernetes.io/exclude-from-external-load-balancers" in labels) is machine.is_server
        assert "node-role.kubernetes.io/etcd" not in labels


async def test_no_node_is_ready_without_a_pod_network(made: KubeadmCluster) -> None:
    for node in (await made.items("/api/v1/nodes")).values():
        ready = next(row for row in node["status"]["conditions"] if row["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "KubeletNotReady")
        assert "cni plugin not initialized" in ready["message"]
        assert "node.kubernetes.io/not-ready" in {taint["key"] for taint in node["spec"]["taints"]}


async def test_every_node_has_its_range_of_addresses(made: KubeadmCluster) -> None:
    ranges = [node["spec"]["podCIDR"] for node in (await made.items("/api/v1/nodes")).values()]
    assert len(set(ranges)) == len(made.machines)
    assert all(one.startswith("10.52.") and one.endswith("/24") for one in ranges)


async def test_the_configuration_lives_on_in_the_cluster(made: KubeadmCluster) -> None:
    kept = (await made.get(f"{SYSTEM}/configmaps/kubeadm-config"))["data"]["ClusterConfiguration"]
    config = yaml.safe_load(kept)
    assert config["clusterName"] == made.spec.name
    assert config["controlPlaneEndpoint"] == f"{made.spec.endpoint}:6443"
    assert config["kubernetesVersion"] == VERSION
    assert config["networking"] == {
        "dnsDomain": "cluster.local", "podSubnet": "10.52.0.0/16", "serviceSubnet": "10.53.0.0/16",
    }  # fmt: skip
    assert config["certificatesDir"] == "/etc/kubernetes/pki"
    kubelet = yaml.safe_load((await made.get(f"{SYSTEM}/configmaps/kubelet-config"))["data"]["kubelet"])
    assert (kubelet["cgroupDriver"], kubelet["clusterDNS"]) == ("systemd", ["10.53.0.10"])


async def test_who_joins_may_read_the_configuration_and_nothing_more(made: KubeadmCluster) -> None:
    await made.put_token(datetime.now(UTC) + timedelta(hours=1))
    async with made.client(token=made.tokens.bootstrap) as joiner:
        for name in ("kubeadm-config", "kubelet-config"):
            assert (await joiner.get(f"{SYSTEM}/configmaps/{name}")).status_code == 200
        assert (await joiner.get(f"/api/v1/nodes/{made.servers[0].name}")).status_code == 200
        assert (await joiner.get(f"{SYSTEM}/secrets")).status_code == 403
        assert (await joiner.get(f"{SYSTEM}/configmaps")).status_code == 403


async def test_anybody_may_read_where_the_cluster_is(made: KubeadmCluster) -> None:
    async with made.client(anonymous=True) as nobody:
        answer = await nobody.get(INFO)
        assert answer.status_code == 200
        assert (await nobody.get("/api/v1/namespaces/kube-public/configmaps")).status_code == 403
    cluster = yaml.safe_load(answer.json()["data"]["kubeconfig"])["clusters"][0]["cluster"]
    assert cluster["server"] == f"https://{made.spec.endpoint}:6443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == made.authorities.server.certificate


async def test_a_token_is_signed_for_while_its_secret_stands(made: KubeadmCluster) -> None:
    key = f"jws-kubeconfig-{made.tokens.bootstrap.split('.')[0]}"
    await made.put_token(datetime.now(UTC) + timedelta(hours=1))

    async def signature() -> str:
        return str((await made.get(INFO))["data"].get(key, ""))

    found = await made.eventually("a signature", signature)
    header, middle, _ = found.split(".")
    assert middle == "", "the signature is detached"
    assert '"alg":"HS256"' in base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)).decode()
    await made.drop_token()

    async def gone() -> bool:
        return await signature() == ""

    await made.eventually("the signature to go", gone)


async def test_no_token_is_left_when_the_last_machine_has_joined(made: KubeadmCluster) -> None:
    """kubeadm's own was for a second; ours goes with its Secret."""
    await made.drop_token()

    async def none() -> bool:
        secrets = (await made.get(f"{SYSTEM}/secrets"))["items"]
        return not [row for row in secrets if row["type"] == TOKEN]

    await made.eventually("the tokens to be gone", none)
    await made.eventually("the token to open nothing", lambda: opens_nothing(made))


async def test_an_expired_token_opens_nothing_and_is_swept_up(made: KubeadmCluster) -> None:
    await made.put_token(datetime.now(UTC) - timedelta(minutes=1))
    await made.eventually("the token to open nothing", lambda: opens_nothing(made))
    key = f"jws-kubeconfig-{made.tokens.bootstrap.split('.')[0]}"
    assert key not in (await made.get(INFO))["data"]

    async def swept() -> bool:
        async with made.client() as client:
            return (await client.get(secret_path(made.tokens.bootstrap))).status_code == 404

    await made.eventually("the Secret to be swept up", swept)


async def opens_nothing(made: KubeadmCluster) -> bool:
    """Whether the API server refuses the token; it remembers one that it knew for ten seconds."""
    async with made.client(token=made.tokens.bootstrap) as late:
        return (await late.get(f"{SYSTEM}/configmaps/kubeadm-config")).status_code == 401


async def test_static_pods_are_mirrored(made: KubeadmCluster) -> None:
    names = {f"{component}-{server.name}" for component in COMPONENTS for server in made.servers}

    async def all_ready() -> dict[str, Any]:
        pods = await made.items(f"{SYSTEM}/pods")
        mirrored = {
            name: pod
            for name, pod in pods.items()
            if "kubernetes.io/config.mirror" in (pod["metadata"].get("annotations") or {})
        }
        ready = all(
            any(row["type"] == "Ready" and row["status"] == "True" for row in pod["status"].get("conditions") or [])
            for pod in mirrored.values()
        )
        return mirrored if set(mirrored) == names and ready else {}

    pods = await made.eventually("every static pod to be shown Ready", all_ready)
    for server in made.servers:
        for component in COMPONENTS:
            data = pods[f"{component}-{server.name}"]["metadata"]
            assert (data["ownerReferences"][0]["kind"], data["ownerReferences"][0]["name"]) == ("Node", server.name)
        etcd = pods[f"etcd-{server.name}"]["metadata"]
        url = f"https://{server.address}:2379"
        assert etcd["annotations"]["kubeadm.kubernetes.io/etcd.advertise-client-urls"] == url
        assert etcd["labels"] == {"component": "etcd", "tier": "control-plane"}


async def test_every_kubelet_renews_its_lease(made: KubeadmCluster) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

    async def of_all() -> dict[str, Any]:
        """A kubelet makes its lease some seconds after its node."""
        found = await made.items(path)
        return found if set(found) == set(made.machines) else {}

    before = await made.eventually("a lease of every node", of_all)
    for name, lease in before.items():
        assert lease["spec"]["holderIdentity"] == name
        assert lease["spec"]["leaseDurationSeconds"] == 40
        assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"

    async def renewed() -> bool:
        now = await made.items(path)
        return all(now[name]["spec"]["renewTime"] > before[name]["spec"]["renewTime"] for name in before)

    await made.eventually("every lease to be renewed", renewed)


async def test_names_and_services_have_their_add_ons(made: KubeadmCluster) -> None:
    daemons = await made.items("/apis/apps/v1/namespaces/kube-system/daemonsets")
    assert set(daemons) == {"kube-proxy"}
    deployments = await made.items("/apis/apps/v1/namespaces/kube-system/deployments")
    assert set(deployments) == {"coredns"}
    services = await made.items(f"{SYSTEM}/services")
    assert services["kube-dns"]["spec"]["clusterIP"] == "10.53.0.10"


async def test_etcd_shows_both_servers_to_who_has_its_certificate(made: KubeadmCluster) -> None:
    for server in made.servers:
        async with made.etcd(server.address) as etcd:
            answer = await etcd.post("/v3/cluster/member/list", json={})
            members = {row["name"]: row for row in answer.json()["members"]}
            assert set(members) == {one.name for one in made.servers}
            assert not any(row.get("isLearner") for row in members.values())
            assert members[server.name]["clientURLs"] == [f"https://{server.address}:2379"]
            assert (await etcd.get("/health")).json()["health"] == "true"
    async with made.etcd(made.servers[0].address, known=False) as stranger:
        # In TLS 1.3 the refusal comes with the first answer, and httpx lets what is read of it through as it is.
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await stranger.post("/v3/cluster/member/list", json={})


async def test_the_api_answers_at_each_server_and_at_the_virtual_ip(made: KubeadmCluster) -> None:
    for host in (made.spec.endpoint, *(server.address for server in made.servers)):
        assert (await made.get("/version", host))["gitVersion"] == VERSION
    lease = await made.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/plndr-cp-lock")
    assert lease["spec"]["holderIdentity"] in {server.name for server in made.servers}


async def test_the_cluster_goes_with_its_machines(laboratory: Laboratory) -> None:
    """The last case: nothing of the cluster is left behind Proxmox VE, and nobody answers any more."""
    made = laboratory.cluster
    assert await laboratory.running() == dict.fromkeys(made.machines, "running")
    await laboratory.destroy()
    assert await laboratory.running() == {}
    for host in (made.spec.endpoint, *(machine.address for machine in made.machines.values())):
        async with made.client(host) as client:
            with pytest.raises(httpx.TransportError):
                await client.get("/version")
