"""`python -m tests.perf [NAME ...]`: runs the benchmarks on platforms of their own and prints one table.

Infrastructure time is the laboratory's latency table (clone 6 s, boot 4 s), so `overhead` is what we add: wall time
less the latencies on the longest chain. `real` runs on real nodes, where the machine can have them. Run it on a quiet
machine; the load average from before and after is printed with the figures.
"""

import os
import platform as machine
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from lab.programs.needs import missing_for_nodes
from tests.e2e.running import Trilithon, trilithon
from tests.perf import creating, reading, real, starting
from tests.real.running import RealTrilithon

Row = tuple[str, str, str, str]
BENCHMARKS: dict[str, Callable[[Trilithon], list[Row]]] = {
    "starting": starting.measure,
    "reading": reading.measure,
    "creating": creating.measure,
}
REAL = "real"


def main(wanted: list[str]) -> None:
    known = [*BENCHMARKS, REAL]
    if unknown := set(wanted) - set(known):
        sys.exit(f"There is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(known)}.")
    begun, load = datetime.now(UTC), _load()
    rows: list[Row] = []
    if simulated := [name for name in wanted or BENCHMARKS if name != REAL]:
        with tempfile.TemporaryDirectory(prefix="trilithon-bench-") as folder, trilithon(Path(folder)) as running:
            running.login()
            rows += [row for name in simulated for row in BENCHMARKS[name](running)]
    if REAL in (wanted or known):
        rows += _on_real_nodes()
    _say(
        f"\n{begun:%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, {machine.system()} {machine.machine()}, "
        f"Python {machine.python_version()}, load {load} before, {_load()} after\n"
    )
    _say("| what | load | measured | budget |\n|---|---|---|---|")
    for row in rows:
        _say("| " + " | ".join(row) + " |")


def _on_real_nodes() -> list[Row]:
    """The rows of real nodes; where there can be none, the reason."""
    if lacks := missing_for_nodes():
        return [("Real nodes", "", f"not here: {'; '.join(lacks)}", "")]
    with tempfile.TemporaryDirectory(prefix="trilithon-bench-") as folder:
        running = RealTrilithon(Path(folder))
        try:
            running.start()
            running.login()
            return real.measure(running)
        finally:
            running.end()


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
