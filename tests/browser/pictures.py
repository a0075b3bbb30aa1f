"""Draws the pictures of the manual from the story of `indelible serve --demo`, light and dark."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from indelible import Ledger
from indelible.cli.serve.demo import DONE, play
from tests.browser.chromium import started_browser
from tests.browser.stories import Story, open_newest
from tests.browser.watching import Watch
from tests.scenarios.raw import execute
from tests.server.office import House

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
LOOKS = {"light": "ana", "dark": "bob"}


def draw(folder: Path = FOLDER) -> None:
    """Draws all pictures anew."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="indelible-pictures-") as place, started_browser() as browser:
        url, keys = f"sqlite:///{Path(place) / 'ledger.db'}", Path(place) / "keys"
        play(Path(place), url, keys)
        house, watch = House(url, keys=keys), Watch(browser)
        with Ledger.open(url, keys=keys, seal=False) as ledger:
            story = Story(house, ledger, keys, watch)
            pages = {look: story.sign_in(LOOKS[look], "admin", color_scheme=look) for look in LOOKS}
            for name, show in SCENES.items():
                for look, page in pages.items():
                    show(story, page)
                    expect(page.get_by_role("banner").get_by_role("button", name="live")).to_be_visible()
                    expect(page.get_by_role("banner").get_by_text(RECORD[name])).to_be_visible()
                    page.screenshot(path=folder / f"{name}-{look}.png", animations="disabled", caret="hide")
        watch.close()
        house.close()


def _inbox(story: Story, page: Page) -> None:
    page.goto(f"{story.home}inbox")
    open_newest(page)
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()


def _run(story: Story, page: Page) -> None:
    page.goto(f"{story.home}runs/{DONE}")
    expect(page.get_by_role("region", name="Timeline").get_by_text("completed", exact=True)).to_be_visible()


def _overview(story: Story, page: Page) -> None:
    page.goto(f"{story.home}overview")
    expect(page.get_by_role("heading", level=1, name="Overview")).to_be_visible()
    expect(page.get_by_text("The oldest was asked")).to_be_visible()


def _verified(story: Story, page: Page) -> None:
    page.goto(f"{story.home}journal")
    expect(page.get_by_role("heading", name="are what was signed")).to_be_visible()


def _tampered(story: Story, page: Page) -> None:
    where = f"WHERE run_id = '{DONE}' AND seq = 3"
    ((body,),) = execute(story.house.store_url, f"SELECT body FROM indelible_events {where}")
    edited = bytes(body).replace(b"stripe.refund", b"stripe.reward")
    execute(story.house.store_url, f"UPDATE indelible_events SET body = ? {where}", edited)
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_role("heading", name="The record was tampered with")).to_be_visible()


RECORD = defaultdict(lambda: "verified to", {"journal-tampered": "tampered with"})
"""Is what the page has to say of the record before its picture is taken."""
SCENES: dict[str, Callable[[Story, Page], None]] = {
    "inbox": _inbox,
    "run": _run,
    "overview": _overview,
    "journal-verified": _verified,
    "journal-tampered": _tampered,
}
