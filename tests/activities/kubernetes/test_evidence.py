"""What a machine is asked through its guest agent while somebody waits for it."""

import json
from collections.abc import Mapping
from typing import Any, cast

from activities.kubernetes.evidence import gather
from clients.proxmox import ProxmoxClient, ProxmoxError
from domain.clusters import Distribution
from domain.diagnosis import Evidence
from tests.domain.builders import machine


class Guest:
    """Stands for the site's Proxmox VE with one machine: answers its guest agent's commands, and notes them."""

    def __init__(self, says: Mapping[str, str]) -> None:
        self.says = dict(says)
        self.asked: list[str] = []
        self.agent = True

    async def get(self, path: str, **arguments: Any) -> dict[str, Any]:
        if path.endswith("/status/current"):
            return {"status": "running"}
        return {"exited": 1, "out-data": self.says.get(self.asked[-1], "")}

    async def post(self, path: str, **arguments: Any) -> dict[str, Any]:
        if not self.agent:
            raise ProxmoxError("QEMU guest agent is not running")
        if path.endswith("/exec"):
            self.asked.append(arguments["command"][0])
        return {"pid": 1}


def status(word: str) -> dict[str, str]:
    return {"cloud-init": json.dumps({"status": word, "errors": []}), "tail": "the log's end\n"}


async def asked(guest: Guest, before: Evidence | None) -> Evidence:
    guest.asked.clear()
    return await gather(cast(ProxmoxClient, guest), machine(node="pve1"), Distribution.KUBEADM, "refused", "", before)


async def test_cloud_init_that_has_ended_well_is_not_asked_again() -> None:
    guest = Guest(status("running"))
    first = await asked(guest, None)
    assert (first.cloud_init, guest.asked.count("cloud-init")) == ("running", 1)
    guest.says |= status("done")
    second = await asked(guest, first)
    assert (second.cloud_init, guest.asked.count("cloud-init")) == ("done", 1)
    third = await asked(guest, second)
    assert "cloud-init" not in guest.asked
    assert "journalctl" in guest.asked, "what changes is asked for every time"
    assert (third.cloud_init, third.log) == ("done", ("the log's end",))


async def test_an_error_and_an_agent_that_was_silent_are_asked_about_again() -> None:
    guest = Guest(status("error"))
    told = await asked(guest, await asked(guest, None))
    assert (told.cloud_init, guest.asked.count("cloud-init")) == ("error", 1)
    guest.agent = False
    silent = await asked(guest, told)
    assert silent.agent is False
    guest.agent = True
    assert (await asked(guest, silent)).cloud_init == "error"
