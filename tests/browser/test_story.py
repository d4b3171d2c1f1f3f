"""The whole story in one browser: sign in, create, watch, take the kubeconfig, delete."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens, manifest_text
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]
UP_MS = 90_000
WITHIN = "[...document.querySelectorAll('table')].every(one => one.getBoundingClientRect().right <= innerWidth)"
VIEWS = (("Machines", "server"), ("Conditions", "ControlPlaneReady"), ("Summary", "trilithon/clusters.edge"))


def grid(page: Page, name: str):  # type: ignore[no-untyped-def]
    return page.get_by_role("grid", name=name, exact=True)


def test_the_whole_story(opened: Opens, platform: Trilithon, accessible: Accessible, tmp_path: Path) -> None:
    page = opened("/clusters", person="admin")
    accessible(page, "list")
    page.get_by_role("button", name="Create cluster").first.click()
    page.locator("#manifest").fill(manifest_text(platform))
    page.get_by_role("button", name="Preview").click()
    expect(grid(page, "Machines that would be made").locator("tbody tr")).to_have_count(1)
    accessible(page, "preview")
    page.get_by_role("button", name="Create", exact=True).click()

    expect(page.get_by_role("heading", name="edge", exact=True)).to_be_visible()
    views = page.get_by_role("navigation", name="Views of edge")
    at_work = page.get_by_role("region", name="The job that runs")
    expect(at_work).to_contain_text(re.compile(r"[1-9]\d* of \d\d steps of the plan are done"))
    expect(at_work).to_contain_text("0 of 1 machines are ready")
    expect(at_work).to_contain_text("Now:")
    accessible(page, "summary while it is made")
    views.get_by_role("link", name="Conditions").click()
    expect(grid(page, "Conditions").get_by_text("In progress").first).to_be_visible()
    expect(grid(page, "Conditions").get_by_text("worth a look")).to_have_count(0)
    expect(grid(page, "Conditions").get_by_text("Not in this release").first).to_be_visible()
    views.get_by_role("link", name="Jobs").click()
    expect(page).to_have_url(re.compile(r"/clusters/clusters/edge/jobs$"))
    expect(grid(page, "Steps").get_by_text("make the pool")).to_be_visible(timeout=20_000)
    expect(page.locator(".heading").first).to_contain_text("Available", timeout=UP_MS)
    expect(page.get_by_role("log")).to_contain_text("edge")
    accessible(page, "jobs of a cluster")
    for view, what in (
        ("Machines", "server"),
        ("Conditions", "ControlPlaneReady"),
        ("Summary", "trilithon/clusters.edge"),
    ):
        views.get_by_role("link", name=view).click()
        expect(views.get_by_role("link", name=view)).to_have_attribute("aria-current", "page")
        expect(page.get_by_role("region", name=view)).to_contain_text(what)
        assert page.evaluate(WITHIN), f"a table of {view} runs out of the page"
        accessible(page, view)
    page.go_back()
    expect(page).to_have_url(re.compile(r"/conditions$"))

    with page.expect_download() as download:
        page.get_by_role("button", name="Kubeconfig").click()
    assert download.value.suggested_filename == "edge.kubeconfig"
    kubeconfig = tmp_path / "edge.kubeconfig"
    download.value.save_as(kubeconfig)
    assert "edge-cp-" in platform.kubectl(kubeconfig, "get", "nodes", "-o", "name")

    watcher = opened("/clusters/clusters/edge/summary", person="auditor")
    expect(watcher.get_by_role("button", name="Delete")).to_have_attribute("aria-disabled", "true")
    delete = page.get_by_role("button", name="Delete", exact=True)
    delete.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 VM with 30 GiB")
    accessible(page, "delete")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(delete).to_be_focused()
    delete.click()
    confirm = dialog.get_by_role("button", name="Delete", exact=True)
    dialog.get_by_label("Type edge to confirm").fill("edg")
    expect(confirm).to_be_disabled()
    dialog.get_by_label("Type edge to confirm").fill("edge")
    confirm.click()
    for one in (page, watcher):
        expect(one.get_by_text("edge was deleted while this page was open")).to_be_visible(timeout=UP_MS)
    accessible(page, "deleted while open")
