"""Charts: where they are kept and how a release of one is brought about.

Helm runs inside a subprocess of its own with a hard time limit, because a hung API server keeps the library's thread
for ever (facts: measured, neither cancel nor its own timeout ends it); a process can be killed.
"""

from clients.charts.archive import LARGEST, ChartArchive, NotAChart, read_archive
from clients.charts.folder import Chart, ChartFolder, ChartMissing
from clients.charts.helm import Helm, HelmError, HelmTimeout, Release, ReleaseObject
from clients.charts.repository import ChartRefused, fetch

__all__ = [
    "LARGEST",
    "Chart",
    "ChartArchive",
    "ChartFolder",
    "ChartMissing",
    "ChartRefused",
    "Helm",
    "HelmError",
    "HelmTimeout",
    "NotAChart",
    "Release",
    "ReleaseObject",
    "fetch",
    "read_archive",
]
