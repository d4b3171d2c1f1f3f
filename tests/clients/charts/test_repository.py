"""Charts come from an index or a registry, whole and as asked, or not at all."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import yaml

from clients.charts import LARGEST, ChartRefused, NotAChart, fetch, read_archive
from lab.nodes.serving import Running, serve

HOST = "https://charts.example.org/stable"


def packed(name: str = "some", version: str = "1.2.3", **more: bytes) -> bytes:
    out = io.BytesIO()
    files = {f"{name}/Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n".encode()} | more
    # The time in the header of gzip would make every chart another one.
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


def index(data: bytes, url: str = "some-1.2.3.tgz", digest: str | None = None) -> bytes:
    entry = {"name": "some", "version": "1.2.3", "urls": [url]}
    entry["digest"] = hashlib.sha256(data).hexdigest() if digest is None else digest
    return yaml.safe_dump({"apiVersion": "v1", "entries": {"some": [entry]}}).encode()


def answering(answers: dict[str, httpx.Response | bytes]) -> httpx.MockTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        found = answers.get(str(request.url), httpx.Response(404))
        return httpx.Response(200, content=found) if isinstance(found, bytes) else found

    return httpx.MockTransport(handle)


async def test_a_chart_of_an_index_is_fetched_with_its_address() -> None:
    data = packed()
    web = answering({f"{HOST}/index.yaml": index(data), f"{HOST}/some-1.2.3.tgz": data})
    chart, source = await fetch(HOST, "some", "1.2.3", transport=web)
    assert (chart.name, chart.version, chart.data) == ("some", "1.2.3", data)
    assert source == f"{HOST}/some-1.2.3.tgz"
    assert chart.digest == hashlib.sha256(data).hexdigest()


async def test_an_archive_behind_a_redirect_is_followed() -> None:
    data = packed()
    moved = httpx.Response(302, headers={"Location": "https://elsewhere.example.net/x.tgz"})
    answers = {
        f"{HOST}/index.yaml": index(data, "https://cdn.example.org/x.tgz"),
        "https://cdn.example.org/x.tgz": moved,
    }
    web = answering({**answers, "https://elsewhere.example.net/x.tgz": data})
    chart, _ = await fetch(HOST, "some", "1.2.3", transport=web)
    assert chart.data == data


BAD: dict[str, tuple[Callable[[bytes], dict[str, httpx.Response | bytes]], str]] = {
    "another digest": (lambda d: {"index.yaml": index(d, digest="0" * 64), "some-1.2.3.tgz": d}, "digest"),
    "cut off": (lambda d: {"index.yaml": index(d), "some-1.2.3.tgz": d[:-9]}, "digest"),
    "no chart": (lambda d: {"index.yaml": index(b"x"), "some-1.2.3.tgz": b"x"}, "no gzipped tar"),
    "another chart": (
        lambda d: {"index.yaml": index(packed("other")), "some-1.2.3.tgz": packed("other")},
        "is other 1.2.3, not some",
    ),
    "no index": (lambda d: {"index.yaml": b"just text"}, "no index of charts"),
    "an error": (lambda d: {"index.yaml": httpx.Response(503)}, "answered 503"),
    "a redirect out of TLS": (
        lambda d: {"index.yaml": httpx.Response(302, headers={"Location": "http://plain.example.org/"})},
        "without TLS",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_not_the_chart_is_refused(case: str) -> None:
    make, why = BAD[case]
    web = answering({f"{HOST}/{path}": answer for path, answer in make(packed()).items()})
    with pytest.raises(ChartRefused, match=why):
        await fetch(HOST, "some", "1.2.3", transport=web)


async def test_a_version_that_is_not_there_names_those_that_are() -> None:
    with pytest.raises(ChartRefused, match=r"has no some 9.9.9; it has 1.2.3"):
        await fetch(HOST, "some", "9.9.9", transport=answering({f"{HOST}/index.yaml": index(packed())}))


@pytest.mark.parametrize("address", ["http://charts.example.org", "ftp://x", "charts.example.org", "file:///etc"])
async def test_an_address_that_cannot_be_trusted_is_refused(address: str) -> None:
    with pytest.raises(ChartRefused):
        await fetch(address, "some", "1.2.3")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no gzipped tar"),
        (b"\0" * (LARGEST + 1), "larger than 10 MiB"),
        (packed(**{"../out": b"x"}), "has no place"),
        (packed(**{"/etc/passwd": b"x"}), "has no place"),
        (packed(**{"second/file": b"x"}), "more than one folder"),
        (packed(version="latest"), "gives no version"),
        (packed(name="some", **{"some/Chart.yaml": b"- a list"}), "names no chart"),
    ],
)
def test_an_archive_that_is_no_chart_says_why(data: bytes, why: str) -> None:
    with pytest.raises(NotAChart, match=why):
        read_archive(data)


@pytest.fixture
async def lab() -> AsyncIterator[Running]:
    running = await serve(0, 0, host="127.0.0.1", artifact_host="127.0.0.1")
    yield running
    await running.close()


async def test_the_laboratory_serves_one_repository_of_each_kind(lab: Running) -> None:
    by_index, _ = await fetch(f"{lab.artifact_url}/charts", "cilium", "1.19.6")
    registry = lab.artifact_url.replace("http://", "oci://")
    by_registry, source = await fetch(f"{registry}/charts", "cilium", "1.19.6")
    assert by_index == by_registry
    assert source == f"{registry}/charts/cilium:1.19.6"
    with pytest.raises(ChartRefused, match=r"has no cilium 0\.0\.1"):
        await fetch(f"{registry}/charts", "cilium", "0.0.1")
