"""Signing in, staying signed in and being signed out, against the simulated Proxmox VE."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.world import ADMIN, LOCAL, Lab, Person, World, credentials, totp

WRONG = "User name or password is wrong."


async def test_a_person_signs_in_and_out(world: World) -> None:
    person = await world.sign_in("dev@pve")
    session = (await person.get("/session")).json()
    assert (session["user"], session["site"], session["local"]) == ("dev@pve", "lab", False)
    assert session["may"]["create_cluster"]["allowed"]
    assert not session["may"]["administer_site"]["allowed"]
    assert (await person.delete("/session")).status_code == 204
    answer = await person.get("/session")
    assert answer.status_code == 401
    assert answer.json()["code"] == "not-signed-in"


async def test_signing_out_forgets_the_ticket(world: World) -> None:
    from store import session_id

    person = await world.sign_in("dev@pve")
    scope = f"session/{session_id(person.cookie.partition('=')[2])}"
    assert await world.store.secrets.names(scope) == ["ticket"]
    await person.delete("/session")
    assert await world.store.secrets.names(scope) == []


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(world: World) -> None:
    answer = await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve"))
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "max-age" not in cookie
    assert answer.headers["cache-control"] == "no-store"
    assert "ticket" not in answer.text
    assert "PVE" not in answer.text


@pytest.mark.parametrize(
    "change",
    [{"password": "wrong"}, {"username": "nobody-of-that-name"}, {"username": "root"}],
    ids=["password", "name", "another's name"],
)
async def test_whatever_is_wrong_the_answer_is_the_same(world: World, change: dict[str, str]) -> None:
    answer = await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve") | change)
    assert answer.status_code == 401
    assert answer.json()["detail"] == WRONG
    assert answer.json()["code"] == "sign-in-refused"
    assert "set-cookie" not in answer.headers


async def test_a_realm_that_is_not_supported_is_named(world: World) -> None:
    answer = await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve") | {"realm": "sso"})
    assert answer.status_code == 401
    assert answer.json()["code"] == "factor-not-supported"
    assert "sso" in answer.json()["detail"]
    assert "openid" in answer.json()["detail"]
    assert WRONG not in answer.text


async def test_a_realm_that_does_not_exist_is_named(world: World) -> None:
    answer = await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve") | {"realm": "ldap"})
    assert answer.json()["code"] == "factor-not-supported"
    assert "pve" in answer.json()["remedy"]


async def test_the_realms_of_a_site(world: World) -> None:
    found = (await Person(world.http).get("/realms")).json()
    realms = {row["realm"]: row for row in found["realms"]}
    assert found["site"] == "lab"
    assert found["sites"] == ["lab"]
    assert realms["pve"]["supported"]
    assert not realms["sso"]["supported"]
    assert realms["sso"]["remedy"]
    assert realms["local"]["supported"]


async def test_the_second_factor(world: World) -> None:
    person = Person(world.http)
    answer = await person.post("/session", json=credentials(world.lab, "owner@pve"))
    assert answer.status_code == 202
    assert "set-cookie" not in answer.headers
    factor = answer.json()["second_factor"]
    assert factor["kinds"] == ["totp"]
    assert "PVE" not in factor["challenge_id"]
    wrong = {"challenge_id": factor["challenge_id"], "kind": "totp", "code": "000000"}
    refused = await person.post("/session/second-factor", json=wrong)
    assert refused.status_code == 401
    assert refused.json()["code"] == "sign-in-refused"
    right = wrong | {"code": totp(world.lab.people["owner@pve"]["totp"], datetime.now(UTC))}
    answer = await person.post("/session/second-factor", json=right)
    assert answer.status_code == 200
    assert answer.json()["user"] == "owner@pve"


async def test_a_second_factor_that_is_not_supported_is_named(world: World) -> None:
    person = Person(world.http)
    answer = await person.post("/session", json=credentials(world.lab, "owner@pve"))
    body = {"challenge_id": answer.json()["second_factor"]["challenge_id"], "kind": "webauthn", "code": "x"}
    refused = await person.post("/session/second-factor", json=body)
    assert refused.json()["code"] == "factor-not-supported"
    assert "webauthn" in refused.json()["detail"]


@pytest.mark.parametrize("challenge", ["", "x", "AAAA", "A" * 200])
async def test_a_challenge_that_is_not_ours_is_refused(world: World, challenge: str) -> None:
    body = {"challenge_id": challenge, "kind": "totp", "code": "123456"}
    assert (await Person(world.http).post("/session/second-factor", json=body)).status_code == 401


async def test_a_challenge_ends(world: World) -> None:
    person = Person(world.http)
    answer = await person.post("/session", json=credentials(world.lab, "owner@pve"))
    world.clock.ahead = timedelta(minutes=6)
    body = {
        "challenge_id": answer.json()["second_factor"]["challenge_id"],
        "kind": "totp",
        "code": totp(world.lab.people["owner@pve"]["totp"], datetime.now(UTC)),
    }
    assert (await person.post("/session/second-factor", json=body)).status_code == 401


async def test_the_local_administrator(world: World) -> None:
    person = await world.sign_in(LOCAL)
    session = (await person.get("/session")).json()
    assert session["local"]
    assert session["site"] is None
    assert session["may"]["administer_sites"]["allowed"]
    assert not session["may"]["create_cluster"]["allowed"]
    wrong = {"realm": "local", "username": ADMIN, "password": "wrong"}
    assert (await Person(world.http).post("/session", json=wrong)).json()["detail"] == WRONG


async def test_guessing_is_slowed_down(world: World) -> None:
    person = Person(world.http)
    wrong = {"realm": "local", "username": "guess", "password": "wrong"}
    statuses = [(await person.post("/session", json=wrong)).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    answer = await person.post("/session", json=wrong)
    assert int(answer.headers["retry-after"]) > 0
    # Another person from the same place is not locked out by it, nor is this one after a while.
    assert (await person.post("/session", json=credentials(world.lab, "dev@pve"))).status_code == 200
    world.clock.ahead = timedelta(minutes=6)
    assert (await person.post("/session", json=wrong)).status_code == 401


async def test_a_change_needs_the_sessions_token(world: World) -> None:
    person = await world.sign_in("dev@pve")
    right, person.csrf = person.csrf, ""
    for headers in ({}, {"X-CSRF-Token": "wrong"}):
        answer = await person.post("/session/renew", headers=headers)
        assert answer.status_code == 403
        assert answer.json()["code"] == "csrf-missing"
    assert (await person.post("/session/renew", headers={"X-CSRF-Token": right})).status_code == 200


async def test_a_sign_in_that_another_page_sends_is_refused(world: World) -> None:
    headers = {"Sec-Fetch-Site": "cross-site"}
    answer = await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve"), headers=headers)
    assert answer.status_code == 403


async def test_a_session_ends_without_use(world: World) -> None:
    person = await world.sign_in("dev@pve")
    world.clock.ahead = timedelta(hours=2)
    answer = await person.get("/clusters")
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not-signed-in"


async def test_use_keeps_a_session_and_renews_its_ticket(world: World) -> None:
    from store import session_id

    person = await world.sign_in("dev@pve")
    scope = f"session/{session_id(person.cookie.partition('=')[2])}"
    before = await world.store.secrets.get(scope, "ticket")
    for minutes in (20, 50, 80, 110, 140):
        world.clock.ahead = timedelta(minutes=minutes)
        assert (await person.get("/clusters")).status_code == 200
    assert await world.store.secrets.get(scope, "ticket") != before


async def test_renewal_gives_another_ticket(world: World) -> None:
    person = await world.sign_in("owner@pve")
    answer = await person.post("/session/renew")
    assert answer.status_code == 200
    assert answer.json()["user"] == "owner@pve"
    assert (await person.get("/clusters")).status_code == 200


async def test_a_disabled_person_is_signed_out(world: World, lab: Lab) -> None:
    person = await world.sign_in("dev@pve")
    lab.control("PUT", "/lab/people/dev@pve", {"enable": False})
    try:
        answer = await person.get("/clusters")
        assert answer.status_code == 401
        assert answer.json()["code"] == "not-signed-in"
    finally:
        lab.control("PUT", "/lab/people/dev@pve", {"enable": True})


async def test_signing_in_again_ends_the_session_before(world: World) -> None:
    person = await world.sign_in("dev@pve")
    answer = await person.post("/session", json=credentials(world.lab, "dev@pve"))
    assert answer.status_code == 200
    assert answer.json()["csrf"] != person.csrf
    assert (await person.get("/session")).status_code == 401


async def test_sign_ins_are_in_the_audit_without_passwords(world: World) -> None:
    await Person(world.http).post("/session", json=credentials(world.lab, "dev@pve") | {"password": "hunter-2"})
    await world.sign_in("dev@pve")
    entries = (await world.person(LOCAL).get("/audit?action=session.sign-in")).json()["items"]
    assert [(row["actor"], row["result"]) for row in entries[:2]] == [("dev@pve", "done"), ("dev@pve", "refused")]
    assert "hunter-2" not in str(entries)
