"""The datacenter as it is at the start: nodes, storages, templates, accounts, roles and who may do what."""

from fakepve import shapes
from fakepve.model import FakeVm

from .access import Access, Token, User, fingerprint

WORKLOADS, TEMPLATES = "trilithon", "trilithon-templates"
PLATFORM_TOKEN = "trilithon@pve!platform"
PLATFORM_SECRET = "70e1a6c2-1ab0-4e57-9c0d-1ab1ab1ab1ab"
TOTP_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
BRIDGE_PATH = "/sdn/zones/localnetwork/vmbr0"

REALMS = {
    "pam": {"type": "pam", "comment": "Linux PAM standard authentication"},
    "pve": {"type": "pve", "comment": "Proxmox VE authentication server", "default": 1},
    "sso": {"type": "openid", "comment": "Company single sign-on"},
}

# As an administrator makes them with the set-up lines of the product, and no more: what is missing there, fails here.
ROLES = {
    "TrilithonPlatform": (
        "Pool.Allocate Pool.Audit VM.Allocate VM.Audit VM.Clone VM.Config.CDROM VM.Config.CPU VM.Config.Cloudinit "
        "VM.Config.Disk VM.Config.HWType VM.Config.Memory VM.Config.Network VM.Config.Options VM.GuestAgent.Audit "
        "VM.GuestAgent.Unrestricted VM.PowerMgmt"
    ),
    "TrilithonTemplates": "Pool.Audit VM.Audit VM.Clone",
    "TrilithonStorage": "Datastore.AllocateSpace Datastore.Audit Permissions.Modify",
    "TrilithonIso": "Datastore.Allocate Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Audit",
    "TrilithonNetwork": "SDN.Use",
    "TrilithonNodes": "Sys.Audit",
    "TrilithonSite": "Sys.Audit",
    "TrilithonRealm": "Realm.AllocateUser",
    "TrilithonUsers": "User.Modify",
    "TrilithonCluster": "VM.Audit VM.Config.Disk",
    "TrilithonClusterStorage": "Datastore.AllocateSpace Datastore.Audit",
    "TrilithonOwner": "Sys.Modify VM.Allocate VM.Audit",
}

# (path, user, role, propagate)
GRANTS = [
    (f"/pool/{WORKLOADS}", "trilithon@pve", "TrilithonPlatform", 1),
    (f"/pool/{TEMPLATES}", "trilithon@pve", "TrilithonTemplates", 1),
    ("/storage/shared", "trilithon@pve", "TrilithonStorage", 1),
    ("/storage/fast", "trilithon@pve", "TrilithonStorage", 1),
    ("/storage/iso", "trilithon@pve", "TrilithonIso", 1),
    (BRIDGE_PATH, "trilithon@pve", "TrilithonNetwork", 1),
    ("/nodes", "trilithon@pve", "TrilithonNodes", 1),
    ("/", "trilithon@pve", "TrilithonSite", 0),
    ("/access/realm/pve", "trilithon@pve", "TrilithonRealm", 1),
    ("/access/groups", "trilithon@pve", "TrilithonUsers", 1),
    ("/", "admin@pve", "Administrator", 1),
    (f"/pool/{WORKLOADS}", "dev@pve", "PVEVMAdmin", 1),
    ("/storage/shared", "dev@pve", "PVEDatastoreUser", 1),
    (BRIDGE_PATH, "dev@pve", "PVESDNUser", 1),
    (f"/pool/{WORKLOADS}/clusters.prod", "owner@pve", "TrilithonOwner", 1),
    ("/", "auditor@pve", "PVEAuditor", 1),
]

PEOPLE = {
    "admin@pve": "administrator of the whole datacenter",
    "dev@pve": "makes and changes clusters in the workload pool",
    "owner@pve": "owns the cluster clusters/prod, with kubeconfig; signs in with a second factor (TOTP)",
    "auditor@pve": "sees everything, changes nothing",
    "stranger@pve": "may sign in and nothing else",
}

# vmid, node, storage, distribution, version, programs in the image
TEMPLATE_ROWS = [
    (9001, "pve1", "shared", "rke2", "v1.36.5+rke2r1", True),
    (9002, "pve1", "shared", "k3s", "v1.36.5+k3s1", True),
    (9003, "pve1", "shared", "kubeadm", "v1.36.3", True),
    (9011, "pve1", "fast", "k3s", "v1.36.5+k3s1", True),
    (9012, "pve2", "fast", "k3s", "v1.36.5+k3s1", True),
    (9013, "pve3", "fast", "k3s", "v1.36.5+k3s1", True),
]


