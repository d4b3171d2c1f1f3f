"""How fast the simulated world goes, and what goes wrong in it."""

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class Timing:
    """Seconds. The real values stand behind; the lab's are short where nothing is learnt from waiting."""

    boot: float = 0.3
    """Power-on to cloud-init and guest agent (about 10 s)."""
    unit_restart: float = 0.5
    """Longest pause before systemd starts a failed unit again; RestartSec is taken when it is shorter (5-10 s)."""
    api: float = 0.2
    """Supervisor start to API server (2-3 s)."""
    kubelet: float = 0.1
    """Server or agent start to the node's registration (1-5 s)."""
    ready: float = 0.3
    """Registration to Ready with a pod network (about 10 s)."""
    kubeadm: float = 10.0
    """How long kubeadm waits for what does not come (1-5 min)."""
    tick: float = 0.25
    """How often a cluster's controllers look."""
    heartbeat: float = 10.0
    """A kubelet's lease renewal (10 s)."""
    grace: float = 5.0
    """Silence of a kubelet before its node is marked Unknown (50 s)."""
    cloud_controller: float = 0.3
    """How often the cloud controller looks at uninitialised nodes; NotReady ones every 5 s (0.3-0.5 s)."""
    vip_scale: float = 1.0
    """Factor on kube-vip's lease times."""


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong with one machine, or with all whose name fits.

    `name` and `vmid` choose machines (empty: all). The rest says what happens: `boot_seconds` slows the boot,
    `never_agent` keeps the guest agent away, `kubelet_stuck` keeps the kubelet from registering, `never_ready` keeps
    the node NotReady, `no_network` loses the address, `supervisor_exits` ends the supervisor with that message,
    `unreachable` lets nobody be reached from the machine, `edits` changes the boot data as the machine reads it: pairs
    of a regular expression and what takes its place. kubeadm's machines only: `containerd_down` keeps containerd from
    starting, `missing_image` names (a part of) an image that the template lacks and nobody gives, `port_taken` a port
    that another program holds. `name` may end with `*`.
    """

    name: str = ""
    vmid: int = 0
    boot_seconds: float = 0.0
    never_agent: bool = False
    kubelet_stuck: bool = False
    never_ready: bool = False
    no_network: bool = False
    supervisor_exits: str = ""
    unreachable: bool = False
    edits: tuple[tuple[str, str], ...] = ()
    containerd_down: bool = False
    missing_image: str = ""
    port_taken: int = 0

    def fits(self, name: str, vmid: int) -> bool:
        begins = self.name.endswith("*") and name.startswith(self.name[:-1])
        return (not self.name or self.name == name or begins) and (not self.vmid or self.vmid == vmid)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Fault":
        """Raises ValueError for a rule that is not known."""
        known = {item.name for item in fields(cls)}
        if unknown := sorted(set(data) - known):
            raise ValueError(f"unknown fault: {', '.join(unknown)}")
        edits = tuple((str(old), str(new)) for old, new in data.get("edits") or ())
        return cls(**{**data, "edits": edits})


@dataclass
class Faults:
    """The rules in force."""

    rules: list[Fault] = field(default_factory=list)

    def of(self, name: str, vmid: int) -> Fault:
        """All rules for one machine, laid over each other."""
        merged: dict[str, Any] = {}
        for rule in self.rules:
            if rule.fits(name, vmid):
                merged.update({item.name: value for item in fields(rule) if (value := getattr(rule, item.name))})
        return Fault(**merged)
