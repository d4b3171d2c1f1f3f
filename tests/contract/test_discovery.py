"""Discovery, health, version."""

import pytest

from tests.contract.backend import Api, ok, refused

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_version(api: Api) -> None:
    found = ok(await api.admin.get("/version"))
    assert found["gitVersion"].startswith("v1.")
    assert found["major"] == "1"
    assert found["minor"].rstrip("+").isdigit()


async def test_core_group(api: Api) -> None:
    assert ok(await api.admin.get("/api"))["versions"] == ["v1"]
    rows = {item["name"]: item for item in ok(await api.admin.get("/api/v1"))["resources"]}
    assert rows["nodes"]["namespaced"] is False
    assert rows["pods"]["shortNames"] == ["po"]
    assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(rows["configmaps"]["verbs"])
    assert rows["pods/eviction"]["kind"] == "Eviction"
    assert rows["serviceaccounts/token"]["kind"] == "TokenRequest"


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("apps", "deployments"),
        ("rbac.authorization.k8s.io", "rolebindings"),
        ("coordination.k8s.io", "leases"),
        ("policy", "poddisruptionbudgets"),
        ("storage.k8s.io", "storageclasses"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
    ],
)
async def test_groups_that_we_rely_on(api: Api, group: str, resource: str) -> None:
    groups = {item["name"]: item for item in ok(await api.admin.get("/apis"))["groups"]}
    assert groups[group]["preferredVersion"]["version"] == "v1"
    rows = ok(await api.admin.get(f"/apis/{group}/v1"))
    assert rows["groupVersion"] == f"{group}/v1"
    assert resource in {item["name"] for item in rows["resources"]}


async def test_aggregated_discovery(api: Api) -> None:
    for path, wanted in (("/api", ""), ("/apis", "apps")):
        found = ok(await api.admin.get(path, headers={"Accept": AGGREGATED}))
        assert found["kind"] == "APIGroupDiscoveryList"
        names = {item["metadata"].get("name", "") for item in found["items"]}
        assert wanted in names


async def test_discovery_is_for_those_who_are_known(api: Api) -> None:
    client = await api.client("somebody")
    ok(await client.get("/apis"))
    nobody = await api.client()
    refused(await nobody.get("/apis"), 403, "Forbidden", 'cannot get path "/apis"')


async def test_unknown_groups(api: Api) -> None:
    for path in ("/apis/none.example", "/apis/none.example/v1/things", "/nonsense"):
        answer = await api.admin.get(path)
        assert answer.status_code == 404
        assert answer.text == "404 page not found\n"
    for path in ("/api/v1/nonsense", "/apis/apps/v9", "/apis/apps/v1/nonsense", "/api/v1/namespaces/x/nodes"):
        refused(await api.admin.get(path), 404, "NotFound", "could not find the requested resource")


async def test_methods_that_a_path_does_not_have(api: Api, space: str) -> None:
    maps = f"/api/v1/namespaces/{space}/configmaps"
    body = {"metadata": {"name": "it"}}
    ok(await api.admin.post(maps, json=body), 201)
    for method, path in (("PUT", maps), ("POST", f"{maps}/it"), ("POST", "/api/v1/configmaps")):
        refused(await api.admin.request(method, path, json=body), 405, "MethodNotAllowed")
    refused(await api.admin.post(maps, content=""), 400, "BadRequest")


async def test_openapi_names_its_documents(api: Api) -> None:
    found = ok(await api.admin.get("/openapi/v3"))
    assert {"api/v1", "apis/apps/v1"} <= set(found["paths"])


async def test_a_custom_kind_is_discovered_and_stored(api: Api, space: str) -> None:
    plural, group = f"things{space.replace('-', '')}", "lab.example"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize(), "singular": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ok(await api.admin.post(root, json=definition), 201)
    from tests.contract.backend import eventually

    async def served() -> bool:
        return (await api.admin.get(f"/apis/{group}/v1/namespaces/{space}/{plural}")).status_code == 200

    await eventually(served)
    body = {"apiVersion": f"{group}/v1", "kind": plural.capitalize(), "metadata": {"name": "it"}, "spec": {"size": 3}}
    ok(await api.admin.post(f"/apis/{group}/v1/namespaces/{space}/{plural}", json=body), 201)
    found = ok(await api.admin.get(f"/apis/{group}/v1/namespaces/{space}/{plural}"))
    assert [item["spec"]["size"] for item in found["items"]] == [3]
    ok(await api.admin.delete(f"{root}/{plural}.{group}"))
