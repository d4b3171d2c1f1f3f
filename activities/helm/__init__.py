"""Releases of charts in a cluster."""

from activities.helm.activities import HelmActivities
from activities.helm.releasing import Releasing
from activities.helm.shelf import ChartAbsent, ChartShelf
from activities.helm.turns import Turns

__all__ = ["ChartAbsent", "ChartShelf", "HelmActivities", "Releasing", "Turns"]
