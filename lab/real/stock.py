"""What machines are made of: node tree, Kubernetes layer of a version, store of preloaded images. Built once each."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.programs import recipes
from lab.programs.build import build, compiler
from lab.real import packages
from lab.real.image_list import image_list
from lab.real.layout import HERE, cache_folder

Say = Callable[[str], None]
SUITE = "trixie"
_PACKAGES = [
    "systemd",
    "systemd-sysv",
    "dbus",
    "udev",
    "sudo",
    "iproute2",
    "iptables",
    "nftables",
    "ca-certificates",
    "netbase",
    "iputils-ping",
    "iputils-arping",
    "curl",
    "python3",
    "cloud-init",
    "cloud-guest-utils",
    "kmod",
    "procps",
    "containerd",
    "runc",
    "containernetworking-plugins",
    "conntrack",
    "socat",
    "ethtool",
    "ipset",
    "jq",
    "openssh-server",
    "busybox-static",
]
_LEFT_OUT = ("doc", "man", "locale", "info")
_MASKED = [
    "systemd-networkd-wait-online.service",
    "systemd-resolved.service",
    "e2scrub_reap.service",
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "fstrim.timer",
    "e2scrub_all.timer",
    "dpkg-db-backup.timer",
    "console-getty.service",
    "systemd-sysctl.service",
]
"""systemd-sysctl would write the whole machine's settings; console-getty costs one inotify instance."""


@dataclass(frozen=True)
class Stock:
    """Folders that machines are made of: overlay layers by Kubernetes version, and the containerd store."""

    tree: Path
    kube: dict[str, Path]
    store: Path


def prepare(versions: list[str], say: Say) -> Stock:
    """Builds what is missing. Raises BuildFailed or CalledProcessError when something refuses."""
    packages.folder()
    go = compiler()
    programs = {
        recipe.name: build(recipe, say, go)
        for recipe in [*recipes.others(), *(recipes.kube(version) for version in versions)]
    }
    tree = _made("tree", _digest(SUITE, *_PACKAGES, *_MASKED, *_content(HERE / "tree")), _tree, say)
    kube = {
        version: _made(
            f"kube-{version}",
            _digest(
                *_content(HERE / "kube"),
                programs[f"kube-{version}"].name,
                programs["etcd"].name,
                programs["crictl"].name,
            ),
            lambda out, version=version: _kube(out, version, programs),
            say,
        )
        for version in versions
    }
    key = _digest(
        tree.name,
        *sorted(path.name for path in programs.values()),
        _text(HERE / "image_list.py"),
        _text(HERE / "images.py"),
        _text(HERE / "kube-proxy.sh"),
        _text(HERE / "golden.sh"),
    )
    store = _made("store", key, lambda out: _store(out, tree, versions, programs), say)
    return Stock(tree, kube, store)


def prune(stock: Stock) -> None:
    """Removes what older recipes made. Only under the machine's lock: a running laboratory still takes from its own."""
    keep = {stock.tree, stock.store, *stock.kube.values()}
    for path in cache_folder().iterdir():
        made = path.name.startswith(("tree-", "store-", *(f"kube-{version}-" for version in stock.kube)))
        if made and path not in keep and not path.name.endswith((".draft", "-work")):
            shutil.rmtree(path, ignore_errors=True)


def _text(path: Path | str) -> str:
    return Path(path).read_text()


