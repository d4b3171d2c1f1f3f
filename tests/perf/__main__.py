"""`python -m tests.perf [NAME ...]`: runs the benchmarks on a platform of its own and prints one table.

Infrastructure time is the laboratory's latency table (clone 6 s, boot 4 s), so `overhead` is what we add: wall time
less the latencies on the longest chain. Run it on a quiet machine; the load average is printed with the figures.
"""

import os
import platform as machine
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.e2e.running import Trilithon, trilithon
from tests.perf import creating, reading, starting

Row = tuple[str, str, str, str]
BENCHMARKS: dict[str, Callable[[Trilithon], list[Row]]] = {
    "starting": starting.measure,
    "reading": reading.measure,
    "creating": creating.measure,
}


def main(wanted: list[str]) -> None:
    unknown = set(wanted) - set(BENCHMARKS)
    if unknown:
        sys.exit(f"There is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}.")
    with tempfile.TemporaryDirectory(prefix="trilithon-bench-") as folder, trilithon(Path(folder)) as running:
        running.login()
        rows = [row for name in wanted or BENCHMARKS for row in BENCHMARKS[name](running)]
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    _say(
        f"\n{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, {machine.system()} {machine.machine()}, "
        f"Python {machine.python_version()}, load {load}\n"
    )
    _say("| what | load | measured | budget |\n|---|---|---|---|")
    for row in rows:
        _say("| " + " | ".join(row) + " |")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
