"""Fault 73: no payment is approved by accident, however a key or a button is pressed."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from indelible import Effect
from tests.browser.stories import Story

HELD_FOR = 5.0
RATE = 0.033
"""Is how often a held key repeats, in seconds, on a usual keyboard."""


def opened(story: Story, count: int = 8) -> tuple[Page, list[Effect]]:
    """Asks about some payments and opens the newest, as a person does who is about to decide it."""
    asked = [story.ask("stripe.refund", run_id=f"order-{number}", amount=number) for number in range(count)]
    page = story.sign_in("ana", "approver", path=f"inbox?approval={asked[-1].approval_id}")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    return page, asked


def approved(story: Story, asked: list[Effect]) -> list[int]:
    """Name the payments that were approved."""
    return [number for number, one in enumerate(asked) if story.asked_about(one).status != "pending"]


def repeated(page: Page, key: str) -> None:
    page.keyboard.down(key)  # the key is not let go of, so the browser calls every further one a repeat


def pressed_anew(page: Page, key: str) -> None:
    page.keyboard.press(key)  # as remote desktops repeat: each with a release of its own


@pytest.mark.parametrize("repeat", [repeated, pressed_anew])
@pytest.mark.parametrize("key", ["a", "Enter", " "])
def test_73_a_key_held_for_five_seconds_approves_nothing(
    story: Story, key: str, repeat: Callable[[Page, str], None]
) -> None:
    page, asked = opened(story)
    if key != "a":
        page.get_by_role("button", name="Approve").focus()
    page.evaluate("() => { globalThis.times = []; addEventListener('keydown', (e) => times.push(e.timeStamp), true) }")
    until = time.monotonic() + HELD_FOR
    while time.monotonic() < until:
        repeat(page, key)
        page.wait_for_timeout(RATE * 1000)
    page.keyboard.up(key)
    pauses = page.evaluate("times.slice(1).map((time, index) => time - times[index])")
    # On a machine that is too busy to press like a held key, separate presses with pauses are a person's own.
    is_held = repeat is repeated or max(pauses) < 300
    assert set(approved(story, asked)) <= (set() if is_held else {7})


def test_73_eight_quick_presses_approve_at_most_the_payment_that_was_opened(story: Story) -> None:
    page, asked = opened(story)
    for _ in range(8):
        page.keyboard.press("a")
    page.wait_for_timeout(1500)
    assert set(approved(story, asked)) <= {7}


def test_73_eight_slow_presses_approve_the_payment_that_was_opened_and_no_other(story: Story) -> None:
    page, asked = opened(story)
    for _ in range(8):
        page.keyboard.press("a")
        page.wait_for_timeout(700)
    expect(page.get_by_text("Approved: stripe.refund may run, once.")).to_be_visible()
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(7)
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert approved(story, asked) == [7]


def test_73_a_double_click_does_not_confirm(story: Story) -> None:
    page, asked = opened(story)
    for _ in range(3):
        page.get_by_role("button", name="Approve").dblclick()
        expect(page.get_by_role("button", name="Press again to approve")).to_be_visible()
        page.keyboard.press("Escape")
    assert approved(story, asked) == []


def test_73_nothing_is_opened_by_itself_and_for_a_second_no_key_counts(story: Story) -> None:
    asked = [story.ask("stripe.refund", run_id=f"order-{number}", amount=number) for number in range(3)]
    page = story.sign_in("ana", "approver", path="inbox")
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(3)
    page.keyboard.press("a")
    expect(page.get_by_role("article")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Press again to approve")).to_be_enabled()
    page.keyboard.press("a")
    expect(page.get_by_text("Approved: stripe.refund may run, once.")).to_be_visible()
    page.keyboard.press("j")  # less than a second after the decision
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Approvals"
    page.wait_for_timeout(1200)
    page.keyboard.press("j")
    expect(page.get_by_role("region", name="Exact arguments")).to_contain_text("amount: 1")
    assert approved(story, asked) == [2]
