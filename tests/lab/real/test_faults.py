"""What is laid into machines before they boot: rules, boot data, files, links."""

from pathlib import Path

import pytest
import yaml

from lab.real.faults import Faults, Rule
from lab.real.seed import SEED

KEY, CONFIG = "/etc/x/ca.key", "/etc/x/kubeadm.yaml"
DATA = {
    "hostname": "a-cp-1",
    "write_files": [
        {"path": KEY, "permissions": "0600", "content": "secret\n"},
        {"path": CONFIG, "permissions": "0600", "content": "token: abcdef.x\nother: 1\n"},
    ],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine's tree with its seed."""
    (tmp_path / SEED).mkdir(parents=True)
    (tmp_path / SEED / "user-data").write_text("#cloud-config\n" + yaml.safe_dump(DATA))
    return tmp_path


def _hurt(root: Path, name: str, **rule: object) -> dict[str, str]:
    faults = Faults()
    faults.rules = [Rule.from_json({"name": "a-cp-*", **rule})]
    faults.hurt(name, root)
    text = (root / SEED / "user-data").read_text()
    assert text.startswith("#cloud-config\n")
    return {row["path"]: row["content"] for row in yaml.safe_load(text)["write_files"]}


def test_boot_data_lose_a_file_and_change_another(root: Path) -> None:
    written = _hurt(root, "a-cp-1", drop=[KEY], edit={CONFIG: [["^token: .*$", "token: other"]]})
    assert written == {CONFIG: "token: other\nother: 1\n"}


def test_other_machines_are_left_alone(root: Path) -> None:
    assert KEY in _hurt(root, "b-cp-1", drop=[KEY], files={"/usr/bin/kubelet": "#!/bin/sh\n"})
    assert not (root / "usr/bin/kubelet").exists()


def test_files_and_links_take_the_place_of_what_is_there(root: Path) -> None:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/kubelet").symlink_to("/nowhere")
    (root / "usr/bin/gone").write_text("x")
    _hurt(
        root,
        "a-cp-1",
        files={"/usr/bin/kubelet": "#!/bin/sh\nfalse\n", "/etc/plain": "x"},
        links={"/etc/l": "/etc/plain", "/usr/bin/gone": ""},
    )
    assert (root / "usr/bin/kubelet").stat().st_mode & 0o111
    assert not (root / "etc/plain").stat().st_mode & 0o111
    assert (root / "etc/l").is_symlink()
    assert not (root / "usr/bin/gone").exists()


def test_a_rule_that_finds_nothing_to_change_is_refused(root: Path) -> None:
    with pytest.raises(ValueError, match=r"write no /etc/none; they write /etc/x/ca\.key"):
        _hurt(root, "a-cp-1", drop=["/etc/none"])
    with pytest.raises(ValueError, match="holds nothing like"):
        _hurt(root, "a-cp-1", edit={CONFIG: [["tokens", ""]]})


@pytest.mark.parametrize("rule", [{"name": "x"}, {"never_agent": True}, {"name": "x", "boot_seconds": 3}])
def test_a_rule_says_something_known(rule: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a fault has a name and of"):
        Rule.from_json(rule)


def test_the_agent_is_silent_by_pattern() -> None:
    faults = Faults()
    faults.rules = [Rule.from_json({"name": "mute-*", "never_agent": True})]
    assert faults.never_agent("mute-cp-1")
    assert not faults.never_agent("loud")
