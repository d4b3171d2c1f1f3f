"""Programs of Debian that the laboratory needs and the machine may lack, unpacked into the cache, never installed."""

import os
import shutil
import subprocess
from pathlib import Path

from lab.real.layout import cache_folder

_PACKAGES = ("systemd-container", "libsystemd-shared", "mmdebstrap")


def folder() -> Path:
    """The unpacked packages; fetched with the machine's own package sources when they are not there."""
    out = cache_folder() / "packages"
    if out.is_dir():
        return out
    draft = out.with_name(f"packages.{os.getpid()}")
    (draft / "deb").mkdir(parents=True)
    done = subprocess.run(
        ["apt-get", "download", "-q", *_PACKAGES], cwd=draft / "deb", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:  # a fresh machine has no lists yet
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
        subprocess.run(["apt-get", "download", "-q", *_PACKAGES], cwd=draft / "deb", capture_output=True, check=True)
    for package in (draft / "deb").glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(draft)], check=True)
    shutil.rmtree(draft / "deb")
    draft.rename(out)
    return out


def environment() -> dict[str, str]:
    """The environment in which the unpacked programs run."""
    base = folder()
    return {
        **os.environ,
        "PATH": f"{base}/usr/bin:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": f"{base}/usr/lib/x86_64-linux-gnu/systemd",
    }
