"""The boot ISO: a NoCloud data source that cloud-init finds by its volume id.

The same boot data gives the same bytes, so that an upload whose answer was lost is known by its checksum. pycdlib
asks the clock for the times it writes; it is given a clock that stands still instead.
"""

import functools
import io
import time
from types import SimpleNamespace
from typing import Any

from bootstrap.boot_input import BootData

VOLUME_ID = "cidata"
_MOMENT = 315532800
"""1980-01-01 UTC; no reader of the ISO looks at it."""


def _standing_clock() -> Any:
    """The module `time` with one moment, and with no zone but UTC."""
    functions = {name: getattr(time, name) for name in dir(time) if not name.startswith("_")}
    return SimpleNamespace(**{**functions, "time": lambda: float(_MOMENT), "localtime": time.gmtime})


@functools.cache
def _images() -> Any:
    """What makes an empty image. pycdlib is imported at the first one: it costs a tenth of a worker's start."""
    from pycdlib import dates, headervd
    from pycdlib import pycdlib as builder

    for module in (builder, dates, headervd):
        # Not the module `time` itself: only what these three modules call by that name.
        vars(module)["time"] = _standing_clock()
    return builder.PyCdlib


def iso(data: BootData) -> bytes:
    """Packs the boot data into an ISO 9660 image with Joliet and Rock Ridge names (facts/proxmox.md 2)."""
    image = _images()()
    image.new(interchange_level=3, vol_ident=VOLUME_ID, joliet=3, rock_ridge="1.09")
    contents = (
        ("meta-data", "/META_DAT.;1", data.meta_data),
        ("user-data", "/USER_DAT.;1", data.user_data),
        ("network-config", "/NETWORK_.;1", data.network_config),
    )
    for name, plain_name, text in contents:
        raw = text.encode()
        image.add_fp(io.BytesIO(raw), len(raw), plain_name, rr_name=name, joliet_path=f"/{name}")
    packed = io.BytesIO()
    image.write_fp(packed)
    image.close()
    return packed.getvalue()
