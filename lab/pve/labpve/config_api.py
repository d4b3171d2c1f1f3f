"""The configuration of a machine: who may change what, what a running machine takes at once, drives and networks."""

import re

from fakepve.model import PveError, TaskError
from fakepve.qemu import DRIVE_KEY, NEW_DISK, is_cdrom, split_drive, volume_ref, with_mac
from fakepve.routing import die, param_error
from fakepve.server import USER, ok, params

ZONE = "localnetwork"  # the zone of every plain bridge
CPU = {"affinity", "cores", "cpulimit", "cpuunits", "numa", "sockets", "vcpus"}
OPTIONS = {
    "agent",
    "autostart",
    "bios",
    "description",
    "hookscript",
    "keyboard",
    "localtime",
    "name",
    "onboot",
    "ostype",
    "protection",
    "reboot",
    "startdate",
    "startup",
    "tags",
    "template",
}
CLOUDINIT = {"cicustom", "cipassword", "citype", "ciupgrade", "ciuser", "nameserver", "searchdomain", "sshkeys"}
CONFIG_PRIVS = [
    f"VM.Config.{part}" for part in ("Disk", "CDROM", "CPU", "Memory", "Network", "HWType", "Options", "Cloudinit")
]
AT_ONCE = {"agent", "description", "hookscript", "lock", "name", "onboot", "protection", "startup", "tags"}


