"""A job's page: its log by line, the stream that comes back, and the two words said to a parked job."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.bridge import Bridge
from tests.browser.conftest import Opens
from tests.e2e.running import Trilithon

Accessible = Callable[[Page, str], None]
STEPS_MS = 60_000


def newest(page: Page) -> None:
    """From the list to the page of the newest job."""
    page.get_by_role("grid", name="Jobs").get_by_role("link").first.click()
    expect(page.get_by_role("log")).to_be_visible()


def numbers(page: Page) -> list[int]:
    ids = page.locator("[id^='line-']").evaluate_all("lines => lines.map(line => line.id)")
    return [int(one.removeprefix("line-")) for one in ids]


@pytest.mark.usefixtures("two")
def test_list_drawer_and_log_line(opened: Opens, accessible: Accessible) -> None:
    page = opened("/clusters")
    drawer, tasks = page.get_by_role("grid", name="Newest jobs"), page.get_by_role("button", name="Tasks")
    expect(drawer.get_by_role("link").first).to_have_text("Create cluster")
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(tasks).to_have_attribute("aria-expanded", "false")
    tasks.click()
    accessible(page, "jobs")
    page.reload()
    expect(drawer).to_be_visible()
    tasks.click()
    page.get_by_role("link", name="Clusters", exact=True).click()
    expect(drawer).to_be_visible()
    page.get_by_role("link", name="Jobs", exact=True).click()
    newest(page)
    expect(page.locator("#line-2")).to_be_visible(timeout=STEPS_MS)
    page.locator("#line-2 a").click()
    expect(page).to_have_url(re.compile(r"#line-2$"))
    page.reload()
    expect(page.locator("#line-2")).to_have_class(re.compile("pointed"))
    expect(page.locator("#line-2")).to_be_in_viewport()
    accessible(page, "job")
    steps, log = page.get_by_role("region", name="Steps of the job"), page.get_by_role("log")
    for width, beside in ((1600, True), (1280, True), (900, False)):
        page.set_viewport_size({"width": width, "height": 800})
        left, right = steps.bounding_box(), log.bounding_box()
        assert left is not None
        assert right is not None
        assert (right["x"] >= left["x"] + left["width"]) is beside, width
        assert right["y"] < 740, f"the log begins out of sight at {width}"


@pytest.mark.usefixtures("two")
def test_a_cut_stream_says_so_and_goes_on_without_gap_or_double(
    opened: Opens, bridge: Bridge, platform: Trilithon
) -> None:
    text = platform.manifest("edge-k3s.yaml").read_text().replace("name: edge", "name: west")
    path = platform.folder / "west.yaml"
    path.write_text(re.sub(r"\.2\.5(\d)", r".2.9\1", text))
    platform.run("apply", "-f", str(path))
    page = opened("/clusters/clusters/west/jobs", base=bridge.url)
    expect(page.locator("#line-3")).to_be_visible(timeout=STEPS_MS)
    bridge.cut()
    before = max(numbers(page))
    expect(page.get_by_text("Reconnecting… the job goes on")).to_be_visible(timeout=20_000)
    platform.run("wait", "cluster/west", "--for=condition=Available", "--timeout=2m")
    bridge.mend()
    expect(page.get_by_text("Reconnecting")).to_have_count(0, timeout=15_000)
    expect(page.locator(".heading").first).to_contain_text("Available", timeout=15_000)
    expect(page.locator(f"#line-{before + 3}")).to_be_attached(timeout=15_000)
    seen = numbers(page)
    assert seen == list(range(1, len(seen) + 1))


@pytest.mark.usefixtures("two")
def test_a_parked_job_takes_a_decision(opened: Opens, platform: Trilithon, accessible: Accessible) -> None:
    job = json.loads(platform.run("get", "jobs", "-o", "json").stdout)["items"][0]
    page = opened("/jobs")
    said: list[str] = []

    def parked(route: Route) -> None:
        answer = route.fetch().json() | {
            "phase": "awaiting-decision",
            "error": "VM 134 was not cloned: storage fast has 12 GiB free and the disk needs 40 GiB.",
            "ended_at": None,
            "decisions": ["retry", "abort"],
            "may_decide": {"allowed": True, "missing": None, "reason": ""},
        }
        route.fulfill(body=json.dumps(answer))

    def decided(route: Route) -> None:
        said.append(f"{route.request.method} {route.request.url.rsplit('/', 1)[-1]}")
        route.fulfill(status=202, body=json.dumps({"job": job["id"], "decision": "retry"}))

    page.route(f"**/api/v1/jobs/{job['id']}", parked)
    page.route(f"**/api/v1/jobs/{job['id']}/events*", lambda route: route.abort())
    page.route(re.compile(r"/(retry|abort)$"), decided)
    page.goto(f"{platform.url}/jobs/{job['id']}")
    expect(page.get_by_text("Try again goes on at this step")).to_be_visible()
    accessible(page, "parked job")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("button", name="Try again")).to_be_enabled()
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_role("button", name="Abort")).to_be_enabled()
    assert said == ["POST retry", "POST abort"]
