"""Every bad manifest of the table through the command line: refused with path, reason and remedy, nothing written."""

import json
from pathlib import Path

import pytest

from cli.failures import ERROR
from cli.main import run
from tests.domain.bad_manifests import BAD, CROSS
from tests.e2e.running import Trilithon

pytestmark = pytest.mark.lab
ELSEWHERE = {"kubeadm where there is no template": "this laboratory has one; tests/api refuses it"}
"""Rows that speak of a site that is not this one."""


def test_the_table_is_refused_with_path_reason_and_remedy(
    platform: Trilithon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRILITHON_CONFIG", str(platform.folder / "config"))
    monkeypatch.setenv("TRILITHON_URL", platform.url)
    before = platform.state()
    journal = len(platform.journal())
    unlike: list[str] = []
    network = platform.space + 10
    around = f"127.{network & 0xF0}.0.0/12"  # one row's range is written for the table's own network
    for row in (*BAD, *CROSS):
        if row.name in ELSEWHERE:
            continue
        document = row.document()
        metadata = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            continue  # apply names the cluster by it; tests/cli has the refusal of a manifest without a name
        if "/" in metadata["name"] + str(metadata.get("namespace", "")):
            continue
        text = json.dumps(document).replace("127.80.", f"127.{network}.").replace("127.64.0.0/10", around)
        manifest = tmp_path / "bad.json"
        manifest.write_text(text)
        code = run(["apply", "-f", str(manifest)])
        told = capsys.readouterr()
        lines = [line for line in told.err.splitlines() if line.startswith("  ")]
        if code != ERROR or told.out or not any(line.strip().startswith(f"{row.path}: ") for line in lines):
            unlike.append(f"{row.name}: code {code}, {told.out!r}, {told.err!r}")
    assert unlike == []
    assert run(["get", "clusters", "-o", "name"]) == 0
    assert capsys.readouterr().out == ""
    assert platform.state() == before
    assert len(platform.journal()) == journal, "nothing was asked of Proxmox VE but to read"
