"""What the fault tests share about running platforms."""

import contextlib
import random
import socket


def free_space() -> int:
    """A number N between 110 and 139 whose 127.0.N.x addresses, and whose clusters' 127.(N+10).x.x, nobody uses."""
    for space in random.sample(range(110, 140), 30):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((f"127.0.{space}.1", 8006))
            return space
    raise AssertionError("no free addresses for a laboratory")
