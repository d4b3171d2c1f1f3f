"""Somebody else's machines on a bridge: an address that answers and is none of ours."""

import asyncio
import os

from lab.real.forwards import outside_socket
from lab.real.network import Network, run

_FIRST = 900000
"""Number of the first one in the names of its cable and namespace, beyond every VM id."""


class Strangers:
    """Each lives in a network namespace of its own, with one listening port that takes connections and says nothing."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._servers: dict[str, tuple[int, asyncio.Server]] = {}

    @property
    def addresses(self) -> list[str]:
        """Where they are."""
        return list(self._servers)

    async def add(self, address: str, port: int, bridge: str) -> None:
        """Somebody appears; nothing when he is there.

        Raises:
            NetworkFailed: the kernel refuses.
            OSError: the port cannot be had.
        """
        if address in self._servers:
            return
        number = _FIRST + len(self._servers)
        space = await asyncio.to_thread(self._join, number, address, bridge)
        descriptor = os.open(f"/run/netns/{space}", os.O_RDONLY)
        try:
            sock = await asyncio.to_thread(outside_socket, descriptor, address, port)
        finally:
            os.close(descriptor)
        self._servers[address] = number, await asyncio.start_server(_silent, sock=sock)

    def _join(self, number: int, address: str, bridge: str) -> str:
        mac = f"02:00:00:00:01:{number % 256:02x}"
        space = self._network.plug(number, [mac], bridge, None)
        run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        return space

    async def clear(self) -> None:
        """All of them go."""
        while self._servers:
            _, (number, server) = self._servers.popitem()
            server.close()
            await asyncio.to_thread(self._network.unplug, number)


async def _silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
