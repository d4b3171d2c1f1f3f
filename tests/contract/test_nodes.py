"""Node registration and taints."""

import json
import uuid
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.contract.backend import MERGE, STRATEGIC, Api, Obj, ok, refused

UNINITIALISED = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}


def body(name: str, **spec: object) -> Obj:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


@pytest_asyncio.fixture
async def name(api: Api) -> AsyncIterator[str]:
    chosen = f"node-{uuid.uuid4().hex[:8]}"
    yield chosen
    await api.admin.delete(f"/api/v1/nodes/{chosen}")


async def kubelet(api: Api, name: str) -> Api:
    return await api.client(f"system:node:{name}", ("system:nodes",))  # type: ignore[return-value]


async def test_a_kubelet_registers_its_own_node(api: Api, name: str) -> None:
    client = await api.client(f"system:node:{name}", ("system:nodes",))
    found = ok(await client.post("/api/v1/nodes", json=body(name, taints=[UNINITIALISED])), 201)
    assert UNINITIALISED["key"] in {item["key"] for item in found["spec"]["taints"]}


async def test_a_kubelet_reports_the_status_of_its_own_node_only(api: Api, name: str) -> None:
    client = await api.client(f"system:node:{name}", ("system:nodes",))
    ok(await client.post("/api/v1/nodes", json=body(name)), 201)
    status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}
    ok(await client.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(status), headers=STRATEGIC))
    other = await api.client("system:node:somebody-else", ("system:nodes",))
    answer = await other.patch(f"/api/v1/nodes/{name}/status", content=json.dumps(status), headers=STRATEGIC)
    refused(answer, 403, "Forbidden")


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
