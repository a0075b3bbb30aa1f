"""The reference in a real browser: it is searched in the page, asks nobody else, and runs under its strict policy."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.stories import on_one_store
from tests.browser.watching import Watch
from tests.server.office import House

DESCRIBED = Path(__file__).parents[2] / "openapi.json"


@on_one_store
def test_the_reference_is_searched_in_the_page(house: House, watch: Watch) -> None:
    watch.homes.append(house.url)
    page = watch.open()
    page.goto(f"{house.url}/docs")
    operations = page.locator("section.operation:visible")
    everything = sum(len(methods) for methods in json.loads(DESCRIBED.read_text())["paths"].values())
    expect(operations).to_have_count(everything)
    page.get_by_label("Search").fill("get journal/tile")
    expect(operations).to_have_count(1)
    expect(page.get_by_role("status")).to_contain_text("1 operation")
    expect(page.locator("#menu li:visible")).to_have_count(1)
    page.get_by_label("Search").fill("")
    expect(operations).to_have_count(everything)
    page.locator("#menu a").first.click()
    assert page.url.endswith("#effects_begin")
    page.locator("section.operation a[href^='problems/']").first.click()
    expect(page.get_by_role("heading", name="What to do next")).to_be_visible()
    page.get_by_role("link", name="Reference").click()
    expect(page.get_by_label("Search")).to_be_visible()
