"""Makes the pictures of docs/guide/pages.md again: `python -m tests.browser.pictures` in the repository."""

import tempfile
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM, QUIET, fill_sign_in, manifest_text
from tests.e2e.running import ROOT, trilithon

PICTURES = ROOT / "docs" / "guide" / "images"
SIZE = {"width": 1120, "height": 640}
UP_MS = 120_000


def main() -> None:
    """A laboratory of its own, one cluster, two charts, four pictures."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, trilithon(Path(folder)) as platform, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = browser.new_context(viewport=SIZE, timezone_id="UTC", locale="en-GB").new_page()
        page.goto(f"{platform.url}/clusters/create")
        fill_sign_in(page, "admin", "lab-admin")
        page.locator("#manifest").fill(manifest_text(platform))
        page.get_by_role("button", name="Preview").click()
        expect(page.get_by_role("region", name="Preview")).to_be_visible()
        page.get_by_role("region", name="Preview").scroll_into_view_if_needed()
        picture(page, "create")
        page.get_by_role("button", name="Create", exact=True).click()
        page.get_by_role("navigation", name="Views of edge").get_by_role("link", name="Jobs").click()
        expect(page.get_by_role("grid", name="Steps").get_by_text("clone the template")).to_be_visible(timeout=UP_MS)
        picture(page, "job")
        expect(page.locator(".heading").first).to_contain_text("Available", timeout=UP_MS)
        page.get_by_role("link", name="Summary", exact=True).click()
        picture(page, "cluster")
        platform.login()
        for name in ("cilium", "proxmox-cloud-controller-manager"):
            platform.run("chart", "pull", name, "--repository", f"{platform.lab['artifacts']}/charts")
        page.goto(f"{platform.url}/charts")
        expect(page.get_by_role("button", name="Delete cilium 1.19.6")).to_be_visible()
        picture(page, "charts")
        browser.close()


def picture(page: Page, name: str) -> None:
    page.screenshot(path=PICTURES / f"{name}.png")


if __name__ == "__main__":
    main()
