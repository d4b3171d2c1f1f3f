"""What makes a chart archive one: looked at before anything of it is kept."""

import hashlib
import io
import re
import tarfile
import zlib
from dataclasses import dataclass

import yaml

LARGEST = 10 * 1024 * 1024
"""Bytes of a packed chart. Cilium's, the largest that we know, has a quarter of a megabyte."""
_UNPACKED = 100 * 1024 * 1024
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9._-]{0,198}[a-zA-Z0-9])?")
_VERSION = re.compile(r"v?\d+\.\d+(?:\.\d+)?(?:[-+][0-9A-Za-z.+-]+)?")


class NotAChart(Exception):
    """The bytes are no Helm chart; the text says why."""


@dataclass(frozen=True)
class ChartArchive:
    """A chart archive that was looked at. `digest` is the SHA-256 of its bytes."""

    name: str
    version: str
    digest: str
    data: bytes


def read_archive(data: bytes) -> ChartArchive:
    """The chart in an archive.

    Raises:
        NotAChart: too large, no gzipped tar, a member that has no place in a chart, no readable Chart.yaml.
    """
    if len(data) > LARGEST:
        raise NotAChart(f"it is larger than {LARGEST // 1024 // 1024} MiB")
    described: bytes | None = None
    folder, total = "", 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                top, _, rest = member.name.partition("/")
                total += max(member.size, 0)
                if total > _UNPACKED:
                    raise NotAChart(f"it unpacks to more than {_UNPACKED // 1024 // 1024} MiB")
                outside = member.name.startswith("/") or ".." in member.name.split("/")
                if outside or not (member.isfile() or member.isdir()):
                    raise NotAChart(f"its member {member.name[:80]!r} has no place in a chart")
                folder = folder or top
                if top != folder:
                    raise NotAChart("it holds more than one folder")
                if rest == "Chart.yaml" and (file := archive.extractfile(member)) is not None:
                    described = file.read(1024 * 1024)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise NotAChart("it is no gzipped tar archive") from error
    name, version = _described(described)
    if name != folder:
        raise NotAChart(f"its folder is {folder[:80]!r}, its name {name!r}")
    return ChartArchive(name, version, hashlib.sha256(data).hexdigest(), data)


def _described(raw: bytes | None) -> tuple[str, str]:
    if raw is None:
        raise NotAChart("it has no Chart.yaml")
    try:
        chart = yaml.safe_load(raw)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise NotAChart("its Chart.yaml is no YAML") from error
    name = chart.get("name") if isinstance(chart, dict) else None
    version = chart.get("version") if isinstance(chart, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise NotAChart("its Chart.yaml names no chart")
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or len(version) > 64:
        raise NotAChart("its Chart.yaml gives no version")
    return name, version
