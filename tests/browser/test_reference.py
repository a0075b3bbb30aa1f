"""The reference in a real browser: it is searched in the page, asks nobody else, and runs under its strict policy."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.watching import Watch
from tests.server.office import House
from tests.server.places import described


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)  # the reference asks no store
def test_the_reference_is_searched_in_the_page(house: House, watch: Watch) -> None:
    watch.homes.append(house.url)
    page = watch.open()
    page.goto(f"{house.url}/docs")
    operations = page.locator("section.operation:visible")
    everything = len(described(house.app).operations)
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
