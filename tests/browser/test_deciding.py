"""People decide in the inbox: what they see is what runs, and what they said is what the ledger holds."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PageTimeout

from indelible import Denied, ToolCall
from tests.browser.stories import Story, on_one_store
from tests.browser.walking import await_rest

LONG = {"recipients": [f"person-{number}@example.com" for number in range(120)]}
TWO = {
    "people": {"ana": {"roles": ["finance"]}, "bob": {"roles": ["finance"]}},
    "rules": [{"name": "two look", "match": {"tool": "wire.send"}, "then": "ask", "approvals": {"quorum": 2}}],
}


def press_twice(page: Page) -> None:
    """Approves what is shown. A list that is read again between the two presses asks for the first one anew."""
    approve, again = (page.get_by_role("button", name=name) for name in ("Approve", "Press again to approve"))
    page.wait_for_timeout(600)  # a press counts only after a pause
    approve.click()
    try:
        again.click(timeout=15_000)
    except PageTimeout:
        approve.click()
        again.click()


def pause_news(page: Page) -> None:
    """Let nothing change what is shown; that somebody looked at it is the last of the news."""
    expect(page.get_by_text("Looked at by")).to_be_visible()
    page.get_by_role("button", name="live").click()
    expect(page.get_by_role("button", name="paused")).to_be_visible()
    await_rest(page)


def status_of(page: Page, word: str) -> Locator:
    return page.get_by_role("article").locator("header").get_by_text(word, exact=True)


def test_a_person_approves_with_two_presses_and_the_call_runs_once(story: Story) -> None:
    asked = story.ask("stripe.refund", amount=4200, charge="ch_1")
    page = story.review("ana", "approver")
    expect(page.get_by_role("heading", name="stripe.refund")).to_be_visible()
    expect(page.get_by_role("region", name="Exact arguments")).to_contain_text("4200")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Exactly what is shown above will run, once.")).to_be_visible()
    assert story.asked_about(asked).votes == (), "one press decides nothing"
    page.get_by_role("button", name="Press again to approve").click()
    expect(status_of(page, "approved")).to_be_visible()
    (vote,) = story.asked_about(asked).votes
    assert (vote.by, vote.via, vote.is_approval) == ("ana", "link", True)
    ran: list[Any] = []
    call = ToolCall(tool="stripe.refund", args={"amount": 4200, "charge": "ch_1"}, run_id="order-1")
    for _ in range(2):
        story.ledger.run(call, lambda effect: ran.append(effect.args), approval="required", side_effect="payment")
    assert ran == [{"amount": 4200, "charge": "ch_1"}]


@on_one_store
def test_nothing_can_be_approved_before_all_of_it_was_on_screen(story: Story) -> None:
    asked = story.ask("email.send", **LONG)
    page = story.review("ana", "approver")
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_be_disabled()
    expect(page.get_by_text("Scroll through all arguments first")).to_be_visible()
    page.keyboard.press("a")
    page.keyboard.press("a")
    assert story.asked_about(asked).votes == (), "nor by the keyboard"
    on = page.get_by_role("button", name="Show the next lines that were not on screen")
    so_far = page.locator("#before-approving")
    while on.count():
        before = so_far.inner_text()
        on.click()
        expect(so_far).not_to_have_text(before)
    press_twice(page)
    expect(status_of(page, "approved")).to_be_visible()
    assert story.asked_about(asked).status == "approved"


def test_a_person_denies_and_the_agent_is_told_why(story: Story) -> None:
    asked = story.ask("table.drop", table="users")
    page = story.review("ana", "approver")
    page.get_by_role("button", name="Deny …").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Deny", exact=True)).to_be_disabled()
    dialog.get_by_role("textbox").fill("not on a Friday")
    dialog.get_by_role("button", name="Deny", exact=True).click()
    expect(status_of(page, "denied")).to_be_visible()
    assert story.asked_about(asked).status == "denied"
    refused = story.ledger.begin(ToolCall(tool="table.drop", args={"table": "users"}, run_id="order-1"))
    assert isinstance(refused, Denied)
    assert refused.reason == "not on a Friday"


def test_two_people_are_two_and_one_person_is_never_both(story: Story) -> None:
    story.ledger.apply_policy(TWO, by="root")
    asked = story.ask("wire.send", amount=90_000)
    ana = story.review("ana", "approver")
    press_twice(ana)
    expect(ana.get_by_text("1 of 2 approved", exact=True)).to_be_visible()
    assert [vote.by for vote in story.asked_about(asked).votes] == ["ana"]
    expect(ana.get_by_text("You have approved this. Somebody else has to decide as well.")).to_be_visible()
    expect(ana.get_by_role("button", name="Approve")).to_have_count(0)
    ana.keyboard.press("a")
    ana.keyboard.press("a")
    bob = story.review("bob", "approver")
    expect(bob.get_by_text("1 of 2 approved", exact=True)).to_be_visible()
    press_twice(bob)
    expect(status_of(bob, "approved")).to_be_visible()
    expect(status_of(ana, "approved")).to_be_visible()
    assert [vote.by for vote in story.asked_about(asked).votes] == ["ana", "bob"]


def test_what_was_decided_elsewhere_is_explained_and_not_decided_again(story: Story) -> None:
    asked = story.ask("stripe.refund", amount=1)
    page = story.review("ana", "approver")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    pause_news(page)  # what she sees grows old
    story.ledger.deny(asked.id, by="bob", reason="no")
    press_twice(page)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("It was already denied by bob")
    assert [(vote.by, vote.is_approval) for vote in story.asked_about(asked).votes] == [("bob", False)]
    alert.get_by_role("link").click()
    expect(page.get_by_role("heading", name="stripe.refund")).to_be_visible()
    assert asked.id in page.url


def test_arguments_that_changed_while_somebody_read_them_are_not_approved(story: Story) -> None:
    asked = story.ask("stripe.refund", amount=1)
    page = story.review("ana", "approver")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    pause_news(page)
    page.wait_for_timeout(600)  # a press counts only after a pause
    page.get_by_role("button", name="Approve").click()
    again = page.get_by_role("button", name="Press again to approve")
    expect(again).to_be_enabled()
    before = story.asked_about(asked)
    story.ledger.edit_approval(before, {"amount": 1_000_000}, digest=before.digest, by="bob")
    again.click()
    expect(page.get_by_role("alert")).to_contain_text("The arguments were changed by bob while you read them")
    expect(page.get_by_role("region", name="Exact arguments")).to_contain_text("1000000")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    assert (story.asked_about(asked).votes, story.now(asked).attempt) == ((), 0)


@on_one_store
def test_what_somebody_reads_stays_when_another_request_comes(story: Story) -> None:
    first = story.ask("stripe.refund", amount=1)
    page = story.review("ana", "approver")
    page.get_by_role("button", name="Approve").click()
    second = story.ask("wire.send", run_id="order-2", amount=90_000)
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(2)
    expect(page.get_by_role("heading", name="stripe.refund")).to_be_visible()
    page.get_by_role("button", name="Press again to approve").click()
    expect(page.get_by_text("Approved: stripe.refund may run, once.")).to_be_visible()
    expect(status_of(page, "approved")).to_be_visible()
    expect(page.get_by_role("heading", name="wire.send")).to_have_count(0)
    assert (story.asked_about(first).status, story.asked_about(second).status) == ("approved", "pending")
