"""Pages in headless Chromium against one running Trilithon with its laboratory."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.axe import serious
from tests.browser.bridge import Bridge
from tests.e2e.running import ROOT, Trilithon, trilithon

CHROMIUM = os.environ.get("TRILITHON_CHROMIUM", "/usr/bin/chromium")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
expect.set_options(timeout=30_000)
"""A ceiling: the machine may have others' work to do."""
WATCH_CLASSES = """
(() => {
  const seen = (window.__seen = new Set());
  const look = (node) => node.classList?.forEach((name) => seen.add(name));
  new MutationObserver((changes) => {
    for (const change of changes) {
      look(change.target);
      change.addedNodes.forEach((node) => {
        look(node);
        node.querySelectorAll?.("[class]").forEach(look);
      });
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
})();
"""
"""Remembers every class that any element carries while the page lives."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trilithon]:
    """One Trilithon for all pages; the command line is signed in as the administrator."""
    with trilithon(tmp_path_factory.mktemp("trilithon")) as running:
        running.login()
        yield running


@pytest.fixture(scope="session")
def two(platform: Trilithon) -> None:
    """The clusters north and south, of one machine each; whether they are up yet does not matter here."""
    for name, digit in (("north", "7"), ("south", "8")):
        text = platform.manifest("edge-k3s.yaml").read_text().replace("name: edge", f"name: {name}")
        path = platform.folder / f"{name}.yaml"
        path.write_text(re.sub(r"\.2\.5(\d)", rf".2.{digit}\1", text))
        platform.run("apply", "-f", str(path))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield running
        running.close()


@pytest.fixture(scope="session")
def dropped() -> set[str]:
    """The classes whose styles the build took out because no page would use them."""
    return set(json.loads((ROOT / "ui" / "dist" / "dropped-classes.json").read_text()))


@pytest.fixture(scope="session")
def sessions(browser: Browser, platform: Trilithon) -> Callable[[str], dict]:
    """The stored sign-in of a person; each signs in once, through the page."""
    kept: dict[str, dict] = {}

    def of(person: str) -> dict:
        if person not in kept:
            context = browser.new_context()
            page = context.new_page()
            page.goto(f"{platform.url}/clusters")
            fill_sign_in(page, person, f"lab-{person}")
            expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()
            kept[person] = dict(context.storage_state())
            context.close()
        return kept[person]

    return of


Opens = Callable[..., Page]


@pytest.fixture
def opened(
    browser: Browser, platform: Trilithon, sessions: Callable[[str], dict], dropped: set[str]
) -> Iterator[Opens]:
    """Opens a page as a person (None: nobody); afterwards no script may have failed and no needed style be missing."""
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    faults: list[str] = []

    def open_page(path: str = "/clusters", person: str | None = "admin", base: str = "", **settings: object) -> Page:
        if person is not None:
            settings["storage_state"] = sessions(person)
        context = browser.new_context(**settings)  # type: ignore[arg-type]
        contexts.append(context)
        context.add_init_script(WATCH_CLASSES)
        page = context.new_page()
        pages.append(page)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto(path if path.startswith("about:") else f"{base or platform.url}{path}")
        return page

    yield open_page
    carried = {name for page in pages for name in page.evaluate("[...window.__seen]")}
    for context in contexts:
        context.close()
    assert not faults, faults
    assert sorted(carried & dropped) == [], "ui/build/styles.ts took out styles that a page needs"


@pytest.fixture
def bridge(platform: Trilithon) -> Iterator[Bridge]:
    """A way to the platform that a test can cut."""
    with Bridge(platform.port) as standing:
        yield standing


@pytest.fixture
def accessible() -> Callable[[Page, str], None]:
    """Fails when axe finds something serious or critical on what the page shows now."""

    def check(page: Page, what: str) -> None:
        found = serious(page)
        assert not found, f"{what}: {found}"

    return check


def fill_sign_in(page: Page, person: str, password: str) -> None:
    page.get_by_label("User name").fill(person)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def manifest_text(platform: Trilithon, example: str = "edge-k3s.yaml") -> str:
    return Path(platform.manifest(example)).read_text()
