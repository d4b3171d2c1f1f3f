"""Charts: where they are kept and how a release of one is brought about.

Helm runs inside a subprocess of its own with a hard time limit, because a hung API server keeps the library's thread
for ever (facts: measured, neither cancel nor its own timeout ends it); a process can be killed.
"""

from clients.charts.folder import Chart, ChartFolder, ChartMissing
from clients.charts.helm import Helm, HelmError, HelmTimeout, Release, ReleaseObject

__all__ = ["Chart", "ChartFolder", "ChartMissing", "Helm", "HelmError", "HelmTimeout", "Release", "ReleaseObject"]
