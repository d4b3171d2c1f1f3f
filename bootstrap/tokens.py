"""The tokens with which machines join a cluster."""

import json
from dataclasses import dataclass, field

from bootstrap.authorities import Randomness, fingerprint

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


@dataclass(frozen=True)
class Tokens:
    """Passwords of a cluster; kept as one secret (`to_json`).

    `server` admits control-plane machines and is also the passphrase of what the servers keep in etcd for one
    another: losing it makes a snapshot unusable (facts 2.5). `agent` admits workers only. `bootstrap` is kubeadm's, for
    servers and workers alike; empty in secrets that were made before kubeadm was built. It is valid only while its
    Secret stands in the cluster (`bootstrap.bootstrap_token`).
    """

    server: str = field(repr=False)
    agent: str = field(repr=False)
    bootstrap: str = field(default="", repr=False)

    def to_json(self) -> str:
        """One JSON text for the secret box."""
        content = {"format": 1, "server": self.server, "agent": self.agent, "bootstrap": self.bootstrap}
        return json.dumps(content, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Tokens":
        """Reads what `to_json` wrote."""
        content = json.loads(text)
        return cls(server=content["server"], agent=content["agent"], bootstrap=content.get("bootstrap", ""))


def make(rng: Randomness) -> Tokens:
    """Draws fresh tokens: 256 bits each, hexadecimal, so that no file format needs to quote them.

    kubeadm's has the form that Kubernetes prescribes; its secret half has 82 bits.
    """
    server, agent = rng.token_bytes(32).hex(), rng.token_bytes(32).hex()
    return Tokens(server=server, agent=agent, bootstrap=f"{_letters(rng, 6)}.{_letters(rng, 16)}")


def k10(authority_certificate: bytes, password: str, *, user: str = "server") -> str:
    """The secure form of a token: the joining node checks the server's authority before it says the password.

    Args:
        authority_certificate: exact PEM bytes of the server authority, as the server shows them at `/cacerts`
            (a single certificate: the hash is of the file's bytes, facts 2.5).
        password: `Tokens.server` or `Tokens.agent`.
        user: `server` for the server token, `node` for the agent token.
    """
    return f"K10{fingerprint(authority_certificate)}::{user}:{password}"


def _letters(rng: Randomness, count: int) -> str:
    """Small letters and digits. 64 bits more than needed are drawn, so that the remainder's bias is beyond notice."""
    number = int.from_bytes(rng.token_bytes(count + 8), "big")
    drawn = []
    for _ in range(count):
        number, index = divmod(number, len(_ALPHABET))
        drawn.append(_ALPHABET[index])
    return "".join(drawn)