def net_props(value):
    """The options of a net value; `model` and `mac` beside the named ones."""
    props = {}
    for part in str(value).split(","):
        key, _, val = part.partition("=")
        if re.fullmatch(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", val) and key != "macaddr":
            props.update(model=key, mac=val)
        else:
            props["mac" if key == "macaddr" else key] = val
    return props


def clean_tags(text):
    """Tags as they are kept: lower case, once each, sorted, separated by `;`."""
    return ";".join(sorted({t.lower() for t in re.split(r"[;,\s]+", str(text)) if t}))


class ConfigApi:
    """Mixin: replaces how fakepve writes configurations."""

    def _routes_zz_config(self):
        return [("PUT", "/nodes/{node}/qemu/{vmid}/unlink", self._unlink)]

    def _config_priv(self, key):
        if key == "hookscript":
            return "root"
        if key in CPU or key == "cpu":
            return "VM.Config.CPU"
        if key in ("memory", "balloon", "shares"):
            return "VM.Config.Memory"
        if re.fullmatch(r"(net|ipconfig)\d+", key):
            return "VM.Config.Network"
        if key in ("boot", "bootdisk", "vmstatestorage") or DRIVE_KEY.match(key) or key.startswith("unused"):
            return "VM.Config.Disk"
        if key in OPTIONS:
            return "VM.Config.Options"
        return "VM.Config.Cloudinit" if key in CLOUDINIT else "VM.Config.HWType"

    def check_bridge(self, user, value):
        """SDN.Use on the bridge, or on the VLAN of it (rule: PVE::QemuServer::check_bridge_access)."""
        props = net_props(value)
        bridge = props.get("bridge")
        if not bridge:
            return
        path = f"/sdn/zones/{ZONE}/{bridge}" + (f"/{props['tag']}" if props.get("tag") else "")
        self.require(user, path, "SDN.Use")

    # ------------------------------------------------------------- checking

    def _is_cdrom_value(self, value):
        return is_cdrom(*split_drive(str(value or "")))

    def _check_rights(self, vm, user, updates, deletes):
        path = f"/vms/{vm.vmid}"
        for key in [*updates, *deletes]:
            priv = self._config_priv(key)
            value = updates.get(key, vm.config.get(key, ""))
            if DRIVE_KEY.match(key) and self._is_cdrom_value(value):
                priv = "VM.Config.CDROM"
            if priv == "root":
                if user != "root@pam":
                    raise PveError(403, f"only root can set '{key}' config")
            else:
                self.require(user, path, priv)
        for key, value in updates.items():
            if re.fullmatch(r"net\d+", key):
                self.check_bridge(user, value)
            elif DRIVE_KEY.match(key):
                self._check_drive(vm, user, key, value)

    def _check_drive(self, vm, user, key, value):
        volume, props = split_drive(str(value))
        if not volume or volume in ("none", "cdrom") or volume.endswith(":cloudinit"):
            return
        fresh = NEW_DISK.match(volume)
        if fresh and not is_cdrom(volume, props):
            if not fresh.group(1):
                raise die("no storage ID specified (and no default storage)")
            self._qm_image_store(fresh.group(1), user)
            return
        sid, name = volume_ref(volume)
        if sid is None:
            raise PveError(403, "Permission check failed (only root can use absolute paths)")
        store = self._store(sid)
        vtype, owner, _fmt = self._parse_volname(store, name)
        if vtype == "iso" and not is_cdrom(volume, props):
            raise param_error(**{key: "explicit 'media=cdrom' is required for iso images"})
        if vtype not in ("iso", "images"):
            raise param_error(**{key: "content type needs to be 'images' or 'iso'"})
        if owner != vm.vmid:
            self._check_access(user, sid, vtype, owner, volume)

    @staticmethod
    def _deletes(updates):
        return [k for k in re.split(r"[\s,;]+", str(updates.pop("delete", "") or "")) if k]

    def _precheck(self, vm, user, p):
        """Everything PVE looks at before it starts the worker: (updates, keys to delete)."""
        updates = {k: v for k, v in p.items() if k not in ("node", "vmid", "background_delay", "force", "skiplock")}
        digest, deletes = updates.pop("digest", None), self._deletes(updates)
        revert = updates.pop("revert", None)
        if digest and digest != vm.digest():
            raise die("checksum mismatch (file change by other user?)")
        for key in deletes:
            if key in updates:
                raise param_error(delete=f"cannot use '-{key}' and '-delete {key}' at the same time")
        self._check_rights(vm, user, updates, deletes)
        if revert:
            for key in str(revert).split(","):
                vm.pending.pop(key, None)
        self._check_lock(vm)
        order = str(updates.get("boot", ""))
        if order.startswith("order="):
            known = set(vm.devices({**vm.config, **updates})) - set(deletes)
            for device in filter(None, order[len("order=") :].split(";")):
                if device not in known:
                    raise param_error(boot=f"invalid bootorder: device '{device}' does not exist'")
        return updates, deletes

    # -------------------------------------------------------------- writing

    def _write_drive(self, vm, key, value):
        volume, props = split_drive(str(value))
        if NEW_DISK.match(volume) and not is_cdrom(volume, props):
            return self._qm_new_drive(vm.vmid, key, value, None)[0]
        sid, name = volume_ref(volume)
        if sid is None or volume in ("none", "cdrom"):
            return value
        vol = self._volumes(sid).get(name)
        if vol is None or (not self.storages[sid].get("shared") and self.volume_node(vol) not in (None, vm.node)):
            raise TaskError(f"volume '{volume}' does not exist")
        return self._qm_new_drive(vm.vmid, key, value, None)[0]

    def _drop_drive(self, vm, key, force):
        value = vm.config.pop(key, None)
        if value is None or self._is_cdrom_value(value):
            return
        volume = split_drive(value)[0]
        vol = self._qm_volume(volume)
        if vol is None or vol.get("vmid") != vm.vmid:
            return
        if force or key.startswith("unused"):
            self._qm_free(volume)
            return
        free = next(n for n in range(256) if f"unused{n}" not in vm.config)
        vm.config[f"unused{free}"] = volume

    def _hot(self, vm, key, value):
        """True when a running machine takes this change at once (hotplug: network, disk, usb)."""
        if key in AT_ONCE or key.startswith("unused") or re.fullmatch(r"(net|scsi|virtio)\d+", key):
            return True
        both = self._is_cdrom_value(value), self._is_cdrom_value(vm.config.get(key))
        return bool(DRIVE_KEY.match(key)) and value is not None and all(both)

    def _write(self, vm, updates, deletes, force=False):
        running = vm.status == "running"
        for key in deletes:
            if running and not self._hot(vm, key, None):
                if key in vm.config:
                    vm.pending[key] = None
            elif DRIVE_KEY.match(key) or key.startswith("unused"):
                self._drop_drive(vm, key, force)
            else:
                vm.config.pop(key, None)
        for key, value in updates.items():
            if re.fullmatch(r"net\d+", key):
                value = with_mac(value)
            elif DRIVE_KEY.match(key):
                value = self._write_drive(vm, key, value)
                old = vm.config.get(key)
                if old and not self._is_cdrom_value(old) and split_drive(old)[0] != split_drive(value)[0]:
                    self._drop_drive(vm, key, False)
            elif key == "tags":
                value = clean_tags(value)
            if running and not self._hot(vm, key, value):
                vm.pending[key] = value
            else:
                vm.config[key] = value
                vm.pending.pop(key, None)
        vm.name = vm.config.get("name") or f"VM {vm.vmid}"

    def _vm(self, request, priv=None):
        """PVE looks at rights before it looks for the machine: one that is gone, or in no pool yet, is a 403."""
        vmid, user = request.match_info["vmid"], request[USER]
        if priv and vmid.isdigit():
            self.require(user, f"/vms/{vmid}", priv)
        return super()._vm(request, priv)

    def _vm_to_change(self, request):
        path, held = f"/vms/{request.match_info['vmid']}", CONFIG_PRIVS
        if not any(self.allowed(request[USER], path, priv) for priv in held):
            raise PveError(403, f"Permission check failed ({path}, {'|'.join(held)})")
        return self._vm(request)

    async def _config_put(self, request):
        p = self._verify(request, await params(request))
        vm = self._vm_to_change(request)
        updates, deletes = self._precheck(vm, request[USER], p)
        try:
            await self.acquire(vm, "config")
            try:
                self._write(vm, updates, deletes, bool(p.get("force")))
            finally:
                self.release(vm, "config")
        except TaskError as e:
            raise PveError(500, str(e)) from e
        return ok()

    async def _config_post(self, request):
        p = self._verify(request, await params(request))
        vm, user = self._vm_to_change(request), request[USER]
        updates, deletes = self._precheck(vm, user, p)

        async def body():
            self._check_lock(vm)
            if p.get("digest") and p["digest"] != vm.digest():
                raise TaskError("checksum mismatch (file change by other user?)")
            self._write(vm, updates, deletes, bool(p.get("force")))

        return ok(await self.task(vm.node, "qmconfig", vm.vmid, user, body, vm=vm))

    async def _unlink(self, v, user):
        vm = self.find(v["node"], v["vmid"])
        keys = [k for k in re.split(r"[\s,;]+", str(v["idlist"])) if k]
        self._check_rights(vm, user, {}, keys)
        self._check_lock(vm)
        if v.get("force"):
            for key in keys:
                sid, _ = volume_ref(split_drive(str(vm.config.get(key, "")))[0])
                if sid:
                    self.require(user, "/storage/" + sid, "Datastore.AllocateSpace")
        self._write(vm, {}, keys, bool(v.get("force")))
