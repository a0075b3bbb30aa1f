"""People act on runs and effects: what happens elsewhere is shown as it happens, and what they do is on the record."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import Any

from playwright.sync_api import expect

from indelible import Ledger, MayHaveHappened, RunningEffect, ToolCall
from tests.browser.stories import Story

ELSEWHERE = """
import sys
from indelible import Ledger, ToolCall
url, tenant, keys = sys.argv[1:]
with Ledger.open(url, tenant=tenant, keys=keys) as ledger:
    ledger.run(ToolCall(tool="crm.lookup", args={"order": 9}, run_id="order-9"), lambda effect: "found")
    ledger.seal()
"""


def lose(effect: RunningEffect) -> None:
    raise MayHaveHappened("the line went dead")


def in_doubt(ledger: Ledger) -> Any:
    """Leaves a refund of which nobody knows whether it happened."""
    call = ToolCall(tool="stripe.refund", args={"charge": "ch_1"}, run_id="order-1")
    with suppress(MayHaveHappened):
        ledger.run(call, lose, side_effect="payment", await_inclusion=False)
    (effect,) = ledger.effects(status="in_doubt")
    return effect


def test_what_another_process_does_appears_without_a_reload(story: Story) -> None:
    story.ledger.run(ToolCall(tool="note.write", args={}, run_id="order-1"), lambda effect: None)
    story.ledger.seal()
    page = story.sign_in("olga", "auditor", path="events")
    lines = page.get_by_role("region", name="Events").get_by_role("listitem")
    expect(lines.filter(has_text="order-1").first).to_be_visible()
    loaded = page.evaluate("performance.timeOrigin")
    subprocess.run([sys.executable, "-c", ELSEWHERE, story.house.store_url, story.tenant, str(story.keys)], check=True)
    finished = lines.filter(has_text="crm.lookup").filter(has_text="tool call finished")
    expect(finished).to_contain_text("order-9")
    assert page.evaluate("performance.timeOrigin") == loaded
    shown = finished.get_by_role("button", name="Show event")
    assert f"event {index_of(story, 'order-9')}" in str(shown.get_attribute("aria-label"))


def index_of(story: Story, run_id: str) -> int:
    """Gives the place in the journal of a run's last event."""
    return story.ledger.receipt(story.ledger.events(run_id)[-1]).index


def test_a_run_that_nobody_drives_is_resumed_and_nothing_is_done_twice(story: Story) -> None:
    call = ToolCall(tool="stripe.refund", args={"charge": "ch_1"}, run_id="order-1")
    ran: list[str] = []
    with story.ledger.start_run("order-1", agent="billing", intent="refund order 1") as run:
        story.ledger.run(call, lambda effect: ran.append("refund"), side_effect="payment")
        run.checkpoint(state={"step": "mail"})
        run.hand_off("ops")
    story.ledger.seal()
    page = story.sign_in("root", "admin", path="runs/order-1")
    page.get_by_role("button", name="Resume …").click()
    dialog = page.get_by_role("dialog", name="Resume this run")
    expect(dialog.get_by_role("status")).to_contain_text("is what was sealed")
    expect(dialog).to_contain_text("Will not be repeated (1)")
    expect(dialog).to_contain_text("indelible runs resume order-1")
    dialog.get_by_role("button", name="Open it for whoever resumes").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("main").get_by_text("active", exact=True)).to_be_visible()
    assert story.ledger.get_run("order-1").status == "active"
    told = [event.read() for event in story.ledger.events("order-1")]
    assert [one["actor"]["id"] for one in told if one["type"] == "run_resumed"] == ["root"]
    with story.ledger.resume_run("order-1") as run:
        story.ledger.run(call, lambda effect: ran.append("refund"), side_effect="payment")
    assert ran == ["refund"]


def test_an_effect_in_doubt_is_settled_with_evidence(story: Story) -> None:
    effect = in_doubt(story.ledger)
    page = story.sign_in("ana", "approver", path=f"effects/{effect.id}")
    expect(page.get_by_text("the line went dead")).to_be_visible()
    page.get_by_role("button", name="Settle …").click()
    dialog = page.get_by_role("dialog", name="Settle this effect")
    done = dialog.get_by_role("button", name="Record that it was done")
    dialog.get_by_label("It was done").check()
    dialog.get_by_label("Its result").fill('{"id": "re_1"}')
    expect(done).to_be_disabled()
    dialog.get_by_label("Evidence").fill("re_1 is in the provider's list")
    done.click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("region", name="Result")).to_contain_text("re_1")
    ran: list[str] = []
    call = ToolCall(tool="stripe.refund", args={"charge": "ch_1"}, run_id="order-1")
    assert story.ledger.run(call, lambda effect: ran.append("refund"), side_effect="payment") == {"id": "re_1"}
    assert ran == []
    told = story.ledger.events("order-1")[-1].read()
    assert told["actor"] == {"id": "ana", "kind": "person", "via": "link"}
