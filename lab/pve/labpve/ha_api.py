"""High availability as of PVE 9: resources and rules with the checks made when they are written."""

import asyncio
import re

from fakepve.model import TaskError
from fakepve.routing import die, param_error, split_list

RULE_KEYS = ("type", "resources", "nodes", "strict", "affinity", "comment", "disable")
RESOURCE_KEYS = ("state", "max_restart", "max_relocate", "comment", "failback", "auto-rebalance")
GROUPS_GONE = "ha groups have been migrated to rules"


class HaApi:
    """Mixin: stateful /cluster/ha."""

    def _routes_zz_ha(self):
        ha = "/cluster/ha"
        return [
            ("GET", ha + "/groups", self._ha_groups),
            ("GET", ha + "/resources", self._ha_list),
            ("POST", ha + "/resources", self._ha_add),
            ("GET", ha + "/resources/{sid}", self._ha_read),
            ("PUT", ha + "/resources/{sid}", self._ha_update),
            ("DELETE", ha + "/resources/{sid}", self._ha_delete),
            ("GET", ha + "/rules", self._rules_list),
            ("POST", ha + "/rules", self._rule_add),
            ("GET", ha + "/rules/{rule}", self._rule_read),
            ("PUT", ha + "/rules/{rule}", self._rule_update),
            ("DELETE", ha + "/rules/{rule}", self._rule_delete),
            ("GET", ha + "/status/current", self._ha_status),
        ]

    async def _ha_groups(self, v, user):
        raise die(f"cannot index groups: {GROUPS_GONE}")

    # ------------------------------------------------------------ resources

    def _sid(self, text):
        found = re.fullmatch(r"(?:vm:)?(\d+)", str(text))
        if not found:
            raise die(f"unable to parse service id '{text}'")
        return f"vm:{found.group(1)}"

    def ha_want(self, vm, state):
        """The HA manager was told; it acts a moment later, with a task of its own."""
        self.ha_resources.setdefault(f"vm:{vm.vmid}", {})["state"] = state
        vm.ha_state = state

        async def act():
            await asyncio.sleep(self.paces["ha"])
            if (vm.status == "running") == (state == "started"):
                return

            async def body():
                try:
                    await (self.power_on(vm) if state == "started" else self.power_off(vm, "shutdown"))
                except TaskError:
                    vm.ha_state = "error"
                    raise

            kind = "qmstart" if state == "started" else "qmshutdown"
            await self.task(vm.node, kind, vm.vmid, "root@pam", body, vm=vm)

        job = asyncio.ensure_future(act())
        self.running_jobs.add(job)
        job.add_done_callback(self.running_jobs.discard)

    def ha_forget(self, sid):
        """Drop a resource and take it out of every rule; a rule left without resources goes."""
        self.ha_resources.pop(sid, None)
        vm = self.vm(int(sid.split(":")[1]))
        if vm:
            vm.ha_state = None
        for name, rule in list(self.ha_rules.items()):
            left = [r for r in split_list(rule["resources"]) if r != sid]
            if not left:
                del self.ha_rules[name]
            else:
                rule["resources"] = ",".join(left)

    async def _ha_list(self, v, user):
        return [dict(r, sid=sid, type="vm") for sid, r in sorted(self.ha_resources.items())]

    def _ha_one(self, v):
        sid = self._sid(v["sid"])
        if sid not in self.ha_resources:
            raise die(f"no such resource '{sid}'")
        return sid, self.ha_resources[sid]

    async def _ha_read(self, v, user):
        sid, resource = self._ha_one(v)
        return dict(resource, sid=sid, type="vm")

    async def _ha_add(self, v, user):
        sid = self._sid(v["sid"])
        if v.get("group"):
            raise die(f"invalid parameter 'group': {GROUPS_GONE}")
        vm = self.vm(int(sid.split(":")[1]))
        if vm is None:
            raise die(f"unable to read VM '{sid}': VM/CT does not exist")
        if sid in self.ha_resources:
            raise die(f"resource ID '{sid}' already defined")
        self.ha_resources[sid] = {k: v[k] for k in RESOURCE_KEYS if v.get(k) is not None}
        self.ha_want(vm, v.get("state") or "started")

    async def _ha_update(self, v, user):
        sid, resource = self._ha_one(v)
        if v.get("group"):
            raise die(f"invalid parameter 'group': {GROUPS_GONE}")
        resource.update({k: v[k] for k in RESOURCE_KEYS if v.get(k) is not None})
        vm = self.vm(int(sid.split(":")[1]))
        if v.get("state") and vm:
            self.ha_want(vm, v["state"])

    async def _ha_delete(self, v, user):
        sid, _resource = self._ha_one(v)
        used = [name for name, rule in self.ha_rules.items() if sid in split_list(rule["resources"])]
        if v.get("purge") or v.get("purge") is None or not used:
            self.ha_forget(sid)
            return
        self.ha_resources.pop(sid)

    async def _ha_status(self, v, user):
        rows = [{"id": "quorum", "type": "quorum", "node": "pve1", "quorate": int(self.quorate), "status": "OK"}]
        for sid in sorted(self.ha_resources):
            vm = self.vm(int(sid.split(":")[1]))
            if vm:
                rows.append(
                    {"id": "service:" + sid, "type": "service", "sid": sid, "node": vm.node, "state": vm.ha_state}
                )
        return rows

    # ---------------------------------------------------------------- rules

    def _rule_row(self, name):
        return dict(self.ha_rules[name], rule=name)

    async def _rules_list(self, v, user):
        return [
            self._rule_row(name)
            for name, rule in sorted(self.ha_rules.items())
            if v.get("type") in (None, rule["type"])
            and (not v.get("resource") or v["resource"] in split_list(rule["resources"]))
        ]

    def _rule_one(self, v):
        if v["rule"] not in self.ha_rules:
            raise die(f"no such ha rule '{v['rule']}'")
        return v["rule"]

    async def _rule_read(self, v, user):
        return self._rule_row(self._rule_one(v))

    def _check_rule(self, name, rule):
        if rule.get("type") not in ("node-affinity", "resource-affinity"):
            raise param_error(type="value does not have a value in the enumeration 'node-affinity, resource-affinity'")
        resources = split_list(rule.get("resources"))
        if not resources:
            raise die("no resources were specified")
        unmanaged = [r for r in resources if r not in self.ha_resources]
        if unmanaged:
            raise die(f"cannot use unmanaged resource(s) {', '.join(unmanaged)}.")
        if rule["type"] == "node-affinity":
            nodes = [n.split(":")[0] for n in split_list(rule.get("nodes"))]
            if not nodes:
                raise die("no nodes were specified")
            missing = [n for n in nodes if n not in self.nodes]
            if missing:
                raise die(f"cannot use non-existent node(s) {', '.join(missing)}.")
            for other, has in self.ha_rules.items():
                if (
                    other != name
                    and has["type"] == "node-affinity"
                    and set(split_list(has["resources"])) & set(resources)
                ):
                    raise param_error(rule=f"Rule '{name}' is invalid.")
            return
        crowded = rule.get("affinity") == "negative" and len(resources) > len(self.nodes)
        if len(resources) < 2 or crowded:
            raise param_error(rule=f"Rule '{name}' is invalid.")

    async def _rule_add(self, v, user):
        name = v["rule"]
        if name in self.ha_rules:
            raise die(f"HA rule '{name}' already defined")
        rule = {k: v[k] for k in RULE_KEYS if v.get(k) is not None}
        self._check_rule(name, rule)
        self.ha_rules[name] = rule

    async def _rule_update(self, v, user):
        name = self._rule_one(v)
        rule = dict(self.ha_rules[name])
        for key in split_list(v.get("delete")):
            rule.pop(key, None)
        rule.update({k: v[k] for k in RULE_KEYS if v.get(k) is not None})
        self._check_rule(name, rule)
        self.ha_rules[name] = rule

    async def _rule_delete(self, v, user):
        del self.ha_rules[self._rule_one(v)]
