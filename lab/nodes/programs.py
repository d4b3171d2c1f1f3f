"""The distributions' programs: what stands for them in a template and at an artifact address."""

import hashlib
import io
import re
import tarfile

from lab.nodes.disk import Disk

_MARK = "# trilithon lab: stands for "
_VERSION = re.compile(re.escape(_MARK) + r"(k3s|rke2|kubeadm|kubelet|kubectl|containerd) (\S+)$", re.MULTILINE)
CONTAINERD = "1.7.24"
"""containerd of a kubeadm template that says nothing else."""


def program(name: str, version: str) -> bytes:
    """A file that says which program it stands for; also a shell script that answers `--version` alike."""
    return (
        f"#!/bin/sh\n{_MARK}{name} {version}\n"
        f'[ "${{1:-}}" = --version ] && echo "{name} version {version} (0000000000)"\n'
    ).encode()


def version_of(data: bytes) -> tuple[str, str]:
    """Program and version that a file stands for; ("", "") for any other file."""
    match = _VERSION.search(data.decode("utf-8", "replace"))
    return (match[1], match[2]) if match else ("", "")


def _rke2_unit(kind: str) -> str:
    return (
        f"[Unit]\nDescription=Rancher Kubernetes Engine v2 ({kind})\nWants=network-online.target\n"
        "After=network-online.target\n\n[Service]\nType=notify\nKillMode=process\nDelegate=yes\nTimeoutStartSec=0\n"
        f"Restart=always\nRestartSec=5s\nExecStart=/usr/local/bin/rke2 {kind}\n\n[Install]\n"
        "WantedBy=multi-user.target\n"
    )


def _rke2_files(version: str) -> dict[str, tuple[bytes, int]]:
    return {
        "bin/rke2": (program("rke2", version), 0o755),
        "bin/rke2-uninstall.sh": (b"#!/bin/sh\n", 0o755),
        "lib/systemd/system/rke2-server.service": (_rke2_unit("server").encode(), 0o644),
        "lib/systemd/system/rke2-agent.service": (_rke2_unit("agent").encode(), 0o644),
    }


def artifacts(distribution: str, version: str) -> dict[str, bytes]:
    """The files of one release at an artifact address, SHA256SUMS included."""
    if distribution == "k3s":
        files = {"k3s": program("k3s", version), "k3s-arm64": program("k3s", version)}
    elif distribution == "rke2":
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for name, (data, mode) in _rke2_files(version).items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), mode
                tar.addfile(entry, io.BytesIO(data))
        files = {"rke2.linux-amd64.tar.gz": packed.getvalue(), "rke2.linux-arm64.tar.gz": packed.getvalue()}
    else:
        return {}
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
    return {**files, "SHA256SUMS": sums.encode(), "sha256sum-amd64.txt": sums.encode()}


def in_place(disk: Disk, name: str) -> str:
    """Version of a program that stands on the PATH, "" when it does not."""
    file = disk.read(f"/usr/bin/{name}")
    found = version_of(file.data) if file is not None and file.executable else ("", "")
    return found[1] if found[0] == name else ""


def _service(name: str, wants: str) -> str:
    return (
        f"[Unit]\nDescription={name}\nWants={wants}\nAfter={wants}\nStartLimitIntervalSec=0\n\n[Service]\n"
        f"ExecStart=/usr/bin/{name}\nRestart=always\nRestartSec=10\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def _install_kubeadm(disk: Disk, version: str, containerd: str) -> None:
    for name in ("kubeadm", "kubelet", "kubectl"):
        disk.write(f"/usr/bin/{name}", program(name, version), 0o755)
    disk.write("/usr/bin/containerd", program("containerd", containerd), 0o755)
    disk.write("/usr/lib/systemd/system/kubelet.service", _service("kubelet", "network-online.target"))
    disk.write("/usr/lib/systemd/system/containerd.service", _service("containerd", "network.target"))


def install_in(disk: Disk, distribution: str, version: str, containerd: str = CONTAINERD) -> None:
    """Puts a distribution's programs on a disk, as a template has them; `containerd` is kubeadm's only."""
    if distribution == "kubeadm":
        _install_kubeadm(disk, version, containerd)
    elif distribution == "rke2":
        for name, (data, mode) in _rke2_files(version).items():
            disk.write(f"/usr/local/{name}", data, mode)
    elif distribution == "k3s":
        disk.write("/usr/local/bin/k3s", program("k3s", version), 0o755)


def unpack_in(disk: Disk, archive: bytes, folder: str) -> bool:
    """Unpacks a gzipped tar onto the disk; False when it is none."""
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            for entry in tar.getmembers():
                source = tar.extractfile(entry)
                if source is not None:
                    disk.write(f"{folder.rstrip('/')}/{entry.name.removeprefix('./')}", source.read(), entry.mode)
    except (tarfile.TarError, OSError, EOFError):
        return False
    return True
