"""Everybody can use the page: axe finds nothing on any part of it, it fits where letters are large, and nothing moves.

axe is what `dashboard/package-lock.json` pins; it comes with `./run page`. Without it these tests are skipped, unless
INDELIBLE_BROWSER=required, as in CI.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from indelible import Effect
from tests.browser.stories import Story, open_newest
from tests.browser.walking import RUN, await_rest, furnish, go

AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("inbox", "overview", "runs", "effects", "events", "journal", "tools", "settings")
TABS = ("timeline", "effects", "events", "artifacts", "approvals", "packet", "integrity")
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Gives what is wrong, each with the element that shows it.
JUDGE = """async (options) => (await axe.run(document, { ...options, resultTypes: ['violations'] })).violations
  .flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 160)} ${node.failureSummary}`))"""
DIALOGS = {
    "inbox": ("Deny …", "Delegate …"),
    "runs": ("Views …",),
    f"runs/{RUN}": ("Resume …", "Fork …", "Cancel …", "Evidence …"),
    "tools": ("Write one …",),
    "settings": ("Stop all effects …", "Invite …"),
}

pytestmark = pytest.mark.parametrize("house", ["sqlite"], indirect=True)  # nothing of it depends on the store


@pytest.fixture
def judged(story: Story) -> Page:
    """A signed-in page that axe can judge."""
    if not AXE.exists():
        missed = pytest.fail if os.environ.get("INDELIBLE_BROWSER") == "required" else pytest.skip
        missed("axe is not there; it comes with the dashboard's packages, by: ./run page")
    page = story.sign_in("root", "admin", path="settings", reduced_motion="reduce")
    expect(page.get_by_role("heading", name="People")).to_be_visible()
    page.evaluate(AXE.read_text(encoding="utf-8"))
    return page


def flaws(page: Page) -> list[str]:
    """Lists what axe finds on the page as it is: everything in the light, and in the dark what colours can spoil."""
    await_rest(page)
    page.emulate_media(color_scheme="light")
    found: list[str] = page.evaluate(JUDGE, {"runOnly": {"type": "tag", "values": TAGS}})
    page.emulate_media(color_scheme="dark")
    found += page.evaluate(JUDGE, {"runOnly": {"type": "rule", "values": ["color-contrast"]}})
    return [f"{page.url}: {one}" for one in found]


def places(story: Story, doubt: Effect) -> list[str]:
    """Lists all parts of the page; of the checkpoints one is open, beside another."""
    saved = f"runs/{RUN}?tab=checkpoints&saved={story.ledger.checkpoints(RUN)[0].id}"
    return [*PAGES, "inbox?tab=all", *(f"runs/{RUN}?tab={tab}" for tab in TABS), saved, f"effects/{doubt.id}"]


def test_axe_finds_nothing_on_any_page_light_or_dark(story: Story, judged: Page) -> None:
    found = []
    for path in places(story, furnish(story)):
        go(judged, path)
        expect(judged.get_by_role("heading", level=1)).to_be_visible()
        found += flaws(judged)
    assert found == []


def test_axe_finds_nothing_where_there_is_nothing_yet(judged: Page) -> None:
    found = []
    for path in (*PAGES, "runs/unknown", "effects/unknown", "nowhere"):
        go(judged, path)
        expect(judged.get_by_role("heading", level=1).or_(judged.get_by_role("alert")).first).to_be_visible()
        found += flaws(judged)
    assert found == []


def test_axe_finds_nothing_in_dialogs(story: Story, judged: Page) -> None:
    furnish(story)
    found = []
    for path, names in DIALOGS.items():
        go(judged, path)
        if path == "inbox":
            open_newest(judged)
        for name in names:
            judged.get_by_role("button", name=name).first.click()
            expect(judged.get_by_role("dialog")).to_be_visible()
            found += flaws(judged)
            judged.keyboard.press("Escape")
            expect(judged.get_by_role("dialog")).to_have_count(0)
    for key in ("Control+k", "?"):
        judged.keyboard.press(key)
        expect(judged.get_by_role("dialog")).to_be_visible()
        found += flaws(judged)
        judged.keyboard.press("Escape")
    assert found == []


WIDER = """() => [...document.querySelectorAll('html, body, main, dialog')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1)
  .map((one) => `${one.tagName} ${one.scrollWidth} > ${one.clientWidth}: ` + [...one.querySelectorAll('*')]
    .filter((part) => part.getBoundingClientRect().right > one.getBoundingClientRect().right + 1)
    .slice(0, 3).map((part) => part.outerHTML.slice(0, 120)))"""


def test_the_page_fits_into_320_pixels_and_nothing_moves(story: Story) -> None:
    doubt = furnish(story)
    narrow = {"width": 320, "height": 256}  # 1280 × 1024 at 400 %
    page = story.sign_in("root", "admin", path="inbox", viewport=narrow, reduced_motion="reduce")
    wide = []
    for path in places(story, doubt):
        go(page, path)
        expect(page.get_by_role("heading", level=1)).to_be_attached()
        await_rest(page)
        wide += [f"{path}: {one}" for one in page.evaluate(WIDER)]
        assert page.evaluate("document.getAnimations().length") == 0
    for path, names in DIALOGS.items():
        go(page, path)
        if path == "inbox":
            open_newest(page)
        for name in names:
            page.get_by_role("button", name=name).first.click()
            wide += [f"{path} {name}: {one}" for one in page.evaluate(WIDER)]
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    assert wide == []
