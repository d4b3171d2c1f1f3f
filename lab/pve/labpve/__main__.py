"""`python -m labpve`: serve the datacenter; one JSON line on stdout says that it is ready."""

import argparse
import asyncio
import hashlib
import json
import logging
import signal
import socket
import ssl
import tempfile
from pathlib import Path

from aiohttp import web
from fakepve.certs import make_cert

from .control import Control
from .datacenter import Datacenter


def certificate(data: Path, base: str) -> tuple[str, str, str, str]:
    """Certificate file, key file, SHA-256 fingerprint (AA:BB:...) and the certificate; made once per data folder."""
    cert, key = data / "labpve.crt", data / "labpve.key"
    if not (cert.exists() and key.exists()):
        make_cert(str(data), "labpve", [f"{base}.{n}" for n in (1, 2, 3)] + ["pve1", "pve2", "pve3"])
    pem = cert.read_text()
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest().upper()
    return str(cert), str(key), ":".join(digest[i : i + 2] for i in range(0, len(digest), 2)), pem


def free_port(base: str) -> int:
    """A port that is free on the first node's address."""
    with socket.socket() as s:
        s.bind((f"{base}.1", 0))
        return int(s.getsockname()[1])


async def serve(args: argparse.Namespace, cert: str, key: str, fingerprint: str, ca: str) -> None:
    """Run until SIGTERM or SIGINT."""
    dc = Datacenter(args.address_base, args.port or free_port(args.address_base), args.nodes_url)
    await dc.open(cert, key, fingerprint)
    control = web.AppRunner(Control(dc).app(), access_log=None, shutdown_timeout=1)
    await control.setup()
    await web.TCPSite(control, f"{args.address_base}.1", args.control_port).start()
    port = control.addresses[0][1]
    ready = {
        "ready": True,
        "endpoints": dc.endpoints(),
        "control": f"http://{args.address_base}.1:{port}",
        "fingerprint": fingerprint,
        "ca": ca,
    }
    print(json.dumps(ready), flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sig, ended.set)
    await ended.wait()
    await control.cleanup()
    await dc.shut()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="labpve", description="A simulated Proxmox VE datacenter.")
    parser.add_argument("--port", type=int, default=8006, help="API port, the same on every node; 0 takes a free one")
    parser.add_argument("--control-port", type=int, default=8007, help="port of the control endpoints; 0: a free one")
    parser.add_argument("--nodes-url", help="address of lab/nodes; without it started machines just run")
    parser.add_argument("--data", help="folder for the certificate; a temporary one when left out")
    parser.add_argument("--address-base", default="127.0.70", help="first three numbers of the nodes' addresses")
    parser.add_argument("--verbose", action="store_true", help="log the lab's own errors with tracebacks to stderr")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO if args.verbose else logging.ERROR)
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="labpve-") as spare:
        data = Path(args.data or spare)
        data.mkdir(parents=True, exist_ok=True)
        asyncio.run(serve(args, *certificate(data, args.address_base)))


if __name__ == "__main__":
    main()
