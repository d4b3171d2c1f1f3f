"""A real PostgreSQL server for the tests: started in a folder of its own, without durability, stopped at the end."""

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

SERVER_USER = "postgres"


def programs() -> Path | None:
    """The folder of the newest installed server's programs, or None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class PostgresServer:
    """One server. It refuses to run as root, so as root its programs run as its own user."""

    def __init__(self, folder: Path, bin: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._bin = bin
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            account = pwd.getpwnam(SERVER_USER)
            ids = ["--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--init-groups"]
            self._as_user = ["setpriv", *ids]
            os.chown(folder, account.pw_uid, account.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self._bin / program), *arguments]
        # The server inherits pg_ctl's output: a pipe would stay open as long as it runs.
        with (self.folder.parent / f"{self.folder.name}-{program}.out").open("wb") as output:
            subprocess.run(command, cwd=self.folder, check=True, stdout=output, stderr=output, timeout=60)

    def start(self) -> None:
        data = str(self.folder / "data")
        self._run("initdb", "-D", data, "-U", "trilithon", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        fast = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
        settings = ("listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self.folder}", *fast)
        options = " ".join(f"-c {setting}" for setting in (*settings, "max_connections=200"))
        self._run("pg_ctl", "-D", data, "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def url(self, database: str) -> str:
        return f"postgresql+asyncpg://trilithon@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """The postmaster's process id."""
        return int((self.folder / "data" / "postmaster.pid").read_text().splitlines()[0])


def installed_server(folder: Path) -> "PostgresServer | str":
    """A server to start, or the reason why there can be none."""
    bin = programs()
    if bin is None:
        return "PostgreSQL is not installed (Debian: apt-get install --no-install-recommends postgresql-15)"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "PostgreSQL refuses to run as root and setpriv is not installed"
    return PostgresServer(folder, bin)
