"""A listener that is cut off leaves no socket behind, at whatever moment somebody connects."""

import asyncio
import gc
import socket
import warnings

import pytest

from tests.contract.backend import Double


@pytest.mark.parametrize("moments", range(5))
async def test_a_connection_that_was_accepted_just_now_is_closed_too(moments: int) -> None:
    double = Double()
    await double.start()
    port = int(double.url.rsplit(":", 1)[1])
    callers = []
    for _ in range(5):
        caller = socket.socket()
        caller.setblocking(False)
        assert caller.connect_ex(("127.0.0.1", port)) != 0, "under way"
        callers.append(caller)
    for _ in range(moments):
        await asyncio.sleep(0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        await double.stop()
        gc.collect()
    assert [str(one.message) for one in seen if f"laddr=('127.0.0.1', {port})" in str(one.message)] == []
    for caller in callers:
        caller.close()
