"""The registry: every activity of the contract is registered once, says its four lines and has a summary."""

import inspect
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from domain.contracts import activities as contract
from domain.contracts import jobs as jobs_contract
from store import SecretKey, open_store
from workers.crash_points import CrashPoints
from workers.outfit import Outfit
from workers.registry import WORKFLOWS, Activity, for_lane, name_of, sandbox
from workflows.effects import WORDS

LINES = ("Effect:", "Key:", "Done-when:", "Final:")
WIRE_NAMES = {
    value
    for name, value in vars(contract).items()
    if name.isupper() and isinstance(value, str) and re.fullmatch(r"[a-z]+\.[a-z_]+", value)
}


def registered() -> list[Activity]:
    store = open_store("sqlite+aiosqlite:///never-opened.db", SecretKey.generate(), clock=lambda: datetime.now(UTC))
    return Outfit(store, lambda: datetime.now(UTC), Path("charts"), CrashPoints()).activities()


ACTIVITIES = registered()


def test_every_activity_of_the_contract_is_registered_once() -> None:
    assert sorted(map(name_of, ACTIVITIES)) == sorted(WIRE_NAMES)


@pytest.mark.parametrize("activity", ACTIVITIES, ids=name_of)
def test_an_activity_says_its_four_lines(activity: Activity) -> None:
    text = inspect.getdoc(activity) or ""
    missing = [line for line in LINES if not re.search(rf"^{line} \S", text, re.M)]
    assert not missing, f"{name_of(activity)} lacks {missing}"


def test_every_activity_has_words_for_people() -> None:
    assert set(WORDS) | {contract.WAIT_TASK} == WIRE_NAMES


def test_every_lane_has_its_activities() -> None:
    lanes = {lane: for_lane(ACTIVITIES, lane) for lane in contract.Lane}
    assert sum(len(found) for found in lanes.values()) == len(ACTIVITIES)
    assert [name_of(one) for one in lanes[contract.Lane.CLONE]] == [contract.CLONE_MACHINE]


def test_the_workflows_have_the_contracts_names() -> None:
    names = {workflow.__temporal_workflow_definition.name for workflow in WORKFLOWS}  # type: ignore[attr-defined]
    assert names == {
        jobs_contract.CREATE_CLUSTER,
        jobs_contract.DELETE_CLUSTER,
        jobs_contract.CREATE_MACHINE,
        jobs_contract.REMOVE_MACHINE,
        jobs_contract.SITE_MONITOR,
        jobs_contract.SELF_TEST,
    }
    assert isinstance(sandbox(), SandboxedWorkflowRunner)
