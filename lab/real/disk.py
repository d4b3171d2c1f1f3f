"""A machine's disk: an overlay over tree and Kubernetes layer, containerd's store by hard links, etcd in memory."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from lab.real.stock import Stock


class Disk:
    """One disk; it lives as long as the laboratory, and over every power cut."""

    def __init__(self, folder: Path, stock: Stock, version: str) -> None:
        self.folder = folder
        self.version = version
        self.root = folder / "root"
        self.binds = {
            folder / "containerd": "/var/lib/containerd",
            folder / "kubelet": "/var/lib/kubelet",
            folder / "etcd": "/var/lib/etcd",
        }
        try:
            self._make(stock)
        except BaseException:
            self.destroy()  # a second try must not find half a disk
            raise

    def _make(self, stock: Stock) -> None:
        folder, version = self.folder, self.version
        for name in ("up", "wk", "root", "kubelet", "etcd"):
            (folder / name).mkdir(parents=True)
        _hardlinks(stock.store, folder / "containerd")
        # volatile: no sync at unmount, which takes minutes on a machine that is busy writing.
        lower = f"{stock.kube[version]}:{stock.tree}"
        _mount(
            "-t",
            "overlay",
            "overlay",
            "-o",
            f"lowerdir={lower},upperdir={folder}/up,workdir={folder}/wk,volatile",
            str(self.root),
        )
        # etcd waits for its disk at every write, and all machines share one.
        _mount("-t", "tmpfs", "-o", "size=1g,mode=700", "tmpfs", str(folder / "etcd"))

    def destroy(self) -> None:
        """Unmounts and removes everything."""
        for path in (self.folder / "etcd", self.root):
            subprocess.run(["umount", "-l", str(path)], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True)


def _hardlinks(store: Path, target: Path) -> None:
    """The same inodes for every machine, so that the page cache is shared; the two databases are copies."""
    subprocess.run(["cp", "-al", str(store), str(target)], check=True)
    for database in store.rglob("*.db"):
        copy = target / database.relative_to(store)
        copy.unlink()
        shutil.copy2(database, copy)
    for folder, _, names in os.walk(target / "io.containerd.grpc.v1.introspection"):
        for name in names:  # each daemon's own identity
            with contextlib.suppress(OSError):
                Path(folder, name).unlink()
