"""The folder in which `trilithon up` keeps everything: store, key, Temporal's data, logs, the laboratory."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.failures import Failure


def default_folder() -> Path:
    """`$TRILITHON_DATA`, else below the user's XDG data folder."""
    chosen = os.environ.get("TRILITHON_DATA")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "trilithon"


@dataclass(frozen=True)
class DataFolder:
    """Names of what lies in it."""

    path: Path

    @property
    def store(self) -> Path:
        return self.path / "trilithon.db"

    @property
    def store_url(self) -> str:
        return f"sqlite+aiosqlite:///{self.store}"

    @property
    def key(self) -> Path:
        return self.path / "secret.key"

    @property
    def temporal(self) -> Path:
        return self.path / "temporal.db"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def lab(self) -> Path:
        return self.path / "lab"

    def running(self) -> dict[str, Any] | None:
        """What the `up` that holds this folder told about itself, or None when none runs."""
        with contextlib.suppress(FileNotFoundError):
            with (self.path / "up.lock").open("r") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    with contextlib.suppress(FileNotFoundError, ValueError):
                        return dict(json.loads((self.path / "up.json").read_text()))
                    return {}
        return None

    @contextlib.contextmanager
    def held(self, about: dict[str, Any]) -> Iterator[None]:
        """Holds the folder for one `up`.

        Raises:
            Failure: another one holds it; the text says which and what to do.
        """
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.path / "up.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                other = self.running() or {}
                raise Failure(
                    f"Trilithon already runs with the data folder {self.path} (process {other.get('pid', '?')}, "
                    f"{other.get('url', 'address unknown')}).",
                    "Open that address, stop it with Ctrl-C in its terminal, or choose another folder with --data "
                    "and other ports.",
                ) from None
            (self.path / "up.json").write_text(json.dumps(about))
            yield
            (self.path / "up.json").unlink(missing_ok=True)


def require_free(host: str, port: int, what: str, option: str) -> None:
    """Refuses early, with words, when a port that we need is taken.

    Raises:
        Failure: somebody listens there.
    """
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise Failure(
                f"Port {port} on {host}, meant for {what}, cannot be used: {error.strerror}.",
                f"Choose another with {option}, or stop what listens there (ss -ltnp 'sport = :{port}' names it).",
            ) from None
