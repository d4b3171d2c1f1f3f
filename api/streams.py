"""Server-sent events: how they are written, kept alive, and ended when the person's right or session has ended."""

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from api.services import Services

HEARTBEAT = 10.0
"""Seconds of silence after which a comment is sent, so that proxies and pages see that the stream lives."""
BURST = 0.1
"""Seconds that a stream lets a burst of changes end before it looks."""
RETRY_MS = 2000
STREAM = {
    "description": "A stream of events, `text/event-stream`.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


def event(name: str, data: BaseModel, seq: int | None = None) -> bytes:
    """One event. JSON holds no line break, so `data` is one line."""
    head = f"event: {name}\n" + (f"id: {seq}\n" if seq is not None else "")
    return f"{head}data: {data.model_dump_json()}\n\n".encode()


def hello() -> bytes:
    """What a stream begins with: how soon to come back when it is cut. It also makes the headers go out at once."""
    return f"retry: {RETRY_MS}\n\n".encode()


def heartbeat() -> bytes:
    return b": alive\n\n"


def stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def changed(services: Services, seq: int, timeout: float) -> bool:
    """Waits for a change after `seq`, at most `timeout` seconds; False also when the process is about to end."""
    waits = [
        asyncio.ensure_future(services.store.wait_change(seq, timeout)),
        asyncio.ensure_future(services.stopping.wait()),
    ]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return not services.stopping.is_set() and bool(await waits[0])
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def last_seen(header: str | None, parameter: int | None) -> int | None:
    """Where to resume. A browser's own header wins over the address, which still names the first connection's start.

    An id that we never gave (not a number) counts as none.
    """
    if header is not None and header.strip().isdigit():
        return int(header)
    return parameter
