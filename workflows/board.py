"""What a job has in flight, stuck or waiting: the loop's notebook. Plain data, rebuilt by replay."""

import asyncio
from dataclasses import dataclass, field

from temporalio import workflow

from domain.clusters import Outcome
from domain.contracts.activities import StepOrder
from domain.plan import StepKind


@dataclass
class Child:
    """A machine's workflow as its parent knows it."""

    permitted: bool = False
    handle: "workflow.ChildWorkflowHandle[object, str] | None" = None


@dataclass
class Way:
    """How the job is to end."""

    outcome: Outcome
    error: str = ""


@dataclass
class Board:
    """What is in flight, stuck or waiting right now, by step key (domain.plan.Step.key)."""

    tasks: "dict[str, asyncio.Task[None]]" = field(default_factory=dict)
    orders: dict[str, StepOrder] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
    children: dict[str, Child] = field(default_factory=dict)

    def busy(self) -> tuple[str, ...]:
        """Keys that the planner must not give again: in flight, stuck, or powered on by us."""
        power = [key_of(StepKind.POWER_ON, machine) for machine, child in self.children.items() if child.permitted]
        return tuple(dict.fromkeys([*self.tasks, *self.stuck, *power]))


def key_of(kind: str, machine_id: str = "") -> str:
    """The key of a step, as `domain.plan.Step.key` builds it."""
    return f"{kind}/{machine_id}" if machine_id else str(kind)


def some(texts: dict[str, str]) -> str:
    """Up to three texts of many, in the order in which they came; equal ones once."""
    distinct = list(dict.fromkeys(texts.values()))
    more = f"; and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return "; ".join(distinct[:3]) + more
