"""Trust, fail-over, hooks and masking, against a fake that scripts every answer."""

import socket
from collections.abc import Callable

import pytest

from clients.proxmox import (
    ApiToken,
    BadParameter,
    NotTrusted,
    ProxmoxClient,
    RightMissing,
    Ticket,
    Trust,
    Unreachable,
    peer_fingerprint,
)
from clients.proxmox.client import crossing_name
from tests.clients.proxmox.conftest import CUT, FakeHttps

TOKEN = ApiToken("trilithon@pve!platform", "0f0e0d0c-secret-value")
Make = Callable[[], FakeHttps]


def client(*fakes: FakeHttps, trust: Trust | None = None, **more: object) -> ProxmoxClient:
    pinned = trust or Trust(fingerprint=" ".join(fake.fingerprint for fake in fakes))
    return ProxmoxClient([fake.endpoint for fake in fakes], TOKEN, pinned, timeout=5, **more)  # type: ignore[arg-type]


def closed_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"https://127.0.0.1:{free.getsockname()[1]}"


async def test_reads_with_the_token_over_a_pinned_certificate(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/version"] = (200, "OK", {"version": "9.0.10"})
    proxmox = client(fake)
    assert await proxmox.get("/version") == {"version": "9.0.10"}
    assert fake.seen[0].headers["authorization"] == f"PVEAPIToken={TOKEN.token_id}={TOKEN.secret}"
    await proxmox.aclose()


async def test_another_certificate_gets_no_request(fake_https: Make) -> None:
    fake, other = fake_https(), fake_https()
    proxmox = client(fake, trust=Trust(fingerprint=other.fingerprint))
    with pytest.raises(NotTrusted):
        await proxmox.get("version")
    proxmox = client(fake, trust=Trust(fingerprint=f"{other.fingerprint}, {other.fingerprint}"))
    with pytest.raises(NotTrusted):
        await proxmox.get("version")
    proxmox = client(fake, trust=Trust())
    with pytest.raises(NotTrusted):
        await proxmox.get("version")
    assert fake.seen == []
    assert peer_fingerprint(fake.endpoint).lower() == fake.fingerprint


async def test_an_authority_checks_the_name_too(fake_https: Make) -> None:
    fake, other = fake_https(), fake_https()
    fake.answers["GET", "/version"] = (200, "OK", {})
    named = ProxmoxClient([f"https://localhost:{fake.port}"], TOKEN, Trust(ca=fake.pem), timeout=5)
    assert await named.get("version") == {}
    with pytest.raises(NotTrusted):  # the address is not in the certificate
        await client(fake, trust=Trust(ca=fake.pem)).get("version")
    with pytest.raises(NotTrusted):
        await ProxmoxClient([f"https://localhost:{fake.port}"], TOKEN, Trust(ca=other.pem)).get("version")
    await named.aclose()


@pytest.mark.parametrize("trust", [Trust(fingerprint="AA:BB"), Trust(ca="-----BEGIN CERTIFICATE-----")])
def test_unusable_pins_are_named(trust: Trust) -> None:
    with pytest.raises(ValueError, match=r"fingerprint|PEM"):
        trust.check()


async def test_a_dead_endpoint_is_left_for_a_living_one(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["POST", "/pools"] = (200, "OK", None)
    proxmox = ProxmoxClient([closed_port(), fake.endpoint], TOKEN, Trust(fingerprint=fake.fingerprint), timeout=5)
    await proxmox.post("pools", poolid="a/b")
    assert [(seen.method, seen.path, seen.form) for seen in fake.seen] == [("POST", "/pools", {"poolid": "a/b"})]
    await proxmox.aclose()


async def test_an_endpoint_with_another_certificate_is_left_for_a_pinned_one(fake_https: Make) -> None:
    strange, fake = fake_https(), fake_https()
    fake.answers["POST", "/x"] = (200, "OK", "done")
    assert await client(strange, fake, trust=Trust(fingerprint=fake.fingerprint)).post("x") == "done"
    assert strange.seen == []


async def test_what_a_living_endpoint_says_wins_over_a_dead_one(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/nodes/pve1/x"] = (595, "No route to host", None)
    trust = Trust(fingerprint=fake.fingerprint)
    proxmox = ProxmoxClient([fake.endpoint, closed_port()], TOKEN, trust, timeout=5)
    with pytest.raises(Unreachable, match="No route to host") as away:
        await proxmox.get("nodes/pve1/x")
    assert away.value.status == 595
    with pytest.raises(Unreachable, match=r"^GET /x: https://127.0.0.1:\d+: Failed to establish .*refused$"):
        await ProxmoxClient([closed_port()], TOKEN, trust, timeout=5).get("x")


async def test_a_lost_answer_is_asked_again_for_reads_only(fake_https: Make) -> None:
    first, second = fake_https(), fake_https()
    for method in ("GET", "POST"):
        first.answers[method, "/pools"] = CUT
        second.answers[method, "/pools"] = (200, "OK", [])
    proxmox = client(first, second)
    assert await proxmox.get("pools") == []
    proxmox = client(first, second)
    with pytest.raises(Unreachable) as lost:
        await proxmox.post("pools", poolid="x")
    assert lost.value.sent
    assert lost.value.retry
    assert [seen.method for seen in second.seen] == ["GET"]


async def test_595_goes_to_the_next_endpoint_596_may_have_been_done(fake_https: Make) -> None:
    first, second = fake_https(), fake_https()
    second.answers["POST", "/x"] = (200, "OK", "done")
    first.answers["POST", "/x"] = (595, "No route to host", None)
    assert await client(first, second).post("x") == "done"
    first.answers["POST", "/x"] = (596, "Connection timed out", None)
    with pytest.raises(Unreachable):
        await client(first, second).post("x")


async def test_a_crossing_sees_every_changing_call_and_no_read(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/x"] = fake.answers["PUT", "/x"] = (200, "OK", None)
    fake.answers["POST", "/x"] = CUT
    order: list[tuple[str, str, int]] = []

    class Watched:
        def before(self, name: str) -> None:
            order.append(("before", name, len(fake.seen)))

        def after(self, name: str) -> None:
            order.append(("after", name, len(fake.seen)))

    proxmox = client(fake, crossing=Watched())
    await proxmox.get("x")
    await proxmox.put("x", a=True)
    with pytest.raises(Unreachable):
        await proxmox.post("x")
    assert order == [
        ("before", "proxmox PUT x", 1),
        ("after", "proxmox PUT x", 2),
        ("before", "proxmox POST x", 2),
        ("after", "proxmox POST x", 3),
    ]
    assert fake.seen[1].form == {"a": "1"}


async def test_words_come_from_reason_or_body_and_hold_no_secret(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/x"] = (500, f"broken {TOKEN.secret}", None)
    with pytest.raises(Exception, match=r"GET /x: 500 broken \*\*\*"):
        await client(fake).get("x")
    fake.answers["GET", "/x"] = (403, "", {"message": "Permission check failed (/vms/100, VM.Allocate)\n"})
    with pytest.raises(RightMissing) as missing:
        await client(fake).get("x")
    assert (missing.value.at, missing.value.privilege) == ("/vms/100", "VM.Allocate")
    fake.answers["GET", "/x"] = (400, "Parameter verification failed.", {"errors": {"newid": "bad\n"}})
    with pytest.raises(BadParameter) as bad:
        await client(fake).get("x")
    assert bad.value.fields == {"newid": "bad"}
    fake.answers["GET", "/x"] = (200, "OK", b"<html>proxy</html>")
    with pytest.raises(Unreachable):
        await client(fake).get("x")
    assert TOKEN.secret not in repr(client(fake).credential)


async def test_an_upload_goes_to_the_nodes_own_endpoint_checksum_first(fake_https: Make) -> None:
    first, second = fake_https(), fake_https()
    for fake, name in ((first, "pve1"), (second, "pve2")):
        fake.answers["GET", "/cluster/status"] = (
            200,
            "OK",
            [{"type": "node", "name": node, "local": int(node == name)} for node in ("pve1", "pve2")],
        )
    second.answers["POST", "/nodes/pve2/storage/iso/upload"] = (200, "OK", "UPID:pve2:1")
    upid = await client(first, second).upload("pve2", "iso", "user-data-100.iso", b"x" * 5000)
    assert upid == "UPID:pve2:1"
    body = second.seen[-1].body
    assert body.index(b'name="checksum"') < body.index(b'filename="user-data-100.iso"')


async def test_a_ticket_goes_as_a_cookie_with_its_csrf_token(fake_https: Make) -> None:
    fake = fake_https()
    fake.answers["GET", "/x"] = fake.answers["PUT", "/x"] = (200, "OK", None)
    person = Ticket("dev@pve", "PVE:dev@pve:65A::sig+/=", "csrf-token")
    proxmox = ProxmoxClient([fake.endpoint], person, Trust(fingerprint=fake.fingerprint), timeout=5)
    await proxmox.get("x")
    await proxmox.put("x")
    assert fake.seen[0].headers["cookie"] == "PVEAuthCookie=PVE%3Adev%40pve%3A65A%3A%3Asig%2B%2F%3D"
    assert "csrfpreventiontoken" not in fake.seen[0].headers
    assert fake.seen[1].headers["csrfpreventiontoken"] == "csrf-token"


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/nodes/pve1/qemu/9001/clone", "proxmox POST nodes/qemu/clone"),
        ("DELETE", "nodes/pve1/qemu/20000", "proxmox DELETE nodes/qemu"),
        ("POST", "access/users/trilithon-0011aabb@pve/token/cluster", "proxmox POST access/users/token"),
        ("DELETE", "nodes/n/storage/iso/content/iso:iso/user-data-1.iso", "proxmox DELETE nodes/storage/content"),
        ("PUT", "pools", "proxmox PUT pools"),
    ],
)
def test_crossings_have_names_that_do_not_change_from_run_to_run(method: str, path: str, name: str) -> None:
    assert crossing_name(method, path) == name
