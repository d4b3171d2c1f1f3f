"""Ids and task queues, built in one place."""

from domain.clusters import Cluster

CONTROL_QUEUE = "trilithon"
"""Workflows and the activities that only touch the store."""


def cluster_workflow(cluster: Cluster) -> str:
    """The one workflow id of a cluster: the Temporal server's lock against two jobs at once."""
    return f"cluster/{cluster.namespace}.{cluster.name}/{cluster.id}"


def machine_workflow(parent: str, machine_name: str) -> str:
    return f"{parent}/machine/{machine_name}"


def site_monitor(site_id: str) -> str:
    return f"site/{site_id}/monitor"


def self_test(site_id: str) -> str:
    return f"site/{site_id}/selftest"


def site_queue(site_id: str) -> str:
    """Short effects on one site, few at a time."""
    return f"site/{site_id}"


def site_wait_queue(site_id: str) -> str:
    """Waits (task, boot, node): many at a time, each costs next to nothing."""
    return f"site/{site_id}/wait"


def site_clone_queue(site_id: str) -> str:
    """Clones: as few at a time as the storage's lock bears."""
    return f"site/{site_id}/clone"
