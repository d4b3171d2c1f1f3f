"""The command line's manners: exit codes, words on standard error, refusals before anything happens."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli.contexts import Context, current, keep
from cli.failures import ERROR, USAGE
from cli.main import run


@pytest.fixture(autouse=True)
def own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRILITHON_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("TRILITHON_URL", "http://127.0.0.1:1")
    return tmp_path


def test_silence_of_the_platform_is_named_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "clusters"]) == ERROR
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "http://127.0.0.1:1 does not answer" in printed.err
    assert "trilithon up" in printed.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["get", "bananas"], "no kind of thing called 'bananas'"),
        (["describe", "site/lab"], "describe knows clusters and jobs"),
        (["get", "machines"], "--cluster NAME"),
        (["wait", "cluster/prod", "--for=condition=Available", "--timeout=soon"], "'soon' is not a time"),
        (["delete", "site/lab", "--yes"], "delete knows clusters"),
        (["logs", "machines"], "Say which job"),
        (["login"], "no terminal to ask on"),
        (["template", "add", "lab", "--distribution", "k3s", "--version", "v1", "--node", "pve1"], "not NODE=VMID"),
        (["site", "edit", "lab"], "Nothing to change was named"),
    ],
)
def test_usage_errors_end_with_code_2_before_anything_is_sent(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == USAGE
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.out == ""


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "clusters", "--colour"]) == USAGE
    assert "--colour" in capsys.readouterr().err


def test_a_manifest_without_a_name_is_refused_with_what_is_missing(
    own_configuration: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = own_configuration / "bad.yaml"
    manifest.write_text("kind: Cluster\nmetadata: {}\n")
    assert run(["apply", "-f", str(manifest)]) == ERROR
    assert "metadata.name" in capsys.readouterr().err


def test_text_that_is_no_yaml_names_the_file(own_configuration: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = own_configuration / "bad.yaml"
    manifest.write_text("kind: [unclosed\n")
    assert run(["apply", "-f", str(manifest)]) == ERROR
    assert "bad.yaml is not YAML" in capsys.readouterr().err
    assert run(["apply", "-f", str(own_configuration / "none.yaml")]) == ERROR
    assert "none.yaml cannot be read" in capsys.readouterr().err


def test_a_session_is_kept_where_only_its_owner_reads_it(
    own_configuration: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRILITHON_URL")
    keep(Context(name="work", url="http://127.0.0.1:9").signed_in({"session": "s3cret"}, "token", "dev@pve"))
    assert current() == Context("work", "http://127.0.0.1:9", (("session", "s3cret"),), "token", "dev@pve")
    files = {path.name: path for path in (own_configuration / "config").iterdir()}
    assert files["sessions.yaml"].stat().st_mode & 0o077 == 0
    assert "s3cret" not in files["config.yaml"].read_text()


def test_another_context_does_not_see_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRILITHON_URL")
    keep(Context(name="work", url="http://127.0.0.1:9").signed_in({"session": "s"}, "t", "dev@pve"))
    other = current("home")
    assert (other.url, other.cookies, other.csrf) == ("http://127.0.0.1:8080", (), "")


def test_its_start_loads_neither_models_nor_http() -> None:
    """Each costs as much as the whole rest of the start; commands load them when they need them."""
    question = "import cli.main, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, check=True).stdout.split()
    assert "typer" in loaded
    assert not {"pydantic", "httpx", "sqlalchemy", "temporalio", "yaml"} & set(loaded)
