"""Cloning, creating, resizing, converting and destroying machines (rules: PVE::API2::Qemu, PVE::QemuServer)."""

import re
import uuid

from fakepve.lxc import format_size, split_props
from fakepve.model import FakeVm, PveError, TaskError
from fakepve.qemu import CLONE_SKIP, DRIVE_KEY, drives_of, is_cdrom, join_drive, split_drive, volume_ref, with_mac
from fakepve.routing import die, param_error, split_list
from fakepve.storage import _bytes, _is_file


class CloneApi:
    """Mixin over fakepve's QemuApi."""

    def _routes_zz_machines(self):
        one = "/nodes/{node}/qemu/{vmid}"
        return [
            ("GET", "/cluster/nextid", self._nextid),
            ("PUT", one + "/resize", self._resize),
            ("POST", one + "/migrate", self._migrate_call),
        ]

    async def _nextid(self, v, user):
        if v.get("vmid") is not None:
            if self._qm_taken(int(v["vmid"])):
                raise param_error(vmid=f"VM {v['vmid']} already exists")
            return str(v["vmid"])
        free = 100
        while self._qm_taken(free):
            free += 1
        return str(free)

    # ---------------------------------------------------------------- clone

    def _clone_disk_plan(self, old, full, snapname):
        """(config of the clone without its disks, key -> (volume, options) of what is to be copied)."""
        conf, plan = {}, {}
        for key in sorted(old):
            value = old[key]
            if key in CLONE_SKIP or re.fullmatch(r"unused\d+", key):
                continue
            if re.fullmatch(r"net\d+", key):
                conf[key] = with_mac(value, fresh=True)
                continue
            if not DRIVE_KEY.match(key):
                conf[key] = value
                continue
            volume, props = split_drive(value)
            sid, name = volume_ref(volume)
            if is_cdrom(volume, props) or sid is None:
                conf[key] = value
                continue
            store = self._store(sid)
            if not full and ("base-" not in volume or (_is_file(store) and not name.endswith(".qcow2"))):
                what = "a snapshot of " if snapname else ""
                raise die(f"Linked clone feature is not supported for {what}'{volume}' ({key})")
            plan[key] = (volume, props)
        return conf, plan

    def _uses_local(self, config):
        """True when a disk or CD-ROM of this configuration lies on storage of one node only."""
        for _key, volume, _props in drives_of(config):
            sid, _ = volume_ref(volume)
            if sid and not self.storages.get(sid, {}).get("shared"):
                return True
        return False

    async def _qm_clone(self, v, user):
        node, vmid, newid = v["node"], int(v["vmid"]), int(v["newid"])
        pool, storage, target = v.get("pool"), v.get("storage"), v.get("target")
        if pool and pool not in self.pools:
            raise die(f"no such pool '{pool}'")
        if storage:
            self.require(user, "/storage/" + storage, "Datastore.AllocateSpace")
            store = self._store(storage)
            if "images" not in split_list(store.get("content")):
                raise param_error(storage=f"storage '{storage}' does not support vm images")
        target = None if target in (node, "localhost") else target
        if target and target not in self.nodes:
            raise die(f"no such cluster node '{target}'")
        if target and storage and not self._store(storage).get("shared"):
            raise die(f"can't clone to non-shared storage '{storage}'")
        src = self.find(node, vmid)
        self._check_lock(src)
        snapname = v.get("snapname")
        if snapname and snapname not in src.snapshots:
            raise die(f"snapshot '{snapname}' does not exist")
        full = bool(v["full"]) if v.get("full") is not None else not src.template
        for key in ("storage", "format"):
            if v.get(key) and not full:
                raise die(f"parameter '{key}' not allowed for linked clones")
        old = src.snapshots[snapname] if snapname else src.config
        conf, plan = self._clone_disk_plan(old, full, snapname)
        for key in sorted(k for k in conf if re.fullmatch(r"net\d+", k)):
            self.check_bridge(user, conf[key])
        for volume, _props in plan.values():
            sid = storage or volume_ref(volume)[0]
            self.require(user, "/storage/" + sid, "Datastore.AllocateSpace")
            self._check_enabled(sid, node)
            if target:
                self._check_enabled(sid, target)
        if target and self._uses_local(old):
            raise die(f"can't clone VM to node '{target}' (VM uses local storage)")
        other = self.guest(newid)
        if other is not None and other.node == node:
            raise die(f"unable to create VM {newid}: config file already exists")
        conf["name"] = v.get("name") or f"Copy-of-VM-{src.config.get('name') or vmid}"
        if v.get("description"):
            conf["description"] = v["description"]
        return await self._clone_task(v, user, src, conf, plan, full, target, other)

    async def _clone_task(self, v, user, src, conf, plan, full, target, other):
        node, vmid, newid, pool = v["node"], int(v["vmid"]), int(v["newid"]), v.get("pool")
        new = FakeVm(newid, f"VM {newid}", node=node)
        # Early in a clone the configuration holds a lock and nothing else: no name, no description, no pool.
        new.config = {}
        self._qm_lock(new, "clone")
        new.origin = getattr(src, "flavour_of", vmid)
        new.flavour = getattr(src, "flavour", None)
        if other is None:
            self.vms.append(new)
        made = []

        def undo():
            for volid in made:
                self._qm_free(volid)
            if new in self.vms:
                self.vms.remove(new)

        async def body():
            if other is not None:
                path = f"/etc/pve/nodes/{node}/qemu-server/{newid}.conf"
                raise TaskError(f"clone failed: close (rename) atomic file '{path}' failed: File exists")
            try:
                await self.effort("qmclone")
                for key in sorted(plan):
                    conf[key] = self._clone_disk(newid, vmid, *plan[key], full, v.get("storage"), v.get("format"), made)
                smbios = split_props("x," + str(conf.get("smbios1", "")))[1]
                smbios["uuid"] = str(uuid.uuid4())
                conf["smbios1"] = ",".join(f"{k}={smbios[k]}" for k in sorted(smbios))
                if conf.get("vmgenid"):
                    conf["vmgenid"] = str(uuid.uuid4())
                # The name and the description appear with the first copied disk, still under the lock.
                new.config = dict(conf, lock="clone")
                new.name = conf["name"]
                await self.pause(self.paces["clone_tail"])
            except TaskError as e:
                undo()
                raise TaskError(str(e) if str(e).startswith("clone failed") else f"clone failed: {e}") from e
            except PveError as e:
                undo()
                raise TaskError(f"clone failed: {e.message}") from e
            self._qm_lock(new, None)
            if target:
                new.node = target
            if pool and pool in self.pools:
                self._pool_join(pool, newid)

        lines = [f"create {'full' if full else 'linked'} clone of drive {k} ({plan[k][0]})" for k in sorted(plan)]
        return await self.task(node, "qmclone", vmid, user, body, lock=False, log=lines, paced=True)

    def _clone_disk(self, newid, vmid, volume, props, full, storage, fmt, made):
        sid, name = volume_ref(volume)
        vol = self._volumes(sid).get(name)
        if vol is None:
            raise TaskError(f"volume '{volume}' does not exist")
        size, dest = int(vol.get("size") or 0), storage or sid
        if full:
            kind = fmt or (vol.get("format") if dest == sid else None)
            volid, _ = self._qm_alloc(dest, newid, kind, size)
        else:
            owner = vol.get("vmid", vmid)
            volid, _ = self._qm_alloc(sid, newid, vol.get("format"), size, linked_from=f"{owner}/{name.split('/')[-1]}")
            self._qm_volume(volid)["base"] = f"{sid}:{name}"
        made.append(volid)
        return join_drive(volid, dict(props, **({"size": format_size(size)} if size else {})))

    # ------------------------------------------------ create, resize, template

    async def _qm_create(self, v, user):
        for key in sorted(v):
            if re.fullmatch(r"net\d+", key):
                self.check_bridge(user, v[key])
        return await super()._qm_create(v, user)

    async def _resize(self, v, user):
        vm = self.find(v["node"], v["vmid"])
        disk, size = v["disk"], str(v["size"])
        if v.get("digest") and v["digest"] != vm.digest():
            raise die("checksum mismatch (file change by other user?)")
        self._check_lock(vm)
        if disk not in vm.config:
            raise die(f"disk '{disk}' does not exist")
        volume, props = split_drive(vm.config[disk])
        if is_cdrom(volume, props):
            raise die("you can't resize a cdrom")
        sid, _ = volume_ref(volume)
        if sid is None:
            raise die(f"disk '{disk}' has no associated volume")
        self.require(user, "/storage/" + sid, "Datastore.AllocateSpace")
        vol = self._qm_volume(volume)
        if vol is None:
            raise die(f"Could not determine current size of volume '{volume}'")
        now = int(vol.get("size") or 0)
        wanted = now + _bytes(size[1:]) if size.startswith("+") else _bytes(size)
        if wanted < now:
            raise die("shrinking disks is not supported")

        async def body():
            vol["size"] = wanted
            again = split_drive(vm.config[disk])
            vm.config[disk] = join_drive(again[0], dict(again[1], size=format_size(wanted)))

        return await self.task(vm.node, "resize", vm.vmid, user, body, vm=vm)

    async def _qm_template(self, v, user):
        vm = self.find(v["node"], v["vmid"])
        vm.flavour_of = vm.vmid
        return await super()._qm_template(v, user)

    # ------------------------------------------------------ destroy, migrate

    def _base_in_use(self, vm):
        """The first base volume of this template that a linked clone still stands on, or None."""
        own = {volume for _k, volume, _p in drives_of(vm.config, skip_cdrom=True)}
        for store in self.storages.values():
            for vol in store.get("volumes", {}).values():
                if vol.get("base") in own:
                    return vol["base"]
        return None

    async def _qm_destroy(self, v, user):
        vm = self.find(v["node"], v["vmid"])
        if v.get("skiplock") and user != "root@pam":
            raise param_error(skiplock="Only root may use this option.")
        self._qm_check_protection(vm, f"can't remove VM {vm.vmid}")
        managed = f"vm:{vm.vmid}" in self.ha_resources
        if not v.get("purge") and managed:
            raise die(f"unable to remove VM {vm.vmid} - used in HA resources and purge parameter not set.")
        if vm.status == "running":
            raise die(f"VM {vm.vmid} is running - destroy failed")

        async def body():
            if vm not in self.vms:
                # The worker reads the configuration anew: of two deletions at once the second finds none.
                raise TaskError(f"Configuration file 'nodes/{vm.node}/qemu-server/{vm.vmid}.conf' does not exist")
            if vm.lock and not v.get("skiplock"):
                raise TaskError(f"VM is locked ({vm.lock})")
            if vm.status == "running":
                raise TaskError(f"VM {vm.vmid} is running - destroy failed")
            used = self._base_in_use(vm)
            if used:
                raise TaskError(f"base volume '{used}' is still in use by linked cloned")
            await self.machine_destroyed(vm)
            self._free_disks(vm, bool(v.get("destroy-unreferenced-disks")))
            if vm in self.vms:
                self.vms.remove(vm)
            self._pool_leave(vm.vmid)
            self.access.drop_path(f"/vms/{vm.vmid}")
            if v.get("purge"):
                self.ha_forget(f"vm:{vm.vmid}")

        return await self.task(vm.node, "qmdestroy", vm.vmid, user, body, vm=vm)

    def _free_disks(self, vm, unreferenced):
        """The disks of the configuration that belong to this machine, then what else of it the node sees."""
        configs = [vm.config, *vm.snapshots.values()]
        for config in configs:
            volumes = [volume for _k, volume, _p in drives_of(config)]
            volumes += [split_drive(config[k])[0] for k in sorted(config) if re.fullmatch(r"unused\d+", k)]
            for volid in volumes:
                vol = self._qm_volume(volid)
                if vol and vol.get("vmid") == vm.vmid:
                    self._qm_free(volid)
        if not unreferenced:
            return
        for sid, store in self.storages.items():
            for name, vol in list(store.get("volumes", {}).items()):
                seen = store.get("shared") or self.volume_node(vol) == vm.node
                if seen and vol.get("vmid") == vm.vmid and vol.get("content") == "images":
                    self._qm_free(f"{sid}:{name}")

    async def _migrate_call(self, v, user):
        vm, target = self.find(v["node"], v["vmid"]), v["target"]
        if target not in self.nodes:
            raise die(f"no such cluster node '{target}'")
        if target == vm.node:
            raise param_error(target="target is local node.")
        self._check_lock(vm)
        if vm.status == "running" and not v.get("online"):
            raise die("can't migrate running VM without --online")

        async def body():
            if not self.nodes[target].get("online", True):
                raise TaskError(f"migration aborted: node '{target}' is not online")
            if self._uses_local(vm.config) and not v.get("with-local-disks"):
                raise TaskError("migration aborted: can't migrate VM which uses local storage")
            await self.move(vm, target)

        return await self.task(vm.node, "qmigrate", vm.vmid, user, body, vm=vm)
