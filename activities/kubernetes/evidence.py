"""Gathers what a real machine offers when it does not join: power state, guest agent, cloud-init, journal.

Only read-only commands that any administrator could type; their output is masked before it is kept.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from clients.proxmox import ProxmoxClient, ProxmoxError
from domain.clusters import Distribution
from domain.diagnosis import Evidence
from domain.machines import Machine

_KUBEADM = ("kubelet", "trilithon-install")
"""kubeadm itself is run by our boot unit; what it says weighs more than the kubelet's and comes last."""
_UNITS: dict[tuple[Distribution, bool], tuple[str, ...]] = {
    (Distribution.K3S, True): ("k3s",),
    (Distribution.K3S, False): ("k3s-agent",),
    (Distribution.RKE2, True): ("rke2-server",),
    (Distribution.RKE2, False): ("rke2-agent",),
    (Distribution.KUBEADM, True): _KUBEADM,
    (Distribution.KUBEADM, False): _KUBEADM,
}

_DONE = "done"
_KUBE_VIP = "ls -t /var/log/pods/kube-system_kube-vip-*/kube-vip/*.log | head -n 1 | xargs tail -n 5"
"""The end of kube-vip's newest log: the container runtime keeps one for each of its starts."""


async def gather(
    client: ProxmoxClient,
    machine: Machine,
    distribution: Distribution,
    api: str,
    virtual_ip: str = "",
    before: Evidence | None = None,
) -> Evidence:
    """Evidence about one machine. Whatever cannot be learned stays unknown; never raises for that.

    Args:
        client: the site's Proxmox VE.
        machine: the machine; it must have been placed.
        distribution: which units' journals to read.
        api: what our probe of the API address met; empty when it answered.
        virtual_ip: what our probe of the virtual IP met while this machine's own API server answered; else empty.
        before: what was learned earlier in the same boot. A cloud-init that had ended well is not asked again: asking
            starts a Python program in the machine, which takes longer than all else here.
    """
    base = f"/nodes/{machine.node}/qemu/{machine.vmid}"
    powered = None
    with suppress(ProxmoxError):
        powered = (await client.get(f"{base}/status/current")).get("status") == "running"
    if powered is False:
        return Evidence(powered_on=False, api=api)
    try:
        await client.post(f"{base}/agent/ping")
    except ProxmoxError:
        return Evidence(powered_on=powered, agent=False, api=api, virtual_ip=virtual_ip)
    if before is not None and before.cloud_init == _DONE:
        first = before
    else:
        first = await _first_boot(client, base)
    journal: list[str] = []
    for unit in _UNITS[distribution, machine.is_server]:
        text = await _run(client, base, "journalctl", "-u", unit, "-n", "12", "--no-pager", "-o", "cat")
        journal += text.splitlines()
    kube_vip = await _run(client, base, "sh", "-c", _KUBE_VIP) if virtual_ip else ""
    return Evidence(
        powered_on=powered,
        agent=True,
        cloud_init=first.cloud_init,
        cloud_init_errors=first.cloud_init_errors,
        log=first.log,
        journal=tuple(journal),
        api=api,
        virtual_ip=virtual_ip,
        kube_vip=tuple(kube_vip.splitlines()),
    )


async def _first_boot(client: ProxmoxClient, base: str) -> Evidence:
    """What cloud-init says of itself, and the end of its log."""
    word, errors = _cloud_init(await _run(client, base, "cloud-init", "status", "--format", "json"))
    log = await _run(client, base, "tail", "-n", "12", "/var/log/cloud-init-output.log")
    return Evidence(cloud_init=word, cloud_init_errors=tuple(errors), log=tuple(log.splitlines()))


async def _run(client: ProxmoxClient, base: str, *command: str) -> str:
    """Output of a command run by the guest agent; empty when it could not be run."""
    with suppress(ProxmoxError):
        pid = (await client.post(f"{base}/agent/exec", command=list(command)))["pid"]
        for _ in range(20):
            answer: dict[str, Any] = await client.get(f"{base}/agent/exec-status", pid=pid)
            if answer.get("exited"):
                return str(answer.get("out-data", ""))
            await asyncio.sleep(0.1)
    return ""


def _cloud_init(text: str) -> tuple[str, list[str]]:
    """Status word and error texts of `cloud-init status --format json`.

    Its exit code 2 means 'done, with recoverable errors' (CAPMOX #506), so the word counts, not the code.
    """
    try:
        answer = json.loads(text)
    except ValueError:
        return "", []
    if not isinstance(answer, dict):
        return "", []
    return str(answer.get("status", "")), [str(error) for error in answer.get("errors") or []]
