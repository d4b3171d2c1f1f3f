"""Realms, tickets, the second factor, renewal, CSRF (facts: proxmox.md 1.1)."""

import base64
import hmac
import struct
import time

from .conftest import Lab


def digits(secret: str, at: float) -> str:
    """RFC 6238, written down a second time: the test's own authenticator."""
    key = base64.b32decode(secret)
    mac = hmac.new(key, struct.pack(">Q", int(at) // 30), "sha1").digest()
    start = mac[19] & 15
    return str((int.from_bytes(mac[start : start + 4], "big") & 0x7FFFFFFF) % 10**6).zfill(6)


def test_the_algorithm_is_the_rfcs() -> None:
    secret = base64.b32encode(b"12345678901234567890").decode()
    assert [digits(secret, t) for t in (59, 1111111109, 2000000000)] == ["287082", "081804", "279037"]


def test_realms_need_no_sign_in(lab: Lab) -> None:
    rows = lab.anyone().get("/access/domains").data
    assert [(r["realm"], r["type"]) for r in rows] == [("pam", "pam"), ("pve", "pve"), ("sso", "openid")]


def test_a_link_into_the_web_interface_says_that_there_is_none(lab: Lab) -> None:
    before = lab.control("GET", "/lab/journal")
    page = lab.http.get(f"{lab.endpoints[0]}/")
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Only the HTTP API is simulated" in page.text
    assert lab.control("GET", "/lab/journal") == before


def test_a_ticket_and_its_csrf_token(lab: Lab) -> None:
    who = lab.anyone()
    reply = who.post("/access/ticket", username="admin", realm="pve", password="lab-admin")
    assert (reply.data["username"], reply.data["clustername"]) == ("admin@pve", "lab")
    assert "Sys.Audit" in reply.data["cap"]["dc"]
    admin = lab.with_ticket(reply.data)
    assert admin.get("/version").data["version"].startswith("9")
    assert admin.post("/pools", poolid="mine").status == 200
    csrf = admin.headers.pop("CSRFPreventionToken")
    refused = admin.post("/pools", poolid="yours")
    assert (refused.status, refused.message) == (401, "Permission denied - invalid csrf token")
    second = who.post("/access/ticket", username="admin@pve", password="lab-admin").data
    admin.headers["CSRFPreventionToken"] = second["CSRFPreventionToken"]
    assert admin.post("/pools", poolid="yours").status == 200
    other = lab.sign_in("dev@pve")
    other.headers["CSRFPreventionToken"] = csrf
    assert other.post("/pools", poolid="theirs").status == 401
    dev = who.post("/access/ticket", username="dev@pve", password="lab-dev").data
    assert "clustername" not in dev


def test_every_failure_is_the_same(lab: Lab) -> None:
    who = lab.anyone()
    tries = [("admin@pve", "wrong"), ("nobody@pve", "x"), ("admin@nowhere", "x"), ("trilithon@pve", "")]
    for username, password in tries[:3]:
        reply = who.post("/access/ticket", username=username, password=password)
        assert (reply.status, reply.message) == (401, "authentication failure")
    assert who.get("/version").status == 401
    denied = lab.platform.post("/access/ticket", username="admin@pve", password="lab-admin")
    assert denied.status == 403


def test_renewal_and_the_end_of_a_ticket(lab: Lab) -> None:
    who = lab.anyone()
    first = who.post("/access/ticket", username="dev@pve", password="lab-dev").data
    renewed = who.post("/access/ticket", username="dev@pve", password=first["ticket"])
    assert renewed.status == 200
    assert renewed.data["ticket"] != first["ticket"]
    assert who.post("/access/ticket", username="admin@pve", password=first["ticket"]).status == 401
    dev = lab.with_ticket(renewed.data)
    lab.control("PUT", "/lab/people/dev@pve", {"enable": False})
    assert dev.get("/version").status == 401
    lab.control("PUT", "/lab/people/dev@pve", {"enable": True})
    assert dev.get("/version").status == 200
    lab.control("DELETE", "/lab/tickets")
    assert dev.get("/version").message == "permission denied - invalid PVE ticket"
    lab.control("PUT", "/lab/tickets", {"ttl": -1})
    assert lab.sign_in("dev@pve").get("/version").status == 401
    lab.control("PUT", "/lab/tickets", {"ttl": 7200})


def test_the_second_factor(lab: Lab) -> None:
    who, secret = lab.anyone(), lab.people["owner@pve"]["totp"]
    login = {"username": "owner@pve", "password": "lab-owner"}
    first = who.post("/access/ticket", **login).data
    assert first["NeedTFA"] == 1
    assert first["ticket"].startswith("PVE:!tfa!%7B%22totp%22")
    assert lab.with_ticket(first).get("/version").message == "permission denied - incomplete ticket"
    step = {"username": "owner@pve", "tfa__challenge": first["ticket"]}
    good = digits(secret, time.time())
    wrong = str((int(good) + 1) % 10**6).zfill(6)
    assert who.post("/access/ticket", password=f"totp:{wrong}", **step).status == 401
    assert who.post("/access/ticket", password=f"recovery:{good}", **step).status == 401
    done = who.post("/access/ticket", password=f"totp:{digits(secret, time.time())}", **step)
    assert done.status == 200
    owner = lab.with_ticket(done.data)
    path = "/pool/trilithon/clusters.prod"
    privs = owner.get("/access/permissions", path=path).data[path]
    assert privs == {"Sys.Modify": 1, "VM.Allocate": 1, "VM.Audit": 1}
    assert who.post("/access/ticket", username="owner@pve", password=done.data["ticket"]).status == 200
    assert who.post("/access/ticket", password=f"totp:{digits(secret, time.time())}", **step).status == 401
    lab.control("PUT", "/lab/tickets", {"totp_once": True})
    step["tfa__challenge"] = who.post("/access/ticket", **login).data["ticket"]
    replay = who.post("/access/ticket", password=f"totp:{digits(secret, time.time())}", **step)
    assert replay.status in (200, 401)  # 200 only when the digits have just changed
    lab.control("PUT", "/lab/tickets", {"totp_once": False})
