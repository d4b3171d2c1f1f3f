"""Charts by name from a folder: `<name>/Chart.yaml` trees and `<name>-<version>.tgz` archives."""

import hashlib
import tarfile
from dataclasses import dataclass
from pathlib import Path

import yaml


class ChartMissing(Exception):
    """No chart of that name is in the folder."""

    def __init__(self, name: str, folder: Path, version: str = "") -> None:
        super().__init__(
            f"The chart {name} is not in {folder}. Put {name}-{version or '<version>'}.tgz there, or start Trilithon "
            "with the chart folder that holds it."
        )
        self.name = name


@dataclass(frozen=True)
class Chart:
    """One chart on disk. `digest` is the SHA-256 of the archive, or of the tree's Chart.yaml."""

    name: str
    version: str
    path: Path
    digest: str


class ChartFolder:
    """Finds charts; reads the folder anew each time, so that a chart put there is seen at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Chart]:
        """Every readable chart, archives after trees, in name order."""
        if not self._folder.is_dir():
            return []
        found = [chart for path in sorted(self._folder.iterdir()) if (chart := _read(path)) is not None]
        return sorted(found, key=lambda chart: (chart.name, chart.version))

    def has(self, name: str, version: str) -> bool:
        """Whether the chart is there at that version."""
        return any((chart.name, chart.version) == (name, version) for chart in self.all())

    def find(self, name: str, version: str = "") -> Chart:
        """The chart called `name`, of that version; the last one where none is asked for and several are there.

        Raises:
            ChartMissing: none is.
        """
        charts = [chart for chart in self.all() if chart.name == name and version in ("", chart.version)]
        if not charts:
            raise ChartMissing(name, self._folder, version)
        return charts[-1]


def _read(path: Path) -> Chart | None:
    if path.is_dir() and (path / "Chart.yaml").is_file():
        raw = (path / "Chart.yaml").read_bytes()
        return _chart(raw, path, hashlib.sha256(raw).hexdigest())
    if path.suffix == ".tgz":
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"):
                    file = archive.extractfile(member)
                    raw = file.read() if file is not None else b""
                    return _chart(raw, path, hashlib.sha256(path.read_bytes()).hexdigest())
    return None


def _chart(raw: bytes, path: Path, digest: str) -> Chart | None:
    data = yaml.safe_load(raw)
    if not isinstance(data, dict) or "name" not in data:
        return None
    return Chart(name=str(data["name"]), version=str(data.get("version", "")), path=path, digest=digest)
