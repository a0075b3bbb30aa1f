"""Heavy content stays usable: a megabyte of arguments is read and decided, and the page itself is small."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from indelible.core.values.canonical import encode
from tests.browser.stories import Story

MEGABYTE = 1_000_000
MOST_GZIPPED = 250_000
BUILT = Path(__file__).parents[2] / "src" / "indelible" / "server" / "page"


def deep(levels: int, filling: Any) -> Any:
    value = filling
    for level in range(levels):
        value = {f"level-{level}": value, "beside": "x" * 200}
    return value


LARGE: dict[str, dict[str, Any]] = {
    "wide": {f"field-{number:06}": number for number in range(MEGABYTE // 22)},
    "one long text": {"text": "All work and no play. " * (MEGABYTE // 22)},
    "deep": deep(60, ["y" * 100] * (MEGABYTE // 110)),
}
# Notes the longest time for which the page answered nothing.
STALLS = """
globalThis.stalls = [];
const noted = (list) => stalls.push(...list.getEntries().map((one) => one.duration));
new PerformanceObserver(noted).observe({ type: 'longtask', buffered: true });
"""
# How long a list is turns out on the way: lines are measured when they are drawn.
TO_THE_END = """async (pane) => {
  for (let frame = 0; frame < 10; frame += 1) {
    pane.scrollTop = pane.scrollHeight;
    await new Promise(requestAnimationFrame);
  }
}"""


def test_the_scripts_of_the_page_are_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes(), mtime=0)) for path in BUILT.rglob("*.js")}
    assert len(sizes) >= 3
    assert sum(sizes.values()) <= MOST_GZIPPED, sizes


def watched(story: Story, path: str) -> Page:
    """Gives the page of somebody who may approve; it notes for how long it answers nothing."""
    page = story.sign_in("ana", "approver")
    page.add_init_script(STALLS)
    page.goto(story.home + path)
    expect(page.get_by_role("region", name="Exact arguments")).to_be_visible()
    return page


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("button", name="Press again to approve").click()


@pytest.mark.parametrize(
    ("house", "kind"), [("sqlite", "wide"), ("postgres", "one long text"), ("sqlite", "deep")], indirect=["house"]
)
def test_a_megabyte_of_arguments_is_read_elsewhere_and_decided(story: Story, kind: str) -> None:
    asked = story.ask("files.write", **LARGE[kind])
    page = watched(story, f"inbox?approval={asked.approval_id}")
    region = page.get_by_role("region", name="Exact arguments")
    expect(page.get_by_text("lines are too many to scroll through?")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    region.evaluate(TO_THE_END)
    expect(region.get_by_text("}", exact=True).last).to_be_in_viewport()
    expect(page.get_by_role("button", name="Approve")).to_be_disabled()  # its middle was not on screen
    page.get_by_text("lines are too many to scroll through?").click()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save the arguments").click()
    content = saving.value.path().read_bytes()
    assert content == encode(LARGE[kind])
    page.get_by_label("SHA-256 of the file that you read").fill("0" * 8)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_text("That is not the hash of these arguments.")).to_be_visible()
    page.get_by_label("SHA-256 of the file that you read").fill(sha256(content).hexdigest())
    page.get_by_role("button", name="Compare").click()
    approve(page)
    expect(page.get_by_text("may run, once.")).to_be_visible()
    decided = story.asked_about(asked)
    assert (decided.status, [vote.by for vote in decided.votes]) == ("approved", ["ana"])
    print(f"{kind}: {len(content):,} bytes; the page stalled for {[round(one) for one in page.evaluate('stalls')]} ms")


@pytest.mark.parametrize("house", ["sqlite"], indirect=True)
def test_every_line_has_to_be_on_screen_whatever_its_length(story: Story) -> None:
    args: dict[str, Any] = {"text": "a b c " * 2000, "name: 5, amount" * 40: 7, "inner": deep(30, 1)}
    asked = story.ask("mail.send", **args)
    page = watched(story, f"inbox?approval={asked.approval_id}")
    region = page.get_by_role("region", name="Exact arguments")
    unseen = page.get_by_role("button", name="Show the next lines that were not on screen")
    while unseen.count():
        assert region.evaluate("(pane) => pane.scrollWidth <= pane.clientWidth"), "nothing lies out of sight sideways"
        expect(page.get_by_role("button", name="Approve")).to_be_disabled()
        before = str(page.locator("#before-approving").text_content())
        unseen.click()
        page.wait_for_function(
            "(before) => document.querySelector('#before-approving').textContent !== before", arg=before
        )
    approve(page)
    expect(page.get_by_text("may run, once.")).to_be_visible()
    assert story.asked_about(asked).status == "approved"
