"""Sign-in in one and two steps, against a fake that scripts every answer."""

from collections.abc import Callable
from urllib.parse import quote

import pytest

from clients.proxmox import (
    NotSupported,
    Refused,
    SecondFactor,
    SignedIn,
    Trust,
    realms,
    renew,
    second_factor,
    sign_in,
)
from clients.proxmox.signin import challenge_kinds
from tests.clients.proxmox.conftest import FakeHttps, Seen

Make = Callable[[], FakeHttps]
HALF = "PVE:!tfa!" + quote('{"totp":true,"recovery":"low","webauthn":{"challenge":1}}') + ":65A::signature"


def endpoint(fake: FakeHttps) -> tuple[list[str], Trust]:
    return [fake.endpoint], Trust(fingerprint=fake.fingerprint)


async def test_password_then_code(fake_https: Make) -> None:
    fake = fake_https()

    def answer(seen: Seen) -> tuple[int, str, object]:
        if seen.form.get("tfa-challenge") == HALF and seen.form["password"] == "totp:123456":
            full = {"username": "owner@pve", "ticket": "PVE:owner@pve:1::s", "CSRFPreventionToken": "c"}
            return 200, "OK", full
        if seen.form["password"] == "lab-owner" and "tfa-challenge" not in seen.form:
            return 200, "OK", {"username": "owner@pve", "ticket": HALF, "CSRFPreventionToken": "c", "NeedTFA": 1}
        return 401, "authentication failure", None

    fake.answers["POST", "/access/ticket"] = answer
    asked = await sign_in(*endpoint(fake), "pve", "owner", "lab-owner")
    assert isinstance(asked, SecondFactor)
    assert asked.kinds == ("totp", "recovery", "webauthn")
    assert asked.supported == ("totp", "recovery")
    assert "otp" not in fake.seen[-1].form
    with pytest.raises(Refused):
        await second_factor(*endpoint(fake), asked.username, asked.challenge, "totp", "000000")
    with pytest.raises(NotSupported, match="webauthn"):
        await second_factor(*endpoint(fake), asked.username, asked.challenge, "webauthn", "{}")
    full = await second_factor(*endpoint(fake), asked.username, asked.challenge, "totp", " 123456 ")
    assert full == SignedIn("owner@pve", "PVE:owner@pve:1::s", "c")
    assert "PVE:" not in repr(full)


async def test_renewal_and_refusal(fake_https: Make) -> None:
    fake = fake_https()

    def answer(seen: Seen) -> tuple[int, str, object]:
        if seen.form["password"] == "PVE:dev@pve:1::s":
            return 200, "OK", {"username": "dev@pve", "ticket": "PVE:dev@pve:2::t", "CSRFPreventionToken": "d"}
        return 401, "authentication failure", None

    fake.answers["POST", "/access/ticket"] = answer
    assert (await renew(*endpoint(fake), "dev@pve", "PVE:dev@pve:1::s")).ticket == "PVE:dev@pve:2::t"
    with pytest.raises(Refused):
        await sign_in(*endpoint(fake), "pve", "dev@pve", "wrong")
    assert fake.seen[-1].form["username"] == "dev@pve"


async def test_realms_name_what_is_not_built_yet(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/access/domains"] = (
        200,
        "OK",
        [{"realm": "pve", "type": "pve", "default": 1}, {"realm": "sso", "type": "openid", "comment": "SSO"}],
    )
    found = await realms(*endpoint(fake))
    assert [(realm.name, realm.supported, realm.default) for realm in found] == [
        ("pve", True, True),
        ("sso", False, False),
    ]


@pytest.mark.parametrize(
    ("ticket", "kinds"),
    [
        (HALF, ("totp", "recovery", "webauthn")),
        ("PVE:!tfa!" + quote('{"totp":false,"yubico":true}') + ":1::s", ("yubico",)),
        ("PVE:!tfa!unreadable", ("totp",)),
    ],
)
def test_kinds_of_a_half_done_ticket(ticket: str, kinds: tuple[str, ...]) -> None:
    assert challenge_kinds(ticket) == kinds
