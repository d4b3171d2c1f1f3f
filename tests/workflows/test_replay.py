"""Every stored history replays under today's code (quality.md I9).

Record anew, on purpose and only with a new name for what was released, by:

    .venv/bin/python -m tests.workflows.record

Histories of released versions stay: a job of that release may still be parked somewhere.
"""

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from workers.registry import WORKFLOWS, sandbox

HISTORIES = sorted(Path(__file__).with_name("histories").glob("*.json"))


def test_there_is_a_history_of_every_kind_of_workflow() -> None:
    kinds = {path.stem.split("-")[0] for path in HISTORIES}
    assert kinds == {"CreateCluster", "CreateMachine", "DeleteCluster", "RemoveMachine", "SiteMonitor", "SelfTest"}


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_a_stored_history_replays(path: Path) -> None:
    replayer = Replayer(workflows=WORKFLOWS, data_converter=pydantic_data_converter, workflow_runner=sandbox())
    await replayer.replay_workflow(_read(path))


def _read(path: Path) -> WorkflowHistory:
    kept = json.loads(path.read_text(encoding="utf-8"))
    return WorkflowHistory.from_json(kept["workflow_id"], kept["history"])
