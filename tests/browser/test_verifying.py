"""The browser verifies the record itself: it says yes to what was signed, and names the row that somebody edited."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from indelible import Ledger, ToolCall
from indelible.core.events import event_hash
from indelible.core.journal.notes import TreeHead
from indelible.errors import Stopped
from indelible.stores import migrate
from tests.browser.stories import Story, opened_ledger
from tests.browser.watching import Watch
from tests.journal.exported import key_of
from tests.journal.test_set_back import Backup
from tests.scenarios.raw import execute
from tests.server.office import House


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
    size = worked(story, 8)
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
    page.unroute_all(behavior="ignoreErrors")  # the page goes on asking while it is left


Opened = Callable[[Ledger], Story]


@pytest.fixture
def opened(store_url: str, tmp_path: Path, watch: Watch) -> Iterator[Opened]:
    """Serves a ledger that no other story shares: its keys may be changed, and its database put back."""
    houses: list[House] = []

    def serve(ledger: Ledger) -> Story:
        houses.append(House(store_url, keys=tmp_path / "keys"))
        watch.homes.append(f"{houses[0].url}/")
        return Story(houses[0], ledger, tmp_path / "keys", watch)

    migrate(store_url)
    yield serve
    watch.close()
    for house in houses:
        house.close()


def pay(ledger: Ledger, *amounts: int) -> None:
    for amount in amounts:
        ledger.run(ToolCall(tool="charge", args={"amount": amount}, run_id="order-1"), lambda effect: 1)
    ledger.seal()


def lost_by(store_url: str, place: dict[str, Any], count: int) -> tuple[TreeHead, str]:
    """Let a backup be put back after some payments; return the head that was signed last, and the key."""
    backup = Backup(store_url)
    with Ledger.open(**place) as ledger:
        pay(ledger, 1)
    backup.make()
    with Ledger.open(**place) as ledger:
        pay(ledger, *range(2, 2 + count))
        head, vkey = ledger.tree_head(), key_of(ledger)
    backup.put_back()
    assert head is not None
    return head, vkey


def remember(page: Page, head: TreeHead, vkey: str) -> None:
    """Let a browser have seen a head when it first comes."""
    seen = {"root": b64encode(head.root).decode(), "size": head.size}
    memory = json.dumps({"seen": seen, "since": "2030-01-01T00:00:00.000Z", "vkey": vkey})
    kept = json.dumps([f"indelible.journal.{head.origin}", memory])
    page.add_init_script(f"if (!sessionStorage.came) localStorage.setItem(...{kept}); sessionStorage.came = 1")


def seen_by(page: Page) -> list[int]:
    """Return how far the browser remembers to have seen journals."""
    kept = page.evaluate("Object.entries(localStorage).filter(([name]) => name.startsWith('indelible.journal.'))")
    return [json.loads(value)["seen"]["size"] for _, value in kept]


def compare(page: Page, note: str) -> None:
    """Ask whether the journal continues a head that was kept."""
    page.get_by_role("textbox", name="The head").fill(note)
    page.get_by_role("button", name="Does the journal continue it?").click()


@pytest.mark.parametrize("grown", [0, 30])
def test_69_a_browser_that_saw_what_was_declared_lost_says_so_until_somebody_knows_of_it(
    store_url: str, tmp_path: Path, opened: Opened, grown: int
) -> None:
    place: dict[str, Any] = {"url": store_url, "keys": tmp_path / "keys", "seal": True}
    head, vkey = lost_by(store_url, place, 10)
    with Ledger.open(**place) as ledger:
        with pytest.raises(Stopped):
            pay(ledger, 100)
        ledger.continue_journal()
        pay(ledger, *range(200, 200 + grown))
        story = opened(ledger)
        page = story.sign_in("olga", "auditor")
        remember(page, head, vkey)
        page.goto(f"{story.home}journal")
        for _ in range(2):
            expect(page.get_by_role("heading", name="A loss was declared")).to_be_visible()
            expect(page.get_by_role("banner").get_by_text("a loss was declared")).to_be_visible()
            page.get_by_role("button", name="Verify now").click()
        assert seen_by(page) == [head.size]
        page.get_by_role("button", name="I know of this loss").click()
        expect(page.get_by_role("heading", name="entries of")).to_be_visible()
        new = story.sign_in("otto", "auditor", path="journal")  # who never saw the lost part is told of it as well
        for each in (page, new):
            expect(each.locator("dt", has_text="a loss was declared")).to_be_visible()
        page.get_by_text("Compare with a head that you kept elsewhere").click()
        text = head.text
        compare(page, f"{text}\n\u2014 {head.origin} AAAAAAAA\n")
        expect(page.get_by_text("declared lost at entry")).to_be_visible()


def test_69_a_second_tab_of_a_journal_that_grows_is_not_told_of_tampering(story: Story) -> None:
    first = story.sign_in("olga", "auditor")
    worked(story)
    first.goto(f"{story.home}journal")
    expect(first.get_by_role("heading", name="entries of")).to_be_visible()
    second, held = first.context.new_page(), list[Route]()
    second.route("**/.well-known/indelible-keys.json", lambda route: held.append(route), times=1)
    second.goto(f"{story.home}journal")
    while not held:  # it has asked for the newest head already
        second.wait_for_timeout(10)
    size = worked(story, 8)
    first.get_by_role("button", name="Verify now").click()
    expect(first.get_by_role("heading", name=f"All {size} entries")).to_be_visible()
    held[0].continue_()
    expect(second.get_by_role("heading", name="entries of")).to_be_visible()
    assert seen_by(second) == [size], "the tab that saw less forgets nothing"


def test_69_signed_heads_from_before_and_after_a_rotation_are_proven_to_be_continued(
    store_url: str, tmp_path: Path, opened: Opened
) -> None:
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        notes, keys = [], []
        for number in range(2):
            for amount in range(2):
                pay(ledger, 10 * number + amount)
                notes.append(str(ledger.seal()))
            keys.append(key_of(ledger))
            if number == 0:
                ledger.rotate_keys()
        pay(ledger, 100)
        head = ledger.tree_head()
        assert head is not None
        story = opened(ledger)
        for key in keys:  # one browser came before the rotation, one after it
            page = story.sign_in("olga", "auditor")
            remember(page, head, key)
            page.goto(f"{story.home}journal")
            heads = page.get_by_role("table").filter(has_text="witnesses")
            page.get_by_text("Compare with a head that you kept elsewhere").click()
            for note in notes:
                compare(page, note)
                expect(page.get_by_text("begin with exactly the")).to_contain_text(note.splitlines()[1])
            heads.get_by_role("button", name="prove", exact=True).last.click()
            expect(page.get_by_text("begin with exactly the")).to_be_visible()
            stranger = notes[0].replace("\u2014 ", "\u2014 x")
            compare(page, stranger)
            expect(page.get_by_text("This head does not count")).to_be_visible()
