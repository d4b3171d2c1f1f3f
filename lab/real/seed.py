"""The boot ISO's files as the folder in which cloud-init's NoCloud looks."""

import io
import shutil
from pathlib import Path

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

SEED = "var/lib/cloud/seed/nocloud"
_NAMES = ("meta-data", "user-data", "network-config", "vendor-data")


def place(root: Path, iso: bytes | None) -> str:
    """Puts the ISO's files into a machine's tree, or takes them away; why there is no seed, "" when there is one.

    As a kernel that mounts the disc would show them: a disc of another name than `cidata` is not looked at.
    """
    folder = root / SEED
    shutil.rmtree(folder, ignore_errors=True)
    if iso is None:
        return "no ISO is attached"
    disc = pycdlib.PyCdlib()
    try:
        disc.open_fp(io.BytesIO(iso))
    except PyCdlibException as error:
        return f"no ISO 9660 image: {error}"
    try:
        label = disc.pvd.volume_identifier.decode("ascii", "replace").strip()
        if label.lower() != "cidata":
            return f"the volume is called {label!r}, not cidata"
        kind = "rr_path" if disc.has_rock_ridge() else "joliet_path" if disc.has_joliet() else "iso_path"
        files: dict[str, bytes] = {}
        for name in _NAMES:
            out = io.BytesIO()
            try:
                disc.get_file_from_iso_fp(out, **{kind: f"/{name}"})
            except PyCdlibException:
                continue
            files[name] = out.getvalue()
    finally:
        disc.close()
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
    return ""
