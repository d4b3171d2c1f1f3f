"""The access engine: users, groups, tokens, roles, ACLs and what they add up to.

Rule source: PVE::AccessControl::roles and PVE::RPCEnvironment::{permissions, compile_acl_path}. In short: walking
from `/` to the path, the nearest level that says anything for a user replaces what was inherited; at one level the
user's entry beats those of its groups; several groups add up; NoAccess wins; roles on a pool reach its members as
further roles that do not propagate; a privilege-separated token has what it and its user both have.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .privileges import PRIVILEGES, built_in_roles

ACL_PATH = re.compile(
    r"""^(?:/|/access|/access/groups(?:/[\w.\-]+)?|/access/realm(?:/[\w.\-]+)?
    |/mapping(?:/(?:pci|usb|dir)(?:/[\w.\-]+)?)?|/nodes(?:/[\w.\-]+)?
    |/pool(?:/[\w.\-]+(?:/[\w.\-]+){0,2})?
    |/sdn(?:/(?:controllers|dns|ipams|fabrics)(?:/[\w.\-]+)?)?
    |/sdn/zones(?:/[\w.\-]+(?:/[\w.\-]+(?:/[1-9]\d{0,3})?)?)?
    |/storage(?:/[\w.\-]+)?|/vms(?:/[1-9]\d{2,})?)$""",
    re.VERBOSE | re.ASCII,
)
# Listed by GET /access/permissions without a path, whatever the ACLs say.
TOP_PATHS = ("/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms")
ROOT = "root@pam"


def fingerprint(secret: str) -> str:
    """SHA-256 of a secret: what the lab keeps and shows instead of it."""
    return hashlib.sha256(secret.encode()).hexdigest()


def normalise(path: str) -> str | None:
    """A path without doubled or trailing slashes, or None when it is no path at all."""
    if not path.startswith("/") or not re.fullmatch(r"[A-Za-z0-9./_\-]+", path):
        return None
    return re.sub(r"/+", "/", path).rstrip("/") or "/"


@dataclass
class Token:
    """An API token: only the hash of its value is kept."""

    secret_hash: str
    privsep: bool = True
    expire: int = 0
    comment: str | None = None


@dataclass
class User:
    """A user of a realm; without a password it cannot sign in."""

    enable: bool = True
    expire: int = 0
    password: str | None = None
    totp: str | None = None
    fields: dict[str, str] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    tokens: dict[str, Token] = field(default_factory=dict)

    @property
    def alive(self) -> bool:
        """Enabled and not past its expiry."""
        return self.enable and (not self.expire or self.expire > time.time())


class Access:
    """Everything under /access that is kept.

    `members()` are the paths (`/vms/101`, `/storage/x`) of all pool members, `pools_of(path)` the pools of one.
    """

    def __init__(self, members: Callable[[], Iterable[str]], pools_of: Callable[[str], Iterable[str]]) -> None:
        self.members, self.pools_of = members, pools_of
        self.users: dict[str, User] = {ROOT: User(password="lab-root")}
        self.groups: dict[str, str | None] = {}
        self.roles: dict[str, frozenset[str]] = built_in_roles()
        self.special = frozenset(self.roles)
        # path -> kind (users, tokens, groups) -> who -> role -> propagate
        self.acl: dict[str, dict[str, dict[str, dict[str, int]]]] = {}

    # ------------------------------------------------------------ look-ups

    def token(self, userid: str) -> Token | None:
        """The token of a full token id `user@realm!name`."""
        name, _, tokenid = userid.partition("!")
        user = self.users.get(name)
        return user.tokens.get(tokenid) if user else None

    def check_token(self, userid: str, secret: str) -> bool:
        """True when this token may be used now with this value."""
        token, user = self.token(userid), self.users.get(userid.partition("!")[0])
        if token is None or user is None or not user.alive:
            return False
        if token.expire and token.expire <= time.time():
            return False
        return token.secret_hash == fingerprint(secret)

    def roles_at(self, userid: str, path: str) -> dict[str, int]:
        """Role -> propagate for a user or token, without pools and without the intersection of a separated token."""
        if userid == ROOT:
            return {"Administrator": 1}
        name, _, tokenid = userid.partition("!")
        if name not in self.users:
            return {}
        if tokenid:
            token = self.token(userid)
            if token is None:
                return {}
            if not token.privsep:
                return self.roles_at(name, path)
        kind = "tokens" if tokenid else "users"
        groups = () if tokenid else self.users[name].groups
        steps = ["/"]
        for part in path.strip("/").split("/") if path != "/" else ():
            steps.append(steps[-1].rstrip("/") + "/" + part)
        held: dict[str, int] = {}
        for step in steps:
            entry = self.acl.get(step)
            if not entry:
                continue
            final = step == path
            own = _applying(entry.get(kind, {}).get(userid, {}), final)
            if own:
                held = own
                continue
            added: dict[str, int] = {}
            for group in sorted(groups):
                for role, propagate in _applying(entry.get("groups", {}).get(group, {}), final).items():
                    added[role] = max(propagate, added.get(role, 0))
            if added:
                held = added
        return {"NoAccess": held["NoAccess"]} if "NoAccess" in held else held

    def permissions(self, userid: str, path: str) -> dict[str, int]:
        """Privilege -> propagate on a path. A value of 0 is held all the same, it only does not reach children."""
        if userid == ROOT:
            return dict.fromkeys(sorted(PRIVILEGES), 1)
        name, _, tokenid = userid.partition("!")
        of_user: dict[str, int] = {}
        if tokenid:
            token = self.token(userid)
            if token is None:
                return {}
            of_user = self.permissions(name, path)
            if not token.privsep:
                return of_user
        roles = self.roles_at(userid, path)
        if "NoAccess" not in roles:
            from_pools = self._pool_roles(userid, path)
            added = dict.fromkeys(from_pools, 0)
            roles = {"NoAccess": 0} if "NoAccess" in from_pools else {**added, **roles}
        held: dict[str, int] = {}
        for role, propagate in roles.items():
            for priv in self.roles.get(role, ()):
                held[priv] = held.get(priv, 0) or propagate
        if tokenid:
            held = {p: int(v and of_user[p]) for p, v in held.items() if p in of_user}
        return dict(sorted(held.items()))

    def _pool_roles(self, userid: str, path: str) -> set[str]:
        """Roles on the pools that this path (a VM or a storage) is a member of."""
        if not path.startswith(("/vms/", "/storage/")):
            return set()
        found: set[str] = set()
        for pool in self.pools_of(path):
            found.update(self.roles_at(userid, f"/pool/{pool}"))
        return found

    def listed(self, userid: str) -> dict[str, dict[str, int]]:
        """What GET /access/permissions answers without a path."""
        paths = set(TOP_PATHS)
        for path in self.acl:
            step = ""
            for part in path.strip("/").split("/"):
                step += "/" + part
                paths.add(step)
        paths.update(self.members())
        found = {path: self.permissions(userid, path) for path in sorted(paths)}
        return {path: privs for path, privs in found.items() if privs}

    # -------------------------------------------------------------- changes

    def set_acl(self, path: str, kind: str, who: str, role: str, propagate: int) -> None:
        """Give a role; a second role at the same level adds up, the same role again changes its propagation."""
        self.acl.setdefault(path, {}).setdefault(kind, {}).setdefault(who, {})[role] = propagate

    def drop_acl(self, path: str, kind: str, who: str, role: str) -> None:
        """Take one role away; nothing happens when it was not given."""
        roles = self.acl.get(path, {}).get(kind, {}).get(who, {})
        roles.pop(role, None)
        self._prune()

    def drop_path(self, path: str) -> None:
        """The object is gone: its ACLs go with it."""
        self.acl.pop(path, None)

    def drop_who(self, kind: str, who: str) -> None:
        """A user, token or group is gone: its entries go everywhere."""
        for entry in self.acl.values():
            entry.get(kind, {}).pop(who, None)
            if kind == "users":
                for token in [t for t in entry.get("tokens", {}) if t.startswith(who + "!")]:
                    del entry["tokens"][token]
        self._prune()

    def drop_role(self, role: str) -> None:
        """A role is gone: nobody has it any more."""
        self.roles.pop(role, None)
        for entry in self.acl.values():
            for kinds in entry.values():
                for roles in kinds.values():
                    roles.pop(role, None)
        self._prune()

    def _prune(self) -> None:
        for path in list(self.acl):
            for kind in list(self.acl[path]):
                self.acl[path][kind] = {w: r for w, r in self.acl[path][kind].items() if r}
                if not self.acl[path][kind]:
                    del self.acl[path][kind]
            if not self.acl[path]:
                del self.acl[path]

    def rows(self) -> list[dict[str, object]]:
        """Every ACL entry, in a fixed order, as GET /access/acl shows it."""
        singular = {"users": "user", "tokens": "token", "groups": "group"}
        return [
            {"path": path, "type": singular[kind], "ugid": who, "roleid": role, "propagate": propagate}
            for path, kinds in sorted(self.acl.items())
            for kind, whos in sorted(kinds.items())
            for who, roles in sorted(whos.items())
            for role, propagate in sorted(roles.items())
        ]


def _applying(roles: dict[str, int], final: bool) -> dict[str, int]:
    return {role: propagate for role, propagate in roles.items() if final or propagate}
