"""Why a machine has not joined: from what a real node offers to one sentence a person can act on.

The evidence is what anybody could gather about a real machine: its power state, the guest agent (or its silence),
cloud-init's own status, the last lines of its log and of the distribution's journal, and what our probes of the API
server met. Nothing here knows the simulated nodes.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from domain.frozen import Payload


class Evidence(Payload):
    """What is known about a machine that has not joined.

    `agent` is None while the guest agent has not answered; `cloud_init` is the `status` word of
    `cloud-init status --format json` (`running`, `done`, `error`, ...), `cloud_init_errors` its own error texts.
    `journal` holds the last lines of the distribution's units, newest last. `api` is what the probe of the API address
    met: empty when it answered, otherwise the error's text. `virtual_ip` is what the probe of the virtual IP met while
    this machine's own API server answered, empty in every other case; `kube_vip` then holds kube-vip's last words.
    """

    powered_on: bool | None = None
    agent: bool | None = None
    cloud_init: str = ""
    cloud_init_errors: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    journal: tuple[str, ...] = ()
    api: str = ""
    virtual_ip: str = ""
    kube_vip: tuple[str, ...] = ()


class Diagnosis(Payload):
    """`final`: no waiting mends it, so the job asks a person at once. `text` names what, and what to do."""

    final: bool
    text: str


class _Known(NamedTuple):
    """A text that machines say, and what it means.

    `final`: no waiting mends it. `patience`: seconds from power-on during which it may still be a matter of order.
    """

    pattern: re.Pattern[str]
    meaning: str
    final: bool
    patience: float = 0.0


def _known(pattern: str, meaning: str, *, final: bool, patience: float = 0.0) -> _Known:
    return _Known(re.compile(pattern, re.I), meaning, final, patience)


_KUBEADM = (
    _known(
        r"the template does not hold (kubeadm|kubelet|kubectl|containerd)$|the template holds (kubeadm|kubelet) ",
        "The machine's template does not fit the version: make one that does, and name it in the site",
        final=True,
    ),
    _known(
        r"there is no unit (kubelet|containerd)\.service",
        "The machine's template lacks a service that a node needs",
        final=True,
    ),
    _known(r"the boot data lacks ", "A file that the machine needs is missing in its boot data", final=True),
    _known(
        r"failed to verify JWS signature",
        "The machine's join token is another one than the cluster's",
        final=True,
    ),
    _known(
        r"cluster CA found in cluster-info ConfigMap is invalid|none of the public keys .* are pinned"
        r"|invalid discovery token CA certificate hash",
        "The machine does not trust the server it joins: its boot data name another authority",
        final=True,
    ),
    _known(
        # The Secret stands in the cluster before the machine is powered on, and is signed for within seconds.
        r"could not find a JWS signature|token id .* is invalid for this cluster or it has expired",
        "The cluster does not know the machine's join token: it is wrong, has expired or was deleted",
        final=True,
        patience=60,
    ),
    _known(
        r"assuming external key for|failure loading .*(key|certificate|authority)|couldn't load .*(key|certificate|CA)"
        r"|certificate \S+ is not (a CA|signed by)|not signed by CA certificate|doesn't match parent's PublicKey"
        r"|existed but it could not be loaded properly|neither in RSA nor ECDSA format",
        "An authority's certificate or key on the server is missing or does not fit",
        final=True,
    ),
    _known(
        r"\[ERROR Port-\d+\]",
        "Another program on the machine holds a port that Kubernetes needs",
        final=True,
    ),
    _known(
        r"containerd does not start|\[ERROR CRI\]|could not connect to the container runtime",
        "containerd does not run on the machine: `journalctl -u containerd` there says why",
        final=True,
        patience=120,
    ),
    _known(
        r"\[ERROR ImagePull\]|failed to pull (and unpack )?image",
        "An image cannot be fetched: neither the template holds it nor does its registry give it",
        final=False,
    ),
    _known(
        # The node of an earlier try counts as Ready for some time after its kubelet was stopped.
        r"a Node with name .* already exists in the cluster",
        "The cluster has a node of this name already",
        final=True,
        patience=300,
    ),
    _known(r"\[ERROR [\w-]+\]", "kubeadm refuses to make a node of this machine", final=True),
    _known(
        r"^error.*(unmarshal|decoding error|no kind |invalid configuration for|old API spec|Invalid value"
        r"|Required value|argument has no name|doesn't match patterns for|hostport )"
        r"|can not mix '--config'",
        "kubeadm refuses its configuration file",
        final=True,
    ),
    _known(
        # kubeadm waits two minutes for it and says no more than that it has waited.
        r"error syncing endpoints with etcd",
        "etcd does not answer the joining server: port 2379 is shut between the servers, or the server's etcd "
        "authority is another one than the cluster's",
        final=False,
    ),
    _known(
        r"too many learner|can only promote a learner|etcdserver: |etcd cluster is not healthy",
        "etcd does not take the server in yet",
        final=False,
    ),
    _known(
        r"failed while waiting for the (control plane|kubelet)|kubelet is not healthy",
        "Kubernetes' own programs do not start on the machine",
        final=False,
    ),
)
"""What kubeadm and our script around it say (kubernetes cmd/kubeadm/app, v1.36)."""

_SUPERVISORS = (
    _known(
        r"flag provided but not defined|unknown flag|unrecognized argument",
        "The distribution refuses its configuration file: it holds a setting that this version does not know",
        final=True,
    ),
    _known(
        r"critical configuration (value )?mismatch|critical configuration mismatch",
        "The server refuses to join: a setting that must be the same on all servers differs",
        final=True,
    ),
    _known(
        r"(token CA hash does not match|CA hash)",
        "The machine does not trust the server it joins: the authority in its token is another one",
        final=True,
    ),
    _known(
        r"(not authorized|invalid token|token.*(invalid|rejected)|401 Unauthorized|: Unauthorized$)",
        "The server refuses the machine's join token",
        final=True,
    ),
    _known(
        r"Node password rejected|duplicate hostname",
        "The server knows a node of this name with another password",
        final=True,
    ),
    _known(
        r"bootstrap data.*(newer|differ)|newer than datastore",
        "The server's authorities on disk differ from the cluster's",
        final=True,
    ),
)

_ANY = (
    _known(r"checksum|sha256sum.*FAILED", "A downloaded program has another checksum than expected", final=False),
    _known(
        # Not the bare word: kubeadm tells of every certificate that it makes.
        r"x509|tls: |certificate (is|has|was|signed by|verif|required|expired)|(bad|unknown|invalid) certificate",
        "The TLS conversation with the server fails",
        final=False,
    ),
    _known(
        r"no such host|could not resolve|Temporary failure in name resolution",
        "A name cannot be resolved on the machine: check its DNS servers",
        final=False,
    ),
    _known(
        r"connection refused|no route to host|i/o timeout|network is unreachable",
        "The machine cannot reach the server it joins",
        final=False,
    ),
)

_KNOWN = (*_KUBEADM, *_SUPERVISORS, *_ANY)
"""Texts of the distributions and of cloud-init, the most telling first."""

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
    if evidence.virtual_ip:
        return _silent_virtual_ip(evidence)
    lines = [mask(line) for line in (*evidence.cloud_init_errors, *evidence.journal, *evidence.log) if line.strip()]
    for text in _KNOWN:
        found = _last(lines, text.pattern)
        if found:
            final = text.final and waited >= text.patience
            return Diagnosis(final=final, text=f"{text.meaning}. The machine says: {found}")
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


def _silent_virtual_ip(evidence: Evidence) -> Diagnosis:
    """Everything on the machine waits for the virtual IP then, and blames the network for it."""
    words = [mask(line) for line in evidence.kube_vip if line.strip()]
    said = (
        f"kube-vip says there: {words[-1]}"
        if words
        else "kube-vip has said nothing there: is its image in the template, and its role given (`journalctl -u "
        "trilithon-kube-vip-role`)?"
    )
    return Diagnosis(
        final=False,
        text="The machine's own API server answers, and nobody holds the cluster's virtual IP, which every other "
        f"machine and the pod network need: {evidence.virtual_ip}. {said}",
    )


def _last(lines: Sequence[str], pattern: re.Pattern[str]) -> str:
    return next((line for line in reversed(lines) if pattern.search(line)), "")
