"""Each changing call of a create and a delete is refused once, in turn; afterwards nothing of it is left.

Several clusters are made at once. Whichever makes a call first gets a 500 (it is tried again by itself), the next one a
403 (the job parks, names the right and asks a person). Virtual machines of somebody else stand around with names,
tags and ids like ours, among them the ids that come next.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.running import Hurt, hurt
from tests.faults.watched import beside

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
CLUSTERS = 3
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


@pytest.mark.parametrize("half", [0, 1])
def test_each_call_refused_once(platform: Hurt, half: int) -> None:
    before = platform.state()
    names = [f"half{half}-{number}" for number in range(CLUSTERS)]
    platform.faults(*_rules(CALLS[half::2]))
    files = [platform.small(name, workers=0, number=2 + number) for number, name in enumerate(names)]
    together = platform.folder / f"half{half}.yaml"
    together.write_text("---\n".join(file.read_text() for file in files))
    platform.run("apply", "-f", str(together))
    beside(*(lambda n=name: _through(platform, n, "--for=condition=Available") for name in names))  # type: ignore[misc]
    clusters = [platform.living(name) for name in names]
    assert [rule["fired"] for rule in platform.rules()] == [1] * 2 * len(CALLS[half::2]), platform.rules()
    platform.faults(*_rules(ENDS[half::2]))
    for name in names:
        platform.run("delete", f"cluster/{name}", "--yes")
    beside(*(lambda n=name: _through(platform, n, "--for=delete") for name in names))  # type: ignore[misc]
    assert [rule["fired"] for rule in platform.rules()] == [1] * 2 * len(ENDS[half::2]), platform.rules()
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


def _rules(calls: tuple[tuple[str, str], ...]) -> list[dict[str, Any]]:
    """For each call two rules: 500 for whoever makes it first, 403 for the next."""
    answers = ((500, "got a sudden refusal"), (403, PRIVILEGE))
    return [
        {"match": {"method": method, "path": path, "times": 1}, "do": {"status": status, "text": text}}
        for method, path in calls
        for status, text in answers
    ]


def _strangers(platform: Hurt) -> None:
    """Somebody else's machines: our names, our tags, and the very ids that come next."""
    first = platform.ask(lambda store: store.sites.list())[0].vmid_first
    rows = [
        {"vmid": first + number, "name": f"alone-cp-{number}", "tags": "trilithon;clusters.alone", "node": "pve2"}
        for number in range(FOREIGN_IDS)
    ]
    platform.control("POST", "foreign", rows)
