"""/access: users, tokens, groups, roles, ACLs and permissions over HTTP."""

import uuid

from fakepve.model import PveError
from fakepve.routing import die, param_error, split_list

from .access import ACL_PATH, Token, User, fingerprint, normalise
from .privileges import PRIVILEGES

USER_FIELDS = ("comment", "email", "firstname", "lastname", "keys")
# Who may change ACLs of an object without Permissions.Modify.
OWN_MODIFY = {"/storage/": "Datastore.Allocate", "/vms/": "VM.Allocate", "/pool/": "Pool.Allocate"}


class AccessApi:
    """Mixin: replaces the stateless answers under /access."""

    def _routes_zz_access(self):
        user, token = "/access/users/{userid}", "/access/users/{userid}/token/{tokenid}"
        return [
            ("GET", "/access/users", self._users_list),
            ("POST", "/access/users", self._user_create),
            ("GET", user, self._user_read),
            ("PUT", user, self._user_update),
            ("DELETE", user, self._user_delete),
            ("GET", user + "/token", self._tokens_list),
            ("GET", token, self._token_read),
            ("POST", token, self._token_create),
            ("PUT", token, self._token_update),
            ("DELETE", token, self._token_delete),
            ("GET", "/access/groups", self._groups_list),
            ("POST", "/access/groups", self._group_create),
            ("DELETE", "/access/groups/{groupid}", self._group_delete),
            ("GET", "/access/roles", self._roles_list),
            ("POST", "/access/roles", self._role_create),
            ("GET", "/access/roles/{roleid}", self._role_read),
            ("PUT", "/access/roles/{roleid}", self._role_update),
            ("DELETE", "/access/roles/{roleid}", self._role_delete),
            ("GET", "/access/acl", self._acl_list),
            ("PUT", "/access/acl", self._acl_update),
        ]

    # ------------------------------------------------------------- checking

    def allowed(self, user, path, priv):
        """True if user or token holds priv on path; the one place every check passes."""
        return priv in self.access.permissions(user, path)

    def _check(self, user, check, values, declared=None):
        """The schema's permission rules, with the two forms that fakepve leaves simple."""
        if check[0] == "perm-modify":
            path = normalise(str(values.get("path") or "")) or ""
            ok, why = self._may_modify(user, path)
            return ok, why
        if check[0] == "userid-group" and check[2:] != ["groups_param", "create"]:
            userid = str(values.get("userid", ""))
            if userid not in self.access.users:
                raise die(f"no such user ('{userid}')")
        return super()._check(user, check, values, declared)

    def _may_modify(self, user, path):
        privs = ["Permissions.Modify"]
        if not path:
            path = "/access"
        for prefix, priv in OWN_MODIFY.items():
            if path.startswith(prefix):
                privs.append(priv)
        held = self.access.permissions(user, path)
        return any(p in held for p in privs), f"{path}, {'|'.join(privs)}"

    async def _permissions(self, v, user):
        who = v.get("userid") or user
        if who != user and not (who.startswith(user + "!") and "!" not in user):
            self.require(user, "/access", "Sys.Audit")
        if v.get("path") is not None:
            path = normalise(v["path"])
            if path is None:
                return {}
            return {path: self.access.permissions(who, path)}
        return self.access.listed(who)

    # ---------------------------------------------------------------- users

    def _user_row(self, userid, u, full=False):
        row = {"userid": userid, "enable": int(u.enable), "expire": u.expire, "realm-type": userid.rpartition("@")[2]}
        row.update(u.fields)
        if full:
            row["groups"] = ",".join(sorted(u.groups))
            row["tokens"] = [self._token_row(t, x) for t, x in sorted(u.tokens.items())]
        return row

    async def _users_list(self, v, user):
        me = user.partition("!")[0]
        everyone = any(self.allowed(user, "/access/groups", p) for p in ("User.Modify", "Sys.Audit"))
        return [
            self._user_row(name, u, v.get("full"))
            for name, u in sorted(self.access.users.items())
            if (everyone or name == me) and v.get("enabled") in (None, u.enable)
        ]

    def _the_user(self, userid):
        if userid not in self.access.users:
            raise die(f"no such user ('{userid}')")
        return self.access.users[userid]

    def _set_user(self, u, v):
        for key in USER_FIELDS:
            if v.get(key) is not None:
                u.fields[key] = v[key]
        if v.get("enable") is not None:
            u.enable = bool(v["enable"])
        if v.get("expire") is not None:
            u.expire = int(v["expire"])
        if v.get("groups") is not None:
            groups = set(split_list(v["groups"]))
            for group in sorted(groups - set(self.access.groups)):
                raise die(f"no such group '{group}'")
            u.groups = groups if not v.get("append") else u.groups | groups

    async def _user_create(self, v, user):
        self.need_quorum()
        userid = v["userid"]
        realm = userid.rpartition("@")[2]
        if realm not in self.realms:
            raise die(f"create user failed: auth domain '{realm}' does not exist")
        if userid in self.access.users:
            raise die(f"create user failed: user '{userid}' already exists")
        made = User(password=v.get("password"))
        self._set_user(made, v)
        self.access.users[userid] = made

    async def _user_read(self, v, user):
        u = self._the_user(v["userid"])
        row = self._user_row(v["userid"], u)
        row.pop("userid")
        row.pop("realm-type")
        return dict(
            row, groups=sorted(u.groups), tokens={t: self._token_row(t, x) for t, x in sorted(u.tokens.items())}
        )

    async def _user_update(self, v, user):
        self.need_quorum()
        self._set_user(self._the_user(v["userid"]), v)

    async def _user_delete(self, v, user):
        self.need_quorum()
        self._the_user(v["userid"])
        if v["userid"] == "root@pam":
            raise die("unable to delete the unconfined user 'root@pam'")
        del self.access.users[v["userid"]]
        self.access.drop_who("users", v["userid"])

    # --------------------------------------------------------------- tokens

    @staticmethod
    def _token_row(tokenid, token):
        row = {"tokenid": tokenid, "privsep": int(token.privsep), "expire": token.expire}
        return row | ({"comment": token.comment} if token.comment is not None else {})

    def _the_token(self, v):
        token = self._the_user(v["userid"]).tokens.get(v["tokenid"])
        if token is None:
            raise die(f"no such token '{v['tokenid']}' for user '{v['userid']}'")
        return token

    async def _tokens_list(self, v, user):
        return [self._token_row(t, x) for t, x in sorted(self._the_user(v["userid"]).tokens.items())]

    async def _token_read(self, v, user):
        row = self._token_row(v["tokenid"], self._the_token(v))
        row.pop("tokenid")
        return row

    def _token_info(self, token):
        row = self._token_row("", token)
        row.pop("tokenid")
        return {k: str(x) if k == "privsep" else x for k, x in row.items()}

    async def _token_create(self, v, user):
        self.need_quorum()
        u = self._the_user(v["userid"])
        if v["tokenid"] in u.tokens:
            raise param_error(tokenid="Token already exists.")
        value = str(uuid.uuid4())
        privsep = True if v.get("privsep") is None else bool(v["privsep"])
        token = Token(fingerprint(value), privsep, int(v.get("expire") or 0), v.get("comment"))
        u.tokens[v["tokenid"]] = token
        return {"full-tokenid": f"{v['userid']}!{v['tokenid']}", "value": value, "info": self._token_info(token)}

    async def _token_update(self, v, user):
        self.need_quorum()
        token = self._the_token(v)
        if v.get("privsep") is not None:
            token.privsep = bool(v["privsep"])
        if v.get("expire") is not None:
            token.expire = int(v["expire"])
        if v.get("comment") is not None:
            token.comment = v["comment"]
        row = self._token_info(token)
        if v.get("regenerate"):
            value = str(uuid.uuid4())
            token.secret_hash = fingerprint(value)
            row.update({"full-tokenid": f"{v['userid']}!{v['tokenid']}", "value": value})
        return row

    async def _token_delete(self, v, user):
        self.need_quorum()
        self._the_token(v)
        del self.access.users[v["userid"]].tokens[v["tokenid"]]
        self.access.drop_who("tokens", f"{v['userid']}!{v['tokenid']}")

    # ------------------------------------------------------ groups and roles

    async def _groups_list(self, v, user):
        rows = []
        for group, comment in sorted(self.access.groups.items()):
            if not any(
                self.allowed(user, p, x)
                for p in ("/access/groups", f"/access/groups/{group}")
                for x in ("User.Modify", "Sys.Audit", "Group.Allocate")
            ):
                continue
            members = ",".join(sorted(n for n, u in self.access.users.items() if group in u.groups))
            rows.append({"groupid": group, "users": members} | ({"comment": comment} if comment else {}))
        return rows

    async def _group_create(self, v, user):
        self.need_quorum()
        if v["groupid"] in self.access.groups:
            raise die(f"group '{v['groupid']}' already exists")
        self.access.groups[v["groupid"]] = v.get("comment")

    async def _group_delete(self, v, user):
        self.need_quorum()
        if self.access.groups.pop(v["groupid"], v) is v:
            raise die(f"group '{v['groupid']}' does not exist")
        for u in self.access.users.values():
            u.groups.discard(v["groupid"])
        self.access.drop_who("groups", v["groupid"])

    async def _roles_list(self, v, user):
        return [
            {"roleid": r, "privs": ",".join(sorted(p)), "special": int(r in self.access.special)}
            for r, p in sorted(self.access.roles.items())
        ]

    async def _role_read(self, v, user):
        if v["roleid"] not in self.access.roles:
            raise die(f"role '{v['roleid']}' does not exist")
        return dict.fromkeys(sorted(self.access.roles[v["roleid"]]), 1)

    def _role_privs(self, v):
        privs = split_list(v.get("privs"))
        for priv in privs:
            if priv not in PRIVILEGES:
                raise param_error(privs=f"invalid format - invalid privilege '{priv}'\n")
        return frozenset(privs)

    async def _role_create(self, v, user):
        self.need_quorum()
        role = v["roleid"]
        if role.lower().startswith("pve"):
            raise param_error(roleid="cannot use role ID starting with the (case-insensitive) 'PVE' namespace")
        if role in self.access.roles:
            raise die(f"create role failed: role '{role}' already exists")
        self.access.roles[role] = self._role_privs(v)

    async def _role_update(self, v, user):
        self.need_quorum()
        role = v["roleid"]
        if role in self.access.special:
            raise die(f"modify role failed: auto-generated role '{role}' cannot be modified")
        if role not in self.access.roles:
            raise die(f"modify role failed: role '{role}' does not exist")
        privs = self._role_privs(v)
        self.access.roles[role] = privs | self.access.roles[role] if v.get("append") else privs

    async def _role_delete(self, v, user):
        self.need_quorum()
        role = v["roleid"]
        if role in self.access.special:
            raise die(f"auto-generated role '{role}' cannot be deleted")
        if role not in self.access.roles:
            raise die(f"delete role failed: role '{role}' does not exist")
        self.access.drop_role(role)

    # ------------------------------------------------------------------ ACL

    async def _acl_list(self, v, user):
        everything = any(self.allowed(user, "/access", p) for p in ("Sys.Audit", "Permissions.Modify"))
        return [row for row in self.access.rows() if everything or self._may_modify(user, row["path"])[0]]

    def _check_grant(self, user, path, role, verb, propagate):
        held = self.access.permissions(user, path)
        if "Permissions.Modify" in held:
            return
        for priv in self.access.roles[role]:
            if priv not in held:
                raise param_error(
                    role=f"Cannot {verb} role '{role}' - requires 'Permissions.Modify' or superset of privileges."
                )
            if propagate and not held[priv]:
                raise param_error(
                    role=f"Cannot {verb} role '{role}' with propagation - requires 'Permissions.Modify' or "
                    "propagated superset of privileges."
                )
        if role == "NoAccess":
            raise param_error(role=f"Cannot {verb} role '{role}' - requires 'Permissions.Modify'")

    async def _acl_update(self, v, user):
        self.need_quorum()
        path, delete = normalise(v["path"]), bool(v.get("delete"))
        if path is None or (not delete and not ACL_PATH.match(path)):
            raise param_error(path=f"invalid ACL path '{v['path']}'")
        whos = {kind: split_list(v.get(kind)) for kind in ("users", "groups", "tokens")}
        if not any(whos.values()):
            raise param_error(**dict.fromkeys(whos, "either 'users', 'groups' or 'tokens' is required."))
        propagate = 1 if v.get("propagate") is None else int(bool(v["propagate"]))
        changes = []
        for role in split_list(v["roles"]):
            if role not in self.access.roles:
                raise die(f"ACL update failed: role '{role}' does not exist")
            self._check_grant(user, path, role, "remove" if delete else "add", propagate)
            for kind, names in whos.items():
                for who in names:
                    self._check_acl_who(kind, who)
                    changes.append((path, kind, who, role))
        for change in changes:
            if delete:
                self.access.drop_acl(*change)
            else:
                self.access.set_acl(*change, propagate)

    def _check_acl_who(self, kind, who):
        if kind == "groups" and who not in self.access.groups:
            raise die(f"ACL update failed: group '{who}' does not exist")
        if kind == "users" and who not in self.access.users:
            raise die(f"ACL update failed: user '{who}' does not exist")
        if kind == "tokens":
            if "!" not in who:
                raise die(
                    f"ACL update failed: '{who}' is not a valid token ID - not able to split into user and token parts"
                )
            if self.access.token(who) is None:
                name, _, tokenid = who.partition("!")
                raise PveError(500, f"ACL update failed: no such token '{tokenid}' for user '{name}'")
