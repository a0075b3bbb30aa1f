"""Somebody decides for somebody else for a while, takes it back before it runs, and may not any more when that ends."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.browser.stories import Story, on_one_store, open_newest
from tests.browser.test_deciding import press_twice

POLICY: dict[str, Any] = {
    "people": {"ana": {"roles": ["finance"]}, "bob": {"roles": ["support"]}},
    "rules": [
        {
            "name": "refunds",
            "match": {"tool": "stripe.refund"},
            "then": "ask",
            "approvals": {"needs": [{"role": "finance"}], "roles": ["finance"]},
        }
    ],
}


def refused(page: Page) -> None:
    """Approves what is shown, and sees that it does not count."""
    press_twice(page)
    expect(page.get_by_role("article").get_by_role("alert")).to_contain_text("bob")


@on_one_store
def test_a_delegate_decides_takes_it_back_and_may_not_any_more_when_it_ends(story: Story) -> None:
    story.ledger.apply_policy(POLICY, by="root")
    asked = story.ask("stripe.refund", amount=4200)
    bob = story.review("bob", "approver")
    refused(bob)
    ana = story.review("ana", "approver")
    ana.get_by_role("button", name="Delegate …").click()
    dialog = ana.get_by_role("dialog", name="Let somebody else decide for you")
    dialog.get_by_label("To whom?").fill("bob")
    dialog.get_by_label("For how long?").select_option("8 hours")
    dialog.get_by_role("button", name="Delegate").click()
    given = dialog.get_by_role("list", name="Your delegations")
    expect(given).to_contain_text("bob decides for you until")

    bob.reload()
    press_twice(bob)
    expect(bob.get_by_text("Approved: stripe.refund may run, once.")).to_be_visible()
    (vote,) = story.asked_about(asked).votes
    assert (vote.by, vote.on_behalf_of, story.now(asked).status) == ("bob", "ana", "ready")

    bob.goto(f"{story.home}inbox?tab=decided")
    open_newest(bob)
    expect(bob.get_by_role("article")).to_contain_text("bob on behalf of ana")
    bob.get_by_role("button", name="Take your approval back …").click()
    back = bob.get_by_role("dialog", name="Take your approval back")
    expect(back.get_by_role("button", name="Take it back")).to_be_disabled()
    back.get_by_label("Why?").fill("the customer called")
    back.get_by_role("button", name="Take it back").click()
    expect(back).to_be_hidden()
    expect(bob.get_by_role("article").locator("header").get_by_text("pending", exact=True)).to_be_visible()
    assert (story.asked_about(asked).votes, story.now(asked).status) == ((), "requires_approval")

    given.get_by_role("button", name="End it").click()
    expect(given).to_have_count(0)
    bob.goto(f"{story.home}inbox")
    open_newest(bob)
    refused(bob)
    assert story.asked_about(asked).votes == ()
    told = [event.read() for event in story.ledger.events("order-1")]
    assert [one["actor"]["id"] for one in told if one["type"] == "approval_revoked"] == ["bob"]
