"""Tokens of service accounts."""

import base64
import json
import secrets
import time

import pytest
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
    for seconds, words in ((1, "less than 10 minutes"), (2**33, "larger than 2^32 seconds")):
        body["spec"] = {"expirationSeconds": seconds}
        refused(await api.admin.post(f"{accounts(space)}/robot/token", json=body), 422, "Invalid", words)


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


async def test_a_token_is_bound_to_what_is_there(api: Api, space: str) -> None:
    await account(api, space)
    for bound, why, words in (
        ({"kind": "Secret", "apiVersion": "v1", "name": "gone"}, (404, "NotFound"), 'secrets "gone" not found'),
        ({"kind": "Thing", "apiVersion": "v1", "name": "it"}, (400, "BadRequest"), "cannot bind token to object of"),
    ):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"boundObjectRef": bound}}
        refused(await api.admin.post(f"{accounts(space)}/robot/token", json=body), *why, words)


async def test_a_secret_holds_a_lasting_token(api: Api, space: str) -> None:
    await account(api, space)
    path, kind = f"/api/v1/namespaces/{space}/secrets", "kubernetes.io/service-account-token"

    def secret(name: str, about: str) -> Obj:
        notes = {"kubernetes.io/service-account.name": about} if about else {}
        return {"metadata": {"name": name, "annotations": notes}, "type": kind}

    ok(await api.admin.post(path, json=secret("lasting", "robot")), 201)

    async def filled() -> str:
        data = ok(await api.admin.get(f"{path}/lasting")).get("data") or {}
        return base64.b64decode(data.get("token", "")).decode()

    client = await api.bearer(await eventually(filled))
    user = ok(await client.post(REVIEW, json=ASK), 201)["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{space}:robot"
    refused(await api.admin.post(path, json=secret("nobodys", "")), 422, "Invalid", "service-account.name")
    ok(await api.admin.post(path, json=secret("of-nobody", "nobody")), 201)

    async def gone() -> bool:
        return (await api.admin.get(f"{path}/of-nobody")).status_code == 404

    await eventually(gone)


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({}, True),
        ({"expiration": "2020-01-01T00:00:00Z"}, False),
        ({"usage-bootstrap-authentication": "false"}, False),
        ({"token-secret": "fedcba9876543210"}, False),
    ],
    ids=["valid", "over", "not for signing in", "another secret"],
)
async def test_a_bootstrap_token(api: Api, change: dict[str, str], known: bool) -> None:
    public, private, group = secrets.token_hex(3), "0123456789abcdef", "system:bootstrappers:kubeadm:default-node-token"
    data = {"token-id": public, "token-secret": private, "usage-bootstrap-authentication": "true"}
    path = "/api/v1/namespaces/kube-system/secrets"
    body = {
        "metadata": {"name": f"bootstrap-token-{public}"},
        "type": "bootstrap.kubernetes.io/token",
        "stringData": {**data, "auth-extra-groups": group, **change},
    }
    ok(await api.admin.post(path, json=body), 201)
    try:
        client = await api.bearer(f"{public}.{private}")
        if not known:
            refused(await client.post(REVIEW, json=ASK), 401, "Unauthorized")
            return

        async def answered() -> bool:
            return (await client.post(REVIEW, json=ASK)).status_code == 201

        await eventually(answered)
        user = ok(await client.post(REVIEW, json=ASK), 201)["status"]["userInfo"]
        assert user["username"] == f"system:bootstrap:{public}"
        assert {"system:bootstrappers", group} <= set(user["groups"])
    finally:
        ok(await api.admin.delete(f"{path}/bootstrap-token-{public}"))
