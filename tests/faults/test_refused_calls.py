"""Each changing call of a create and a delete is refused once, in turn; afterwards nothing of it is left.

Several clusters are made at once, each call refused at whichever comes first: with 500 (tried again by itself) and
with 403 (the job parks, names the right and asks a person). Virtual machines of somebody else stand around with names,
tags and ids like ours, among them the ids that come next.
"""

import json
from collections.abc import Iterator

import pytest

from tests.faults.running import Hurt, hurt

pytestmark = [pytest.mark.lab, pytest.mark.crash, pytest.mark.timeout(600)]

CALLS = (
    ("POST", "^/pools$"),
    ("POST", "^/access/users$"),
    ("POST", "/token/cluster$"),
    ("PUT", "^/access/acl$"),
    ("POST", "/clone$"),
    ("POST", "/qemu/[0-9]+/config$"),
    ("PUT", "/resize$"),
    ("POST", "/upload$"),
    ("POST", "/status/start$"),
)
ENDS = (
    ("DELETE", "/token/cluster$"),
    ("POST", "/status/stop$"),
    ("DELETE", "/qemu/[0-9]+$"),
    ("DELETE", "^/access/users/[^/]+$"),
    ("DELETE", "^/pools"),
)
BATCH = 3
FOREIGN_IDS = 3
PRIVILEGE = "Permission check failed (/vms, VM.Allocate)"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hurt]:
    with hurt(tmp_path_factory.mktemp("refused")) as running:
        _strangers(running)
        yield running


def test_without_refusals_nothing_is_left(platform: Hurt) -> None:
    before = platform.state()
    platform.create("alone", workers=0)
    cluster = platform.living("alone")
    taken = {vm["vmid"] for vm in before["vms"]}
    assert not taken & {machine.vmid for machine in cluster.machines}, "a stranger's id was not taken"
    platform.delete("alone")
    assert platform.gone(cluster, before) == []


@pytest.mark.parametrize("status", [500, 403])
@pytest.mark.parametrize("first", range(0, len(CALLS), BATCH))
def test_each_call_refused_once_in_a_create(platform: Hurt, first: int, status: int) -> None:
    _refused(platform, CALLS[first : first + BATCH], (), status)


@pytest.mark.parametrize("status", [500, 403])
def test_each_call_refused_once_in_a_delete(platform: Hurt, status: int) -> None:
    _refused(platform, (), ENDS, status)


def _refused(
    platform: Hurt, creating: tuple[tuple[str, str], ...], deleting: tuple[tuple[str, str], ...], status: int
) -> None:
    before = platform.state()
    names = [f"c{status}-{number}" for number in range(max(1, len(creating)))]
    platform.faults(*(_rule(call, status) for call in creating))
    for number, name in enumerate(names):
        platform.run("apply", "-f", str(platform.small(name, workers=0, number=2 + number)))
    for name in names:
        _through(platform, name, "--for=condition=Available")
    clusters = [platform.living(name) for name in names]
    _all_hit(platform, len(creating))
    platform.faults(*(_rule(call, status) for call in deleting))
    for name in names:
        platform.run("delete", f"cluster/{name}", "--yes")
    for name in names:
        _through(platform, name, "--for=delete")
    _all_hit(platform, len(deleting))
    platform.faults()
    for cluster in clusters:
        assert platform.gone(cluster, before) == []


def _through(platform: Hurt, name: str, wanted: str) -> None:
    """Waits as a person does: `wait` returns when the job parks, and the person says retry."""
    for _ in range(10):
        done = platform.run("wait", f"cluster/{name}", wanted, "--timeout=4m", check=False)
        if done.returncode == 0:
            return
        platform.run("retry", f"cluster/{name}", check=False)
    raise AssertionError(f"{name}: {done.stderr}")


def _rule(call: tuple[str, str], status: int) -> dict:
    method, path = call
    text = "got a sudden refusal" if status == 500 else PRIVILEGE
    return {"match": {"method": method, "path": path, "times": 1}, "do": {"status": status, "text": text}}


def _all_hit(platform: Hurt, expected: int) -> None:
    rules = platform.rules()
    assert [rule["fired"] for rule in rules] == [1] * expected, json.dumps(rules)


def _strangers(platform: Hurt) -> None:
    """Somebody else's machines: our names, our tags, and the very ids that come next."""
    first = platform.ask(lambda store: store.sites.list())[0].vmid_first
    rows = [
        {"vmid": first + number, "name": f"alone-cp-{number}", "tags": "trilithon;clusters.alone", "node": "pve2"}
        for number in range(FOREIGN_IDS)
    ]
    platform.control("POST", "foreign", rows)
