"""What can go wrong when we speak to Proxmox VE, as a tree.

    ProxmoxError
      Unreachable     no answer, or a proxying node could not reach the node that was meant (595, 596, 599)
      NotTrusted      the certificate is not the pinned one
      Refused         401: ticket or token not (or no longer) valid
      RightMissing    403: names privilege and path where Proxmox VE does
      Locked          a configuration lock or a lock file is held by another task
      NoQuorum        the cluster file system is read-only
      AlreadyExists   the thing, or another of that name or number, is there already
      Changed         a digest did not match: somebody else wrote in between
      NotThere        the thing does not exist where we looked (not: that it exists nowhere)
      BadParameter    400 with the fields and their errors
      NotSupported    501, or a factor, realm or call this version does not know
      Failed          any other answer: Proxmox VE's own words

Each says `retry`: whether the same call may succeed later without anybody changing anything. The classes are read off
status and text because Proxmox VE answers nearly everything with 500 and words (the texts: qemu-server, pve-storage,
pve-access-control; collected by reading their sources).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any


class ProxmoxError(Exception):
    """Base of all. `text` is Proxmox VE's own, with secrets masked; `status` the HTTP status, 0 without an answer."""

    retry = False

    def __init__(self, text: str, *, status: int = 0, method: str = "", path: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.method = method
        self.path = path

    def __str__(self) -> str:
        call = f"{self.method} {self.path}: " if self.path else ""
        number = f"{self.status} " if self.status else ""
        return f"{call}{number}{self.text}"


class Unreachable(ProxmoxError):
    """No usable answer. `sent` is true when the request may have been carried out all the same."""

    retry = True

    def __init__(self, text: str, *, sent: bool = False, status: int = 0, method: str = "", path: str = "") -> None:
        super().__init__(text, status=status, method=method, path=path)
        self.sent = sent


class NotTrusted(ProxmoxError):
    """The other side showed a certificate that is not pinned. Nothing was sent to it."""


class Refused(ProxmoxError):
    """401. For a token: revoked, expired or wrong. For a person: any failed sign-in, without saying which part."""


class RightMissing(ProxmoxError):
    """403. `privilege` and `at` are empty when Proxmox VE did not name them."""

    def __init__(
        self, text: str, *, privilege: str = "", at: str = "", status: int = 403, method: str = "", path: str = ""
    ) -> None:
        super().__init__(text, status=status, method=method, path=path)
        self.privilege = privilege
        self.at = at


class Locked(ProxmoxError):
    """Held by another task: wait and look again; never break a lock."""

    retry = True


class NoQuorum(ProxmoxError):
    """The datacenter lost its quorum: reads work, writes do not. Wait slowly."""

    retry = True


class AlreadyExists(ProxmoxError):
    """Taken. Whether it is ours decides the caller, never the name alone."""


class Changed(ProxmoxError):
    """Somebody else wrote between our look and our act: look again."""

    retry = True


class NotThere(ProxmoxError):
    """Not where we looked. A VM may have moved: look through the whole datacenter before calling it gone."""


class BadParameter(ProxmoxError):
    """400. `fields` maps a parameter to what is wrong with it."""

    def __init__(
        self, text: str, *, fields: Mapping[str, str] | None = None, status: int = 400, method: str = "", path: str = ""
    ) -> None:
        super().__init__(text, status=status, method=method, path=path)
        self.fields = dict(fields or {})


class NotSupported(ProxmoxError):
    """Not known to this version of Proxmox VE, or not built by us yet; the text says which."""


class Failed(ProxmoxError):
    """Any other error answer. Retried: most are passing (a storage away, a worker that died), and the limit of the
    step, not a guess about words, decides when a person is asked."""

    retry = True


_LOCKED = re.compile(r"VM is locked|CT is locked|can't lock file|got timeout|trying to acquire.*lock", re.I)
_NO_QUORUM = re.compile(r"no quorum", re.I)
_TAKEN = re.compile(r"already exists?|already defined|File exists|config file already", re.I)
_CHANGED = re.compile(r"checksum mismatch|file change by other user|detected modified configuration", re.I)
_ABSENT = re.compile(
    r"does not exist|no such (task|user|token|role|file|storage|VM|volume|pool|vm)|unable to find|not found|no such",
    re.I,
)
_PERMISSION = re.compile(r"\((?P<at>/[^,)]*),\s*(?P<privilege>[A-Z][\w.|, ]*)\)")
_UNREACHABLE_STATUS = frozenset({502, 503, 504, 595, 596, 597, 599})


def classify(
    status: int, text: str, fields: Mapping[str, Any] | None = None, *, method: str = "", path: str = ""
) -> ProxmoxError:
    """The error for one HTTP answer. `fields` is the answer's `errors` object, if it had one."""
    words = text.strip() or "(no text)"
    problems = {str(key): str(value).strip() for key, value in (fields or {}).items()}
    if problems:
        words = f"{words} ({'; '.join(f'{key}: {value}' for key, value in problems.items())})"
    if status == 401:
        return Refused(words, status=status, method=method, path=path)
    if status == 403:
        named = _PERMISSION.search(words)
        return RightMissing(
            words,
            privilege=named["privilege"].split(",")[0].strip() if named else "",
            at=named["at"] if named else "",
            method=method,
            path=path,
        )
    if status in _UNREACHABLE_STATUS:
        # 595: the connection was never made; the others may come after the request was carried out
        return Unreachable(words, sent=status != 595, status=status, method=method, path=path)
    if _NO_QUORUM.search(words):
        return NoQuorum(words, status=status, method=method, path=path)
    if _CHANGED.search(words):
        return Changed(words, status=status, method=method, path=path)
    if _LOCKED.search(words):
        return Locked(words, status=status, method=method, path=path)
    if _TAKEN.search(words):
        return AlreadyExists(words, status=status, method=method, path=path)
    if _ABSENT.search(words):
        return NotThere(words, status=status, method=method, path=path)
    if status == 501:
        return NotSupported(words, status=status, method=method, path=path)
    if status == 400:
        return BadParameter(words, fields=problems, method=method, path=path)
    return Failed(words, status=status, method=method, path=path)


def classify_task(exit_status: str, *, path: str = "") -> ProxmoxError | None:
    """The error that a task's exit status means, or None for success. `OK` and `WARNINGS: n` are success."""
    if exit_status == "OK" or exit_status.startswith("WARNINGS"):
        return None
    return classify(500, exit_status, path=path)


_TICKET = re.compile(r"PVE(:|%3A)[^\s'\";,]{20,}", re.I)
_TOKEN = re.compile(r"(PVEAPIToken[=:]?[^\s=:]*[=:])[^\s'\";,]+", re.I)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without secrets: the given ones, tickets and token headers become `***`."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, "***")
    return _TOKEN.sub(r"\1***", _TICKET.sub("***", text))
