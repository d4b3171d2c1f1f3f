"""Whether somebody on a network already has an address that one of our machines is to get."""

import asyncio
from contextlib import suppress
from ipaddress import ip_address

PORTS = (22, 80, 443, 6443, 10250)
"""Where machines usually take connections: SSH, pages, API servers, kubelets."""
WITHIN = 0.5
"""Seconds in which a living neighbour has answered, also over a slow line."""


async def answering_port(address: str) -> int | None:
    """The port at which something takes connections at this address; None when nothing does.

    Only a connection that was made counts. A refusal proves nothing, since firewalls refuse in the name of hosts that
    do not exist; silence proves nothing either, so this finds most neighbours and not every one. Loopback addresses
    are our own host, which always answers, and are never asked.
    """
    if ip_address(address).is_loopback:
        return None
    asked = [asyncio.create_task(_takes(address, port)) for port in PORTS]
    taken = await asyncio.gather(*asked)
    return next((port for port, takes in zip(PORTS, taken, strict=True) if takes), None)


async def _takes(address: str, port: int) -> bool:
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(WITHIN):
            _, writer = await asyncio.open_connection(address, port)
        writer.close()
        return True
    return False
