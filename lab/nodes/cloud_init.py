"""What cloud-init does with a data source: network, files, commands, and the status that it reports."""

import base64
import binascii
import gzip
import ipaddress
from collections.abc import Awaitable, Callable
from typing import Any

import yaml

from lab.nodes.disk import Disk
from lab.nodes.seed import Seed
from lab.yaml_reader import read_yaml

OUTPUT = "/var/log/cloud-init-output.log"
LOG = "/var/log/cloud-init.log"
DISABLED = "/etc/cloud/cloud-init.disabled"

Run = Callable[[list[str]], Awaitable[int]]
"""Runs one command on the machine and returns its exit status."""

_MODULE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, binascii.Error, OSError)


class CloudInit:
    """One run over one seed. Errors are kept as cloud-init keeps them: the rest of the boot goes on."""

    def __init__(self, disk: Disk, macs: list[str]) -> None:
        self._disk = disk
        self._macs = [mac.lower() for mac in macs]
        self.errors: list[str] = []
        self.recoverable: dict[str, list[str]] = {}

    def network(self, config: dict[str, Any] | None) -> list[str]:
        """Addresses (with prefix) that the configuration gives to NICs of this machine; [] when none fits."""
        if config is None:
            self._say("no network configuration in the data source; fallback is DHCP, which nobody answers here")
            return []
        try:
            if config.get("version") == 2:
                return self._network_v2(config)
            if config.get("version") == 1:
                return self._network_v1(config)
            self._fail(f"Unsupported network configuration version: {config.get('version')!r}")
        except _MODULE_ERRORS as error:
            self._fail(f"network-config cannot be used: {error}")
        return []

    def _network_v2(self, config: dict[str, Any]) -> list[str]:
        found: list[str] = []
        for name, entry in (config.get("ethernets") or {}).items():
            match = entry.get("match") or {}
            wanted = match.get("macaddress")
            if wanted is not None and str(wanted).lower() not in self._macs:
                self._say(f"no interface with MAC {wanted} for {name}: address not set")
                continue
            if wanted is None and match.get("name") is None and name not in ("eth0", "ens18", "enp6s18"):
                continue
            self._disk.interface = str(entry.get("set-name") or self._disk.interface)
            for address in entry.get("addresses") or []:
                found.append(str(ipaddress.ip_interface(address)))
            for route in entry.get("routes") or []:
                # `default` is no network for cloud-init's renderers: it ends with an error (facts/proxmox.md 2).
                ipaddress.ip_network(route["to"])
                ipaddress.ip_address(route["via"])
        return found

    def _network_v1(self, config: dict[str, Any]) -> list[str]:
        found: list[str] = []
        for entry in config.get("config") or []:
            if entry.get("type") != "physical":
                continue
            wanted = entry.get("mac_address")
            if wanted is not None and str(wanted).lower() not in self._macs:
                continue
            for subnet in entry.get("subnets") or []:
                if "address" in subnet:
                    found.append(str(ipaddress.ip_interface(subnet["address"])))
        return found

    async def user_data(self, seed: Seed, run: Run) -> None:
        """Runs the once-per-instance part: files first, commands last."""
        text = seed.user_data
        if not text.startswith("#cloud-config"):
            first = text.splitlines()[0] if text else ""
            self._warn(f"Unhandled non-multipart (text/x-not-multipart) userdata: {first[:24]!r}...")
            return
        try:
            config = read_yaml(text)
        except yaml.YAMLError as error:
            self._fail(f"Failed loading yaml blob. Invalid format: {error}")
            return
        if not isinstance(config, dict):
            self._fail("Failed loading yaml blob. Yaml load allows (<class 'dict'>,) root types")
            return
        name = config.get("hostname") or seed.hostname
        if name:
            self._disk.hostname = str(name)
        for group in (config.get("bootcmd"),):
            await self._commands(group, run, "bootcmd")
        self._write_files(config.get("write_files"))
        await self._commands(config.get("runcmd"), run, "runcmd")

    def _write_files(self, entries: Any) -> None:
        if entries is None:
            return
        if not isinstance(entries, list):
            self._fail("Running module write_files failed: expected a list")
            return
        for position, entry in enumerate(entries):
            try:
                path = entry.get("path")
                if not path:
                    self._warn(f"No path provided to write for entry {position + 1} in module write_files")
                    continue
                content = entry.get("content", "")
                data = content.encode() if isinstance(content, str) else bytes(content)
                encoding = str(entry.get("encoding") or "text/plain").lower()
                if encoding in ("b64", "base64", "gz+base64", "gzip+base64", "gz+b64", "gzip+b64"):
                    data = base64.b64decode(data)
                if encoding.startswith("gz"):
                    data = gzip.decompress(data)
                permissions = entry.get("permissions")
                mode = 0o644 if permissions is None else _mode(permissions)
                old = self._disk.read(path)
                if entry.get("append") and old is not None:
                    data = old.data + data
                self._disk.write(path, data, mode)
            except _MODULE_ERRORS as error:
                self._fail(f"Running module write_files failed: {error}")
                return

    async def _commands(self, commands: Any, run: Run, module: str) -> None:
        if not commands:
            return
        if not isinstance(commands, list):
            self._fail(
                f"Running module {module} failed: Input to shellify was type '{type(commands).__name__}'. "
                "Expected list or tuple."
            )
            return
        for command in commands:
            words = [str(word) for word in command] if isinstance(command, list) else str(command).split()
            if words and await run(words) != 0 and command is commands[-1]:
                self._fail("Running module scripts_user (runcmd) failed: 1 of 1 commands exited with an error")

    def _say(self, line: str) -> None:
        self._disk.log(LOG, line)
        self._disk.log(OUTPUT, line)

    def _warn(self, line: str) -> None:
        self.recoverable.setdefault("WARNING", []).append(line)
        self._say(f"[WARNING]: {line}")

    def _fail(self, line: str) -> None:
        self.errors.append(line)
        self._say(f"[ERROR]: {line}")


def _mode(permissions: Any) -> int:
    """cloud-init reads text as octal and takes a YAML number as it is."""
    return int(permissions, 8) if isinstance(permissions, str) else int(permissions)


def status(state: str, errors: list[str], recoverable: dict[str, list[str]], datasource: str) -> dict[str, Any]:
    """The answer of `cloud-init status --format json`."""
    ended = "error" if errors else "done"
    word = ended if state == "done" else state
    extended = f"degraded {word}" if recoverable and word == "done" else word
    return {
        "boot_status_code": "disabled-by-marker-file" if state == "disabled" else "enabled-by-generator",
        "datasource": datasource,
        "detail": f"DataSource{datasource}" if datasource else "",
        "errors": errors,
        "extended_status": extended,
        "recoverable_errors": recoverable,
        "status": word,
    }
