"""The API process: one application over one store, served by uvicorn.

python -m api.main        # settings from TRILITHON_* variables
"""

import asyncio
import contextlib
import ipaddress
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import structlog
import uvicorn

from api.app import create_app
from api.gate import ProxmoxGate
from api.services import Services, Settings
from clients.charts import ChartFolder
from domain.contracts.jobs import TimeLimits
from jobs import Engine, EngineSettings
from store import KeyUnusable, SecretKey, open_store

STREAMS_END = 2
"""Seconds that open streams are given when the server stops; a page comes back by itself."""


@dataclass(frozen=True)
class ApiSettings:
    """Settings of one API process. `key_file` None takes the key from TRILITHON_KEY. `pages` None serves no pages."""

    store_url: str
    key_file: Path | None = None
    engine: EngineSettings = field(default_factory=EngineSettings)
    host: str = "127.0.0.1"
    port: int = 8080
    pages: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    documentation_url: str | None = None
    charts: Path = Path("charts")


def from_environment(environment: Mapping[str, str]) -> ApiSettings:
    """Reads TRILITHON_* variables.

    TRILITHON_STORE (required), _KEY_FILE, _TEMPORAL (host:port), _NAMESPACE, _TEMPORAL_UI, _HOST, _PORT, _PAGES
    (folder of the built pages), _TLS_CERTIFICATE and _TLS_KEY (PEM files), _DOCUMENTATION (address), _CHARTS (folder
    of Helm charts, the same as the workers'), _LIMITS (JSON of domain.contracts.jobs.TimeLimits: a job that the API
    starts has the same as one that a worker starts).

    Raises ValueError naming the variable that is missing or wrong.
    """

    def get(name: str, default: str = "") -> str:
        return environment.get(f"TRILITHON_{name}", default).strip()

    def path(name: str) -> Path | None:
        return Path(get(name)) if get(name) else None

    if not get("STORE"):
        raise ValueError(
            "TRILITHON_STORE is not set: the store's address, for example sqlite+aiosqlite:///trilithon.db"
        )
    if not get("PORT", "8080").isdigit() or int(get("PORT", "8080")) > 65535:
        raise ValueError("TRILITHON_PORT is not a port number")
    if (path("TLS_CERTIFICATE") is None) is not (path("TLS_KEY") is None):
        raise ValueError("TRILITHON_TLS_CERTIFICATE and TRILITHON_TLS_KEY are given together or not at all")
    try:
        limits = TimeLimits.model_validate_json(get("LIMITS", "{}"))
    except ValueError as error:
        raise ValueError(f"TRILITHON_LIMITS is not readable: {error}") from error
    settings = ApiSettings(
        store_url=get("STORE"),
        key_file=path("KEY_FILE"),
        engine=EngineSettings(
            address=get("TEMPORAL", "127.0.0.1:7233"),
            namespace=get("NAMESPACE", "default"),
            ui=get("TEMPORAL_UI"),
            limits=limits,
        ),
        host=get("HOST", "127.0.0.1"),
        port=int(get("PORT", "8080")),
        pages=path("PAGES"),
        tls_certificate=path("TLS_CERTIFICATE"),
        tls_key=path("TLS_KEY"),
        documentation_url=get("DOCUMENTATION") or None,
        charts=Path(get("CHARTS", "charts")),
    )
    _refuse_bare(settings)
    return settings


def _refuse_bare(settings: ApiSettings) -> None:
    """Passwords of Proxmox VE are typed here: beyond this machine only by TLS."""
    if settings.tls_certificate is None and not _is_loopback(settings.host):
        raise ValueError(
            f"TRILITHON_HOST is {settings.host}, which others can reach, and there is no TLS: set "
            "TRILITHON_TLS_CERTIFICATE and TRILITHON_TLS_KEY, or listen on 127.0.0.1"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.asynccontextmanager
async def services(settings: ApiSettings) -> AsyncIterator[Services]:
    """The real services, closed at the end. Raises KeyUnusable. Store and engine may be down: requests say so."""
    store = open_store(settings.store_url, SecretKey.load(settings.key_file), clock=now)
    try:
        engine = await Engine.connect(settings.engine)
        yield Services(
            store=store,
            gate=ProxmoxGate(),
            engine=engine,
            clock=now,
            charts=ChartFolder(settings.charts),
            settings=Settings(
                version=_version(),
                engine_url=settings.engine.ui or None,
                documentation_url=settings.documentation_url,
                pages=str(settings.pages) if settings.pages else None,
                secure_cookie=settings.tls_certificate is not None,
            ),
        )
    finally:
        await store.close()


async def serve(settings: ApiSettings) -> None:
    """Serves until SIGTERM or SIGINT."""
    async with services(settings) as given:
        config = uvicorn.Config(
            create_app(given),
            host=settings.host,
            port=settings.port,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            # Nobody stands before us whose word about the caller's address we could believe.
            proxy_headers=False,
            timeout_graceful_shutdown=STREAMS_END,
        )
        server = _Server(config)

        def stop() -> None:
            given.stopping.set()
            server.should_exit = True

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        await server.serve()


class _Server(uvicorn.Server):
    """Leaves the signals to `serve`: uvicorn's own handling ends the process by the signal, before the store closes."""

    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()


def now() -> datetime:
    """The time, aware, in UTC."""
    return datetime.now(UTC)


def main() -> None:
    """Entry point. Ends the process with 1 when the settings do not do."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        settings = from_environment(os.environ)
        asyncio.run(serve(settings))
    except (ValueError, KeyUnusable) as error:
        sys.stderr.write(f"trilithon api: {error}\n")
        raise SystemExit(1) from None


def _version() -> str:
    try:
        return version("trilithon")
    except PackageNotFoundError:
        return "0.0.0"


if __name__ == "__main__":
    main()
