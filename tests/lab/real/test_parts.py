"""Parts of the laboratory of real nodes that need no node: lock, seed, configuration, addresses, images."""

import base64
import fcntl
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab.real import images, inotify, seed
from lab.real.layout import Layout
from lab.real.lock import MachineLock, Taken
from lab.real.machine import Hardware
from tests.lab.real.boot_data import iso

BODY: dict[str, Any] = {
    "name": "a", "node": "pve1", "uuid": "5", "serial": "7", "memory_mib": 2048, "cores": 2,
    "macs": ["BC:24:11:00:00:01"], "bridge": "vmbr0", "vlan": None,
    "template": {"distribution": "kubeadm", "version": "v1.36.3"}, "iso": None,
    "disk_id": "d",
}  # fmt: skip


def test_lock_names_its_holder_and_is_free_again(tmp_path: Path) -> None:
    first, second, said = MachineLock(tmp_path / "lock"), MachineLock(tmp_path / "lock"), []
    first.take("/data/one", 0, said.append)
    with pytest.raises(Taken, match=rf"in use by process {os.getpid()} \(/data/one, since "):
        second.take("/data/two", 0, said.append)
    with pytest.raises(Taken):
        second.take("/data/two", 0.3, said.append)
    assert len(said) == 1
    assert "/data/one" in said[0]
    first.drop()
    second.take("/data/two", 0, said.append)
    second.drop()


def test_lock_with_an_unreadable_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("?")
    with path.open("r+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Taken, match="an unknown process"):
            MachineLock(path).take("x", 0, print)


def test_seed_is_placed_and_taken_away(tmp_path: Path) -> None:
    disc = iso("#cloud-config\n", "a", "bc:24:11:00:00:01", "192.0.2.5", "192.0.2.1")
    assert seed.place(tmp_path, disc) == ""
    folder = tmp_path / seed.SEED
    assert (folder / "user-data").read_text() == "#cloud-config\n"
    assert (folder / "user-data").stat().st_mode & 0o077 == 0
    assert "local-hostname: a" in (folder / "meta-data").read_text()
    assert seed.place(tmp_path, None) == "no ISO is attached"
    assert not folder.exists()


def test_disc_of_another_name_is_no_seed(tmp_path: Path) -> None:
    disc = iso("#cloud-config\n", "a", "bc:24:11:00:00:01", "192.0.2.5", "192.0.2.1", label="config-2")
    assert "config-2" in seed.place(tmp_path, disc)
    assert not (tmp_path / seed.SEED).exists()
    assert "no ISO 9660 image" in seed.place(tmp_path, b"nothing")


def test_hardware_reads_the_protocol() -> None:
    found = Hardware.from_json(101, {**BODY, "iso": base64.b64encode(b"disc").decode(), "vlan": 7})
    assert (found.vmid, found.macs, found.vlan, found.iso) == (101, ("bc:24:11:00:00:01",), 7, b"disc")
    assert "disc" not in json.dumps(found.to_json())
    assert found.to_json()["iso"] is True


@pytest.mark.parametrize("template", [None, {}, {"distribution": "rke2", "version": "v1.36.5+rke2r1"}])
def test_only_kubeadm_is_real(template: dict[str, str] | None) -> None:
    with pytest.raises(ValueError, match="kubeadm templates only"):
        Hardware.from_json(101, {**BODY, "template": template})


def test_addresses_of_a_space() -> None:
    layout = Layout(90)
    assert [str(item) for item in layout.gateways("vmbr0", None)] == [f"172.30.90.{n}/24" for n in (1, 2, 3)]
    assert [str(item) for item in layout.gateways("vmbr0", 100)] == ["172.29.100.1/24"]
    assert layout.gateways("vmbr1", None) == []


def test_inotify_instances_are_counted(tmp_path: Path) -> None:
    before = inotify.used()
    import ctypes

    one = ctypes.CDLL(None).inotify_init()
    try:
        if os.geteuid() == 0:
            assert inotify.used() >= before + 1 or inotify.used() > 0
    finally:
        os.close(one)
    assert inotify.limit() > 0


def test_images_share_layers_and_are_the_same_twice(tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    layer.mkdir()
    (layer / "file").write_text("x")
    (layer / "link").symlink_to("file")
    listed = [images.Image("lab/a:1", (layer,), ("/file",)), images.Image("lab/b:2", (layer,), cmd=("sh",))]
    for name in ("one.tar", "two.tar"):
        images.pack(listed, tmp_path / name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        names = [row["annotations"]["io.containerd.image.name"] for row in json.load(index)["manifests"]]
        assert names == ["lab/a:1", "lab/b:2"]
        assert len([name for name in archive.getnames() if name.startswith("blobs/")]) == 5
