"""Sign-in: realms, tickets, the second factor, renewal, CSRF tokens.

Rules: PVE::API2::AccessControl and PVE::AccessControl. Every refused sign-in is the same 401; a ticket lives two
hours and is renewed by giving it as the password; the CSRF token is bound to the user and a time, not to a ticket.
"""

import base64
import hashlib
import hmac
import json
import secrets
import struct
import time
import urllib.parse

from fakepve.model import PveError
from fakepve.server import FORMATS, ok, params

STEP = 30  # seconds a TOTP value stands for (RFC 6238)
CAP_PATHS = {
    "access": "/access",
    "dc": "/",
    "mapping": "/mapping",
    "nodes": "/nodes",
    "sdn": "/sdn",
    "storage": "/storage",
    "vms": "/vms",
}


def totp(secret: str, counter: int) -> str:
    """The six digits of RFC 6238 (SHA-1) for a base32 secret and a counter of 30 s steps."""
    key = base64.b32decode(secret.upper() + "=" * (-len(secret) % 8))
    digest = hmac.new(key, struct.pack(">Q", counter), hashlib.sha1).digest()
    at = digest[-1] & 15
    return f"{(int.from_bytes(digest[at : at + 4], 'big') & 0x7FFFFFFF) % 1_000_000:06d}"


def totp_valid(secret: str, value: str, now: float) -> bool:
    """True when the digits belong to this moment or one step beside it."""
    counter = int(now // STEP)
    return any(hmac.compare_digest(totp(secret, counter + d), value) for d in (-1, 0, 1))


class SignIn:
    """Mixin: replaces tickets, authentication and the list of realms."""

    def _routes_zz_signin(self):
        return [("GET", "/access/domains", self._domains)]

    async def _domains(self, v, user):
        return [dict(row, realm=name) for name, row in sorted(self.realms.items())]

    # ------------------------------------------------------- authentication

    def _authenticate(self, request):
        path = request.path
        if any(path in (p + "/access/ticket", p + "/access/domains") for p in FORMATS):
            return None  # open to everybody
        auth = request.headers.get("Authorization", "")
        if auth.startswith("PVEAPIToken="):
            tokenid, _, secret = auth[len("PVEAPIToken=") :].partition("=")
            if not self.access.check_token(tokenid, secret):
                raise PveError(401, "no such token or invalid token value")
            return tokenid
        cookie = urllib.parse.unquote(request.cookies.get("PVEAuthCookie") or "")
        if not cookie:
            raise PveError(401, "No ticket")
        if cookie.startswith("PVE:!tfa!"):
            raise PveError(401, "permission denied - incomplete ticket")
        session = self.tickets.get(cookie)
        user = session and self.access.users.get(session["user"])
        if not session or session["expires"] < time.time() or not user or not user.alive:
            raise PveError(401, "permission denied - invalid PVE ticket")
        if request.method not in ("GET", "HEAD"):
            given = request.headers.get("CSRFPreventionToken") or ""
            if self.csrf.get(given) != session["user"]:
                raise PveError(401, "Permission denied - invalid csrf token")
        return session["user"]

    def issue_ticket(self, user):
        ticket, csrf = super().issue_ticket(user)
        self.csrf[csrf] = user
        return ticket, csrf

    def _expire_everything(self):
        """Every ticket is dead from now on (a new authkey, or two idle hours)."""
        self.tickets.clear()
        self.csrf.clear()
        self.challenges.clear()

    # --------------------------------------------------------------- ticket

    def _cap(self, user):
        return {key: self.access.permissions(user, path) for key, path in CAP_PATHS.items()}

    def _signed_in(self, user):
        ticket, csrf = self.issue_ticket(user)
        data = {"ticket": ticket, "CSRFPreventionToken": csrf, "username": user, "cap": self._cap(user)}
        if self.allowed(user, "/", "Sys.Audit"):
            data["clustername"] = self.cluster_name
        return ok(data)

    def _challenge(self, user):
        """The half-done ticket: its data is the URL-encoded JSON of the factors that would do."""
        factors = urllib.parse.quote(json.dumps({"totp": True, "recovery": None}))
        ticket = f"PVE:!tfa!{factors}:{int(time.time()):08X}::{secrets.token_hex(24)}"
        self.challenges[ticket] = (user, time.time() + 300)
        return ok(
            {"ticket": ticket, "username": user, "NeedTFA": 1, "CSRFPreventionToken": secrets.token_hex(16), "cap": {}}
        )

    async def _ticket(self, request):
        if request.headers.get("Authorization", "").startswith("PVEAPIToken="):
            raise PveError(403, "API token not allowed")
        p = self._verify(request, await params(request))
        user, password = str(p["username"]), str(p["password"])
        if p.get("realm") and not user.endswith("@" + p["realm"]):
            user = f"{user}@{p['realm']}"
        elif "@" not in user:
            user += "@pam"
        refused = PveError(401, "authentication failure")
        account = self.access.users.get(user)
        if account is None or not account.alive:
            raise refused
        if p.get("tfa-challenge"):
            return self._second_step(user, account, p["tfa-challenge"], password, refused)
        session = self.tickets.get(password)
        if session is not None:
            if session["expires"] < time.time() or session["user"] not in (user, "root@pam"):
                raise refused
            return self._signed_in(user)
        realm = self.realms.get(user.rpartition("@")[2], {})
        if realm.get("type") == "openid" or account.password is None or account.password != password:
            raise refused
        return self._challenge(user) if account.totp else self._signed_in(user)

    def _second_step(self, user, account, challenge, password, refused):
        whose, until = self.challenges.get(challenge, (None, 0))
        if whose != user or until < time.time():
            raise refused
        kind, _, value = password.partition(":")
        now = time.time() + self.totp_skew
        if kind != "totp" or not account.totp or not totp_valid(account.totp, value, now):
            raise refused
        used = (user, value, int(now // (3 * STEP)))
        if self.totp_once and used in self.totp_used:
            raise refused
        self.totp_used.add(used)
        del self.challenges[challenge]
        return self._signed_in(user)

    async def _password(self, request):
        p = self._verify(request, await params(request))
        from fakepve.server import USER

        user, userid = request[USER], p["userid"]
        if "!" in user:
            raise PveError(403, "API token not allowed")
        account = self.access.users.get(userid)
        if account is None:
            raise PveError(500, f"no such user ('{userid}')")
        if userid != user and user != "root@pam":
            self.require(user, "/access/groups", "User.Modify")
        account.password = p["password"]
        return ok()
