"""Sign-in and permissions against the simulated datacenter, which knows second factors and renewal."""

import base64
import hashlib
import hmac
import struct
import time

import pytest

from clients.proxmox import (
    ProxmoxClient,
    Refused,
    SecondFactor,
    SignedIn,
    Ticket,
    Trust,
    permissions,
    realms,
    renew,
    second_factor,
    sign_in,
)
from tests.activities.proxmox.conftest import Datacenter


def totp(secret: str) -> str:
    """A code of now (RFC 6238: SHA-1, 30 seconds, six digits)."""
    digest = hmac.new(base64.b32decode(secret), struct.pack(">Q", int(time.time()) // 30), hashlib.sha1).digest()
    start = digest[-1] & 15
    return f"{(struct.unpack('>I', digest[start : start + 4])[0] & 0x7FFFFFFF) % 10**6:06d}"


def door(datacenter: Datacenter) -> tuple[list[str], Trust]:
    return datacenter.endpoints, Trust(fingerprint=datacenter.fingerprint)


async def test_password_permissions_and_renewal(datacenter: Datacenter) -> None:
    assert {realm.name for realm in await realms(*door(datacenter))} >= {"pam", "pve", "sso"}
    signed = await sign_in(*door(datacenter), "pve", "dev", "lab-dev")
    assert isinstance(signed, SignedIn)
    client = ProxmoxClient(
        datacenter.endpoints, Ticket(signed.username, signed.ticket, signed.csrf), door(datacenter)[1]
    )
    held = await permissions(client, "/pool/trilithon")
    assert "VM.Allocate" in held["/pool/trilithon"]
    assert await permissions(client, "/storage/fast") in ({}, {"/storage/fast": {}})
    await client.aclose()
    again = await renew(*door(datacenter), signed.username, signed.ticket)
    assert again.username == "dev@pve"
    with pytest.raises(Refused):
        await sign_in(*door(datacenter), "pve", "dev", "wrong")


async def test_a_second_factor(datacenter: Datacenter) -> None:
    asked = await sign_in(*door(datacenter), "pve", "owner", "lab-owner")
    assert isinstance(asked, SecondFactor)
    assert asked.supported == ("totp",)
    people = datacenter.control("GET", "people")["people"]
    secret = next(person["totp"] for person in people if person["userid"] == "owner@pve")
    full = await second_factor(*door(datacenter), asked.username, asked.challenge, "totp", totp(secret))
    assert full.username == "owner@pve"
