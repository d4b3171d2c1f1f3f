"""Bridges and cables inside the laboratory's own network namespace. Nothing here touches the machine's."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

from lab.real.layout import Layout


class NetworkFailed(Exception):
    """A command of the kernel's network refused."""


def run(*words: str) -> str:
    """Runs a command; its output. Raises NetworkFailed with what it said."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NetworkFailed(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Network:
    """Bridges by name and VLAN: the kernel here knows no 802.1Q, so a VLAN is a bridge of its own."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._bridges: dict[tuple[str, int | None], str] = {}

    def bridge(self, name: str, vlan: int | None) -> str:
        """The kernel's name of a bridge, made when it is new, with our addresses on it."""
        key = (name, vlan)
        if key not in self._bridges:
            link = f"br{len(self._bridges)}"
            run("ip", "link", "add", link, "type", "bridge", "forward_delay", "0")
            for address in self._layout.gateways(name, vlan):
                run("ip", "addr", "add", str(address), "dev", link)
            run("ip", "link", "set", link, "up")
            self._bridges[key] = link
        return self._bridges[key]

    def describe(self) -> list[dict[str, Any]]:
        """Bridges, for people."""
        return [
            {
                "bridge": name,
                "vlan": vlan,
                "link": link,
                "addresses": [str(item) for item in self._layout.gateways(name, vlan)],
            }
            for (name, vlan), link in self._bridges.items()
        ]

    def plug(self, vmid: int, macs: list[str], bridge: str, vlan: int | None) -> str:
        """A namespace for a machine with a cable for each MAC; its name.

        Both ends of a cable are made here under names of their own: made straight across two namespaces, two machines
        at once collide.
        """
        space, link = f"m{vmid}", self.bridge(bridge, vlan)
        self.unplug(vmid)
        run("ip", "netns", "add", space)
        for number, mac in enumerate(macs):
            near, far = f"v{vmid}n{number}", f"p{vmid}n{number}"
            run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "address", mac)
            run("ip", "link", "set", far, "netns", space, "name", f"eth{number}")
            run("ip", "link", "set", near, "master", link, "up")
        return space

    def unplug(self, vmid: int) -> None:
        """Takes a machine's cables and namespace away. The cables first: a namespace ends later, by the kernel."""
        for line in json.loads(run("ip", "-j", "link", "show", "type", "veth") or "[]"):
            if line.get("ifname", "").startswith(f"v{vmid}n"):
                run("ip", "link", "del", line["ifname"])
        if Path(f"/run/netns/m{vmid}").exists():
            run("ip", "netns", "del", f"m{vmid}")


async def addresses(pid: int) -> list[dict[str, Any]]:
    """A machine's interfaces as the guest agent tells them."""
    asking = await asyncio.create_subprocess_exec(
        "nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-j", "addr", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await asking.communicate()
    found = []
    for link in json.loads(out or b"[]"):
        found.append(
            {
                "name": link["ifname"],
                "hardware-address": link.get("address", "00:00:00:00:00:00"),
                "ip-addresses": [
                    {
                        "ip-address": item["local"],
                        "prefix": item["prefixlen"],
                        "ip-address-type": "ipv4" if item["family"] == "inet" else "ipv6",
                    }
                    for item in link.get("addr_info", [])
                    if "local" in item
                ],
            }
        )
    return found
