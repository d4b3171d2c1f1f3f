"""Helm's subprocess with a watched look: what it is told of a release is kept, and told again on demand.

Runs in place of `clients.charts.worker`. The variable says how, in JSON: `mode` (tests/faults/looks.py) and `file`.
"""

import json
import os
from pathlib import Path
from typing import Any

import clients.charts.worker as worker

VARIABLE = "TRILITHON_TEST_HELM"
CHANGES = ("install", "upgrade", "rollback", "uninstall")


def changes_in(file: Path, *, clear: bool = False) -> list[str]:
    """The orders that Helm was given since the last `clear`."""
    path = file.with_suffix(".changes")
    if clear:
        path.unlink(missing_ok=True)
    return path.read_text().split("\n")[:-1] if path.exists() else []


class _Config:
    """The library's configuration object, watched."""

    def __init__(self, config: Any, mode: str, file: Path) -> None:
        self._config = config
        self._mode = mode
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if name in CHANGES:
            with self._file.with_suffix(".changes").open("a") as out:
                out.write(f"helm {name}\n")
        return getattr(self._config, name)

    def history(self, name: str) -> Any:
        import helm_python as helm

        if self._mode == "stale" and self._file.exists() and not changes_in(self._file):
            kept = json.loads(self._file.read_text())
            if kept is None:
                raise helm.HelmNotFoundError("release: not found")
            return kept
        try:
            found = self._config.history(name)
        except helm.HelmError:
            self._keep(None)
            raise
        self._keep(found)
        return found

    def _keep(self, answer: Any) -> None:
        if self._mode == "record" and not self._file.exists():
            self._file.write_text(json.dumps(answer, default=str))


def main() -> None:
    """One order, as the real subprocess does it."""
    plan = json.loads(os.environ[VARIABLE])
    real = worker._do

    def watched(helm: Any, config: Any, order: dict[str, Any]) -> Any:
        return real(helm, _Config(config, plan["mode"], Path(plan["file"])), order)

    worker._do = watched
    worker.main()


if __name__ == "__main__":
    main()
