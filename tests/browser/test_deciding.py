"""People decide in the inbox: what they see is what runs, and what they said is what the ledger holds."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.stories import Story


def test_a_person_approves_exactly_what_is_shown_with_two_presses(story: Story) -> None:
    asked = story.ask("stripe.refund", amount=4200, charge="ch_1")
    page = story.sign_in("ana", "approver", path="inbox")
    expect(page.get_by_role("heading", name="stripe.refund")).to_be_visible()
    approve = page.get_by_role("button", name="Approve")
    approve.click()
    again = page.get_by_role("button", name="Press again to approve")
    expect(again).to_be_visible()
    assert story.ledger.get_effect(asked.id).status == "requires_approval"
    again.click()
    expect(page.get_by_role("article").get_by_text("approved", exact=True)).to_be_visible()
    assert story.ledger.get_approval(asked.approval_id).status == "approved"
