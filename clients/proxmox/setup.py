"""What an administrator runs once on Proxmox VE, so that our account may do what it must, and no more.

The roles are ours by name, so that granting one privilege later is one line. Nothing here needs root's password: the
account is a user of realm `pve` with an API token. The roles of the clusters' own accounts are made here too, because
making roles needs Sys.Modify on /access, which our account does not have.
"""

from dataclasses import dataclass

from domain.sites import Site

PLATFORM_ROLE = "TrilithonPlatform"
TEMPLATE_ROLE = "TrilithonTemplates"
STORAGE_ROLE = "TrilithonStorage"
ISO_ROLE = "TrilithonIso"
NETWORK_ROLE = "TrilithonNetwork"
NODE_ROLE = "TrilithonNodes"
SITE_ROLE = "TrilithonSite"
USERS_ROLE = "TrilithonUsers"
REALM_ROLE = "TrilithonRealm"
CLUSTER_ROLE = "TrilithonCluster"
CLUSTER_STORAGE_ROLE = "TrilithonClusterStorage"

CLUSTER_PRIVILEGES = ("VM.Audit", "VM.Config.Disk")
"""Of a cluster's own token on its pool: what cloud controller and volume driver were measured to need."""
CLUSTER_STORAGE_PRIVILEGES = ("Datastore.Audit", "Datastore.AllocateSpace")

_WORKLOADS = (
    "Pool.Allocate",
    "Pool.Audit",
    "VM.Allocate",
    "VM.Audit",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.PowerMgmt",
)
_AGENT_9 = ("VM.GuestAgent.Audit", "VM.GuestAgent.Unrestricted")
_AGENT_8 = ("VM.Monitor",)


@dataclass(frozen=True)
class Grant:
    """One role on one path, and what we need it for."""

    path: str
    role: str
    privileges: tuple[str, ...]
    needed_for: str
    propagate: bool = True


def release_of(version: str) -> int:
    """The major release of a version such as `9.0.10`; 9 where it cannot be read."""
    head = version.split(".", 1)[0]
    return int(head) if head.isdigit() else 9


def grants(site: Site, version: str = "9") -> list[Grant]:
    """Every role that our account needs at a site. `version` decides the guest agent's privileges (8 or 9)."""
    guest_agent = _AGENT_9 if release_of(version) >= 9 else _AGENT_8
    storage = ("Datastore.Audit", "Datastore.AllocateSpace", "Permissions.Modify")
    seeds: tuple[str, ...] = (
        "Datastore.Audit",
        "Datastore.AllocateSpace",
        "Datastore.AllocateTemplate",
        "Datastore.Allocate",
    )
    found = [
        Grant(
            f"/pool/{site.workload_pool}",
            PLATFORM_ROLE,
            (*_WORKLOADS, *guest_agent),
            "making, starting and deleting the machines, and the clusters' pools",
        ),
        Grant(
            f"/pool/{site.template_pool}",
            TEMPLATE_ROLE,
            ("Pool.Audit", "VM.Audit", "VM.Clone"),
            "cloning the templates",
        ),
        Grant("/", SITE_ROLE, ("Sys.Audit",), "seeing the datacenter's quorum and name", propagate=False),
        Grant("/nodes", NODE_ROLE, ("Sys.Audit",), "seeing the nodes' free memory"),
        Grant("/access/groups", USERS_ROLE, ("User.Modify",), "making the clusters' accounts"),
        Grant("/access/realm/pve", REALM_ROLE, ("Realm.AllocateUser",), "making the clusters' accounts"),
    ]
    for name in dict.fromkeys(site.storages):
        if name != site.iso_storage:
            needed = "the machines' disks, and the clusters' right to their storage"
            found.append(Grant(f"/storage/{name}", STORAGE_ROLE, storage, needed))
    if site.iso_storage in site.storages:
        seeds = (*seeds, "Permissions.Modify")
    found.append(Grant(f"/storage/{site.iso_storage}", ISO_ROLE, seeds, "uploading and deleting the boot ISOs"))
    for bridge in dict.fromkeys(site.bridges):
        found.append(Grant(f"/sdn/zones/localnetwork/{bridge}", NETWORK_ROLE, ("SDN.Use",), "the machines' network"))
    return found


def account_of(token_id: str) -> str:
    """The user part of a token id: `trilithon@pve` of `trilithon@pve!platform`."""
    return token_id.partition("!")[0]


def grant_line(grant: Grant, token_id: str, *, separate: bool = False) -> str:
    """The line that gives our account one role on one path.

    `separate`: the token is privilege-separated, so it needs the role itself, besides its user.
    """
    also = f" --tokens '{token_id}'" if separate else ""
    here = "" if grant.propagate else " --propagate 0"
    return f"pveum acl modify {grant.path} --users {account_of(token_id)}{also} --roles {grant.role}{here}"


def role_line(role: str, privileges: tuple[str, ...], *, known: bool | None = False) -> str:
    """The line that makes a role, or sets the privileges of one that exists; None does whichever is right."""
    held = f'{role} --privs "{" ".join(privileges)}"'
    if known is None:
        return f"pveum role add {held} 2>/dev/null || pveum role modify {held}"
    return f"pveum role {'modify' if known else 'add'} {held}"


def setup_lines(site: Site, version: str = "9") -> list[str]:
    """Everything to run, in order, as root on one node. Running it again only repeats `already exists` errors."""
    user, _, token = site.token_id.partition("!")
    wanted = grants(site, version)
    roles = {grant.role: grant.privileges for grant in wanted}
    roles[CLUSTER_ROLE] = CLUSTER_PRIVILEGES
    roles[CLUSTER_STORAGE_ROLE] = CLUSTER_STORAGE_PRIVILEGES
    return [
        f'pveum user add {user} --comment "Trilithon"',
        *(role_line(role, privileges) for role, privileges in roles.items()),
        f"pveum pool add {site.workload_pool}",
        f"pveum pool add {site.template_pool}",
        *(grant_line(grant, site.token_id) for grant in wanted),
        f"pveum user token add {user} {token or 'platform'} --privsep 0",
    ]


def mending_lines(site: Site, privilege: str, path: str, version: str = "9") -> list[str]:
    """The lines that give our account a missing privilege, as Proxmox VE named it in its refusal.

    A privilege that none of our roles holds on that path gets a plain line for the administrator to adapt.
    """
    wanted = grants(site, version)
    covering = [grant for grant in wanted if privilege in grant.privileges]
    for grant in sorted(covering, key=lambda grant: -len(grant.path)):
        if not grant.propagate and path != grant.path:
            continue
        on_vm = path.startswith("/vms/") and grant.path.startswith("/pool/")
        if on_vm or path == grant.path or path.startswith(f"{grant.path}/"):
            return [role_line(grant.role, grant.privileges, known=None), grant_line(grant, site.token_id)]
    user = account_of(site.token_id)
    return [f"pveum acl modify {path or '/'} --users {user} --roles <a role with {privilege or 'the privilege'}>"]
