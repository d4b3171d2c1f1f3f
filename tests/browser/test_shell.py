"""What stands around every page: keys, themes, zoom, stillness, and how much the first visit loads."""

from collections.abc import Callable

from playwright.sync_api import Page, Response, expect

from tests.browser.conftest import Opens
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]
BUDGET = 250 * 1024
COUNTED = ("document", "script", "stylesheet")


def test_keys_and_their_off_switch(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters")
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Clusters")
    page.keyboard.press("/")
    expect(page.get_by_label("Search clusters")).to_be_focused()
    page.keyboard.type("gj?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("Search clusters").fill("")
    page.get_by_label("Search clusters").blur()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(heading).to_have_text("Jobs")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(heading).to_have_text("Clusters")

    page.get_by_role("button", name="Keyboard help").click()
    dialog = page.get_by_role("dialog", name="Keyboard")
    expect(dialog).to_be_visible()
    accessible(page, "keyboard help")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Keyboard help")).to_be_focused()
    page.keyboard.press("?")
    dialog.get_by_role("switch").click(force=True)
    page.keyboard.press("Escape")
    page.reload()
    expect(heading).to_have_text("Clusters")
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.keyboard.press("?")
    expect(dialog).to_have_count(0)
    expect(heading).to_have_text("Clusters")


def test_a_chosen_theme_is_kept_and_there_at_once(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters", color_scheme="light")
    page.get_by_role("button", name="admin@pve").click()
    accessible(page, "menu of the person")
    page.get_by_role("menuitem", name="Dark").click()
    page.reload(wait_until="commit")
    page.locator("#root").wait_for(state="attached")
    assert page.evaluate("document.documentElement.classList.contains('pf-v6-theme-dark')")
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()


def test_at_twice_the_size_nothing_is_lost(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters", viewport={"width": 640, "height": 400})
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    accessible(page, "jobs at 200 %")


def test_who_wants_stillness_gets_it(opened: Opens) -> None:
    page = opened("/clusters", reduced_motion="reduce")
    longest = page.evaluate(
        "Math.max(...[...document.querySelectorAll('*')].map(e => parseFloat(getComputedStyle(e).transitionDuration)))"
    )
    assert longest < 0.001


def test_the_first_visit_stays_in_its_budget(opened: Opens, platform: Trilithon) -> None:
    page = opened("about:blank")
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(f"{platform.url}/clusters")
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()
    counted = [one for one in answers if one.request.resource_type in COUNTED]
    assert len(counted) >= 3
    for one in counted:
        assert one.headers.get("content-encoding") == "gzip", one.url
    assert sum(one.request.sizes()["responseBodySize"] for one in counted) <= BUDGET


def test_an_unknown_address_is_not_found(opened: Opens, accessible: Accessible) -> None:
    page = opened("/nowhere")
    expect(page.get_by_role("heading", name="This page was not found")).to_be_visible()
    accessible(page, "not found")
