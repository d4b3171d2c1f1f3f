"""The boot ISO as cloud-init's NoCloud data source reads it."""

import io
from dataclasses import dataclass
from typing import Any

import pycdlib
import yaml
from pycdlib.pycdlibexception import PyCdlibException

from lab.yaml_reader import read_yaml


class SeedError(Exception):
    """The ISO is no data source, or its content cannot be used."""


@dataclass(frozen=True)
class Seed:
    """The files of the data source, read."""

    instance_id: str
    hostname: str
    user_data: str
    network: dict[str, Any] | None


def _files(image: bytes) -> tuple[str, dict[str, bytes]]:
    """Volume id and files by the names that Linux shows (Rock Ridge, else Joliet; plain ISO names do not match)."""
    disc = pycdlib.PyCdlib()
    try:
        disc.open_fp(io.BytesIO(image))
    except PyCdlibException as error:
        raise SeedError(f"no ISO 9660 image: {error}") from error
    try:
        volume = disc.pvd.volume_identifier.decode("ascii", "replace").strip()
        if disc.has_rock_ridge():
            kind = "rr_path"
        elif disc.has_joliet():
            kind = "joliet_path"
        else:
            return volume, {}
        found: dict[str, bytes] = {}
        for name in ("meta-data", "user-data", "network-config", "vendor-data"):
            out = io.BytesIO()
            try:
                disc.get_file_from_iso_fp(out, **{kind: f"/{name}"})
            except PyCdlibException:
                continue
            found[name] = out.getvalue()
        return volume, found
    finally:
        disc.close()


def _yaml(data: bytes, what: str) -> Any:
    try:
        return read_yaml(data.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SeedError(f"{what} cannot be read: {error}") from error


def read(image: bytes) -> Seed:
    """Reads the ISO; raises SeedError where cloud-init would not find or not use the data source."""
    volume, files = _files(image)
    if volume.lower() != "cidata":
        raise SeedError(f"no data source: the volume is called {volume!r}, not cidata")
    if "meta-data" not in files or "user-data" not in files:
        missing = " and ".join(name for name in ("meta-data", "user-data") if name not in files)
        raise SeedError(f"no data source: {missing} is missing")
    if not files["meta-data"].strip():
        raise SeedError("no data source: meta-data is empty")
    meta = _yaml(files["meta-data"], "meta-data")
    if not isinstance(meta, dict):
        meta = {}
    network = _yaml(files["network-config"], "network-config") if "network-config" in files else None
    if isinstance(network, dict) and isinstance(network.get("network"), dict):
        network = network["network"]
    try:
        user_data = files["user-data"].decode("utf-8")
    except UnicodeDecodeError as error:
        raise SeedError(f"user-data cannot be read: {error}") from error
    # Without an id NoCloud takes a constant, so that a second VM of the same template looks like the first boot again.
    identity = str(meta.get("instance-id") or "nocloud")
    name = meta.get("local-hostname")
    return Seed(identity, str(name) if name else "", user_data, network if isinstance(network, dict) else None)
