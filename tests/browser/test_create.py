"""Create: what is wrong is listed at once, the draft stays, and leaving asks only when there is something to lose."""

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Opens, manifest_text
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]
SELECTED = "[document.activeElement.selectionStart, document.activeElement.selectionEnd]"


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


def test_an_example_is_there_to_start_from(opened: Opens, platform: Trilithon, accessible: Accessible) -> None:
    page = opened("/clusters/create")
    field = page.locator("#manifest")
    examples = page.get_by_role("group", name="Examples")
    listed = {"items": [{"distribution": "k3s", "version": one} for one in ("v1.9.1", "v1.10.0")], "total": 2}
    page.route("**/api/v1/sites/*/templates", lambda route: route.fulfill(body=json.dumps(listed)))
    page.reload()
    expect(examples.get_by_role("button")).to_have_text(["k3s, one server"])
    examples.get_by_role("button").click()
    expect(field).to_have_value(re.compile(r"version: v1\.10\.0\n"))
    page.unroute("**/api/v1/sites/*/templates")
    field.fill("")
    page.reload()
    examples.get_by_role("button", name="RKE2").click()
    expect(field).to_have_value(re.compile("trilithon-rke2"))
    examples.get_by_role("button", name="k3s").click()
    expect(field).to_have_value(re.compile("trilithon-k3s"))
    expect(field).to_be_focused()
    assert page.evaluate(f"document.activeElement.value.slice(...{SELECTED})") == "127.80.2.50"
    text = field.input_value()
    for line in text.splitlines():
        assert line.endswith("# change this") == ("127.80" in line or "prefix:" in line), line
    accessible(page, "example")
    field.fill(platform.moved(text).replace("name: edge", "name: example"))
    expect(examples.get_by_role("button", name="RKE2")).to_be_disabled()
    field.press("Control+Enter")
    expect(page.get_by_role("grid", name="Machines that would be made").locator("tbody tr")).to_have_count(1)


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
