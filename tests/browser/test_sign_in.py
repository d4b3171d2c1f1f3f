"""Sign-in: what is wrong is named, and a second factor is asked for."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens, fill_sign_in
from tests.browser.totp import code
from tests.e2e.running import Trilithon

RINGS = """() => {
  const field = document.activeElement;
  return [field, field.parentElement].map(one => getComputedStyle(one).outlineStyle);
}"""


def test_a_wrong_password_is_said_and_the_name_stays(opened: Opens, accessible: Callable[[Page, str], None]) -> None:
    page = opened(person=None)
    fill_sign_in(page, "dev", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("User name or password is wrong")
    expect(page.get_by_label("User name")).to_have_value("dev")
    accessible(page, "sign-in")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for label in ("User name", "Password", "Realm"):
            page.get_by_label(label).focus()
            assert page.evaluate(RINGS) == ["none", "solid"], f"one ring around {label}, {theme}"


def test_a_second_factor_is_asked_for(opened: Opens, platform: Trilithon) -> None:
    page = opened(person=None)
    fill_sign_in(page, "owner", "lab-owner")
    field = page.get_by_label("Code of your authenticator")
    expect(field).to_be_focused()
    field.fill("000000")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("alert")).to_be_visible()
    secret = next(p["totp"] for p in platform.lab["people"]["people"] if p["userid"] == "owner@pve")
    field.fill(code(secret))
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()


def test_a_realm_that_is_not_supported_is_named(opened: Opens) -> None:
    page = opened(person=None)
    page.get_by_label("Realm").select_option("sso")
    expect(page.locator("form")).to_contain_text("not supported yet")
    fill_sign_in(page, "dev", "lab-dev")
    expect(page.get_by_role("alert")).not_to_contain_text("password is wrong")


def test_an_address_survives_the_sign_in_and_sign_out_ends_it(opened: Opens) -> None:
    page = opened("/jobs?phase=running", person=None)
    fill_sign_in(page, "auditor", "lab-auditor")
    expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Running", exact=True)).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="auditor@pve").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_visible()
