"""The whole inbox by the keyboard alone: no mouse is touched in these stories."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.stories import Story


def test_an_inbox_is_read_and_decided_by_keys_alone(story: Story) -> None:
    asked = {tool: story.ask(tool, run_id=f"order-{tool}", n=1) for tool in ("first", "second", "third")}
    page = story.sign_in("ana", "approver", path="inbox")
    press = page.keyboard.press
    expect(page.get_by_role("list", name="Approvals").get_by_role("listitem")).to_have_count(3)
    press("j")
    expect(page.get_by_role("heading", name="third")).to_be_visible()
    press("j")
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    press("j")
    press("j")
    expect(page.get_by_role("heading", name="first")).to_be_visible()
    press("k")
    expect(page.get_by_role("heading", name="second")).to_be_visible()
    press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    press("a")
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    page.wait_for_timeout(600)  # a press counts only after a pause
    press("a")
    expect(page.get_by_role("button", name="Press again to approve")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("button", name="Press again to approve")).to_have_count(0)
    assert story.asked_about(asked["second"]).votes == ()
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    press("a")
    expect(page.get_by_role("button", name="Press again to approve")).to_be_enabled()
    press("a")
    expect(page.get_by_text("Approved: second may run, once.")).to_be_visible()
    page.wait_for_timeout(1500)  # no key counts for a second
    press("j")
    expect(page.get_by_role("heading", name="first")).to_be_visible()
    press("d")
    page.keyboard.type("a a d j, and these letters decide nothing")
    press("Tab")
    press("Tab")
    press("Enter")
    expect(page.get_by_text("Denied: first will not run")).to_be_visible()
    press("g")
    press("r")
    expect(page).to_have_url(f"{story.home}runs")
    press("Control+k")
    page.keyboard.type("journal")
    press("Enter")
    expect(page).to_have_url(f"{story.home}journal")
    press("g")
    press("i")
    expect(page.get_by_text("Open a request to decide it")).to_be_visible()
    statuses = {tool: story.asked_about(effect).status for tool, effect in asked.items()}
    assert statuses == {"first": "denied", "second": "approved", "third": "pending"}
