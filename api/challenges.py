"""Half-done sign-ins: the password was right, the second factor is still to come.

Proxmox VE's challenge goes to the client sealed, so that no process has to remember it and none is tied to a process:
the key lies in the secret box. Sealed, because a challenge is a password already given: it must not be usable against
Proxmox VE itself, nor for another person, nor later.
"""

import base64
import binascii
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from api.problems import SignInRefused
from domain.errors import ErrorCode
from store import NotFound, Store

LIFE = timedelta(minutes=5)
SCOPE, NAME = "platform", "challenge-key"
_NONCE = 12


@dataclass(frozen=True)
class Challenge:
    """What is kept between the two steps. `challenge` is Proxmox VE's half-done ticket."""

    site_id: str
    username: str
    challenge: str
    expires_at: datetime


async def seal(store: Store, challenge: Challenge) -> str:
    value = {
        "site": challenge.site_id,
        "user": challenge.username,
        "ticket": challenge.challenge,
        "until": challenge.expires_at.isoformat(),
    }
    nonce = os.urandom(_NONCE)
    sealed = AESGCM(await _key(store)).encrypt(nonce, json.dumps(value).encode(), b"challenge")
    return base64.urlsafe_b64encode(nonce + sealed).decode()


async def open_sealed(store: Store, sealed: str, clock: Callable[[], datetime]) -> Challenge:
    """Raises SignInRefused when it is too old, or not one of ours."""
    try:
        raw = base64.urlsafe_b64decode(sealed.encode())
        value = json.loads(AESGCM(await _key(store)).decrypt(raw[:_NONCE], raw[_NONCE:], b"challenge"))
    except (binascii.Error, ValueError, InvalidTag):
        raise _too_late() from None
    challenge = Challenge(value["site"], value["user"], value["ticket"], datetime.fromisoformat(value["until"]))
    if challenge.expires_at <= clock():
        raise _too_late()
    return challenge


async def _key(store: Store) -> bytes:
    try:
        return await store.secrets.get(SCOPE, NAME)
    except NotFound:
        # Two processes may both make one at the very first sign-in; then the later one holds, and one sign-in of
        # that second has to be begun again.
        await store.secrets.put(SCOPE, NAME, AESGCM.generate_key(256))
        return await store.secrets.get(SCOPE, NAME)


def _too_late() -> SignInRefused:
    return SignInRefused(
        ErrorCode.SIGN_IN_REFUSED,
        "This sign-in took too long, or was never begun here.",
        "Begin again with the password.",
    )
