"""Effects and waits on a cluster's own API."""

from activities.kubernetes.activities import KubernetesActivities

__all__ = ["KubernetesActivities"]
