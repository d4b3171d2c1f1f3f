"""Why a machine has not joined: from what a real node offers to one sentence a person can act on.

The evidence is what anybody could gather about a real machine: its power state, the guest agent (or its silence),
cloud-init's own status, the last lines of its log and of the distribution's journal, and what our probes of the API
server met. Nothing here knows the simulated nodes.
"""

import re
from collections.abc import Sequence

from domain.frozen import Payload


class Evidence(Payload):
    """What is known about a machine that has not joined.

    `agent` is None while the guest agent has not answered; `cloud_init` is the `status` word of
    `cloud-init status --format json` (`running`, `done`, `error`, ...), `cloud_init_errors` its own error texts.
    `journal` holds the last lines of the distribution's unit, newest last. `api` is what the probe of the API address
    met: empty when it answered, otherwise the error's text.
    """

    powered_on: bool | None = None
    agent: bool | None = None
    cloud_init: str = ""
    cloud_init_errors: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    journal: tuple[str, ...] = ()
    api: str = ""


class Diagnosis(Payload):
    """`final`: no waiting mends it, so the job asks a person at once. `text` names what, and what to do."""

    final: bool
    text: str


_KNOWN: tuple[tuple[re.Pattern[str], str, bool], ...] = (
    (
        re.compile(r"flag provided but not defined|unknown flag|unrecognized argument", re.I),
        "The distribution refuses its configuration file: it holds a setting that this version does not know",
        True,
    ),
    (
        re.compile(r"critical configuration (value )?mismatch|critical configuration mismatch", re.I),
        "The server refuses to join: a setting that must be the same on all servers differs",
        True,
    ),
    (
        re.compile(r"(token CA hash does not match|CA hash)", re.I),
        "The machine does not trust the server it joins: the authority in its token is another one",
        True,
    ),
    (
        re.compile(r"(not authorized|invalid token|token.*(invalid|rejected)|401 Unauthorized)", re.I),
        "The server refuses the machine's join token",
        True,
    ),
    (
        re.compile(r"Node password rejected|duplicate hostname", re.I),
        "The server knows a node of this name with another password",
        True,
    ),
    (
        re.compile(r"bootstrap data.*(newer|differ)|newer than datastore", re.I),
        "The server's authorities on disk differ from the cluster's",
        True,
    ),
    (re.compile(r"checksum|sha256sum.*FAILED", re.I), "A downloaded program has another checksum than expected", False),
    (re.compile(r"x509|certificate", re.I), "The TLS conversation with the server fails", False),
    (
        re.compile(r"no such host|could not resolve|Temporary failure in name resolution", re.I),
        "A name cannot be resolved on the machine: check its DNS servers",
        False,
    ),
    (
        re.compile(r"connection refused|no route to host|i/o timeout|network is unreachable", re.I),
        "The machine cannot reach the server it joins",
        False,
    ),
)
"""Texts of the distributions and of cloud-init, the most telling first; (pattern, what it means, final)."""

_SECRETS = re.compile(
    r"(K10[0-9a-f]{64}::\w+:\S+|\b[a-z0-9]{6}\.[a-z0-9]{16}\b|(token|password|secret)[\"']?\s*[=:]\s*\S{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*)",
    re.I,
)


def mask(line: str) -> str:
    """A log line without join tokens and keys, at most 300 characters."""
    return _SECRETS.sub("<masked>", line)[:300]


def diagnose(evidence: Evidence, waited: float) -> Diagnosis:
    """The most telling sentence about a machine that has not joined after `waited` seconds.

    A final finding needs the machine's own word (its journal, or cloud-init's error); silence is never one.
    """
    if evidence.powered_on is False:
        return Diagnosis(final=False, text="The VM is powered off. It is started again with the next try.")
    lines = [mask(line) for line in (*evidence.cloud_init_errors, *evidence.journal, *evidence.log) if line.strip()]
    for pattern, meaning, final in _KNOWN:
        found = _last(lines, pattern)
        if found:
            return Diagnosis(final=final, text=f"{meaning}. The machine says: {found}")
    if evidence.cloud_init == "error":
        last = lines[-1] if lines else "no text"
        return Diagnosis(final=True, text=f"cloud-init failed on the machine. Its last words: {last}")
    if evidence.agent is None or not evidence.agent:
        known = f" The API address: {evidence.api}." if evidence.api else ""
        return Diagnosis(
            final=False,
            text=f"The VM runs, its guest agent has not answered for {waited:.0f} s, so the machine itself cannot be "
            f"asked.{known} Its console in Proxmox VE shows more.",
        )
    state = f"cloud-init: {evidence.cloud_init or 'unknown'}"
    last = f" Its last words: {lines[-1]}" if lines else ""
    api = f" The API address: {evidence.api}." if evidence.api else ""
    return Diagnosis(
        final=False, text=f"The machine is up ({state}) and has not joined after {waited:.0f} s.{api}{last}"
    )


def _last(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    return next((line for line in reversed(lines) if pattern.search(line)), "")
