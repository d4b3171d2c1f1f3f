"""Tokens of service accounts."""

import base64
import json
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.contract.backend import Api, Obj, eventually, ok, refused
from tests.contract.test_certificates import ASK, REVIEW


def accounts(space: str) -> str:
    return f"/api/v1/namespaces/{space}/serviceaccounts"


async def account(api: Api, space: str, name: str = "robot") -> Obj:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    return ok(await api.admin.post(accounts(space), json=body), 201)


async def token(api: Api, space: str, name: str = "robot", **spec: object) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    answer = ok(await api.admin.post(f"{accounts(space)}/{name}/token", json=body), 201)
    return str(answer["status"]["token"])


async def test_a_token_is_its_account(api: Api, space: str) -> None:
    await account(api, space)
    client = await api.bearer(await token(api, space))
    user = ok(await client.post(REVIEW, json=ASK), 201)["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{space}:robot"
    assert {"system:serviceaccounts", f"system:serviceaccounts:{space}"} <= set(user["groups"])


async def test_a_token_without_rights_is_forbidden(api: Api, space: str) -> None:
    await account(api, space)
    client = await api.bearer(await token(api, space))
    answer = await client.get("/api/v1/nodes")
    refused(answer, 403, "Forbidden", f'User "system:serviceaccount:{space}:robot" cannot list resource "nodes"')


async def test_a_token_that_nobody_signed_is_unauthorized(api: Api) -> None:
    for text in ("nonsense", "a.b.c", "eyJhbGciOiJub25lIn0.e30."):
        client = await api.bearer(text)
        refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


async def test_a_changed_token_is_unauthorized(api: Api, space: str) -> None:
    await account(api, space)
    head, payload, tail = (await token(api, space)).split(".")
    claims = decoded(payload)
    claims["sub"] = "system:serviceaccount:kube-system:default"
    forged = encoded(json.dumps(claims).encode())
    client = await api.bearer(f"{head}.{forged}.{tail}")
    refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


def signed(api: Api, token: str, **claims: object) -> str:
    """The token with other claims, signed as the cluster signs."""
    head, payload, _ = token.split(".")
    changed = {**decoded(payload), **claims}
    body = f"{head}.{encoded(json.dumps(changed).encode())}"
    first, second = decode_dss_signature(api.backend.service_key.sign(body.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{body}.{encoded(first.to_bytes(32, 'big') + second.to_bytes(32, 'big'))}"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decoded(payload: str) -> Obj:
    found: Obj = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return found


async def test_a_token_that_is_over_is_unauthorized(api: Api, space: str) -> None:
    await account(api, space)
    given = await token(api, space)
    now = int(time.time())
    valid = await api.bearer(signed(api, given, iat=now - 100, nbf=now - 100, exp=now + 500))
    ok(await valid.post(REVIEW, json=ASK), 201)
    over = await api.bearer(signed(api, given, iat=now - 900, nbf=now - 900, exp=now - 300))
    refused(await over.post(REVIEW, json=ASK), 401, "Unauthorized")


async def test_a_token_ends_with_its_account(api: Api, space: str) -> None:
    await account(api, space)
    client = await api.bearer(await token(api, space))
    ok(await client.post(REVIEW, json=ASK), 201)
    ok(await api.admin.delete(f"{accounts(space)}/robot"))
    await account(api, space)

    async def ended() -> bool:
        return (await client.post(REVIEW, json=ASK)).status_code == 401

    await eventually(ended)


async def test_a_token_for_others_is_unauthorized_here(api: Api, space: str) -> None:
    await account(api, space)
    client = await api.bearer(await token(api, space, audiences=["somebody-else"]))
    refused(await client.get("/api/v1/nodes"), 401, "Unauthorized")


async def test_a_token_says_when_it_ends(api: Api, space: str) -> None:
    await account(api, space)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    answer = ok(await api.admin.post(f"{accounts(space)}/robot/token", json=body), 201)
    claims = decoded(answer["status"]["token"].split(".")[1])
    assert claims["exp"] - claims["iat"] == 600
    body["spec"] = {"expirationSeconds": 1}
    assert (await api.admin.post(f"{accounts(space)}/robot/token", json=body)).status_code == 422


async def test_a_token_review(api: Api, space: str) -> None:
    await account(api, space)
    good = await token(api, space)
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    for text, known in ((good, True), ("nonsense", False)):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
        status = ok(await api.admin.post(path, json=body), 201)["status"]
        assert bool(status.get("authenticated")) is known


async def test_a_token_of_an_unknown_account(api: Api, space: str) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    refused(await api.admin.post(f"{accounts(space)}/nobody/token", json=body), 404, "NotFound")
