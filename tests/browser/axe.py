"""axe-core on a page, in the theme that it shows."""

from playwright.sync_api import Page

from tests.e2e.running import ROOT

PROGRAM = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def serious(page: Page) -> list[str]:
    """What axe calls serious or critical, each with the elements it is about."""
    page.evaluate(PROGRAM.read_text())  # not a script element: the pages' content security policy refuses those
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{found['impact']} {found['id']}: {[node['html'][:120] for node in found['nodes']]}"
        for found in result["violations"]
        if found["impact"] in ("serious", "critical")
    ]
