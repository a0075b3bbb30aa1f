"""The page lives where it is put and looks as it is wished: under any path, light or dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from indelible.server.requests.hardening import Hardened
from tests.browser.stories import Story, open_newest
from tests.server.serving import Served


class Proxy:
    """Shows an application under a path, and answers nothing beside it, as a proxy in front of `--root-path` does."""

    def __init__(self, app: Any, root: str) -> None:
        self._app = app
        self._root = root

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":  # the application has its own; a proxy neither starts nor ends it
            for word in ("startup", "shutdown"):
                assert (await receive())["type"] == f"lifespan.{word}"
                await send({"type": f"lifespan.{word}.complete"})
            return
        if scope["type"] == "http":
            assert scope["path"].startswith(f"{self._root}/"), f"{scope['path']} is not ours"
            scope = {**scope, "root_path": self._root}
        await self._app(scope, receive, send)


@pytest.fixture
def under(story: Story) -> Iterator[Story]:
    """The same tenant, seen under a path of another server."""
    served = Served(Hardened(Proxy(story.house.app, "/ledger")))
    story.home = served.url.replace("127.0.0.1", "localhost") + "/ledger/"
    yield story
    story.watch.close()
    served.stop()


def test_under_a_path_everything_is_asked_for_under_it(under: Story) -> None:
    asked = under.ask("stripe.refund", amount=1)
    page = under.watch.open()
    page.goto(under.link("ana", "approver"))
    expect(page.get_by_role("status")).to_contain_text("signed in by your link")
    page.get_by_role("link", name="dashboard").click()
    open_newest(page)
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Press again to approve").click()
    expect(page.get_by_text("Approved: stripe.refund may run, once.")).to_be_visible()
    assert under.asked_about(asked).status == "approved"
    for name in ("Overview", "Runs", "Effects", "Events", "Journal", "Tools and policy", "Settings"):
        page.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1, name=name)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
    page.goto(f"{under.home}runs?status=failed")
    page.get_by_role("button", name="Views …").click()
    page.get_by_label("Name of this view").fill("failed ones")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="failed ones").click()
    expect(page).to_have_url(f"{under.home}runs?status=failed")
    assert len(under.watch.asked) > 20


def ground(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_the_page_is_dark_where_the_system_is_or_where_somebody_says_so(story: Story) -> None:
    page = story.sign_in("ana", "approver", path="settings", color_scheme="light")
    theme = page.locator("html")
    expect(theme).to_have_attribute("data-theme", "light")
    light = ground(page)
    page.emulate_media(color_scheme="dark")
    expect(theme).to_have_attribute("data-theme", "dark")
    dark = ground(page)
    assert dark != light
    page.get_by_role("button", name="light").click()
    expect(theme).to_have_attribute("data-theme", "light")
    assert ground(page) == light
    page.reload()
    expect(theme).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="light")
    page.keyboard.press("Control+k")
    page.keyboard.type("theme: dark")
    page.keyboard.press("Enter")
    expect(theme).to_have_attribute("data-theme", "dark")
    assert ground(page) == dark
