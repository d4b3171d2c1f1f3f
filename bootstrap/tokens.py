"""The tokens with which machines join a k3s or RKE2 cluster."""

import json
from dataclasses import dataclass, field

from bootstrap.authorities import Randomness, fingerprint


@dataclass(frozen=True)
class Tokens:
    """Passwords of a cluster; kept as one secret (`to_json`).

    `server` admits control-plane machines and is also the passphrase of what the servers keep in etcd for one
    another: losing it makes a snapshot unusable (facts 2.5). `agent` admits workers only.
    """

    server: str = field(repr=False)
    agent: str = field(repr=False)

    def to_json(self) -> str:
        """One JSON text for the secret box."""
        return json.dumps({"format": 1, "server": self.server, "agent": self.agent}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Tokens":
        """Reads what `to_json` wrote."""
        content = json.loads(text)
        return cls(server=content["server"], agent=content["agent"])


def make(rng: Randomness) -> Tokens:
    """Draws fresh tokens: 256 bits each, hexadecimal, so that no file format needs to quote them."""
    return Tokens(server=rng.token_bytes(32).hex(), agent=rng.token_bytes(32).hex())


def k10(authority_certificate: bytes, password: str, *, user: str = "server") -> str:
    """The secure form of a token: the joining node checks the server's authority before it says the password.

    Args:
        authority_certificate: exact PEM bytes of the server authority, as the server shows them at `/cacerts`
            (a single certificate: the hash is of the file's bytes, facts 2.5).
        password: `Tokens.server` or `Tokens.agent`.
        user: `server` for the server token, `node` for the agent token.
    """
    return f"K10{fingerprint(authority_certificate)}::{user}:{password}"
