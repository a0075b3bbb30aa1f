"""The reference in a real browser: it is searched in the page, asks nobody else, and runs under its strict policy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.server.places import Place, sqlite_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = sqlite_place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page; whatever it asks for and trips over is kept."""
    context = browser.new_context(viewport={"width": 1300, "height": 900})
    page = context.new_page()
    page.asked, page.troubles = [], []  # type: ignore[attr-defined]
    page.on("request", lambda request: page.asked.append(request.url))  # type: ignore[attr-defined]
    page.on("console", lambda message: page.troubles.append(message.text))  # type: ignore[attr-defined]
    page.on("pageerror", lambda error: page.troubles.append(str(error)))  # type: ignore[attr-defined]
    yield page
    context.close()


def picture(page: Page, name: str) -> None:
    folder = os.environ.get("INDELIBLE_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_the_reference_is_searched_in_the_page(place: Place, page: Page) -> None:
    page.goto(f"{place.served.url}/docs")
    everything = page.locator("section.operation:visible").count()
    assert everything == len(place.described.operations)
    page.get_by_label("Search").fill("get journal/tile")
    assert page.locator("section.operation:visible").count() == 1
    page.get_by_role("status").filter(has_text="1 operation").wait_for()
    assert page.locator("#menu li:visible").count() == 1
    picture(page, "reference-searched")
    page.get_by_label("Search").fill("")
    assert page.locator("section.operation:visible").count() == everything
    page.locator("#menu a").first.click()
    assert page.url.endswith("#effects_begin")
    picture(page, "reference")
    page.locator("section.operation a[href^='problems/']").first.click()
    page.get_by_role("heading", name="What to do next").wait_for()
    picture(page, "problem")
    page.get_by_role("link", name="Reference").click()
    page.get_by_label("Search").wait_for()
    outside = [url for url in page.asked if not url.startswith(place.served.url)]  # type: ignore[attr-defined]
    assert not outside
    assert not [text for text in page.troubles if "favicon" not in text]  # type: ignore[attr-defined]
