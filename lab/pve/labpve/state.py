"""The whole state as plain data in a fixed order, for comparing before with after (exclusions: README)."""

import hashlib

from .access import fingerprint

SECRET_CONFIG = ("cipassword", "sshkeys")


def _machine(vm):
    config = {k: ("***" if k in SECRET_CONFIG else v) for k, v in sorted(vm.config.items())}
    return {
        "vmid": vm.vmid,
        "name": vm.name,
        "node": vm.node,
        "status": vm.status,
        "lock": vm.lock,
        "pool": vm.pool,
        "template": bool(vm.template),
        "config": config,
        "pending": dict(sorted(vm.pending.items())),
        "snapshots": sorted(vm.snapshots),
        "disk_id": getattr(vm, "disk_id", None),
        "flavour": getattr(vm, "flavour", None),
    }


def _user(u):
    return {
        "enable": u.enable,
        "expire": u.expire,
        "fields": dict(sorted(u.fields.items())),
        "groups": sorted(u.groups),
        "password_hash": fingerprint(u.password) if u.password is not None else None,
        "totp_hash": fingerprint(u.totp) if u.totp else None,
        "tokens": {
            name: {"hash": t.secret_hash, "privsep": t.privsep, "expire": t.expire, "comment": t.comment}
            for name, t in sorted(u.tokens.items())
        },
    }


def _volume(dc, sid, name, vol):
    row = {k: vol[k] for k in ("content", "format", "size", "vmid", "base") if vol.get(k) is not None}
    if not dc.storages[sid].get("shared"):
        row["node"] = dc.volume_node(vol)
    data = dc.iso_bytes.get(f"{sid}:{name}")
    return row | ({"sha256": hashlib.sha256(data).hexdigest()} if data is not None else {})


def snapshot(dc) -> dict:
    """Everything that a datacenter keeps, except tasks, sessions, times, measurements and the lab's own rules."""
    return {
        "cluster": {"name": dc.cluster_name, "quorate": dc.quorate, "version": dc.version},
        "nodes": {n: {"online": s["online"], "maxmem": s["maxmem"]} for n, s in sorted(dc.nodes.items())},
        "bridges": {n: dict(sorted(b.items())) for n, b in sorted(dc.bridges.items())},
        "vms": [_machine(vm) for vm in sorted(dc.vms, key=lambda x: x.vmid)],
        "pools": {
            name: {
                "comment": dc.pool_info.get(name, {}).get("comment"),
                "vms": sorted(ids),
                "storages": sorted(dc.pool_info.get(name, {}).get("storage", ())),
            }
            for name, ids in sorted(dc.pools.items())
        },
        "storages": {
            sid: {
                "type": store["type"],
                "content": store["content"],
                "shared": bool(store.get("shared")),
                "volumes": {n: _volume(dc, sid, n, vol) for n, vol in sorted(dc._volumes(sid).items())},
            }
            for sid, store in sorted(dc.storages.items())
        },
        "realms": {n: dict(sorted(r.items())) for n, r in sorted(dc.realms.items())},
        "users": {name: _user(u) for name, u in sorted(dc.access.users.items())},
        "groups": dict(sorted(dc.access.groups.items())),
        "roles": {r: sorted(p) for r, p in sorted(dc.access.roles.items()) if r not in dc.access.special},
        "acl": dc.access.rows(),
        "ha": {
            "resources": {s: dict(sorted(r.items())) for s, r in sorted(dc.ha_resources.items())},
            "rules": {n: dict(sorted(r.items())) for n, r in sorted(dc.ha_rules.items())},
        },
    }
