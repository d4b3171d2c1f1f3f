"""How long a person waits before anything happens: the command line's start, and the first load of the list page."""

import gzip
import re
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.running import ROOT, Trilithon


def measure(running: Trilithon) -> list[tuple[str, str, str, str]]:
    took = []
    for _ in range(7):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cli", "--help"], cwd=ROOT, check=True, capture_output=True)
        took.append((time.perf_counter() - begun) * 1000)
    took.sort()
    return [
        ("Command line, start to help", "7 runs", f"{took[3]:.0f} ms (best {took[0]:.0f})", "≤ 150 ms"),
        ("List page, first load", "gzip", f"{first_load():.0f} KiB", "≤ 250 KiB"),
    ]


def first_load() -> float:
    """KiB of everything that index.html names, compressed."""
    pages = ROOT / "ui" / "dist"
    index = (pages / "index.html").read_text()
    named = re.findall(r'(?:src|href)="/([^"]+\.(?:js|css|svg))"', index)
    files = [pages / "index.html", *(pages / name for name in named)]
    return sum(len(gzip.compress(Path(file).read_bytes(), 6)) for file in files) / 1024
