"""The boot ISO is what cloud-init looks for, read by other programs than the one that wrote it."""

import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pycdlib

from bootstrap.iso import iso
from tests.bootstrap.examples import example_boot_data

DATA = example_boot_data()
IMAGE = iso(DATA)


def test_the_volume_is_called_cidata(tmp_path: Path) -> None:
    path = tmp_path / "boot.iso"
    path.write_bytes(IMAGE)
    # blkid is what finds the data source on a machine.
    done = subprocess.run(["/sbin/blkid", "-p", str(path)], capture_output=True, text=True, env={"LC_ALL": "C"})
    assert 'LABEL="cidata"' in done.stdout, done.stderr
    assert 'TYPE="iso9660"' in done.stdout


def test_all_three_files_are_there_under_both_kinds_of_long_names() -> None:
    image = pycdlib.PyCdlib()
    image.open_fp(io.BytesIO(IMAGE))
    for name, text in (
        ("user-data", DATA.user_data),
        ("meta-data", DATA.meta_data),
        ("network-config", DATA.network_config),
    ):
        for kind in ("joliet_path", "rr_path"):
            out = io.BytesIO()
            image.get_file_from_iso_fp(out, **{kind: f"/{name}"})
            assert out.getvalue().decode() == text
    image.close()


def test_the_same_data_gives_the_same_image_at_any_time_and_place() -> None:
    """A second process at another time, in another zone: the checksum of an upload is known beforehand."""
    script = "import sys; from tests.bootstrap.test_iso import IMAGE; sys.stdout.buffer.write(IMAGE)"
    environment = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment, check=True)
    assert done.stdout == IMAGE
    assert iso(DATA) == IMAGE


def test_the_clock_of_this_process_goes_on() -> None:
    assert time.time() > 1_700_000_000
