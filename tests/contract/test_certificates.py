"""Client certificates, and certificates of foreign authorities."""

import ssl
from datetime import timedelta

import httpx
import pytest

from tests.contract.backend import Api, Authority, ok, refused

REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ASK = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def test_name_and_groups_come_from_the_certificate(api: Api) -> None:
    client = await api.client("alice", ("builders", "readers"))
    user = ok(await client.post(REVIEW, json=ASK), 201)["status"]["userInfo"]
    assert user["username"] == "alice"
    assert set(user["groups"]) == {"builders", "readers", "system:authenticated"}


async def test_masters_may_do_everything(api: Api) -> None:
    client = await api.client("chief", ("system:masters",))
    ok(await client.get("/api/v1/secrets"))
    ok(await client.get("/api/v1/nodes"))


async def test_a_certificate_without_rights_is_forbidden(api: Api) -> None:
    client = await api.client("bob")
    refused(await client.get("/api/v1/nodes"), 403, "Forbidden", 'User "bob" cannot list resource "nodes"')


async def test_a_foreign_authority_is_unauthorized(api: Api) -> None:
    foreign = Authority.make("clients")
    client = await api.with_certificate(foreign.issue("admin", ("system:masters",)))
    refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


async def test_an_ended_certificate_is_unauthorized(api: Api) -> None:
    client = await api.client("alice", ("system:masters",), ends=timedelta(hours=-1))
    refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


async def test_a_certificate_for_servers_is_unauthorized(api: Api) -> None:
    client = await api.client("alice", ("system:masters",), server=True)
    refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


async def test_nobody_is_anonymous(api: Api) -> None:
    client = await api.client()
    refused(await client.get("/api/v1/nodes"), 403, "Forbidden", 'User "system:anonymous"')
    assert (await client.get("/livez")).text == "ok"
    assert (await client.get("/readyz")).text == "ok"
    ok(await client.get("/version"))


async def test_the_server_shows_a_certificate_of_its_own_authority(api: Api) -> None:
    context = ssl.create_default_context(cadata=Authority.make("servers").pem.decode())
    async with httpx.AsyncClient(verify=context, base_url=api.backend.url) as client:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get("/version")


async def test_nobody_learns_what_exists_by_asking(api: Api) -> None:
    client = await api.client("bob")
    words = 'User "bob" cannot list resource "nothings" in API group "apps"'
    refused(await client.get("/apis/apps/v1/nothings"), 403, "Forbidden", words)
    refused(await client.get("/apis/none.example/v1/things"), 403, "Forbidden")
    refused(await client.get("/api/v1/namespaces/none/secrets/none"), 403, "Forbidden")


async def test_an_impersonated_account_has_its_groups(api: Api) -> None:
    headers = {"Impersonate-User": "system:serviceaccount:kube-system:robot"}
    user = ok(await api.admin.post(REVIEW, json=ASK, headers=headers), 201)["status"]["userInfo"]
    assert {"system:serviceaccounts", "system:serviceaccounts:kube-system"} <= set(user["groups"])
    answer = await api.admin.post(REVIEW, json=ASK, headers={"Impersonate-Group": "readers"})
    refused(answer, 400, "BadRequest", "without impersonating a user")


async def test_impersonation_needs_the_right(api: Api) -> None:
    headers = {"Impersonate-User": "carol", "Impersonate-Group": "readers"}
    user = ok(await api.admin.post(REVIEW, json=ASK, headers=headers), 201)["status"]["userInfo"]
    assert user["username"] == "carol"
    client = await api.client("bob")
    refused(await client.post(REVIEW, json=ASK, headers=headers), 403, "Forbidden", "impersonate")
