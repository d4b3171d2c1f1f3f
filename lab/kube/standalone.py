"""The double alone: a control plane without nodes, as the contract suite uses it."""

from dataclasses import dataclass

from lab.kube.api import KubeApi
from lab.kube.http import ApiHandler, Listener
from lab.kube.identity import load_certificates
from lab.kube.tls import server_context, serving_certificate


@dataclass
class Standalone:
    """A running double and what is needed to speak to it."""

    api: KubeApi
    url: str
    _listener: Listener
    _handler: ApiHandler

    async def close(self) -> None:
        self._handler.stop.set()
        await self._listener.stop()


async def start(
    version: str, server_ca: tuple[bytes, bytes], client_ca: bytes, service_key: bytes, host: str = "127.0.0.1"
) -> Standalone:
    """Starts a double on a free port. `server_ca` are certificate and key (PEM) of the authority of its own name."""
    api = KubeApi(version, service_key, server_ca[0].decode())
    chain, key = serving_certificate(*server_ca, "kube-apiserver", [host, "localhost", "kubernetes", "10.96.0.1"])
    handler = ApiHandler(api, load_certificates(client_ca), f"{host}:6443")
    listener = Listener(host, 0, handler, server_context(chain, key, client_ca))
    await listener.start()
    return Standalone(api, f"https://{host}:{listener.port}", listener, handler)
