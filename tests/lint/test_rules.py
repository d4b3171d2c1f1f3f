"""Lessons that became checks: small readings of our own source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("domain", "bootstrap", "store", "clients", "jobs", "activities", "workflows", "workers", "api", "cli")
CLOCKS = {
    "workers/main.py",
    "api/main.py",
    "cli/platform.py",
}
"""Where the process's clock is read; everywhere else the time is handed in."""


def sources(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def test_the_clock_is_read_in_one_place_per_process() -> None:
    found = {
        name
        for name, tree in sources(*PRODUCT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today") and _is_datetime(node.value)
    }
    assert found <= CLOCKS, f"take the time as an argument: {sorted(found - CLOCKS)}"


def _is_datetime(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("datetime", "date")


def test_the_store_is_queried_in_its_own_room_only() -> None:
    found = [
        name
        for name, tree in sources(*(room for room in PRODUCT if room != "store"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and "sqlalchemy" in ast.dump(node)
    ]
    assert found == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    empty = {"utils", "util", "common", "manager", "helper", "helpers", "misc"}
    found = [
        name
        for name, _ in sources(*PRODUCT, "lab", "tests")
        if set(Path(name).parts[:-1]) & empty or Path(name).stem in empty
    ]
    assert found == []


@pytest.mark.parametrize("room", [*PRODUCT, "lab"])
def test_no_file_has_grown_past_its_room(room: str) -> None:
    """400 lines is a guide; what stands above 500 has two subjects."""
    long = {name: lines for name, _ in sources(room) if (lines := len((ROOT / name).read_text().splitlines())) > 500}
    assert long == {}


def test_the_wheel_brings_no_laboratory() -> None:
    import tomllib

    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["packages"]) == set(PRODUCT)


def test_product_code_never_imports_the_laboratory() -> None:
    found = [
        name
        for name, tree in sources(*PRODUCT)
        for node in ast.walk(tree)
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("lab", "labpve", "fakepve"))
        or (
            isinstance(node, ast.Import)
            and any(a.name.split(".")[0] in ("lab", "labpve", "fakepve") for a in node.names)
        )
    ]
    assert found == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_the_guide_shows_the_set_up_lines_that_the_code_gives() -> None:
    from clients.proxmox.setup import setup_lines
    from domain.sites import Site

    site = Site(
        id="s",
        name="site",
        endpoints=("https://pve1.example.com:8006",),
        token_id="trilithon@pve!platform",
        workload_pool="trilithon",
        template_pool="trilithon-templates",
        bridges=("vmbr0",),
        storages=("shared-storage",),
        iso_storage="local",
    )
    guide = (ROOT / "docs" / "guide" / "site.md").read_text()
    assert "\n".join(setup_lines(site)) in guide


def test_links_in_the_documents_lead_somewhere() -> None:
    import re

    broken = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
