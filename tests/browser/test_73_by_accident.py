"""Fault 73: no payment is approved by accident, however a key or a button is pressed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from indelible import Effect
from tests.browser.stories import Story

HELD_FOR = 5000
RATE = 33
"""Is how often a held key repeats, in milliseconds, on a usual keyboard."""


def opened(story: Story, count: int = 8) -> tuple[Page, list[Effect]]:
    """Asks about some payments and opens the newest, as a person does who is about to decide it."""
    asked = [story.ask("stripe.refund", run_id=f"order-{number}", amount=number) for number in range(count)]
    page = story.sign_in("ana", "approver")
    page.clock.install()  # it runs like any other until a test stops it
    page.goto(f"{story.home}inbox?approval={asked[-1].approval_id}")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    return page, asked


def approved(story: Story, asked: list[Effect]) -> list[int]:
    """Name the payments that were approved."""
    return [number for number, one in enumerate(asked) if story.asked_about(one).status != "pending"]


def repeated(page: Page, key: str) -> None:
    page.keyboard.down(key)  # the key is not let go of, so the browser calls every further one a repeat


def pressed_anew(page: Page, key: str) -> None:
    page.keyboard.press(key)  # as remote desktops repeat: each with a release of its own


def stop_clock(page: Page) -> None:
    """Let no time pass in the page but what a test says: a busy machine makes no pauses between its presses."""
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))


@pytest.mark.parametrize("repeat", [repeated, pressed_anew])
@pytest.mark.parametrize("key", ["a", "Enter", " "])
def test_73_a_key_held_for_five_seconds_approves_nothing(
    story: Story, key: str, repeat: Callable[[Page, str], None]
) -> None:
    page, asked = opened(story)
    if key != "a":
        page.get_by_role("button", name="Approve").focus()
    stop_clock(page)
    for _ in range(HELD_FOR // RATE):
        repeat(page, key)
        page.clock.run_for(RATE)
    page.keyboard.up(key)
    # The first press arms, so presses do come in. A space counts where it is let go of: held, that is a repeat.
    is_armed = not (key == " " and repeat is repeated)
    expect(page.get_by_role("button", name="Press again to approve")).to_have_count(int(is_armed))
    assert approved(story, asked) == []


@pytest.mark.parametrize(("pause", "expected"), [(299, []), (700, [7])])
def test_73_a_second_press_counts_after_a_pause_alone(story: Story, pause: int, expected: list[int]) -> None:
    page, asked = opened(story)
    stop_clock(page)
    page.keyboard.press("a")
    page.clock.run_for(1000)
    page.keyboard.press("x")  # means nothing, but is pressed
    page.clock.run_for(pause)
    page.keyboard.press("a")
    page.clock.resume()
    said = "Approved: stripe.refund may run, once." if expected else "Exactly what is shown above will run, once."
    expect(page.get_by_text(said)).to_be_visible()
    assert approved(story, asked) == expected


def test_73_eight_quick_presses_approve_nothing(story: Story) -> None:
    page, asked = opened(story)
    stop_clock(page)
    for _ in range(8):
        page.keyboard.press("a")
        page.clock.run_for(50)
    page.clock.run_for(1500)
    expect(page.get_by_role("button", name="Press again to approve")).to_be_visible()
    assert approved(story, asked) == []


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
    page = story.sign_in("ana", "approver")
    page.clock.install()
    page.goto(f"{story.home}inbox")
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(3)
    page.keyboard.press("a")
    expect(page.get_by_role("article")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Press again to approve")).to_be_enabled()
    stop_clock(page)
    page.keyboard.press("a")
    said = page.get_by_text("Approved: stripe.refund may run, once.")
    for _ in range(800):
        if said.is_visible():
            break
        page.clock.run_for(1)
    expect(said).to_be_visible()
    page.keyboard.press("j")  # less than a second after the decision
    page.clock.resume()
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Approvals"
    page.wait_for_timeout(1200)
    page.keyboard.press("j")
    expect(page.get_by_role("region", name="Exact arguments")).to_contain_text("amount: 1")
    assert approved(story, asked) == [2]
