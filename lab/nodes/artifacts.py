"""Where nodes fetch programs, and a chart repository: plain HTTP on one address."""

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

from aiohttp import web

from lab.nodes import programs
from lab.nodes.registry import Registry
from lab.yaml_reader import read_yaml, write_yaml

CHARTS = Path(__file__).resolve().parent.parent / "charts"


def package(folder: Path) -> tuple[str, bytes, dict[str, Any]]:
    """A chart folder as `<name>-<version>.tgz`: file name, bytes (the same for the same files), Chart.yaml."""
    chart = read_yaml((folder / "Chart.yaml").read_text())
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT, compresslevel=9) as tar:
        for path in sorted(item for item in folder.rglob("*") if item.is_file()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(f"{chart['name']}/{path.relative_to(folder).as_posix()}")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return f"{chart['name']}-{chart['version']}.tgz", packed.getvalue(), chart


class Artifacts:
    """Serves `/<distribution>/<version>/<file>`, `/charts/index.yaml`, and the charts as a registry at `/v2/charts`.

    Any version is served; `broken` names files (`k3s/v1.36.5+k3s1/k3s`) whose content does not fit its checksum,
    `missing` those that are answered with 404, `away` lets everything fail.
    """

    def __init__(self, charts: Path = CHARTS) -> None:
        self.broken: set[str] = set()
        self.missing: set[str] = set()
        self.away = False
        self.requests: list[str] = []
        self._charts: dict[str, bytes] = {}
        self._registry = Registry()
        self._index: dict[str, Any] = {"apiVersion": "v1", "entries": {}, "generated": "2026-01-01T00:00:00Z"}
        for folder in sorted(path.parent for path in charts.glob("*/Chart.yaml")):
            name, data, chart = package(folder)
            self._charts[name] = data
            self._registry.add(f"charts/{chart['name']}", str(chart["version"]), data, chart)
            entry = {**chart, "digest": hashlib.sha256(data).hexdigest(), "urls": [name]}
            self._index["entries"].setdefault(chart["name"], []).append(entry)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        path = request.path.strip("/")
        self.requests.append(path)
        del self.requests[:-500]
        if self.away:
            return web.Response(status=503, text="away\n")
        if path == "charts/index.yaml":
            return web.Response(text=write_yaml(self._index), content_type="text/yaml")
        if path == "v2" or path.startswith("v2/"):
            return self._registry.handle(request)
        if path.startswith("charts/"):
            data = self._charts.get(path.removeprefix("charts/"))
            return web.Response(body=data, content_type="application/gzip") if data else web.Response(status=404)
        parts = path.split("/")
        if len(parts) == 3 and path not in self.missing:
            data = programs.artifacts(parts[0], parts[1]).get(parts[2])
            if data is not None:
                return web.Response(
                    body=data + (b"#" if path in self.broken else b""), content_type="application/octet-stream"
                )
        return web.Response(status=404, text="not found\n")
