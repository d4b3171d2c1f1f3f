"""A machine: one node to be or being, with every identity reserved before its first effect."""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

from domain.clusters import ClusterSpec, MachineSize
from domain.frozen import Frozen, Payload


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
        return _RANKS[self]

    def reached(self, other: "Phase") -> bool:
        """True when this phase is `other` or a later one."""
        return self.rank >= other.rank


_RANKS = {phase: rank for rank, phase in enumerate(Phase)}


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

    @property
    def leaving(self) -> bool:
        """True when it is on its way out or gone: it no longer counts as one of the wanted machines."""
        return self.phase.reached(Phase.DELETING)


SUFFIX_LENGTH = 5
MAX_NAME = 63
"""A machine's name is a host name: one DNS label."""

# No vowels and no look-alikes, as in Kubernetes' own generated names: no words, and readable aloud.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_TRIES = 1000


class MachineDraft(Frozen):
    """A machine that shall be, before the store reserves its VM id and address."""

    id: str
    name: str
    role: Role
    pool: str
    version: str
    cores: int
    memory_mib: int
    disk_gib: int
    mac: str
    bios_uuid: str
    initialiser: bool = False


def name_stem(cluster: str, pool: str) -> str:
    """A machine name without its suffix: `prod-cp` for servers, `prod-md-0` for workers of pool `md-0`."""
    return f"{cluster}-cp" if pool == CONTROL_PLANE_POOL else f"{cluster}-{pool}"


def identities(cluster_id: str, ever: int) -> Callable[[], str]:
    """A `fresh` for `drafts` that gives the same answers to two attempts at the same reservation.

    `ever` is the number of machines that the cluster has ever had, gone ones included. Because both attempts draft
    the same names, the store's "idempotent by name" makes one set of machines of them, never two.
    """
    counter = ever

    def fresh() -> str:
        nonlocal counter
        counter += 1
        return uuid.UUID(bytes=_digest("machine", cluster_id, str(counter))[:16], version=4).hex

    return fresh


def drafts(
    spec: ClusterSpec, cluster_id: str, existing: Sequence[Machine], fresh: Callable[[], str]
) -> list[MachineDraft]:
    """The machines that are wanted and do not exist yet: servers first, then each pool in the spec's order.

    `existing` are the cluster's machines, gone ones too if at hand (their names are then not used again: k3s and RKE2
    remember a node's password under its name). `fresh` gives a new machine id at each call; everything else that
    identifies a machine follows from its id. More machines than wanted are left alone: drafts only ever adds.

    Exactly one server is the initialiser of a cluster's etcd, ever: one is drafted only where no server has been.
    """
    names = {machine.name for machine in existing}
    macs = {machine.mac for machine in existing}
    servers = [machine for machine in existing if machine.is_server]
    initialised = any(server.initialiser or not server.leaving for server in servers)
    made: list[MachineDraft] = []
    for role, pool, size, wanted in _wanted(spec):
        have = sum(1 for machine in existing if machine.pool == pool and machine.role is role and not machine.leaving)
        for _ in range(wanted - have):
            identity, name, mac = _identity(name_stem(spec.name, pool), cluster_id, fresh, names, macs)
            names.add(name)
            macs.add(mac)
            made.append(
                MachineDraft(
                    id=identity,
                    name=name,
                    role=role,
                    pool=pool,
                    version=spec.version,
                    cores=size.cores,
                    memory_mib=size.memory_mib,
                    disk_gib=size.disk_gib,
                    mac=mac,
                    bios_uuid=str(uuid.UUID(bytes=_digest("bios", cluster_id, identity)[:16], version=4)),
                    initialiser=role is Role.CONTROL_PLANE and not initialised,
                )
            )
            initialised = initialised or role is Role.CONTROL_PLANE
    return made


def short_of(spec: ClusterSpec, machines: Iterable[Machine]) -> int:
    """How many wanted machines do not exist yet (leaving ones do not count)."""
    living = [(machine.role, machine.pool) for machine in machines if not machine.leaving]
    return sum(max(0, wanted - living.count((role, pool))) for role, pool, _, wanted in _wanted(spec))


def _wanted(spec: ClusterSpec) -> list[tuple[Role, str, MachineSize, int]]:
    """Role, pool, size and number of every group of machines that a spec asks for."""
    servers = (Role.CONTROL_PLANE, CONTROL_PLANE_POOL, spec.control_plane_machine, spec.control_planes)
    return [servers, *((Role.WORKER, pool.name, spec.worker_machine, pool.replicas) for pool in spec.pools)]


def _identity(
    stem: str, cluster_id: str, fresh: Callable[[], str], names: set[str], macs: set[str]
) -> tuple[str, str, str]:
    """Machine id, name and MAC that no machine of the cluster has."""
    for _ in range(_MAX_TRIES):
        identity = fresh()
        name = f"{stem}-{_suffix(cluster_id, identity)}"
        mac = _mac(cluster_id, identity)
        if name not in names and mac not in macs:
            if len(name) > MAX_NAME:
                # domain.validation refuses such a spec; a name cut short could meet another machine's.
                raise ValueError(f"machine name {name} is longer than {MAX_NAME} characters")
            return identity, name, mac
    raise ValueError("fresh() does not give new identities")


def _suffix(cluster_id: str, identity: str) -> str:
    number = int.from_bytes(_digest("name", cluster_id, identity)[:8])
    letters = []
    for _ in range(SUFFIX_LENGTH):
        number, index = divmod(number, len(_SUFFIX_ALPHABET))
        letters.append(_SUFFIX_ALPHABET[index])
    return "".join(letters)


def _mac(cluster_id: str, identity: str) -> str:
    """A MAC with Proxmox's own prefix, which its interface expects of virtual machines."""
    return "bc:24:11:" + _digest("mac", cluster_id, identity)[:3].hex(":")


def _digest(*parts: str) -> bytes:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
