"""The boot ISO: a NoCloud data source that cloud-init finds by its volume id."""

import io

import pycdlib

from bootstrap.boot_input import BootData

VOLUME_ID = "cidata"


def iso(data: BootData) -> bytes:
    """Packs the boot data into an ISO 9660 image with Joliet and Rock Ridge names (facts/proxmox.md 2)."""
    image = pycdlib.PyCdlib()
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
