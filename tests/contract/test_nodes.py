"""Node registration and taints."""

import json
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from tests.contract.backend import MERGE, STRATEGIC, Api, Obj, eventually, ok, pod, refused

UNINITIALISED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}


def body(name: str, **spec: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


@pytest_asyncio.fixture
async def name(api: Api) -> AsyncIterator[str]:
    chosen = f"node-{uuid.uuid4().hex[:8]}"
    yield chosen
    await api.admin.delete(f"/api/v1/nodes/{chosen}")


async def kubelet(api: Api, name: str) -> httpx.AsyncClient:
    return await api.client(f"system:node:{name}", ("system:nodes",))


async def test_a_kubelet_registers_its_own_node(api: Api, name: str) -> None:
    client = await kubelet(api, name)
    found = ok(await client.post("/api/v1/nodes", json=body(name, taints=[UNINITIALISED])), 201)
    assert UNINITIALISED["key"] in {item["key"] for item in found["spec"]["taints"]}


async def test_a_kubelet_reports_the_status_of_its_own_node_only(api: Api, name: str) -> None:
    client = await kubelet(api, name)
    ok(await client.post("/api/v1/nodes", json=body(name)), 201)
    status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}
    ok(await client.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(status), headers=STRATEGIC))
    other = await kubelet(api, "somebody-else")
    answer = await other.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(status), headers=STRATEGIC)
    refused(answer, 403, "Forbidden", f'node "somebody-else" is not allowed to modify node "{name}"')


async def test_a_name_registers_once(api: Api, name: str) -> None:
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    refused(await api.admin.post("/api/v1/nodes", json=body(name)), 409, "AlreadyExists")


async def test_conditions_are_merged_by_type(api: Api, name: str) -> None:
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    for kind, state in (("Ready", "False"), ("DiskPressure", "False"), ("Ready", "True")):
        patch = {"status": {"conditions": [{"type": kind, "status": state}]}}
        answer = await api.admin.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(patch), headers=STRATEGIC)
        ok(answer)
    found = ok(await api.admin.get(f"/api/v1/nodes/{name}"))["status"]["conditions"]
    assert {item["type"]: item["status"] for item in found} == {"Ready": "True", "DiskPressure": "False"}


async def test_taints_are_set_and_removed(api: Api, name: str) -> None:
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
    patch = json.dumps({"spec": {"taints": [taint]}})
    found = ok(await api.admin.patch(f"/api/v1/nodes/{name}", content=patch, headers=STRATEGIC))
    assert taint in found["spec"]["taints"]
    gone = json.dumps({"spec": {"taints": None}})
    found = ok(await api.admin.patch(f"/api/v1/nodes/{name}", content=gone, headers=MERGE))
    assert taint["key"] not in {item["key"] for item in found["spec"].get("taints", [])}


async def test_an_unknown_taint_effect_is_invalid(api: Api, name: str) -> None:
    answer = await api.admin.post("/api/v1/nodes", json=body(name, taints=[{"key": "a", "effect": "Never"}]))
    refused(answer, 422, "Invalid", "Unsupported value")


async def test_a_provider_id_is_set_once(api: Api, name: str) -> None:
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    patch = '{"spec":{"providerID":"proxmox://lab/501"}}'
    ok(await api.admin.patch(f"/api/v1/nodes/{name}", content=patch, headers=MERGE))
    other = '{"spec":{"providerID":"proxmox://lab/502"}}'
    answer = await api.admin.patch(f"/api/v1/nodes/{name}", content=other, headers=MERGE)
    refused(answer, 422, "Invalid", "providerID")


async def test_cordon(api: Api, name: str) -> None:
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    ok(await api.admin.patch(f"/api/v1/nodes/{name}", content='{"spec":{"unschedulable":true}}', headers=STRATEGIC))
    found = ok(await api.admin.get("/api/v1/nodes", params={"fieldSelector": "spec.unschedulable=true"}))
    assert name in {item["metadata"]["name"] for item in found["items"]}


async def test_a_node_is_printed_with_roles_and_version(api: Api, name: str) -> None:
    node = body(name)
    node["metadata"]["labels"] = {"node-role.kubernetes.io/control-plane": ""}
    ok(await api.admin.post("/api/v1/nodes", json=node), 201)
    info = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.5"}}}
    ok(await api.admin.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(info), headers=MERGE))
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = ok(await api.admin.get(f"/api/v1/nodes/{name}", headers=headers))
    names = [column["name"] for column in table["columnDefinitions"]]
    cells = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert cells["Name"] == name
    assert cells["Status"].startswith("Ready")
    assert cells["Roles"] == "control-plane"
    assert cells["Version"] == "v1.36.5"


