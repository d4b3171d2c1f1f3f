"""A machine's disk: files, enabled units, and what outlives a reboot."""

import base64
from dataclasses import dataclass, field
from typing import Any


@dataclass
class File:
    """One file; `mode` are the permission bits."""

    data: bytes
    mode: int = 0o644

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @property
    def executable(self) -> bool:
        return bool(self.mode & 0o111)


@dataclass
class Disk:
    """Everything that a VM's disk holds.

    `network` is the address configuration as the system keeps it; `datastore` names the cluster whose etcd data lies
    here; `logs` are /var/log and the journal, by path or unit.
    """

    id: str
    files: dict[str, File] = field(default_factory=dict)
    enabled: set[str] = field(default_factory=set)
    instance_id: str = ""
    hostname: str = ""
    network: list[str] = field(default_factory=list)
    interface: str = "ens18"
    datastore: str = ""
    member: bool = False
    logs: dict[str, list[str]] = field(default_factory=dict)
    cloud_init: dict[str, Any] = field(default_factory=dict)

    def write(self, path: str, data: bytes | str, mode: int = 0o644) -> None:
        self.files[path] = File(data.encode() if isinstance(data, str) else data, mode)

    def read(self, path: str) -> File | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        """True for a file, and for a folder that holds one."""
        return path in self.files or any(name.startswith(path.rstrip("/") + "/") for name in self.files)

    def below(self, folder: str) -> dict[str, File]:
        """Files right in a folder, by name, in order."""
        prefix = folder.rstrip("/") + "/"
        names = sorted(name for name in self.files if name.startswith(prefix) and "/" not in name[len(prefix) :])
        return {name[len(prefix) :]: self.files[name] for name in names}

    def log(self, where: str, line: str) -> None:
        """Adds a line to a log file or to a unit's journal; the oldest lines go when it gets long."""
        lines = self.logs.setdefault(where, [])
        lines.append(line)
        del lines[:-400]

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "files": {
                path: [base64.b64encode(file.data).decode(), file.mode] for path, file in sorted(self.files.items())
            },
            "enabled": sorted(self.enabled),
            "instance_id": self.instance_id,
            "hostname": self.hostname,
            "network": self.network,
            "interface": self.interface,
            "datastore": self.datastore,
            "member": self.member,
            "logs": self.logs,
            "cloud_init": self.cloud_init,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Disk":
        files = {path: File(base64.b64decode(text), mode) for path, (text, mode) in data.pop("files").items()}
        return cls(files=files, enabled=set(data.pop("enabled")), **data)
