"""The chart cache: filled from repositories and files, emptied when unused, and refusals in words that help."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens
from tests.clients.charts.test_repository import packed
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]
LIST = "**/api/v1/charts"
CLOUD = "proxmox-cloud-controller-manager"


def row(page: Page, name: str):  # type: ignore[no-untyped-def]
    return page.get_by_role("grid", name="Charts", exact=True).get_by_role("row").filter(has_text=name)


def pull(page: Page, name: str, version: str, repository: str) -> None:
    """Fills the dialog, which is open."""
    dialog = page.get_by_role("dialog", name="Pull a chart")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Version").fill(version)
    dialog.get_by_label("Repository").fill(repository)
    dialog.get_by_label("Repository").press("Control+Enter")


def test_charts_come_by_repository_and_file_and_go(
    opened: Opens, platform: Trilithon, accessible: Accessible, tmp_path: Path
) -> None:
    page = opened("/clusters")
    watcher = opened("/charts", person="stranger")
    expect(page.get_by_role("heading", level=1)).to_have_text("Clusters")
    page.keyboard.press("g")
    page.keyboard.press("h")
    expect(page.get_by_role("heading", level=1)).to_have_text("Charts")

    wanted = page.get_by_role("grid", name="Charts that this release is made for")
    wanted.get_by_role("button", name="Pull cilium").click()
    dialog = page.get_by_role("dialog", name="Pull a chart")
    expect(dialog.get_by_label("Name")).to_have_value("cilium")
    expect(dialog.get_by_role("button", name="Pull")).to_be_enabled()
    accessible(page, "pull")
    page.keyboard.press("Escape")
    expect(wanted.get_by_role("button", name="Pull cilium")).to_be_focused()

    page.get_by_role("button", name="Pull a chart").first.click()
    expect(dialog.get_by_label("Name")).to_be_focused()
    expect(dialog.get_by_role("button", name="Pull")).to_be_disabled()
    registry = f"{platform.lab['artifacts']}/charts".replace("http://", "oci://")
    pull(page, "cilium", "0.0.1", registry)
    expect(dialog.get_by_role("alert")).to_contain_text("has no cilium 0.0.1")
    expect(dialog.get_by_role("alert")).to_contain_text("trilithon chart upload")
    pull(page, "cilium", "1.19.6", registry)
    expect(dialog).to_have_count(0)
    expect(row(page, "cilium")).to_contain_text(f"{registry}/cilium:1.19.6")
    expect(page.get_by_role("status").filter(has_text="cilium 1.19.6 is kept")).to_be_visible()
    expect(wanted.get_by_role("row").filter(has_text="cilium")).to_contain_text("In the cache")

    chart, no_chart = tmp_path / "some-1.2.3.tgz", tmp_path / "notes.tgz"
    chart.write_bytes(packed())
    no_chart.write_text("hello")
    file = page.get_by_label("Chart file")
    file.set_input_files(no_chart)
    expect(page.get_by_role("alert")).to_contain_text("This is no Helm chart")
    expect(page.get_by_role("alert")).to_contain_text("helm package")
    file.set_input_files(chart)
    expect(row(page, "some")).to_contain_text("Upload")
    expect(page.get_by_role("alert")).to_have_count(0)
    accessible(page, "charts")
    expect(row(watcher, "some")).to_contain_text("1.2.3")
    expect(watcher.get_by_role("button", name="Delete some 1.2.3")).to_have_count(0)

    page.get_by_role("button", name="Delete some 1.2.3").click()
    dialog = page.get_by_role("dialog", name="Delete some 1.2.3?")
    expect(dialog).to_contain_text("somebody must bring the file")
    accessible(page, "delete a chart")
    dialog.get_by_label("Type some to confirm").fill("som")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type some to confirm").fill("some")
    page.keyboard.press("Enter")
    for one in (page, watcher):
        expect(row(one, "some")).to_have_count(0)
        expect(row(one, "cilium")).to_have_count(1)


@pytest.mark.usefixtures("two")
def test_a_chart_in_use_stays_and_says_who_uses_it(opened: Opens, platform: Trilithon, accessible: Accessible) -> None:
    platform.run("chart", "pull", CLOUD, "--repository", f"{platform.lab['artifacts']}/charts")
    page = opened(f"/charts?text={CLOUD}")
    expect(row(page, CLOUD).get_by_role("link", name="clusters/north")).to_be_visible()
    delete = page.get_by_role("button", name=f"Delete {CLOUD} 0.2.28")
    expect(delete).to_have_attribute("aria-disabled", "true")
    delete.focus()
    expect(page.get_by_role("tooltip")).to_contain_text("it can be deleted when they are gone")
    accessible(page, "chart in use")
    delete.blur()  # its tooltip lies over the link
    expect(page.get_by_role("tooltip")).to_have_count(0)
    row(page, CLOUD).get_by_role("link", name="clusters/north").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("north")

    page = opened("/charts", person="stranger")
    expect(row(page, CLOUD)).to_contain_text(re.compile(r"\d clusters that you may not see"))
    expect(page.get_by_role("button", name="Pull a chart")).to_have_attribute("aria-disabled", "true")
    page.get_by_role("button", name="Upload a chart").focus()
    expect(page.get_by_role("tooltip")).to_contain_text(re.compile(r"Your account needs the privilege \w+\.\w+ on /"))


def test_search_and_order_are_in_the_address(opened: Opens) -> None:
    listed = [
        {"name": name, "version": "1.0.0", "digest": "0" * 64, "source": "upload", "size": 9, "used": 0, "used_by": [],
         "created_at": f"2026-01-0{day}T00:00:00Z"}
        for name, day in (("apple", 2), ("banana", 1), ("cherry", 3))
    ]  # fmt: skip
    page = opened("/jobs")
    body = json.dumps({"items": listed, "total": 3, "wanted": []})
    page.route(LIST, lambda route: route.fulfill(body=body))
    page.goto(page.url.replace("/jobs", "/charts?sort=-added"))
    names = page.get_by_role("grid", name="Charts", exact=True).locator("tbody td:first-child")
    expect(names).to_have_text(["cherry", "apple", "banana"])
    page.get_by_role("button", name="Name", exact=True).click()
    expect(page).to_have_url(re.compile(r"sort=name"))
    expect(names).to_have_text(["apple", "banana", "cherry"])
    page.go_back()
    expect(names).to_have_text(["cherry", "apple", "banana"])
    page.keyboard.press("/")
    page.keyboard.type("an")
    expect(names).to_have_text(["banana"])
    expect(page).to_have_url(re.compile(r"text=an"))


def test_empty_for_four_reasons(opened: Opens, accessible: Accessible) -> None:
    """None yet, none that matches, none and no right to bring one, and unreadable."""
    missing = {"name": "cilium", "version": "1.19.6", "repository": "https://helm.cilium.io", "at_hand": False}
    one = {"name": "some", "version": "1.2.3", "digest": "0" * 64, "source": "upload", "size": 9, "used": 0,
           "used_by": [], "created_at": "2026-01-01T00:00:00Z"}  # fmt: skip
    answer = {"items": [], "total": 0, "wanted": [missing]}
    page = opened("/jobs")
    page.route(LIST, lambda route: route.fulfill(body=json.dumps(answer)))
    page.get_by_role("link", name="Charts", exact=True).click()
    expect(page.get_by_role("heading", name="No charts kept yet")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("A cluster is refused while a chart that it needs")
    expect(page.get_by_role("row").filter(has_text="cilium")).to_contain_text("Missing")
    expect(page.get_by_role("button", name="Upload a chart")).to_have_count(2)
    accessible(page, "no charts")

    answer["items"] = [one]
    page.goto(f"{page.url}?text=nothing")
    expect(page.get_by_role("heading", name="No chart matches")).to_be_visible()
    page.get_by_role("button", name="Clear the search").click()
    expect(row(page, "some")).to_be_visible()
    expect(page.get_by_label("Search charts")).to_have_value("")

    page.unroute(LIST)
    page.route(LIST, lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("heading", name="The charts cannot be read")).to_be_visible()
    page.unroute(LIST)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="The charts cannot be read")).to_have_count(0)

    answer["items"] = []
    page = opened("/jobs", person="stranger")
    page.route(LIST, lambda route: route.fulfill(body=json.dumps(answer)))
    page.get_by_role("link", name="Charts", exact=True).click()
    expect(page.get_by_role("heading", name="No charts kept yet")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text(
        "Charts are added by administrators. Your account needs the privilege"
    )
    answer["wanted"] = [missing | {"at_hand": True}]
    page.reload()
    expect(page.get_by_role("heading", name="No charts of your own, and none is needed")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("Clusters are made with the charts of the chart folder")