async def test_a_new_node_takes_no_pods_until_it_is_ready(api: Api, name: str) -> None:
    found = ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    assert {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"} in found["spec"]["taints"]


async def test_a_key_and_effect_is_tainted_once(api: Api, name: str) -> None:
    taint = {"key": "a", "effect": "NoSchedule"}
    answer = await api.admin.post("/api/v1/nodes", json=body(name, taints=[taint, {**taint, "value": "other"}]))
    refused(answer, 422, "Invalid", "taints must be unique by key and effect pair")


async def test_a_kubelet_registers_no_other_node(api: Api, name: str) -> None:
    client = await kubelet(api, "another")
    answer = await client.post("/api/v1/nodes", json=body(name))
    refused(answer, 403, "Forbidden", f'node "another" is not allowed to modify node "{name}"')


async def test_a_kubelet_gives_itself_no_role(api: Api, name: str) -> None:
    client, label = await kubelet(api, name), "node-role.kubernetes.io/control-plane"
    node = body(name)
    node["metadata"]["labels"] = {label: ""}
    refused(await client.post("/api/v1/nodes", json=node), 403, "Forbidden", label)
    ok(await client.post("/api/v1/nodes", json=body(name)), 201)
    patch = json.dumps({"metadata": {"labels": {label: ""}}})
    answer = await client.patch(f"/api/v1/nodes/{name}", content=patch, headers=MERGE)
    refused(answer, 403, "Forbidden", f"is not allowed to modify labels: {label}")
    own = json.dumps({"metadata": {"labels": {"topology.kubernetes.io/zone": "a", "example.test/mine": "yes"}}})
    ok(await client.patch(f"/api/v1/nodes/{name}", content=own, headers=MERGE))


async def test_a_kubelet_takes_no_taint_away(api: Api, name: str) -> None:
    client = await kubelet(api, name)
    ok(await client.post("/api/v1/nodes", json=body(name, taints=[UNINITIALISED])), 201)
    gone = json.dumps({"spec": {"taints": None}})
    answer = await client.patch(f"/api/v1/nodes/{name}", content=gone, headers=MERGE)
    refused(answer, 403, "Forbidden", f'node "{name}" is not allowed to modify taints')


async def test_a_kubelet_reads_its_own_node_only(api: Api, name: str) -> None:
    client, other = await kubelet(api, name), await kubelet(api, "another")
    ok(await client.post("/api/v1/nodes", json=body(name)), 201)
    ok(await client.get(f"/api/v1/nodes/{name}"))
    ok(await client.get("/api/v1/nodes", params={"fieldSelector": f"metadata.name={name}"}))
    words = "only its own Node object"
    refused(await other.get(f"/api/v1/nodes/{name}"), 403, "Forbidden", words)
    refused(await other.get("/api/v1/nodes"), 403, "Forbidden", words)
    refused(await client.delete(f"/api/v1/nodes/{name}"), 403, "Forbidden", "cannot delete resource")


async def test_a_kubelet_renews_its_own_lease_only(api: Api, name: str) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    client, other = await kubelet(api, name), await kubelet(api, "another")
    mine = {"metadata": {"name": name}, "spec": {"holderIdentity": name}}
    words = "can only access node lease with the same name as the requesting node"
    refused(await other.post(path, json=mine), 403, "Forbidden", words)
    held = ok(await client.post(path, json=mine), 201)
    ok(await client.put(f"{path}/{name}", json=held))
    refused(await other.get(f"{path}/{name}"), 403, "Forbidden", words)
    ok(await client.delete(f"{path}/{name}"))


async def test_a_kubelet_reads_the_secrets_of_its_own_pods_only(api: Api, space: str, name: str) -> None:
    client = await kubelet(api, name)
    secrets = f"/api/v1/namespaces/{space}/secrets"
    for one in ("mounted", "unrelated"):
        ok(await api.admin.post(secrets, json={"metadata": {"name": one}}), 201)
    refused(await client.get(f"{secrets}/mounted"), 403, "Forbidden", f"no relationship found between node '{name}'")
    placed = pod("it")
    placed["spec"] |= {"nodeName": name, "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]}
    ok(await api.admin.post("/api/v1/nodes", json=body(name)), 201)
    ok(await api.admin.post(f"/api/v1/namespaces/{space}/pods", json=placed), 201)

    async def readable() -> bool:
        return (await client.get(f"{secrets}/mounted")).status_code == 200

    await eventually(readable)
    refused(await client.get(f"{secrets}/unrelated"), 403, "Forbidden")
    refused(await client.get(secrets), 403, "Forbidden")
    pods = f"/api/v1/namespaces/{space}/pods"
    refused(await client.get(pods), 403, "Forbidden", "spec.nodeName field selector")
    found = ok(await client.get(pods, params={"fieldSelector": f"spec.nodeName={name}"}))
    assert [item["metadata"]["name"] for item in found["items"]] == ["it"]


async def test_a_kubelet_makes_mirror_pods_only(api: Api, space: str, name: str) -> None:
    client = await kubelet(api, name)
    node = ok(await client.post("/api/v1/nodes", json=body(name)), 201)
    pods, placed = f"/api/v1/namespaces/{space}/pods", pod("it")
    placed["spec"]["nodeName"] = name
    refused(await client.post(pods, json=placed), 403, "Forbidden", "can only create mirror pods")
    placed["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}
    refused(await client.post(pods, json=placed), 403, "Forbidden", "with an owner reference set to itself")
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"], "controller": True}
    placed["metadata"]["ownerReferences"] = [owner]
    ok(await client.post(pods, json=placed), 201)
