"""Looking closer at a run: what changed between two checkpoints, and a part of its time; both have an address."""

from __future__ import annotations

from playwright.sync_api import expect

from indelible import ToolCall
from tests.browser.stories import Story, on_one_store
from tests.browser.walking import await_rest


@on_one_store
def test_two_checkpoints_are_compared_and_a_part_of_the_time_is_looked_at(story: Story) -> None:
    run = story.ledger.start_run("order-1", agent="billing", intent="refund order 1")
    for step in ("look", "pay", "mail"):
        call = ToolCall(tool="crm.note", args={"step": step}, run_id="order-1")
        story.ledger.run(call, lambda effect: None, side_effect="write")
        run.checkpoint(state={"step": step, "order": {"id": 1, "done": [step]}})
    page = story.sign_in("olga", "auditor", path="runs/order-1?tab=checkpoints")
    newest = page.get_by_role("list", name="Checkpoints").get_by_role("listitem").first
    newest.get_by_role("button", name="show the state").click()
    compared = newest.get_by_role("region", name="Compared")
    expect(compared.get_by_role("status")).to_have_text("2 fields differ.")
    expect(compared.get_by_role("row", name="state.step")).to_contain_text('"pay""mail"')
    compared.get_by_role("combobox").select_option("at event 3, manual")
    expect(compared.get_by_role("row", name="state.order.done[0]")).to_contain_text('"look""mail"')
    expect(newest.get_by_role("region", name="State at event 9")).to_contain_text('done: [0: "mail"]')
    page.reload()  # what is compared with what is in the address
    expect(compared.get_by_role("row", name="state.step")).to_contain_text('"look""mail"')

    page.goto(f"{story.home}runs/order-1")
    await_rest(page)
    axis = page.get_by_title("Drag to look closer")
    whole = axis.inner_text()
    box = axis.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 5)
    page.mouse.up()
    expect(page.get_by_role("button", name="whole run")).to_be_visible()
    part = axis.inner_text()
    assert part != whole
    page.reload()
    expect(axis).to_have_text(part, use_inner_text=True)
    page.keyboard.press("0")
    expect(axis).to_have_text(whole, use_inner_text=True)
