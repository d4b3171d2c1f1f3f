"""One list of all workflows and one of all activities: what workers run, and what tests read."""

from collections.abc import Callable, Sequence
from typing import Any

from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from domain.contracts.activities import Lane, lane
from workflows.create_cluster import CreateCluster
from workflows.create_machine import CreateMachine
from workflows.delete_cluster import DeleteCluster
from workflows.remove_machine import RemoveMachine
from workflows.self_test import SelfTest
from workflows.site_monitor import SiteMonitor

WORKFLOWS: list[type] = [CreateCluster, DeleteCluster, CreateMachine, RemoveMachine, SiteMonitor, SelfTest]

Activity = Callable[..., Any]


def sandbox() -> SandboxedWorkflowRunner:
    """The sandbox of all workflows. Pure packages pass through: reloading them costs three times the CPU."""
    return SandboxedWorkflowRunner(
        restrictions=SandboxRestrictions.default.with_passthrough_modules("domain", "netaddr")
    )


def name_of(activity: Activity) -> str:
    """An activity's wire name."""
    return str(activity.__temporal_activity_definition.name)  # type: ignore[attr-defined]


def collect(*groups: object) -> list[Activity]:
    """Every activity among the public methods of the given objects, in the order of their wire names."""
    found: dict[str, Activity] = {}
    for group in groups:
        for attribute in dir(type(group)):
            activity = getattr(type(group), attribute)
            # An activity that two groups inherit from one class is still one.
            if hasattr(activity, "__temporal_activity_definition"):
                found.setdefault(name_of(activity), getattr(group, attribute))
    return [found[name] for name in sorted(found)]


def for_lane(activities: Sequence[Activity], wanted: Lane) -> list[Activity]:
    """The activities of one lane."""
    return [activity for activity in activities if lane(name_of(activity)) is wanted]
