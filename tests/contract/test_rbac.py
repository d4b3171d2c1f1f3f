"""Role based access."""

from collections.abc import Sequence

from tests.contract.backend import Api, Obj, config_map, ok, refused

GROUP = "rbac.authorization.k8s.io"


def rule(verbs: str, resources: str, names: Sequence[str] = (), group: str = "") -> Obj:
    found: Obj = {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}
    if names:
        found["resourceNames"] = list(names)
    return found


async def role(api: Api, space: str, name: str, *rules: Obj) -> None:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": name}, "rules": list(rules)}
    ok(await api.admin.post(f"/apis/{GROUP}/v1/namespaces/{space}/roles", json=body), 201)


def binding(name: str, kind: str, reference: str, *subjects: Obj) -> Obj:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": reference},
        "subjects": list(subjects),
    }


async def bind(api: Api, space: str, name: str, *subjects: Obj, kind: str = "Role") -> None:
    path = f"/apis/{GROUP}/v1/namespaces/{space}/rolebindings"
    ok(await api.admin.post(path, json=binding(name, kind, name, *subjects)), 201)


def user(name: str) -> Obj:
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def maps(space: str) -> str:
    return f"/api/v1/namespaces/{space}/configmaps"


async def test_a_role_counts_in_its_namespace_only(api: Api, space: str) -> None:
    await role(api, space, "reader", rule("get list", "configmaps"))
    await bind(api, space, "reader", user("rita"))
    client = await api.client("rita")
    ok(await client.get(maps(space)))
    words = f'User "rita" cannot create resource "configmaps" in API group "" in the namespace "{space}"'
    refused(await client.post(maps(space), json=config_map("it")), 403, "Forbidden", words)
    refused(await client.get(maps("default")), 403, "Forbidden")
    refused(await client.get("/api/v1/configmaps"), 403, "Forbidden", "at the cluster scope")


async def test_a_group_is_bound(api: Api, space: str) -> None:
    await role(api, space, "writer", rule("create", "configmaps"))
    await bind(api, space, "writer", {"kind": "Group", "apiGroup": GROUP, "name": f"team-{space}"})
    client = await api.client("anyone", (f"team-{space}",))
    ok(await client.post(maps(space), json=config_map("it")), 201)


async def test_resource_names(api: Api, space: str) -> None:
    await role(api, space, "one", rule("get update", "configmaps", ["mine"]))
    await bind(api, space, "one", user("nina"))
    for name in ("mine", "other"):
        ok(await api.admin.post(maps(space), json=config_map(name)), 201)
    client = await api.client("nina")
    ok(await client.get(f"{maps(space)}/mine"))
    refused(await client.get(f"{maps(space)}/other"), 403, "Forbidden")
    refused(await client.get(maps(space)), 403, "Forbidden")


async def test_subresources_need_a_right_of_their_own(api: Api, space: str) -> None:
    await role(api, space, "pods", rule("get", "pods"))
    await bind(api, space, "pods", user("sam"))
    client = await api.client("sam")
    refused(await client.get(f"/api/v1/namespaces/{space}/pods/none"), 404, "NotFound")
    refused(await client.get(f"/api/v1/namespaces/{space}/pods/none/status"), 403, "Forbidden", "pods/status")


async def test_a_cluster_role_bound_in_a_namespace(api: Api, space: str) -> None:
    await bind(api, space, "view", user("vera"), kind="ClusterRole")
    client = await api.client("vera")
    ok(await client.get(maps(space)))
    refused(await client.get(f"/api/v1/namespaces/{space}/secrets"), 403, "Forbidden")
    refused(await client.get(maps("default")), 403, "Forbidden")


async def test_nobody_hands_out_more_than_he_has(api: Api, space: str) -> None:
    await role(api, space, "binder", rule("create get", "roles rolebindings", group=GROUP))
    await bind(api, space, "binder", user("ben"))
    client = await api.client("ben")
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": "all"},
        "rules": [rule("get", "secrets")],
    }
    answer = await client.post(f"/apis/{GROUP}/v1/namespaces/{space}/roles", json=body)
    refused(answer, 403, "Forbidden", "attempting to grant RBAC permissions not currently held")
    path = f"/apis/{GROUP}/v1/namespaces/{space}/rolebindings"
    refused(await client.post(path, json=binding("up", "ClusterRole", "cluster-admin", user("ben"))), 403, "Forbidden")


async def test_a_binding_keeps_its_role(api: Api, space: str) -> None:
    await role(api, space, "a", rule("get", "pods"))
    await bind(api, space, "a", user("x"))
    path = f"/apis/{GROUP}/v1/namespaces/{space}/rolebindings/a"
    refused(
        await api.admin.put(path, json=binding("a", "Role", "b", user("x"))), 422, "Invalid", "cannot change roleRef"
    )


async def test_roles_that_cannot_be(api: Api, space: str) -> None:
    body = binding("up", "Role", "any", user("x"))
    body["kind"] = "ClusterRoleBinding"
    refused(await api.admin.post(f"/apis/{GROUP}/v1/clusterrolebindings", json=body), 422, "Invalid", "roleRef.kind")
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    role_ = {"apiVersion": f"{GROUP}/v1", "kind": "Role", "metadata": {"name": "urls"}, "rules": rules}
    answer = await api.admin.post(f"/apis/{GROUP}/v1/namespaces/{space}/roles", json=role_)
    refused(answer, 422, "Invalid", "namespaced rules cannot apply to non-resource URLs")


async def test_a_review_asks_for_one_thing(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    refused(await api.admin.post(path, json={"spec": {}}), 422, "Invalid", "exactly one of")


async def test_taking_a_binding_away_takes_the_right_away(api: Api, space: str) -> None:
    await role(api, space, "reader", rule("list", "configmaps"))
    await bind(api, space, "reader", user("tom"))
    client = await api.client("tom")
    ok(await client.get(maps(space)))
    ok(await api.admin.delete(f"/apis/{GROUP}/v1/namespaces/{space}/rolebindings/reader"))
    refused(await client.get(maps(space)), 403, "Forbidden")


async def test_access_reviews_say_the_same(api: Api, space: str) -> None:
    await role(api, space, "reader", rule("list", "configmaps"))
    await bind(api, space, "reader", user("una"))
    client = await api.client("una")
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    for verb, allowed in (("list", True), ("delete", False)):
        wanted = {"verb": verb, "resource": "configmaps", "namespace": space}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        assert ok(await client.post(path, json=body), 201)["status"]["allowed"] is allowed
