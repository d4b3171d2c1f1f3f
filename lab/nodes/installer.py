"""The install script that boot data brings, read and acted out.

Nothing from user-data is ever executed on this machine. The script is read line by line for the few things that it
must do; each that is missing has its consequence, and a script that is not recognised does nothing at all.
"""

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from lab.nodes import programs, units
from lab.nodes.cloud_init import DISABLED
from lab.nodes.disk import Disk

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

_ASSIGNMENT = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=(?:'([^']*)'|\"([^\"]*)\"|(\S*))$")


class ScriptFailed(Exception):
    """The script ended with an error; the text is its last line on stderr."""


def environment(text: str, path: str = "/etc/trilithon/artifacts.env") -> dict[str, str]:
    """Reads a file of shell assignments; other lines are what a shell would fail on and raise ScriptFailed."""
    found: dict[str, str] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _ASSIGNMENT.match(line)
        if match is None:
            raise ScriptFailed(f"{path}: {line.split()[0]}: not found")
        found[match[1]] = next((part for part in match.groups()[1:] if part is not None), "")
    return found


def _variable(text: str, name: str) -> str:
    match = re.search(rf"^\s*{name}=(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else ""


class InstallScript:
    """One script, read."""

    def __init__(self, text: str) -> None:
        self._text = text
        match = re.search(r"^program=\$root(/usr/local/bin/(?:k3s|rke2))$", text, re.MULTILINE)
        self.program = match[1] if match else ""
        self.file = _variable(text, "file")
        self.reads_environment = '. "$root/etc/trilithon/artifacts.env"' in text
        self.checks = "if programs_are_here; then" in text and 'grep -qF " version $VERSION "' in text
        self.fetches = (
            re.search(r"^\s+fetch_programs$", text, re.MULTILINE) is not None
            and 'get "$URL/$sums" "$work/$sums"' in text
            and 'get "$URL/$file" "$work/$file"' in text
        )
        self.verifies = '[ "$found" = "$wanted" ] || fail' in text and 'sha256sum "$fetched"' in text
        self.unpacks = 'tar -xzf "$fetched"' in text and 'cp -R "$work/unpacked/." "$root/usr/local/"' in text
        self.copies = 'cp "$fetched" "$program.new"' in text
        self.places = 'chmod 755 "$program.new"' in text and 'mv "$program.new" "$program"' in text
        self.enables = re.search(r'^systemctl enable (--now )?"\$UNIT"$', text, re.MULTILINE) is not None
        self.starts = (
            re.search(r'^systemctl (start --no-block|start|enable --now) "\$UNIT"$', text, re.MULTILINE) is not None
        )
        self.ends_cloud_init = (
            re.search(r'^: >"\$root/etc/cloud/cloud-init\.disabled"$', text, re.MULTILINE) is not None
        )
        self.marks = 'mv "$state/boot.done.new" "$state/boot.done"' in text

    @property
    def known(self) -> bool:
        """True for a script that we can act out."""
        return bool(
            self._text.startswith("#!/bin/sh\n")
            and self.program
            and self.file
            and self.reads_environment
            and self.checks
            and _balanced(self._text)
        )

    async def run(self, machine: "Machine", say: Callable[[str], None]) -> None:
        """Acts the script out.

        Args:
            machine: where it runs.
            say: receives the lines that the script prints.

        Raises:
            ScriptFailed: as the script itself would have ended.
        """
        disk = machine.disk
        file = disk.read("/etc/trilithon/artifacts.env")
        if file is None:
            raise ScriptFailed("sh: .: cannot open /etc/trilithon/artifacts.env: No such file")
        values = environment(file.text)
        for name in ("VERSION", "URL", "UNIT", "SHA256_FILE", "DISTRIBUTION", "IN_TEMPLATE"):
            if name not in values:
                raise ScriptFailed(f"sh: {name}: parameter not set")
        words = f"{values['DISTRIBUTION']} {values['VERSION']}"
        if self._here(disk, values):
            say(f"trilithon: {words} is in the template")
        else:
            if values["IN_TEMPLATE"] == "yes":
                say(f"trilithon: the template does not hold {words}")
            say(f"trilithon: fetching {words} from {values['URL']}")
            await self._fetch(disk, values, bool(machine.addresses))
        unit = values["UNIT"]
        if self.enables:
            found = units.find(disk, unit)
            if found is None:
                raise ScriptFailed(f"Failed to enable unit: Unit file {unit} does not exist.")
            if found.wanted:
                disk.enabled.add(unit)
        if self.starts and await machine.start_unit(unit) != 0:
            raise ScriptFailed(f"Failed to start {unit}: Unit {unit} not found.")
        if self.ends_cloud_init:
            disk.write(DISABLED, b"")
        if self.marks:
            disk.write("/var/lib/trilithon/boot.done", words + "\n")
        say("trilithon: done")

    def _here(self, disk: Disk, values: dict[str, str]) -> bool:
        found = disk.read(self.program)
        if found is None or not found.executable or units.find(disk, values["UNIT"]) is None:
            return False
        return programs.version_of(found.data)[1] == values["VERSION"]

    async def _fetch(self, disk: Disk, values: dict[str, str], reachable: bool) -> None:
        if not self.fetches:
            raise ScriptFailed(f"trilithon: {self.program} is missing")
        base, sums_name = values["URL"], values["SHA256_FILE"].replace("@arch@", "amd64")
        name = self.file.replace("$arch", "amd64").replace("$suffix", "")
        if not reachable or not _on_loopback(base):
            raise ScriptFailed(f"trilithon: cannot fetch {base}/{sums_name}")
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
            sums = await _get(session, f"{base}/{sums_name}")
            wanted = next(
                (
                    line.split()[0]
                    for line in sums.decode("utf-8", "replace").splitlines()
                    if len(line.split()) == 2 and line.split()[1].lstrip("*") == name
                ),
                "",
            )
            if not wanted:
                raise ScriptFailed(f"trilithon: {sums_name} at {base} does not name {name}")
            data = await _get(session, f"{base}/{name}")
        found = hashlib.sha256(data).hexdigest()
        if self.verifies and found != wanted:
            raise ScriptFailed(f"trilithon: checksum of {name} is {found}, {sums_name} says {wanted}")
        if self.unpacks:
            if not programs.unpack_in(disk, data, "/usr/local"):
                raise ScriptFailed("tar: Child returned status 1")
        elif self.copies:
            disk.write(self.program, data, 0o755)
        if not self.places:
            disk.files.pop(self.program, None)
        if not self._here(disk, values):
            raise ScriptFailed(f"trilithon: {name} was unpacked but {self.program} is not {values['VERSION']}")


async def _get(session: aiohttp.ClientSession, url: str) -> bytes:
    try:
        async with session.get(_encoded(url)) as answer:
            if answer.status != 200:
                raise ScriptFailed(
                    f"curl: (22) The requested URL returned error: {answer.status}; trilithon: cannot fetch {url}"
                )
            return await answer.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ScriptFailed(f"trilithon: cannot fetch {url}: {error}") from error


def _encoded(url: str) -> URL:
    return URL(url, encoded=True)


def _on_loopback(url: str) -> bool:
    """The lab has no way out: addresses beyond loopback do not answer."""
    host = urlsplit(url).hostname or ""
    return host.startswith("127.") or host == "localhost"


def _balanced(text: str) -> bool:
    """A coarse look for a script that a shell could still read: blocks opened are blocks closed."""
    words = re.findall(r"^\s*(if|fi|case|esac|for|done)\b", text, re.MULTILINE)
    inline = len(re.findall(r"; fi\b", text))
    return (
        words.count("if") == words.count("fi") + inline
        and words.count("case") == words.count("esac")
        and words.count("for") == words.count("done")
        and text.count("{\n") == len(re.findall(r"^}", text, re.MULTILINE))
    )
