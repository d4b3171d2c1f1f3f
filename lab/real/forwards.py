"""Ways in from outside: sockets of the machine's own network whose connections go on inside the laboratory."""

import asyncio
import contextlib
import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

_NEWNET = 0x40000000


def outside_socket(namespace: int, host: str, port: int) -> socket.socket:
    """A listening socket in another network namespace, made by a thread that goes there for it.

    Raises:
        OSError: the address is not free.
    """
    found: list[socket.socket | OSError] = []

    def work() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(namespace, _NEWNET) != 0:
            found.append(OSError(ctypes.get_errno(), "setns"))
            return
        try:
            found.append(listen(host, port))
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=work)  # it ends there: the other threads never left
    thread.start()
    thread.join()
    if isinstance(found[0], OSError):
        raise found[0]
    return found[0]


def listen(host: str, port: int) -> socket.socket:
    """A listening socket here. Raises OSError when the address is not free."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Forwards:
    """The open ways. `namespace` is a descriptor of the machine's own network namespace."""

    def __init__(self, namespace: int) -> None:
        self._namespace = namespace
        self._open: dict[str, tuple[asyncio.Server, str]] = {}

    async def open(self, outside: str, inside: str) -> str:
        """Leads `host:port` outside to `host:port` inside; the outside address (port 0 takes a free one)."""
        if self._open.get(outside, (None, ""))[1] == inside:
            return outside
        await self.close(outside)
        host, _, port = outside.rpartition(":")
        sock = await asyncio.to_thread(outside_socket, self._namespace, host, int(port))
        name = "{}:{}".format(*sock.getsockname())
        target = inside.rpartition(":")
        server = await asyncio.start_server(lambda r, w: _carry(r, w, target[0], int(target[2])), sock=sock)
        self._open[name] = (server, inside)
        return name

    async def proxy(self, outside: str) -> str:
        """An HTTP proxy (CONNECT only) into the laboratory, for every program that knows HTTPS_PROXY."""
        await self.close(outside)
        host, _, port = outside.rpartition(":")
        sock = await asyncio.to_thread(outside_socket, self._namespace, host, int(port))
        self._open[outside] = (await asyncio.start_server(_connect, sock=sock), "proxy")
        return outside

    async def close(self, outside: str) -> None:
        """Closes one way; nothing when it is not open."""
        known = self._open.pop(outside, None)
        if known is not None:
            known[0].close()

    def describe(self) -> list[dict[str, Any]]:
        """Outside and inside addresses."""
        return [{"outside": outside, "inside": inside} for outside, (_, inside) in sorted(self._open.items())]


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode("latin-1")
        method, target, _ = head.split("\r\n", 1)[0].split(" ", 2)
        host, _, port = target.rpartition(":")
        if method != "CONNECT" or not port.isdigit():
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
    except (ValueError, TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.close()
        return
    await _carry(
        reader,
        writer,
        host,
        int(port),
        lambda ok: writer.write(
            b"HTTP/1.1 200 Connection established\r\n\r\n"
            if ok
            else b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"
        ),
    )


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    port: int,
    tell: Callable[[bool], None] | None = None,
) -> None:
    try:
        far_reader, far_writer = await asyncio.wait_for(asyncio.open_connection(host, port), 10)
    except (OSError, TimeoutError):
        if tell:
            tell(False)
        writer.close()
        return
    if tell:
        tell(True)
    await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()


def own_namespace() -> int:
    """A descriptor of the network namespace in which we are now."""
    return os.open("/proc/self/ns/net", os.O_RDONLY)
