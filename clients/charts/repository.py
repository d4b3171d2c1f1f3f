"""Charts from their own repositories: an index with archives by HTTP, or an OCI registry.

Proxies are taken from the environment as everywhere (`HTTPS_PROXY`, `NO_PROXY`); redirects are followed, and a
registry's token stays with the host that it is for. Whatever came is checked against the digest that the index or the
registry's manifest gives, and looked at as a chart, before it is returned.
"""

import hashlib
import ipaddress
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import yaml

from clients.charts.archive import LARGEST, ChartArchive, NotAChart, read_archive

INDEX_LIMIT = 50 * 1024 * 1024
"""Bytes. Indexes list every version ever released."""
_CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LIMIT = httpx.Timeout(60.0, connect=10.0)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


class ChartRefused(Exception):
    """The repository does not answer, or what it gave is not the chart that was asked for; the text says which."""


async def fetch(
    repository: str, name: str, version: str, *, transport: httpx.AsyncBaseTransport | None = None
) -> tuple[ChartArchive, str]:
    """The chart and the address that it came from.

    Args:
        repository: `https://host/path` with an `index.yaml`, or `oci://host/path`; `http://` and a registry without
            TLS only at loopback addresses.
        name: of the chart.
        version: exactly; a leading `v` counts.
        transport: for tests.

    Raises:
        ChartRefused: see there.
    """
    parts = urlsplit(repository)
    if parts.scheme not in ("https", "http", "oci") or not parts.hostname:
        raise ChartRefused(f"{repository} is no repository: write https://host/path or oci://host/path")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise ChartRefused(f"{repository} has no TLS, so anybody on the way could send another chart")
    async with httpx.AsyncClient(
        timeout=_LIMIT, follow_redirects=True, max_redirects=5, transport=transport, event_hooks={"request": [_guard]}
    ) as http:
        try:
            if parts.scheme == "oci":
                data, source = await _from_registry(http, repository, name, version)
            else:
                data, source = await _from_index(http, repository, name, version)
        except httpx.HTTPError as error:
            raise ChartRefused(f"{repository} does not answer: {str(error) or type(error).__name__}") from error
    try:
        chart = read_archive(data)
    except NotAChart as error:
        raise ChartRefused(f"{source} is no chart: {error}") from error
    if (chart.name, chart.version) != (name, version):
        raise ChartRefused(f"{source} is {chart.name} {chart.version}, not {name} {version}")
    return chart, source


async def _guard(request: httpx.Request) -> None:
    """A redirect must not lead out of TLS either."""
    if request.url.scheme != "https" and not _loopback(request.url.host):
        raise httpx.UnsupportedProtocol(f"it leads to {request.url.host} without TLS")


async def _from_index(http: httpx.AsyncClient, repository: str, name: str, version: str) -> tuple[bytes, str]:
    base = f"{repository.rstrip('/')}/"
    raw = await _get(http, f"{base}index.yaml", INDEX_LIMIT)
    try:
        entries = yaml.load(raw, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["entries"]  # noqa: S506 - safe
        found = next((one for one in entries.get(name) or [] if str(one.get("version")) == version), None)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ChartRefused(f"{base}index.yaml is no index of charts") from error
    if found is None:
        known = [str(one.get("version")) for one in entries.get(name) or []][:5]
        has = f"it has {', '.join(known)}" if known else "it has no chart of that name"
        raise ChartRefused(f"{repository} has no {name} {version}; {has}")
    urls = found.get("urls") or []
    if not urls:
        raise ChartRefused(f"{repository} gives no address for {name} {version}")
    source = urljoin(base, str(urls[0]))
    if source.startswith("oci://"):
        registry, _, _ = source.rpartition("/")
        return await _from_registry(http, registry, name, version)
    data = await _get(http, source, LARGEST)
    _check(data, str(found.get("digest") or "").removeprefix("sha256:"), source)
    return data, source


async def _from_registry(http: httpx.AsyncClient, repository: str, name: str, version: str) -> tuple[bytes, str]:
    parts = urlsplit(repository)
    scheme = "http" if _loopback(parts.hostname or "") else "https"
    path = f"{parts.path.strip('/')}/{name}".strip("/")
    base = f"{scheme}://{parts.netloc}/v2/{path}"
    # A tag cannot hold a plus sign; Helm writes it as an underscore.
    address = f"{base}/manifests/{version.replace('+', '_')}"
    headers = {"Accept": _MANIFEST}
    answer = await http.get(address, headers=headers)
    if answer.status_code == 401:
        headers["Authorization"] = await _token(http, answer, path)
        answer = await http.get(address, headers=headers)
    if answer.status_code == 404:
        raise ChartRefused(f"{repository} has no {name} {version}")
    _ok(answer, address)
    try:
        layers: list[dict[str, Any]] = answer.json()["layers"]
        digest = next(str(layer["digest"]) for layer in layers if layer.get("mediaType") == _CHART_LAYER)
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise ChartRefused(f"{address} is no manifest of a chart") from error
    data = await _get(http, f"{base}/blobs/{digest}", LARGEST, headers)
    _check(data, digest.removeprefix("sha256:"), address)
    return data, f"oci://{parts.netloc}/{path}:{version}"


async def _token(http: httpx.AsyncClient, refused: httpx.Response, path: str) -> str:
    """The anonymous token that a public registry hands out for reading."""
    kind, _, rest = refused.headers.get("WWW-Authenticate", "").partition(" ")
    asked = dict(_CHALLENGE.findall(rest))
    if kind.lower() != "bearer" or not asked.get("realm"):
        raise ChartRefused(f"{refused.url.host} wants a password, and charts are only read from public repositories")
    query = {"scope": asked.get("scope") or f"repository:{path}:pull"}
    if asked.get("service"):
        query["service"] = asked["service"]
    answer = await http.get(asked["realm"], params=query)
    _ok(answer, asked["realm"])
    try:
        body = answer.json()
        return f"Bearer {body.get('token') or body['access_token']}"
    except (ValueError, KeyError, AttributeError) as error:
        raise ChartRefused(f"{asked['realm']} gave no token") from error


async def _get(http: httpx.AsyncClient, address: str, most: int, headers: dict[str, str] | None = None) -> bytes:
    async with http.stream("GET", address, headers=headers) as answer:
        _ok(answer, address)
        data = bytearray()
        async for piece in answer.aiter_bytes():
            data += piece
            if len(data) > most:
                raise ChartRefused(f"{address} is larger than {most // 1024 // 1024} MiB")
        return bytes(data)


def _ok(answer: httpx.Response, address: str) -> None:
    if answer.status_code >= 400:
        raise ChartRefused(f"{address} answered {answer.status_code} {answer.reason_phrase}".rstrip())


def _check(data: bytes, digest: str, source: str) -> None:
    if digest and hashlib.sha256(data).hexdigest() != digest.lower():
        raise ChartRefused(f"{source} does not have the digest that its repository gives: it was changed or cut off")


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
