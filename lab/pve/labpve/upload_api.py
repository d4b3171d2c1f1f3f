"""Volumes: uploads with checksum, local storage per node, deletion (rules: PVE::API2::Storage::{Status,Content})."""

import hashlib
import re

from fakepve.model import PveError, TaskError
from fakepve.routing import die, param_error, split_list
from fakepve.server import USER, ok

HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
NAMES = {
    "iso": r"[^/]+\.(?:iso|img)",
    "vztmpl": r"[^/]+\.tar\.(?:gz|xz|zst|bz2)",
    "import": r"[^/]+\.(?:qcow2|raw|vmdk|ova)",
}


def multipart(body: bytes, content_type: str) -> list[tuple[str, str | None, bytes]]:
    """The parts of a form, in order: (field, file name or None, data). Raises ValueError when it is not whole."""
    found = re.search(r'boundary="?([^";,]+)"?', content_type)
    if not found:
        raise ValueError("no boundary")
    mark = b"--" + found.group(1).encode()
    pieces = (b"\r\n" + body).split(b"\r\n" + mark)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise ValueError("not a complete multipart body")
    parts = []
    for piece in pieces[1:-1]:
        head, sep, data = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(rb'[; ]name="([^"]*)"', head)
        if not sep or not name:
            raise ValueError("a part without a name")
        file = re.search(rb'filename="([^"]*)"', head)
        parts.append((name.group(1).decode(), file.group(1).decode() if file else None, data))
    return parts


class UploadApi:
    """Mixin over fakepve's storage areas."""

    # ---------------------------------------------------- volumes per node

    def volume_node(self, vol):
        """The node a volume of local storage lies on, or None when nothing tells."""
        if vol.get("node"):
            return vol["node"]
        owner = self.guest(vol["vmid"]) if vol.get("vmid") is not None else None
        return owner.node if owner else None

    async def _content_list(self, v, user):
        rows = await super()._content_list(v, user)
        store = self.storages[v["storage"]]
        if store.get("shared"):
            return rows
        volumes = self._volumes(v["storage"])
        return [r for r in rows if self.volume_node(volumes[r["volid"].split(":", 1)[1]]) in (None, v["node"])]

    async def _content_create(self, v, user):
        volid = await super()._content_create(v, user)
        if not self.storages[v["storage"]].get("shared"):
            self._qm_volume(volid)["node"] = v["node"]
        return volid

    def _space(self, store):
        total = store.get("total", 100 * 1024**3)
        used = sum(int(vol.get("size") or 0) for vol in store.get("volumes", {}).values())
        return total, used, max(total - used, 0)

    async def _content_delete(self, v, user):
        sid, volname, volid, store, vtype, owner, _fmt = self._volume_target(v)
        if vtype == "backup":
            return await super()._content_delete(v, user)
        self.require(user, "/storage/" + sid, "Datastore.Allocate")
        self._check_enabled(sid, v["node"])

        async def body():
            for other in self.storages.values():
                if any(vol.get("base") == volid for vol in other.get("volumes", {}).values()):
                    raise TaskError(f"base volume '{volid}' is still in use by linked cloned")
            # A volume that is not there (any more) is a warning in the log, not an error.
            store.get("volumes", {}).pop(volname, None)
            store["files"].discard(volname.removeprefix("iso/"))
            self.iso_bytes.pop(volid, None)
            return f"Removed volume '{volid}'"

        ident = f"{owner}@{sid}" if owner is not None else sid
        return await self.task(v["node"], "imgdel", ident, user, body, lock=False)

    # --------------------------------------------------------------- upload

    async def _upload(self, request):
        name, node, user = request.match_info["storage"], request.match_info["node"], request[USER]
        self.require(user, "/storage/" + name, "Datastore.AllocateTemplate")
        store = self._active_store(name, node)
        try:
            parts = multipart(await request.read(), request.headers.get("Content-Type", ""))
        except ValueError:
            raise PveError(400, "bad upload request") from None
        fields, filename, data = {}, None, b""
        for field, file, value in parts:
            if file is not None:
                filename, data = re.sub(r".*[/\\]", "", file), value
            elif filename is None:
                fields[field] = value.decode("utf-8", "replace")
        if filename is None:
            raise die("missing temporary file name")
        content = fields.get("content")
        if content not in NAMES:
            raise param_error(content="value does not have a value in the enumeration 'iso, vztmpl, import'")
        self._need_file_storage(store, "can't upload to storage type '{0}'")
        if content not in split_list(store.get("content")):
            raise die(f"storage '{name}' does not support '{content}' content")
        if not re.fullmatch(NAMES[content], filename):
            raise param_error(filename="wrong file extension")
        algorithm, expected = fields.get("checksum-algorithm"), fields.get("checksum", "")
        if algorithm is not None and algorithm not in HASHES:
            raise param_error(**{"checksum-algorithm": "value does not have a value in the enumeration"})
        if expected and not algorithm:
            raise param_error(checksum="missing parameter 'checksum-algorithm'")
        return ok(await self._upload_task(node, name, store, user, content, filename, data, algorithm, expected))

    async def _upload_task(self, node, name, store, user, content, filename, data, algorithm, expected):
        async def body():
            if content == "iso" and filename.endswith(".iso") and data[0x8001:0x8006] != b"CD001":
                raise TaskError("uploaded file does not look like an ISO")
            if algorithm:
                got = hashlib.new(algorithm, data).hexdigest()
                if got != expected.lower():
                    raise TaskError(f"checksum mismatch: got '{got}' != expect '{expected}'")
            if len(data) > self._space(store)[2]:
                raise TaskError(f"unable to write to storage '{name}': No space left on device")
            self.put_file(name, node, content, filename, data)
            return f"upload of {filename}: {len(data)} bytes"

        return await self.task(node, "imgcopy", name, user, body)

    def put_file(self, name, node, content, filename, data):
        """Keep a file on a storage, replacing what had its name."""
        self.store_file(name, filename, len(data), content)
        volname = f"{content}/{filename}"
        if not self.storages[name].get("shared"):
            self.storages[name]["volumes"][volname]["node"] = node
        self.iso_bytes[f"{name}:{volname}"] = data