def restore_grants(access: Access) -> None:
    """Give every lab role and right again, where it is missing (deleting a pool takes its ACLs along)."""
    for role, privs in ROLES.items():
        access.roles[role] = frozenset(privs.split())
    for path, user, role, propagate in GRANTS:
        access.set_acl(path, "users", user, role, propagate)


def seed(dc) -> None:
    """Put the datacenter into its first state."""
    dc.nodes.clear()
    for number in (1, 2, 3):
        ip = f"{dc.address_base}.{number}"
        dc.nodes[f"pve{number}"] = {"online": True, "maxmem": 32 * shapes.GiB, "maxcpu": 16, "ip": ip}
    dc.bridges = {
        "vmbr0": {"cidr": f"127.{int(dc.address_base.split('.')[2]) + 10}.0.1/16", "bridge_vlan_aware": 1},
        "vmbr1": {"bridge_vlan_aware": 1},
    }
    dc.storages = {
        "shared": _storage("nfs", "images,iso", 1, server="127.0.70.20", export="/shared", path="/mnt/pve/shared"),
        "fast": _storage("lvmthin", "images", 0, vgname="fast", thinpool="data"),
        "iso": _storage("dir", "iso,vztmpl,import", 1, path="/mnt/iso"),
    }
    dc.pools = {WORKLOADS: set(), TEMPLATES: set()}
    dc.pool_info = {name: {"comment": None, "storage": set()} for name in dc.pools}
    _accounts(dc.access)
    for row in TEMPLATE_ROWS:
        dc.vms.append(template(dc, *row))
        dc._pool_join(TEMPLATES, row[0])


def _storage(kind, content, shared, **options):
    store = {"type": kind, "content": content, "active": 1, "files": set(), "volumes": {}, "total": 1024**4, **options}
    return store | ({"shared": 1} if shared else {})


def _accounts(access: Access) -> None:
    for name, what in PEOPLE.items():
        access.users[name] = User(password="lab-" + name.split("@")[0], fields={"comment": what})
    access.users["owner@pve"].totp = TOTP_SECRET
    access.users["trilithon@pve"] = User(fields={"comment": "the platform"})
    access.users["trilithon@pve"].tokens["platform"] = Token(fingerprint(PLATFORM_SECRET), privsep=False)
    restore_grants(access)


def template(dc, vmid, node, storage, distribution, version, has_programs) -> FakeVm:
    """A template as the recipe in docs/guide makes it by hand, with its disk on `storage`."""
    volume = f"base-{vmid}-disk-0" if storage == "fast" else f"{vmid}/base-{vmid}-disk-0.qcow2"
    size = 10 * shapes.GiB
    fmt = "raw" if storage == "fast" else "qcow2"
    dc.storages[storage]["volumes"][volume] = {
        "content": "images",
        "format": fmt,
        "size": size,
        "vmid": vmid,
        "ctime": 1,
    }
    name = f"trilithon-{distribution}-{version.replace('+', '-').replace('.', '-')}"
    config = {
        "name": name,
        "template": 1,
        "agent": "enabled=1,fstrim_cloned_disks=1",
        "boot": "order=scsi0",
        "cores": 2,
        "cpu": "x86-64-v2-AES",
        "description": f"{distribution} {version}",
        "memory": "2048",
        "net0": f"virtio=BC:24:11:00:{vmid // 100:02d}:{vmid % 100:02d},bridge=vmbr0,firewall=0",
        "ostype": "l26",
        "scsi0": f"{storage}:{volume},discard=on,iothread=1,size=10G,ssd=1",
        "scsihw": "virtio-scsi-single",
        "serial0": "socket",
        "smbios1": f"uuid=00000000-0000-4000-8000-{vmid:012d}",
        "tags": "template;trilithon",
        "vga": "serial0",
        "vmgenid": f"00000000-0000-4000-9000-{vmid:012d}",
    }
    vm = FakeVm(vmid, name, node=node, config=config, template=True)
    vm.flavour = {"distribution": distribution, "version": version, "has_programs": has_programs}
    vm.disk_id = f"template-{vmid}"
    return vm
