"""Privileges and built-in roles of Proxmox VE 9 (rule: PVE::AccessControl, roles are derived from privilege groups)."""

from collections import defaultdict

# group -> level -> privileges. A role PVE<group>Admin holds admin+user+audit, PVE<group>User user+audit.
GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "VM": {
        "admin": (
            "VM.Allocate",
            "VM.Clone",
            "VM.Config.CPU",
            "VM.Config.Disk",
            "VM.Config.HWType",
            "VM.Config.Memory",
            "VM.Config.Network",
            "VM.Config.Options",
            "VM.GuestAgent.FileRead",
            "VM.GuestAgent.FileSystemMgmt",
            "VM.GuestAgent.FileWrite",
            "VM.GuestAgent.Unrestricted",
            "VM.Migrate",
            "VM.Replicate",
            "VM.Snapshot",
            "VM.Snapshot.Rollback",
        ),
        "user": ("VM.Backup", "VM.Config.CDROM", "VM.Config.Cloudinit", "VM.Console", "VM.PowerMgmt"),
        "audit": ("VM.Audit", "VM.GuestAgent.Audit"),
    },
    "Sys": {
        "root": ("Permissions.Modify", "Sys.AccessNetwork", "Sys.Incoming", "Sys.Modify", "Sys.PowerMgmt"),
        "admin": ("Sys.Console", "Sys.Syslog"),
        "audit": ("Sys.Audit",),
    },
    "Datastore": {
        "admin": ("Datastore.Allocate", "Datastore.AllocateTemplate"),
        "user": ("Datastore.AllocateSpace",),
        "audit": ("Datastore.Audit",),
    },
    "SDN": {"admin": ("SDN.Allocate",), "user": ("SDN.Use",), "audit": ("SDN.Audit",)},
    "User": {"root": ("Realm.Allocate",), "admin": ("Group.Allocate", "Realm.AllocateUser", "User.Modify")},
    "Pool": {"admin": ("Pool.Allocate",), "user": ("Pool.Audit",), "audit": ("Pool.Audit",)},
    "Mapping": {"root": ("Mapping.Modify",), "user": ("Mapping.Use",), "audit": ("Mapping.Audit",)},
}

PRIVILEGES: frozenset[str] = frozenset(p for levels in GROUPS.values() for privs in levels.values() for p in privs)


def built_in_roles() -> dict[str, frozenset[str]]:
    """The roles every Proxmox VE has, by name."""
    roles: dict[str, set[str]] = defaultdict(set)
    for group, levels in GROUPS.items():
        audit, user, admin = (levels.get(level, ()) for level in ("audit", "user", "admin"))
        roles[f"PVE{group}Admin"].update(admin, user, audit)
        roles["PVEAdmin"].update(admin, user, audit)
        roles["PVEAuditor"].update(audit)
        if user:
            roles[f"PVE{group}User"].update(user, audit)
    roles["PVETemplateUser"] = {"VM.Audit", "VM.Clone"}
    roles["Administrator"] = set(PRIVILEGES)
    roles["NoAccess"] = set()
    return {name: frozenset(privs) for name, privs in roles.items()}
