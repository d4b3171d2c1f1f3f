"""kubeadm's look at the machine before it begins (kubernetes cmd/kubeadm/app/preflight/checks.go)."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lab.nodes.kubeadm import static_pods
from lab.nodes.kubeadm.configuration import SOCKET, Endpoint, Refused, Registration
from lab.nodes.versions import minor

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

CONTAINERD = "containerd.service"
_FORWARD = "/proc/sys/net/ipv4/ip_forward"
_LEAST_MEMORY, _LEAST_CPUS = 1700, 2
Failure = tuple[str, str]
"""Name of the check and what it found."""


def for_init(machine: "Machine", node: Registration, local: Endpoint, version: str, kubelet: str) -> None:
    """The checks of `kubeadm init`; raises Refused with every failure in its lines.

    Args:
        machine: the machine.
        node: names the container runtime, and the checks that only warn.
        local: the API server's address.
        version: of the control plane.
        kubelet: the kubelet's version.
    """
    _end(
        [*_server(machine, local), *_any(machine, node), *_kubelet(kubelet, version)],
        node.ignored,
    )


def for_join(machine: "Machine", node: Registration, server: bool) -> None:
    """The checks of `kubeadm join` before it has asked anybody."""
    failures = [
        (f"FileAvailable--etc-kubernetes-{name}.conf", f"/etc/kubernetes/{name}.conf already exists")
        for name in ("kubelet", "bootstrap-kubelet")
        if machine.disk.exists(f"/etc/kubernetes/{name}.conf")
    ]
    failures += _any(machine, node)
    if not server and machine.disk.exists("/etc/kubernetes/pki/ca.crt"):
        failures.append(("FileAvailable--etc-kubernetes-pki-ca.crt", "/etc/kubernetes/pki/ca.crt already exists"))
    _end(failures, node.ignored)


def for_joining_server(machine: "Machine", node: Registration, local: Endpoint) -> None:
    """The further checks of a machine that becomes a server, once the cluster's configuration is known."""
    _end(_server(machine, local), node.ignored)


def images(machine: "Machine", node: Registration, version: str) -> None:
    """Fetches what the template lacks: nobody gives images here, so a missing one ends kubeadm."""
    missing = machine.fault.missing_image
    _end(
        [
            (
                "ImagePull",
                f"failed to pull image {image}: failed to pull image {image}: failed to pull and unpack image: failed "
                f'to resolve reference "{image}": dial tcp: lookup registry.k8s.io: no such host',
            )
            for image in static_pods.images(version)
            if missing and missing in image
        ],
        node.ignored,
    )


def _server(machine: "Machine", local: Endpoint) -> Iterable[Failure]:
    hardware = machine.hardware
    if hardware.cores < _LEAST_CPUS:
        yield "NumCPU", f"the number of available CPUs {hardware.cores} is less than the required {_LEAST_CPUS}"
    if hardware.memory_mib < _LEAST_MEMORY:
        yield "Mem", f"the system RAM ({hardware.memory_mib} MB) is less than the minimum {_LEAST_MEMORY} MB"
    serves = machine.program is not None and machine.program.handler is not None
    for port in (local.port, 10259, 10257, 2379, 2380):
        if machine.fault.port_taken == port or serves:
            yield f"Port-{port}", f"Port {port} is in use"
    for name in (*static_pods.COMPONENTS, "etcd"):
        path = f"{static_pods.FOLDER}/{name}.yaml"
        if machine.disk.exists(path):
            yield f"FileAvailable--etc-kubernetes-manifests-{name}.yaml", f"{path} already exists"
    if machine.disk.member:
        yield "DirAvailable--var-lib-etcd", "/var/lib/etcd is not empty"


def _any(machine: "Machine", node: Registration) -> Iterable[Failure]:
    if node.socket != SOCKET or not machine.runs(CONTAINERD):
        path = node.socket.removeprefix("unix://")
        yield (
            "CRI",
            "could not connect to the container runtime: failed to create new CRI runtime service: validate service "
            f'connection: validate CRI v1 runtime API for endpoint "{node.socket}": rpc error: code = Unavailable desc '
            f'= connection error: desc = "transport: Error while dialing: dial unix {path}: connect: no such file or '
            'directory"',
        )
    if not forwards(machine):
        yield "FileContent--proc-sys-net-ipv4-ip_forward", f"{_FORWARD} contents are not set to 1"
    if machine.fault.port_taken == 10250 or machine.runs("kubelet.service"):
        yield "Port-10250", "Port 10250 is in use"


def forwards(machine: "Machine") -> bool:
    """Whether the kernel passes packets on: its settings are those of the files that were loaded."""
    files = machine.disk.below("/etc/sysctl.d").values()
    return any(re.search(r"^net\.ipv4\.ip_forward\s*=\s*1$", file.text, re.MULTILINE) for file in files)


def _kubelet(kubelet: str, version: str) -> Iterable[Failure]:
    if minor(kubelet) > minor(version):
        yield (
            "KubeletVersion",
            "the kubelet version is higher than the control plane version. This is not a supported version skew and "
            f'may lead to a malfunctional cluster. Kubelet version: "{kubelet.removeprefix("v")}" Control plane '
            f'version: "{version.removeprefix("v")}"',
        )


def _end(failures: Iterable[Failure], ignored: frozenset[str]) -> None:
    counted = [(name, text) for name, text in failures if name.lower() not in ignored and "all" not in ignored]
    if counted:
        lines = ["[preflight] Some fatal errors occurred:"]
        lines += [f"\t[ERROR {name}]: {text}" for name, text in counted]
        hint = "[preflight] If you know what you are doing, you can make a check non-fatal with"
        lines.append(f"{hint} `--ignore-preflight-errors=...`")
        raise Refused("error execution phase preflight: preflight checks failed", tuple(lines))
