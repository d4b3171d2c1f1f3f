"""Releases of charts in a cluster."""

from activities.helm.activities import HelmActivities

__all__ = ["HelmActivities"]
