"""The browser verifies the record itself: it says yes to what was signed, and names the row that somebody edited."""

from __future__ import annotations

from playwright.sync_api import expect

from indelible import ToolCall
from indelible.core.events import event_hash
from tests.browser.stories import Story, opened_ledger
from tests.scenarios.raw import execute


def worked(story: Story, count: int = 4) -> int:
    """Does some work and seals it; gives how many entries the journal has then."""
    for number in range(count):
        call = ToolCall(tool="note.write", args={"n": number}, run_id="order-7")
        story.ledger.run(call, lambda effect: {"n": effect.args["n"]}, side_effect="write")
    story.ledger.seal()
    head = story.ledger.tree_head()
    assert head is not None
    return head.size


def edit_a_byte(story: Story, seq: int) -> None:
    """Changes one letter in an event, in the database itself."""
    where = "WHERE tenant = ? AND run_id = 'order-7' AND seq = ?"
    ((body,),) = execute(story.house.store_url, f"SELECT body FROM indelible_events {where}", story.tenant, seq)
    edited = bytes(body).replace(b'"note.write"', b'"vote.write"')
    assert sum(one != other for one, other in zip(bytes(body), edited, strict=True)) == 1
    execute(story.house.store_url, f"UPDATE indelible_events SET body = ? {where}", edited, story.tenant, seq)


def test_a_journal_is_verified_here_and_an_edited_row_is_shown_in_red(story: Story) -> None:
    page = story.sign_in("olga", "auditor")
    size = worked(story)
    page.goto(f"{story.home}journal")
    expect(page.get_by_role("heading", name="entries of")).to_contain_text(f"All {size} entries")
    expect(page.get_by_role("banner").get_by_text(f"verified to #{size}")).to_be_visible()
    assert any("/v1/journal/tile/entries/" in url for url in story.watch.asked), "from the entries themselves"
    edit_a_byte(story, 3)
    page.get_by_role("button", name="Verify now").click()
    expect(page.get_by_role("heading", name="The record was tampered with")).to_be_visible()
    verdict = page.locator("[aria-live=polite]")
    event = story.ledger.events("order-7")[3]
    expect(verdict).to_contain_text("order-7, event 4")
    expect(verdict.locator("dt", has_text="Expected").locator("+ dd")).to_have_text(event.hash)
    expect(verdict.locator("dt", has_text="Found").locator("+ dd")).to_have_text(event_hash(event.body))
    expect(page.get_by_role("row", name="tampered with")).to_contain_text("not what was recorded")
    expect(page.get_by_role("banner").get_by_text("tampered with")).to_be_visible()


def test_66_the_journal_of_another_tenant_is_not_verified_as_ours(story: Story) -> None:
    """A server answers with what it has of another tenant: signed by the same key, and right in itself."""
    page = story.sign_in("olga", "auditor")
    worked(story)
    with opened_ledger(story.house, story.keys) as ledger:
        other = Story(story.house, ledger, story.keys, story.watch)
        theirs = other.sign_in("otto", "auditor")
        worked(other, 7)
        page.route("**/v1/journal/**", lambda route: route.fulfill(response=theirs.request.get(route.request.url)))
        page.goto(f"{story.home}journal")
        expect(page.get_by_role("heading", name="The record was tampered with")).to_be_visible()
        expect(page.locator("[aria-live=polite]")).to_contain_text("the journal of another tenant")
    page.unroute_all()
