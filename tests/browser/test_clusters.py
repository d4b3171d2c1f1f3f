"""The list: filter, sort and page in the address, done by the server; four empty places, four reasons."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens

NOW = "2026-01-01T00:00:00Z"
NOTHING = {"items": [], "total": 0, "unfiltered_total": 0, "offset": 0, "limit": 50, "as_of": NOW}
Accessible = Callable[[Page, str], None]


def names(page: Page) -> list[str]:
    return page.get_by_role("grid", name="Clusters").locator("tbody td:first-child a").all_inner_texts()


@pytest.mark.usefixtures("two")
def test_filter_sort_and_page_are_in_the_address(opened: Opens) -> None:
    page = opened("/clusters")
    expect(page.get_by_role("link", name="north", exact=True)).to_be_visible()
    with page.expect_response(lambda answer: "text=sou" in answer.url):
        page.get_by_label("Search clusters").fill("sou")
    expect(page).to_have_url(re.compile(r"text=sou"))
    expect(page.get_by_role("link", name="north", exact=True)).to_have_count(0)
    expect(page.get_by_role("link", name="south", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_label("Search clusters")).to_have_value("sou")
    page.get_by_label("Search clusters").fill("")
    expect(page.get_by_role("link", name="north", exact=True)).to_be_visible()

    page.get_by_role("button", name="Name", exact=True).click()
    expect(page).to_have_url(re.compile(r"sort=-name"))
    first = page.get_by_role("grid", name="Clusters").locator("tbody a").first
    expect(first).to_have_text("south")
    assert names(page) == sorted(names(page), reverse=True)
    page.go_back()
    expect(page).not_to_have_url(re.compile(r"sort="))
    expect(first).not_to_have_text("south")


@pytest.mark.usefixtures("two")
def test_pages_are_cut_by_the_server(opened: Opens) -> None:
    page = opened("/clusters?text=th&perPage=1")
    expect(page.get_by_role("link", name="north", exact=True)).to_be_visible()
    assert len(names(page)) == 1
    page.get_by_role("button", name="Go to next page").click()
    expect(page).to_have_url(re.compile(r"page=2"))
    expect(page.get_by_role("link", name="south", exact=True)).to_be_visible()


@pytest.mark.usefixtures("two")
def test_none_matches(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters?text=nobody")
    expect(page.get_by_role("heading", name="No cluster matches")).to_be_visible()
    accessible(page, "filtered list")
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.get_by_role("link", name="north", exact=True)).to_be_visible()


@pytest.mark.usefixtures("two")
def test_no_right_names_the_right(opened: Opens) -> None:
    page = opened("/clusters", person="stranger")
    expect(page.get_by_role("heading", name="No clusters that you may see")).to_be_visible()
    expect(page.get_by_role("main")).to_contain_text("VM.Audit")
    expect(page.get_by_role("button", name="Create cluster")).to_have_attribute("aria-disabled", "true")


@pytest.mark.usefixtures("two")
def test_a_hidden_cluster_is_not_found_like_a_wrong_name(opened: Opens) -> None:
    page = opened("/clusters/clusters/north/summary", person="stranger")
    expect(page.get_by_role("heading", name="This cluster was not found")).to_be_visible()
    hidden = page.locator(".work").inner_text()
    page.goto(page.url.replace("north", "nowhere"))
    expect(page.get_by_role("heading", name="This cluster was not found")).to_be_visible()
    assert page.locator(".work").inner_text() == hidden


def test_none_yet_offers_to_create(opened: Opens) -> None:
    page = opened("/jobs")
    page.route("**/api/v1/clusters?*", lambda route: route.fulfill(body=json.dumps(NOTHING)))
    page.get_by_role("link", name="Clusters", exact=True).click()
    expect(page.get_by_role("heading", name="No clusters yet")).to_be_visible()
    expect(page.get_by_role("button", name="Create cluster")).to_have_count(2)


def test_the_local_administrator_is_told_how_a_site_is_added(opened: Opens, accessible: Accessible) -> None:
    page = opened("/jobs", permissions=["clipboard-read", "clipboard-write"])
    local = {"local": True, "site": None, "user": "admin@local"}
    page.route("**/api/v1/session", lambda route: route.fulfill(body=json.dumps(route.fetch().json() | local)))
    page.route("**/api/v1/clusters?*", lambda route: route.fulfill(body=json.dumps(NOTHING)))
    page.goto(page.url.replace("/jobs", "/clusters"))
    command = page.get_by_label("Command that adds a site")
    expect(command).to_contain_text("trilithon site add NAME --endpoint")
    accessible(page, "local administrator")
    page.get_by_role("button", name="Copy the command").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == command.text_content()


def test_cannot_read_is_not_nothing(opened: Opens) -> None:
    page = opened("/jobs")
    page.route("**/api/v1/clusters?*", lambda route: route.abort())
    page.get_by_role("link", name="Clusters", exact=True).click()
    expect(page.get_by_role("heading", name="The clusters cannot be read")).to_be_visible()
    page.unroute("**/api/v1/clusters?*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="The clusters cannot be read")).to_have_count(0)
