"""Which images the machines have, under the names that kubeadm and the charts ask for."""

import re
import shutil
import subprocess
from pathlib import Path

from lab.programs.recipes import companions
from lab.real.images import Image, pack
from lab.real.layout import HERE

REGISTRY = "registry.k8s.io"
KUBE_VIP = "ghcr.io/kube-vip/kube-vip:v1.2.3"
CLOUD_CONTROLLER = (
    "ghcr.io/sergelogvinov/proxmox-cloud-controller-manager:v0.13.1",
    "lab.invalid/proxmox-cloud-controller-manager:v0.13.1",
)
POD_NETWORK = (
    "quay.io/cilium/cilium:v1.19.6",
    "quay.io/cilium/operator-generic:v1.19.6",
    "quay.io/tigera/operator:v1.42.1",
    "quay.io/calico/node:v3.32.1",
)
"""The charts' names for their programs; behind each stands our podnetwork."""
TOOLS, WEB = "registry.lab/tools:1", "registry.lab/web:1"


def image_list(layers: Path, archive: Path, tree: Path, versions: list[str], programs: dict[str, Path]) -> None:
    """Lays out the layers and packs every image into one archive."""
    net = layers / "net"
    _net(net, tree)
    proxy = layers / "proxy"
    _file(HERE / "kube-proxy.sh", proxy / "usr/local/bin/kube-proxy")

    def program(name: str, path: str, *links: str) -> Path:
        root = layers / name
        target = root / path
        _file(programs[name], target)
        for link in links:
            (target.parent / link).symlink_to(target.name)
        return root

    etcd = program("etcd", "usr/local/bin/etcd", "etcdctl", "etcdutl")
    dns, pause, tags = program("coredns", "coredns"), program("pause", "pause"), companions(versions)
    images = [
        *(Image(f"{REGISTRY}/etcd:{tag}", (net, etcd)) for tag in tags["etcd"]),
        *(Image(f"{REGISTRY}/coredns/coredns:{tag}", (dns,), ("/coredns",)) for tag in tags["coredns"]),
        *(Image(f"{REGISTRY}/pause:{tag}", (pause,), ("/pause",)) for tag in tags["pause"]),
        Image(KUBE_VIP, (program("kube-vip", "kube-vip"),), ("/kube-vip",)),
        Image(WEB, (net,), cmd=("httpd", "-f", "-p", "80", "-h", "/www")),
    ]
    controller = program("proxmox-cloud-controller-manager", "bin/proxmox-cloud-controller-manager")
    images += [Image(ref, (controller,), ("/bin/proxmox-cloud-controller-manager",)) for ref in CLOUD_CONTROLLER]
    network = program("podnetwork", "usr/local/bin/podnetwork")
    images += [Image(ref, (net, network), ("/usr/local/bin/podnetwork",)) for ref in POD_NETWORK]
    for version in versions:
        root = layers / f"kube-{version}"
        _file(programs[f"kube-{version}"], root / "usr/local/bin/kube")
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubectl"):
            (root / "usr/local/bin" / name).symlink_to("kube")
        for name in ("apiserver", "controller-manager", "scheduler"):
            images.append(Image(f"{REGISTRY}/kube-{name}:{version}", (net, root)))
        images.append(Image(f"{REGISTRY}/kube-proxy:{version}", (net, root, proxy)))
    images.append(Image(TOOLS, (net, layers / f"kube-{versions[0]}"), cmd=("/bin/sh",)))
    pack(images, archive)


def _file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    target.chmod(0o755)


def _net(root: Path, tree: Path) -> None:
    """iptables, nft, conntrack, ip and busybox with their libraries, out of the node tree."""
    for name in (
        "usr/sbin",
        "usr/bin",
        "usr/lib/x86_64-linux-gnu",
        "etc",
        "proc",
        "sys",
        "dev",
        "tmp",
        "run",
        "root",
        "www",
        "var/run",
    ):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for link, target in (
        ("lib", "usr/lib"),
        ("bin", "usr/bin"),
        ("sbin", "usr/sbin"),
        ("lib64", "usr/lib/x86_64-linux-gnu"),
    ):
        (root / link).symlink_to(target)
    binaries = ["usr/sbin/xtables-nft-multi", "usr/sbin/nft", "usr/sbin/conntrack"]
    for name in binaries:
        shutil.copy(tree / name, root / name)
    shutil.copy(tree / "usr/bin/ip", root / "usr/sbin/ip")
    shutil.copy(tree / "usr/bin/busybox", root / "usr/bin/busybox")
    for family in ("iptables", "ip6tables"):
        for tail in ("", "-save", "-restore"):
            (root / "usr/sbin" / f"{family}{tail}").symlink_to("xtables-nft-multi")
            (root / "usr/sbin" / f"{family}-nft{tail}").symlink_to("xtables-nft-multi")
    plugins = tree / "usr/lib/x86_64-linux-gnu/xtables"
    shutil.copytree(plugins, root / "usr/lib/x86_64-linux-gnu/xtables", symlinks=True)
    # The plugins' libraries too: they are opened at run time, so ldd of iptables alone does not name them.
    asked = [*binaries, "usr/bin/ip", *(str(path.relative_to(tree)) for path in plugins.glob("*.so"))]
    said = subprocess.run(
        ["chroot", str(tree), "ldd", *(f"/{name}" for name in asked)], capture_output=True, text=True, check=False
    ).stdout
    for library in sorted(set(re.findall(r"(/\S+\.so\S*) \(0x|=> (/\S+) \(0x", said))):
        name = next(part for part in library if part)
        real = subprocess.run(
            ["chroot", str(tree), "readlink", "-f", name], capture_output=True, text=True, check=True
        ).stdout.strip()
        target = root / "usr/lib/x86_64-linux-gnu" / Path(name).name
        if not target.exists():
            shutil.copy(tree / real.lstrip("/"), target)
            target.chmod(0o755)
    listed = subprocess.run(["chroot", str(tree), "busybox", "--list"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if not any(
            (root / folder / name).is_symlink() or (root / folder / name).exists() for folder in ("usr/bin", "usr/sbin")
        ):
            (root / "usr/bin" / name).symlink_to("busybox")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "www/index.html").write_text("hello\n")
