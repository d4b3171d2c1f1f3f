"""Power: starting, stopping and destroying machines, and what lab/nodes hears of it; the guest agent."""

import asyncio
import base64
import re
import time
import uuid

from fakepve import agent as guest_agent
from fakepve.lxc import split_props
from fakepve.model import PveError, TaskError
from fakepve.qemu import drives_of, is_cdrom, volume_ref
from fakepve.routing import die

from .config_api import net_props
from .nodes_link import NodesDown, NotRunning


class PowerApi:
    """Mixin: power changes go through lab/nodes; without it machines just run."""

    # ------------------------------------------------------------- what it is

    def _serial(self, vm):
        props = split_props("x," + str(vm.config.get("smbios1", "")))[1]
        serial = props.get("serial", "")
        if serial and props.get("base64") == "1":
            serial = base64.b64decode(serial).decode("utf-8", "replace")
        return props.get("uuid", ""), serial

    def _iso_of(self, vm):
        """The bytes of the first attached ISO, or None. Raises TaskError when it is attached but not there."""
        for _key, volume, props in drives_of(vm.config):
            sid, name = volume_ref(volume)
            if not is_cdrom(volume, props) or sid is None:
                continue
            if self._volumes(sid).get(name) is None:
                raise TaskError(f"volume '{volume}' does not exist")
            if volume in self.iso_bytes:
                return self.iso_bytes[volume]
        return None

    def _power_on_body(self, vm, iso):
        nets = [net_props(vm.config[k]) for k in sorted(vm.config) if re.fullmatch(r"net\d+", k)]
        first = nets[0] if nets else {}
        ident, serial = self._serial(vm)
        if not getattr(vm, "disk_id", None):
            vm.disk_id = str(uuid.uuid4())
        return {
            "name": vm.name,
            "node": vm.node,
            "uuid": ident,
            "serial": serial,
            "memory_mib": int(str(vm.config.get("memory", 512)).split("=")[-1]),
            "cores": int(vm.config.get("cores", 1)) * int(vm.config.get("sockets", 1)),
            "macs": [n.get("mac", "") for n in nets],
            "bridge": first.get("bridge"),
            "vlan": int(first["tag"]) if first.get("tag") else None,
            "template": getattr(vm, "flavour", None),
            "iso": base64.b64encode(iso).decode() if iso is not None else None,
            "disk_id": vm.disk_id,
        }

    # --------------------------------------------------------------- changes

    async def power_on(self, vm):
        """Start the machine. Raises TaskError with PVE's text when it cannot start."""
        vm.apply_pending()
        for key in sorted(vm.config):
            if re.fullmatch(r"net\d+", key):
                bridge = net_props(vm.config[key]).get("bridge")
                if bridge and bridge not in self.bridges:
                    raise TaskError(f"bridge '{bridge}' does not exist")
        for _key, volume, _props in drives_of(vm.config, skip_cdrom=True):
            sid, _ = volume_ref(volume)
            if sid and self._qm_volume(volume) is None:
                raise TaskError(f"no such volume '{volume}'")
            if sid and not self.storages[sid].get("active", 1):
                raise TaskError(f"storage '{sid}' is not online")
        if vm.start_error:
            raise TaskError(vm.start_error)
        try:
            await self.nodes_link.call(
                "POST", f"/machines/{vm.vmid}/power-on", self._power_on_body(vm, self._iso_of(vm))
            )
        except (NodesDown, NotRunning) as e:
            raise TaskError(f"start failed: QEMU exited with code 1 ({e})") from e
        vm.status = vm.qmpstatus = "running"
        vm.started_at = time.time()

    async def power_off(self, vm, how):
        """Stop the machine: `stop` pulls the plug, `shutdown` asks the guest."""
        if vm.status == "running":
            try:
                await self.nodes_link.call("POST", f"/machines/{vm.vmid}/power-off", {"how": how})
            except NotRunning:
                pass
            except NodesDown as e:
                raise TaskError("VM quit/powerdown failed - got timeout") from e
        vm.status = vm.qmpstatus = "stopped"
        vm.apply_pending()

    async def machine_destroyed(self, vm):
        """Tell lab/nodes that the disk is gone."""
        try:
            await self.nodes_link.call("DELETE", f"/machines/{vm.vmid}")
        except NotRunning:
            pass
        except NodesDown as e:
            raise TaskError(f"lab/nodes: {e}") from e

    async def move(self, vm, target):
        """The machine now stands on another node."""
        vm.node = target
        try:
            await self.nodes_link.call("PUT", f"/machines/{vm.vmid}/node", {"node": target})
        except NotRunning:
            pass
        except NodesDown as e:
            raise TaskError(f"lab/nodes: {e}") from e

    # ----------------------------------------------------------------- calls

    async def _do_start(self, vm, user, p):
        if vm.ha_managed and not vm.template:
            return await self._ha_request(vm, user, "started")

        async def body():
            if vm.template:
                raise TaskError("you can't start a vm if it's a template")
            if vm.lock and vm.lock != "suspended":
                raise TaskError(f"VM is locked ({vm.lock})")
            if vm.status == "running":
                raise TaskError(f"VM {vm.vmid} already running")
            await self.power_on(vm)

        return await self.task(vm.node, "qmstart", vm.vmid, user, body, vm=vm)

    async def _do_stop(self, vm, user, p):
        if p.get("skiplock") and user != "root@pam":
            raise PveError(400, "Parameter verification failed.", {"skiplock": "Only root may use this option."})
        if vm.ha_managed:
            return await self._ha_request(vm, user, "stopped")

        async def body():
            if vm.lock and not p.get("skiplock"):
                raise TaskError(f"VM is locked ({vm.lock})")
            await self.power_off(vm, "stop")

        return await self.task(vm.node, "qmstop", vm.vmid, user, body, vm=vm)

    async def _powerdown(self, vm, p):
        if vm.acpi:
            await self.power_off(vm, "shutdown")
            return None
        await asyncio.sleep(min(int(p.get("timeout") or self.shutdown_default_timeout), 5))
        if str(p.get("forceStop", "0")) in ("1", "true"):
            await self.power_off(vm, "stop")
            return "VM still running - terminating now with SIGTERM"
        raise TaskError("VM quit/powerdown failed - got timeout")

    async def _do_reboot(self, vm, user, p):
        self._need_running(vm)

        async def body():
            if vm.lock:
                raise TaskError(f"VM is locked ({vm.lock})")
            # PVE's reboot ends the QEMU process and starts a new one, with the pending changes.
            await self._powerdown(vm, p)
            await self.power_on(vm)

        return await self.task(vm.node, "qmreboot", vm.vmid, user, body, vm=vm)

    async def _ha_request(self, vm, user, state):
        verb = "start" if state == "started" else "stop"

        async def body():
            self.ha_want(vm, state)

        text = f"Requesting HA {verb} for VM {vm.vmid}"
        return await self.task(vm.node, "ha" + verb, vm.vmid, user, body, lock=False, log=[text])

    # ----------------------------------------------------------------- agent

    async def _agent_call(self, match, values):
        vm = self.find(values["node"], values["vmid"])
        command = match.template.rsplit("/", 1)[1]
        enabled = str(vm.config.get("agent", "0")).split(",")[0].split("=")[-1]
        if enabled not in ("1", "true", "yes", "on"):
            raise die("No QEMU guest agent configured")
        if vm.status != "running":
            raise die(f"VM {vm.vmid} is not running")
        if vm.agent_hangs:
            raise die(f"VM {vm.vmid} qmp command 'guest-ping' failed - got timeout")
        guest_agent.record(vm, command, values)
        try:
            return await self._agent_answer(vm, command, values)
        except NotRunning:
            raise die("QEMU guest agent is not running") from None
        except NodesDown as e:
            raise die(f"VM {vm.vmid} qmp command 'guest-{command}' failed - got timeout") from e

    async def _agent_answer(self, vm, command, values):
        base = f"/machines/{vm.vmid}/agent"
        if command == "exec-status":
            return self._exec_status(vm, int(values["pid"]))
        if self.nodes_link.url is None:
            vm.agent = vm.agent if vm.agent is not None else {}
            if command == "exec":
                return {"pid": self._exec_begin(vm, None)}
            return guest_agent.result(vm, command, values)
        if command == "network-get-interfaces":
            return {"result": await self.nodes_link.call("GET", base + "/interfaces")}
        if command == "exec":
            await self.nodes_link.call("POST", base + "/ping")
            argv = values["command"]
            run = self.nodes_link.call("POST", base + "/exec", {"command": argv if isinstance(argv, list) else [argv]})
            return {"pid": self._exec_begin(vm, asyncio.ensure_future(run))}
        await self.nodes_link.call("POST", base + "/ping")
        return guest_agent.result(vm, command, values) if vm.agent else {"result": guest_agent.default(vm, command)}

    @staticmethod
    def _exec_begin(vm, running):
        vm.agent_pid += 1
        vm.agent_execs[vm.agent_pid] = running
        return vm.agent_pid

    @staticmethod
    def _exec_status(vm, pid):
        if pid not in vm.agent_execs:
            raise die(f"Agent error: PID {pid} does not exist")
        running = vm.agent_execs[pid]
        if running is None:
            return {"exited": 1, "exitcode": 0, "out-data": "", "err-data": ""}
        if not running.done():
            return {"exited": 0}
        answer = running.result()
        return {
            "exited": 1,
            "exitcode": answer.get("exitcode", 0),
            "out-data": answer.get("out", ""),
            "err-data": answer.get("err", ""),
        }