def _content(folder: Path) -> list[str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # A checkout's umask decides of the other bits, and must not decide what is built.
    modes = {path: "755" if path.stat().st_mode & 0o100 else "644" for path in files}
    return [f"{path.relative_to(folder)} {mode} {path.read_text()}" for path, mode in modes.items()]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _made(name: str, key: str, make: Callable[[Path], None], say: Say) -> Path:
    out = cache_folder() / f"{name}-{key}"
    if out.is_dir():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    say(f"making {name} …")
    began, draft = time.monotonic(), out.with_name(f"{out.name}.draft")
    with (out.parent / f".{name}.lock").open("w") as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        if out.is_dir():  # somebody else made it meanwhile
            return out
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        make(draft)
        draft.rename(out)
    say(f"made {name} in {time.monotonic() - began:.0f} s")
    return out


def _tree(out: Path) -> None:
    """Debian without a kernel, from the machine's own package sources."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    mirror = next(site for site in listed if "security" not in site)
    work = out.with_name("tree-work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    archive = work / "tree.tar"
    subprocess.run(
        [
            # Its mounts of /proc and /dev live in a namespace of their own: when it is killed, none is left here.
            *("unshare", "--mount", "--propagation", "private"),
            *("nice", "-n", "10"),
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={','.join(_PACKAGES)}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _LEFT_OUT),
            SUITE,
            str(archive),
            f"deb {mirror} {SUITE} main",
        ],
        check=True,
        capture_output=True,
        env={**packages.environment(), "TMPDIR": str(work)},
    )
    subprocess.run(
        ["tar", "--xattrs", "--xattrs-include=*", "--numeric-owner", "-xf", str(archive), "-C", str(out)], check=True
    )
    shutil.rmtree(work)
    (out / "etc/machine-id").write_text("")
    for key in (out / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for path in [*(out / "boot").glob("*"), *(out / "usr/lib/modules").glob("*")]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (out / "etc/resolv.conf").unlink(missing_ok=True)
    # A real file, because CRI copies it; nobody answers there.
    (out / "etc/resolv.conf").write_text("nameserver 192.0.2.53\n")
    for folder in ("opt/cni", "etc/cni/net.d", "etc/kubernetes/manifests", "var/lib/etcd", "var/lib/kubelet"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    shutil.copytree(out / "usr/lib/cni", out / "opt/cni/bin", symlinks=True)
    shutil.copytree(HERE / "tree", out, symlinks=True, dirs_exist_ok=True)
    for unit in _MASKED:
        (out / "etc/systemd/system" / unit).unlink(missing_ok=True)
        (out / "etc/systemd/system" / unit).symlink_to("/dev/null")
    _enable(out, "systemd-networkd", "lab-node-mounts", "qemu-guest-agent", "containerd")


def _enable(root: Path, *units: str) -> None:
    subprocess.run(["systemctl", f"--root={root}", "enable", "-q", *units], check=True, capture_output=True)


def _kube(out: Path, version: str, programs: dict[str, Path]) -> None:
    """The layer over the tree that makes it a template of one Kubernetes version."""
    shutil.copytree(HERE / "kube", out, symlinks=True, dirs_exist_ok=True)
    home, binaries, local = out / "opt/kube", out / "usr/bin", out / "usr/local/bin"
    for folder in (home, local, out / "etc/systemd/system/multi-user.target.wants"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(programs[f"kube-{version}"], home / f"kube-{version[1:]}")
    (home / "kubeadm").symlink_to(f"/opt/kube/kube-{version[1:]}")
    for name in ("kubelet", "kubectl"):
        (binaries / name).symlink_to(f"/opt/kube/kube-{version[1:]}")
    for name in ("etcd", "crictl"):
        shutil.copy2(programs[name], local / {"etcd": "etcdctl"}.get(name, name))
    (local / "etcdutl").symlink_to("etcdctl")
    (out / "etc/systemd/system/multi-user.target.wants/kubelet.service").symlink_to(
        "/usr/lib/systemd/system/kubelet.service"
    )


def _store(out: Path, tree: Path, versions: list[str], programs: dict[str, Path]) -> None:
    """containerd's folder with every image imported; machines get it by hard links."""
    work = out.with_name("store-work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    image_list(work / "layers", work / "images.tar", tree, versions, programs)
    subprocess.run(
        [
            "unshare",
            "-m",
            "-n",
            "-p",
            "-f",
            "--kill-child",
            str(HERE / "golden.sh"),
            str(tree),
            str(work / "images.tar"),
            str(out),
        ],
        check=True,
        capture_output=True,
    )
    shutil.rmtree(work)
    os.sync()
