"""Finding things again: lists under a name, anything by its name, and a tab that says what it shows."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from indelible import ToolCall
from tests.browser.stories import Story, on_one_store


def find(page: Page, words: str, found: str) -> None:
    """Types into the box that finds anything, and opens what it found first."""
    page.keyboard.press("Control+k")
    page.keyboard.type(words)
    expect(page.get_by_role("option", selected=True)).to_contain_text(found)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


@on_one_store
def test_a_list_is_kept_under_a_name_and_anything_is_found_by_its_name(story: Story) -> None:
    for name in ("order-1", "order-2"):
        with story.ledger.start_run(name, agent="billing", intent=f"refund {name}"):
            call = ToolCall(tool="crm.lookup", args={"order": 2**53 + 1}, run_id=name)
            effect_id = story.ledger.run(call, lambda effect: effect.id, side_effect="read")
    story.ask("stripe.refund", run_id="order-3", amount=4200)
    page = story.sign_in("ana", "approver", path="runs?q=run%3Aorder-1")
    lines = page.get_by_role("table").get_by_role("link")
    expect(lines).to_have_text("order-1")
    expect(page).to_have_title("(1) Runs · Indelible")

    page.get_by_role("button", name="Views …").click()
    page.get_by_label("Name of this view").fill("the first order")
    page.get_by_role("button", name="Save it").click()
    page.goto(f"{story.home}runs")  # a view outlives the page
    expect(lines).to_have_count(3)  # that of the question as well, though nothing started it
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="the first order").click()
    expect(lines).to_have_text("order-1")
    assert page.url == f"{story.home}runs?q=run%3Aorder-1"

    find(page, "order-2", "order-2")
    expect(page).to_have_title("(1) order-2 · Runs · Indelible")
    find(page, effect_id, "crm.lookup")
    expect(page).to_have_title("(1) crm.lookup · Effects · Indelible")
    expect(page.get_by_role("region", name="Arguments")).to_contain_text(str(2**53 + 1))
    expect(page.get_by_text("It is of exactly the arguments above")).to_be_visible()
    find(page, "first order", "View: the first order")
    expect(lines).to_have_text("order-1")

    page.get_by_role("button", name="Views …").click()
    page.get_by_role("button", name="Forget the view the first order").click()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="the first order")).to_have_count(0)


def test_75_runs_that_only_name_calls_are_listed_and_can_be_looked_at(story: Story) -> None:
    for number in range(3):
        call = ToolCall(tool="stripe.refund", args={"amount": number}, run_id=f"thread-{number}")
        story.ledger.run(call, lambda effect: {"id": "re_1"})
    story.ledger.start_run("job-1", agent="billing", intent="refund order 1").complete()
    page = story.sign_in("olga", "auditor", path="runs")
    rows = page.get_by_role("table", name="Runs").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("job-1")
    expect(rows.nth(2)).to_contain_text("thread-2")
    expect(rows.nth(2)).to_contain_text("open")
    expect(rows.nth(2)).to_contain_text("unknown")
    page.get_by_role("link", name="thread-2").click()
    expect(page.get_by_role("heading", level=1, name="thread-2")).to_be_visible()
    expect(page.get_by_text("This run was never started")).to_be_visible()
    expect(page.get_by_role("button", name="Resume …")).to_have_count(0)
    expect(page.get_by_role("region", name="Timeline").get_by_text("stripe.refund").first).to_be_visible()
