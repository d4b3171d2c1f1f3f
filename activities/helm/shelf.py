"""Where the charts of releases are found: the cache in the store first, then the folder that was set up."""

import asyncio
import os
import tempfile
from pathlib import Path

from clients.charts import ChartFolder, ChartMissing
from domain.releases import Chart
from store import NotFound, Store


class ChartAbsent(Exception):
    """The pinned chart is neither in the cache nor in the folder; the text says what brings it."""

    def __init__(self, chart: Chart) -> None:
        super().__init__(
            f"The chart {chart.label} is neither in the chart cache nor in the chart folder. Bring it: "
            f"`trilithon chart pull {chart.name}`, or `trilithon chart upload {chart.name}-{chart.version}.tgz`."
        )
        self.chart = chart


class ChartShelf:
    """Gives charts as files, which is what Helm reads.

    Args:
        store: holds the cache.
        folder: charts that were put beside the installation.
        unpacked: where cached archives are written for Helm; a folder of the machine's temporary ones by default.
    """

    def __init__(self, store: Store, folder: ChartFolder, unpacked: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self._unpacked = unpacked or Path(tempfile.gettempdir()) / f"trilithon-charts-{os.getuid()}"

    async def find(self, chart: Chart) -> str:
        """Path of the chart at its pinned version.

        Raises:
            ChartAbsent: it is nowhere.
        """
        try:
            kept = await self._store.charts.get(chart.name, chart.version)
        except NotFound:
            try:
                return str(self._folder.find(chart.name, chart.version).path)
            except ChartMissing:
                raise ChartAbsent(chart) from None
        data = await self._store.charts.content(chart.name, chart.version)
        return await asyncio.to_thread(self._write, kept.digest, data)

    def _write(self, digest: str, data: bytes) -> str:
        self._unpacked.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._unpacked.stat().st_uid != os.getuid():
            raise PermissionError(f"{self._unpacked} belongs to somebody else")
        place = self._unpacked / f"{digest}.tgz"
        # Written anew where it is not what it should be: the folder is one that others clean up.
        if not place.exists() or place.read_bytes() != data:
            with tempfile.NamedTemporaryFile(dir=self._unpacked, delete=False) as file:
                file.write(data)
            Path(file.name).replace(place)
        return str(place)
