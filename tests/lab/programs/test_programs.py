"""The cache of built programs: what decides a program's key, and what is said where it cannot be built."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.programs import build as building
from lab.programs import recipes
from lab.programs.needs import EXIT_MISSING, Missing, go_version, require

ROOT = Path(__file__).resolve().parents[3]
GO = "go1.26.8 linux amd64"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26)),
        ("go version go1.9 linux/amd64", (1, 9)),
        ("go version go1.27rc1 linux/amd64", (1, 27)),
        ("go version devel linux/amd64", (0, 0)),
        ("", (0, 0)),
    ],
)
def test_go_version(text: str, version: tuple[int, int]) -> None:
    assert go_version(text) == version


@pytest.mark.parametrize("recipe", [*recipes.others(), *map(recipes.kube, recipes.versions())], ids=lambda r: r.name)
def test_every_program_has_pinned_modules(recipe: recipes.Recipe) -> None:
    names = {path.name for path in recipe.sources}
    assert recipe.modfile in names
    if recipe.name != "pause":  # nothing but the standard library
        assert Path(recipe.modfile).with_suffix(".sum").name in names
    module = (recipes.HERE / recipe.folder / recipe.modfile).read_text()
    assert "latest" not in module
    assert "=> ./" not in module


def test_versions_newest_first_and_the_default_is_among_them() -> None:
    assert recipes.versions()[0] == recipes.DEFAULT_VERSION
    assert {"v1.36.1", "v1.35.4"} <= set(recipes.versions())


def test_unknown_version_is_told_how_to_pin_it() -> None:
    with pytest.raises(ValueError, match=r"v1\.29\.0 is not pinned here.*lab\.programs pin"):
        recipes.kube("v1.29.0")


def test_a_version_says_itself() -> None:
    said = recipes.kube("v1.35.4").variables
    assert said["k8s.io/component-base/version.gitVersion"] == "v1.35.4"
    assert said["k8s.io/component-base/version.gitMinor"] == "35"


def test_companions_of_several_minors() -> None:
    assert recipes.companions(["v1.36.3"])["pause"] == ["3.10.2"]
    assert recipes.companions(["v1.35.4"]) == {
        "etcd": ["3.6.6-0", "3.6.8-0"],
        "coredns": ["v1.13.1", "v1.14.2"],
        "pause": ["3.10.1", "3.10.2"],
    }
    with pytest.raises(ValueError, match=r"v1\.37 are not written down"):
        recipes.companions(["v1.37.0"])


def test_key_follows_content_flags_and_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "HERE", tmp_path)
    folder = tmp_path / "thing"
    folder.mkdir()
    for name, text in (("go.mod", "module x"), ("go.sum", "a"), ("main.go", "package main"), ("notes.md", "n")):
        (folder / name).write_text(text)
    recipe = recipes.Recipe("thing", "thing")
    keys = {building.key_of(recipe, GO)}
    (folder / "notes.md").write_text("other notes")
    assert building.key_of(recipe, GO) in keys
    for name in ("go.mod", "go.sum", "main.go"):
        (folder / name).write_text("changed")
        keys.add(building.key_of(recipe, GO))
    keys.add(building.key_of(recipe, "go1.27.0 linux amd64"))
    keys.add(building.key_of(replace(recipe, tags="providerless"), GO))
    keys.add(building.key_of(replace(recipe, variables={"a": "b"}), GO))
    assert len(keys) == 7


def test_built_program_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILITHON_PROGRAMS", str(tmp_path))
    recipe = recipes.others()[0]
    there = building.built(recipe, GO)
    there.write_bytes(b"program")
    said: list[str] = []
    assert building.build(recipe, said.append, GO) == there
    assert said == []


def test_missing_is_one_sentence_with_what_still_works() -> None:
    with pytest.raises(Missing, match=r"It needs: Go; root\. The simulated laboratory .* needs none of this"):
        require(["Go", "root"])
    require([])


def test_command_without_go_ends_with_its_own_status(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lab.programs", "list"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_MISSING
    assert "no `go` on PATH" in done.stderr
    assert done.stdout == ""


def test_without_go_the_newest_of_the_cache_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILITHON_PROGRAMS", str(tmp_path / "programs"))
    monkeypatch.setenv("PATH", str(tmp_path))
    recipe = next(recipe for recipe in recipes.others() if recipe.name == "etcd")
    with pytest.raises(Missing, match=r"etcd is not in .* cannot be built: it needs Go.*lab\.programs build"):
        building.obtain(recipe, pytest.fail)
    (tmp_path / "programs").mkdir()
    for age, name in ((30, "etcd-0123456789ab"), (20, "etcd-ba9876543210"), (10, "etcd-of-another-name")):
        there = tmp_path / "programs" / name
        there.write_bytes(b"program")
        os.utime(there, (1_000_000 - age, 1_000_000 - age))
    assert building.obtain(recipe, pytest.fail).name == "etcd-ba9876543210"
