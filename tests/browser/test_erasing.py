"""An administrator forgets a person: first the page says what would go, then it is gone, and the record verifies."""

from __future__ import annotations

from playwright.sync_api import expect

from indelible import Effect, ToolCall
from tests.browser.stories import Story
from tests.browser.walking import await_rest


def mailed(story: Story, customer: str) -> Effect:
    """Writes to a customer, and gives the call."""
    call = ToolCall(tool="email.send", args={"customer": customer, "text": f"Dear {customer}"}, run_id="letters")
    story.ledger.run(call, lambda effect: {"sent": customer}, subject=lambda args: args["customer"])
    return story.ledger.effects(run_id="letters")[0]


def test_a_person_is_forgotten_and_nobody_else(story: Story) -> None:
    bea, carl = mailed(story, "bea"), mailed(story, "carl")
    page = story.sign_in("root", "admin", path="settings")
    await_rest(page)  # what is read for this page moves the button
    page.get_by_role("button", name="Forget a person …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Who?").fill("bea")
    dialog.get_by_label("Why?").fill("she asked for it")
    dialog.get_by_role("button", name="Show what would go").click()
    expect(dialog.get_by_role("status")).to_contain_text("would go, of 1 run")
    assert story.now(bea).args_json is not None, "shown is not gone"
    dialog.get_by_role("button", name="for good").click()
    expect(dialog.get_by_role("status")).to_contain_text("gone")
    dialog.get_by_role("button", name="Done").click()
    assert (story.now(bea).args_json, story.now(bea).detail_json) == (None, None)
    assert story.now(carl).args == {"customer": "carl", "text": "Dear carl"}
    page.goto(f"{story.home}effects/{bea.id}")
    expect(page.get_by_text("They were erased. The record still proves that they were there.")).to_be_visible()
    story.ledger.seal()
    page.goto(f"{story.home}journal")
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_role("heading", name="are what was signed")).to_be_visible()
    told = [event.read() for event in story.ledger.events("letters")]
    assert [one["actor"]["id"] for one in told if one["type"] == "payload_erased"] == ["root"]
