"""The two scripts of kubeadm's boot data, read and acted out as far as they are what we know.

Whoever changes the scripts (bootstrap/kubeadm_node.py) sees here that the simulated machine no longer knows them.
"""

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lab.nodes import manifests, programs
from lab.nodes.cloud_init import DISABLED
from lab.nodes.installer import ScriptFailed, environment
from lab.nodes.kubeadm.command import KUBELET, Kubeadm
from lab.nodes.kubeadm.preflight import CONTAINERD

if TYPE_CHECKING:
    from lab.nodes.machine import Machine

SEED = "/etc/trilithon/kubernetes"
STATE = "/var/lib/trilithon"
_KUBERNETES = "/etc/kubernetes"
_ENVIRONMENT = "/etc/trilithon/kubeadm.env"
_ROLE_UNIT = "trilithon-kube-vip-role.service"
_ROLE = "/etc/trilithon/trilithon-kube-vip.yaml"
_PKI = (
    *("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.pub", "sa.key"),
    *("etcd/ca.crt", "etcd/ca.key"),
)
_OVER = frozenset(
    [
        *(f"fileavailable--etc-kubernetes-manifests-{name}.yaml"
          for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")),
        "diravailable--var-lib-etcd",
        *(f"port-{port}" for port in (6443, 10259, 10257, 10250, 2379, 2380)),
    ]
)  # fmt: skip
"""What the script lets kubeadm overlook over a control plane that is there."""
Say = Callable[[str], None]


class BootScript:
    """`install-kubeadm.sh`."""

    _LINES = (
        '. "$root/etc/trilithon/kubeadm.env"',
        "    look_at_the_template\n    look_at_the_boot_data\n    prepare_the_kernel\n    prepare_containerd\n",
        'run_kubeadm init --skip-token-print --ignore-preflight-errors="$over"',
        "            run_kubeadm init --skip-token-print\n",
        "        *) run_kubeadm join ;;",
        'if [ -e "$state/kubeadm.begun" ]; then clean_up; fi',
        'cp -Rp "$seed/pki" "$seed/manifests" "$kubernetes/"',
        'rm -rf "$seed/pki" "$seed/kubeadm.yaml"',
    )

    def __init__(self, text: str) -> None:
        self.known = text.startswith("#!/bin/sh\n") and all(line in text for line in self._LINES)

    async def run(self, machine: "Machine", say: Say) -> None:
        """Acts it out. Raises ScriptFailed as the script itself would have ended."""
        disk = machine.disk
        values = _values(machine, "VERSION", "TASK")
        version, task = values["VERSION"], values["TASK"]
        if not disk.exists(f"{STATE}/boot.done"):
            self._look_at_the_template(machine, version, task)
            self._look_at_the_boot_data(machine, task)
            await self._prepare_containerd(machine, say)
            disk.enabled.add(KUBELET)
            await self._become_a_node(machine, version, task, say)
            disk.write(DISABLED, b"")
            disk.write(f"{STATE}/boot.done", f"kubeadm {version}\n")
        for path in [path for path in disk.files if path.startswith(f"{SEED}/pki/")]:
            del disk.files[path]
        disk.files.pop(f"{SEED}/kubeadm.yaml", None)
        machine.world.save(machine)
        say("trilithon: done")

    def _look_at_the_template(self, machine: "Machine", version: str, task: str) -> None:
        names = ("kubeadm", "kubelet", "containerd", *(("kubectl",) if task == "init" else ()))
        for name in names:
            if not programs.in_place(machine.disk, name):
                raise ScriptFailed(f"trilithon: the template does not hold {name}")
        for name in ("kubeadm", "kubelet"):
            found = programs.in_place(machine.disk, name)
            if found != version:
                raise ScriptFailed(f"trilithon: the template holds {name} {found}, wanted is {version}")

    def _look_at_the_boot_data(self, machine: "Machine", task: str) -> None:
        needed = ["kubeadm.yaml"]
        if task != "join-worker":
            needed += [*(f"pki/{name}" for name in _PKI), "manifests/kube-vip.yaml"]
        for name in needed:
            file = machine.disk.read(f"{SEED}/{name}")
            if file is None or not file.data:
                raise ScriptFailed(f"trilithon: the boot data lacks {name}")

    async def _prepare_containerd(self, machine: "Machine", say: Say) -> None:
        disk = machine.disk
        number = 1 if programs.in_place(disk, "containerd").startswith("1.") else 2
        chosen = disk.read(f"/etc/trilithon/containerd/config-{number}.toml")
        if chosen is None:
            raise ScriptFailed(f"sed: can't read /etc/trilithon/containerd/config-{number}.toml: No such file")
        text = chosen.text.replace("@sandbox@", "registry.k8s.io/pause:3.10.2")
        configured = disk.read("/etc/containerd/config.toml")
        disk.enabled.add(CONTAINERD)
        if configured is None or configured.text != text:
            say("trilithon: containerd is configured anew")
            disk.write("/etc/containerd/config.toml", text)
            await machine.stop_unit(CONTAINERD)
        if containerd_refusal(machine) or await machine.start_unit(CONTAINERD) != 0:
            raise ScriptFailed("trilithon: containerd does not start")

    async def _become_a_node(self, machine: "Machine", version: str, task: str, say: Say) -> None:
        disk = machine.disk
        kubelet = disk.read(f"{_KUBERNETES}/kubelet.conf")
        if task == "join-worker" and kubelet is not None:
            say("trilithon: this machine has joined already")
            return
        kubeadm = Kubeadm(machine, version, say)
        if disk.exists(f"{STATE}/api.served"):
            say("trilithon: going on over what the API server has stored")
            self._lay_into_place(machine)
            await self._kubeadm(kubeadm.init(_OVER), "init", machine)
            return
        if disk.exists(f"{STATE}/kubeadm.begun"):
            say("trilithon: cleaning up what the last try left")
            await kubeadm.reset()
        if task != "join-worker":
            self._lay_into_place(machine)
        disk.write(f"{STATE}/kubeadm.begun", b"")
        if task == "init":
            if await machine.start_unit(_ROLE_UNIT) != 0:
                raise ScriptFailed("trilithon: nobody can give kube-vip its role")
            disk.enabled.add(_ROLE_UNIT)
            await self._kubeadm(kubeadm.init(), "init", machine)
        else:
            await self._kubeadm(kubeadm.join(), "join", machine)

    def _lay_into_place(self, machine: "Machine") -> None:
        for path, file in list(machine.disk.files.items()):
            for folder in ("pki", "manifests"):
                if path.startswith(f"{SEED}/{folder}/"):
                    machine.disk.write(f"{_KUBERNETES}/{path.removeprefix(f'{SEED}/')}", file.data, file.mode)

    async def _kubeadm(self, run: Awaitable[bool], name: str, machine: "Machine") -> None:
        """Runs kubeadm; its telling words are said again when it fails, as the script does."""
        unit = machine.disk.logs.setdefault("trilithon-install.service", [])
        before = len(unit)
        if await run:
            return
        lines = [line for line in unit[before:] if line.startswith("error") or "[ERROR " in line]
        said = " ".join(" ".join(lines[-4:]).split()) or (unit[-1] if unit else "")
        raise ScriptFailed(f"trilithon: kubeadm {name} failed and is tried again: {said}")


class RoleScript:
    """`kube-vip-role.sh`: waits for this machine's API server and gives kube-vip its role there."""

    _LINES = (
        '. "$root/etc/trilithon/kubeadm.env"',
        '--server "https://$ADDRESS:6443"',
        'apply --validate=false -f "$root/etc/trilithon/trilithon-kube-vip.yaml"',
        ': >"$state/api.served"',
    )

    def __init__(self, text: str) -> None:
        self.known = text.startswith("#!/bin/sh\n") and all(line in text for line in self._LINES)

    async def run(self, machine: "Machine", say: Say) -> None:
        """Acts it out. Raises ScriptFailed as the script itself would have ended."""
        values, said = _values(machine), ""
        if "ADDRESS" not in values:
            raise ScriptFailed("sh: ADDRESS: parameter not set")
        while True:
            problem = self._apply(machine, values["ADDRESS"])
            if not problem:
                break
            if problem != said:
                said = problem
                say(f"trilithon: kube-vip's role is not there yet: {problem}")
            await asyncio.sleep(min(1.0, machine.world.timing.unit_restart))
        machine.disk.write(f"{STATE}/api.served", b"")
        say("trilithon: kube-vip has its role")

    def _apply(self, machine: "Machine", address: str) -> str:
        program = machine.program
        cluster = program.cluster if program is not None else None
        if machine.disk.read(f"{_KUBERNETES}/super-admin.conf") is None:
            return "there is no super-admin.conf"
        serves = program is not None and program.handler is not None and address == machine.address
        if cluster is None or not serves:
            return f"The connection to the server {address}:6443 was refused - did you specify the right host or port?"
        role = machine.disk.read(_ROLE)
        if role is None:
            return f'the path "{_ROLE}" does not exist'
        return "; ".join(manifests.apply_folder(cluster.api, {"trilithon-kube-vip.yaml": role}, []))


def containerd_refusal(machine: "Machine") -> str:
    """Why containerd ends at once, "" when it runs."""
    if machine.fault.containerd_down:
        return "containerd: held by a fault rule"
    file = machine.disk.read("/etc/containerd/config.toml")
    try:
        tomllib.loads(file.text if file else "")
    except tomllib.TOMLDecodeError as error:
        return f"containerd: failed to load TOML: /etc/containerd/config.toml: toml: {error}"
    return ""


def _values(machine: "Machine", *needed: str) -> dict[str, str]:
    file = machine.disk.read(_ENVIRONMENT)
    if file is None:
        raise ScriptFailed(f"sh: .: cannot open {_ENVIRONMENT}: No such file")
    values = environment(file.text, _ENVIRONMENT)
    for name in needed:
        if not re.fullmatch(r".+", values.get(name, "")):
            raise ScriptFailed(f"sh: {name}: parameter not set")
    return values
