"""Whether an address is somebody's already: only a connection that was made says so."""

import asyncio
import socket

import pytest

from clients import neighbours


async def test_our_own_host_is_never_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await neighbours.answering_port("127.0.0.1") is None, server


async def test_a_connection_counts_and_neither_refusal_nor_silence_does(monkeypatch: pytest.MonkeyPatch) -> None:
    real = asyncio.open_connection
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        listening, refusing = server.getsockname()[1], other.getsockname()[1]
        other.close()

        async def towards(address: str, port: int) -> object:
            """As if the address lay elsewhere: its port 6443 is ours, 80 is silent, every other one refuses."""
            assert address == "192.0.2.7"
            if port == 80:
                await asyncio.Event().wait()
            return await real("127.0.0.1", listening if port == 6443 and heard else refusing)

        monkeypatch.setattr(asyncio, "open_connection", towards)
        monkeypatch.setattr(neighbours, "WITHIN", 0.1)
        heard = False
        assert await neighbours.answering_port("192.0.2.7") is None
        monkeypatch.setattr(neighbours, "WITHIN", 5.0)
        monkeypatch.setattr(neighbours, "PORTS", (22, 443, 6443))
        heard = True
        assert await neighbours.answering_port("192.0.2.7") == 6443
