"""axe-core on what a page shows, in both themes."""

from playwright.sync_api import Page

from tests.e2e.running import ROOT

PROGRAM = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"

DARK = "pf-v6-theme-dark"
SHOW = f"dark => document.documentElement.classList.toggle('{DARK}', dark)"
BY_COLOUR = ["color-contrast", "link-in-text-block"]
"""The rules whose finding depends on the theme; the others are asked once."""
RUN = f"""async ([dark, rules]) => {{
  document.documentElement.classList.toggle('{DARK}', dark);
  // colours fade from one theme to the other, and axe would measure one on its way
  await Promise.all(document.getAnimations().map(one => one.finished.catch(() => null)));
  return axe.run(document, {{ resultTypes: ['violations'], ...(rules && {{ runOnly: rules }}) }});
}}"""


def serious(page: Page) -> list[str]:
    """What axe calls serious or critical, each with the elements it is about."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(PROGRAM.read_text())  # not a script element: the pages' content security policy refuses those
    was_dark = page.evaluate(f"document.documentElement.classList.contains('{DARK}')")
    serious = []
    for dark, rules in ((was_dark, None), (not was_dark, BY_COLOUR)):
        result = page.evaluate(RUN, [dark, rules])
        serious += [
            f"{'dark' if dark else 'light'} {found['impact']} {found['id']}: {[n['html'][:99] for n in found['nodes']]}"
            for found in result["violations"]
            if found["impact"] in ("serious", "critical")
        ]
    page.evaluate(SHOW, was_dark)
    return serious
