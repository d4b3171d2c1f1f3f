"""Create: what is wrong is listed at once, the draft stays, and leaving asks only when there is something to lose."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens, manifest_text
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]


def test_all_that_is_wrong_with_path_and_remedy(opened: Opens, platform: Trilithon, accessible: Accessible) -> None:
    page = opened("/clusters/create")
    text = manifest_text(platform).replace("replicas: 1", "replicas: 2").replace("prefix: 16", "prefix: 64")
    field = page.locator("#manifest")
    field.fill(text)
    field.press("Control+Enter")
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_be_focused()
    items = preview.get_by_role("listitem")
    expect(items.filter(has_text="spec.topology.controlPlane.replicas")).to_contain_text("Use 1, 3, 5 or 7")
    expect(items.filter(has_text="prefix")).to_be_visible()
    expect(page.get_by_role("button", name="Create", exact=True)).to_be_disabled()
    accessible(page, "violations")
    page.reload()
    expect(field).to_have_value(text)


def test_a_file_can_be_uploaded(opened: Opens, platform: Trilithon) -> None:
    page = opened("/clusters/create")
    page.get_by_label("Manifest file").set_input_files(platform.manifest("prod-rke2.yaml"))
    expect(page.locator("#manifest")).to_have_value(manifest_text(platform, "prod-rke2.yaml"))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("grid", name="Machines that would be made").locator("tbody tr")).to_have_count(6)


def test_cancel_asks_only_when_changed(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters/create")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()
    page.go_back()
    page.locator("#manifest").fill("kind: Cluster")
    page.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    accessible(page, "discard")
    dialog.get_by_role("button", name="Keep editing").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    expect(page.locator("#manifest")).to_have_value("kind: Cluster")
    page.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Discard", exact=True).click()
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()
    page.goto(f"{page.url}/create")
    expect(page.locator("#manifest")).to_have_value("")
