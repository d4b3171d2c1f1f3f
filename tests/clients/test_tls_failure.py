"""A server that refuses our certificate while we already read (TLS 1.3): httpx lets that alert through as it is."""

import secrets
import ssl
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import httpx
import pytest

from bootstrap.authorities import admin_certificate, etcd_client_certificate, make
from clients.etcd import EtcdClient
from clients.etcd import TlsMismatch as EtcdTlsMismatch
from clients.kubernetes import Identity, KubernetesClient, TlsMismatch
from domain.clusters import Distribution

NOW, LIFE = datetime.now(UTC), timedelta(hours=1)


@pytest.fixture
def alert(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object, **__: object) -> NoReturn:
        error = ssl.SSLError(1, "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)")
        error.reason = "TLSV1_ALERT_UNKNOWN_CA"
        raise error

    monkeypatch.setattr(httpx.AsyncClient, "send", refused)


@pytest.mark.usefixtures("alert")
async def test_it_is_told_as_a_refused_certificate() -> None:
    ours = make(secrets, NOW - LIFE, NOW + LIFE, Distribution.KUBEADM)
    pair = etcd_client_certificate(ours, "test", rng=secrets, not_before=NOW - LIFE, not_after=NOW + LIFE)
    ca = ours.etcd_server.certificate.decode()
    async with EtcdClient("127.0.0.1", Identity(ca, pair.certificate.decode(), pair.key.decode())) as etcd:
        with pytest.raises(EtcdTlsMismatch, match="refused our certificate"):
            await etcd.members()
        with pytest.raises(EtcdTlsMismatch, match="refused our certificate"):
            await etcd.health()
    pair = admin_certificate(ours, "test", rng=secrets, not_before=NOW - LIFE, not_after=NOW + LIFE)
    ca = ours.server.certificate.decode()
    api = KubernetesClient("https://127.0.0.1:6443", Identity(ca, pair.certificate.decode(), pair.key.decode()))
    with pytest.raises(TlsMismatch, match="refused our certificate"):
        await api.get("/version")
    with pytest.raises(TlsMismatch, match="refused our certificate"):
        _ = [event async for event in api.watch("/api/v1/nodes", seconds=1.0)]
    await api.aclose()
