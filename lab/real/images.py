"""Container images packed by ourselves: an OCI archive whose images share their layers."""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

_TYPE = "application/vnd.oci.image."


@dataclass(frozen=True)
class Image:
    """One image: its name with tag, the layers (folders) from below, and what it runs."""

    ref: str
    layers: tuple[Path, ...]
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = field(default=())


def pack(images: list[Image], out: Path) -> None:
    """Writes the archive; `ctr images import` reads it."""
    layers: dict[Path, tuple[str, int]] = {}
    manifests: list[dict[str, object]] = []
    with tarfile.open(out, "w") as archive:

        def add(name: str, data: bytes) -> None:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))

        def blob(data: bytes) -> tuple[str, int]:
            digest = hashlib.sha256(data).hexdigest()
            if digest not in written:
                written.add(digest)
                add(f"blobs/sha256/{digest}", data)
            return f"sha256:{digest}", len(data)

        written: set[str] = set()
        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        for image in images:
            for layer in image.layers:
                if layer not in layers:
                    layers[layer] = blob(_layer(layer))
            config: dict[str, object] = {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]}
            if image.entrypoint:
                config["Entrypoint"] = list(image.entrypoint)
            if image.cmd:
                config["Cmd"] = list(image.cmd)
            digest, size = blob(
                json.dumps(
                    {
                        "architecture": "amd64",
                        "os": "linux",
                        "config": config,
                        "rootfs": {"type": "layers", "diff_ids": [layers[layer][0] for layer in image.layers]},
                        "history": [{"created_by": "lab"} for _ in image.layers],
                    }
                ).encode()
            )
            manifest, length = blob(
                json.dumps(
                    {
                        "schemaVersion": 2,
                        "mediaType": _TYPE + "manifest.v1+json",
                        "config": {"mediaType": _TYPE + "config.v1+json", "digest": digest, "size": size},
                        "layers": [
                            {"mediaType": _TYPE + "layer.v1.tar", "digest": layers[layer][0], "size": layers[layer][1]}
                            for layer in image.layers
                        ],
                        "annotations": {"lab.ref": image.ref},
                    }
                ).encode()
            )
            manifests.append(
                {
                    "mediaType": _TYPE + "manifest.v1+json",
                    "digest": manifest,
                    "size": length,
                    "platform": {"architecture": "amd64", "os": "linux"},
                    "annotations": {
                        "io.containerd.image.name": image.ref,
                        "org.opencontainers.image.ref.name": image.ref.rsplit(":", 1)[1],
                    },
                }
            )
        add("index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())


def _layer(root: Path) -> bytes:
    """A folder as a tar that is the same for the same files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(root.rglob("*")):
            entry = tar.gettarinfo(path, str(path.relative_to(root)))
            entry.mtime = entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)
    return packed.getvalue()
