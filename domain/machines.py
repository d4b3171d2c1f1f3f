"""A machine: one node to be or being, with every identity reserved before its first effect."""

from enum import StrEnum

from domain.frozen import Payload


class Role(StrEnum):
    CONTROL_PLANE = "control-plane"
    WORKER = "worker"


CONTROL_PLANE_POOL = "control-plane"


class Phase(StrEnum):
    """How far a machine has come. The order of the members is the order in time.

    A phase is written by the activity that has seen it true, so it may lag behind reality but never runs ahead.
    """

    RESERVED = "Reserved"
    """Name, address, MAC, VM id and SMBIOS uuid are reserved in the store; nothing exists outside."""
    PLACED = "Placed"
    CLONED = "Cloned"
    CONFIGURED = "Configured"
    SEEDED = "Seeded"
    """Its boot ISO is uploaded and attached; it waits for its turn to be powered on."""
    STARTED = "Started"
    JOINED = "Joined"
    """Its node has registered with the cluster."""
    READY = "Ready"
    """Its node is Ready and initialised, and the boot ISO is detached and deleted."""
    DELETING = "Deleting"
    GONE = "Gone"
    """Its VM was proved absent while every node of the site could be seen; its reservations are free."""

    @property
    def rank(self) -> int:
        return list(Phase).index(self)

    def reached(self, other: "Phase") -> bool:
        """True when this phase is `other` or a later one."""
        return self.rank >= other.rank


class Machine(Payload):
    """A machine as the store keeps it and the planner sees it.

    `name` is also the VM's, the host's and the node's name. `attempt` is the compare-and-set counter that an
    activity raises before an effect, so that of two living attempts one acts.
    """

    id: str
    cluster_id: str
    name: str
    role: Role
    pool: str
    phase: Phase = Phase.RESERVED
    initialiser: bool = False
    version: str
    cores: int
    memory_mib: int
    disk_gib: int
    vmid: int
    address: str
    mac: str
    bios_uuid: str
    node: str | None = None
    template_vmid: int | None = None
    attempt: int = 0
    message: str = ""
    """What the machine waits for or last failed with, for people; never parsed."""

    @property
    def is_server(self) -> bool:
        return self.role is Role.CONTROL_PLANE

    @property
    def iso_name(self) -> str:
        """File name of the boot ISO on the site's ISO storage (facts: user-data-<VMID>.iso)."""
        return f"user-data-{self.vmid}.iso"

    @property
    def marker(self) -> str:
        """What the clone call writes into the VM's description: the proof that a VM is ours.

        Ours = the reserved VM id together with this text; pool, name and tags prove nothing (CAPMOX #842: VM ids are
        reused at once).
        """
        return f"trilithon cluster={self.cluster_id} machine={self.id}"
