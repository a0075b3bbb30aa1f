"""Ways through the page, and a tenant with something on every page of it."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import Page, expect

from indelible import Claimed, Effect, ToolCall
from tests.browser.stories import Story
from tests.server.places import ROOT

RUN = "order-200"
_INSTANT = timedelta(milliseconds=1)


def go(page: Page, path: str) -> None:
    """Leads the page to another address, as its links do: to load all of it anew would take most of the time."""
    page.evaluate("(path) => history.pushState({}, '', `/${path}`)", path)
    expect(page.get_by_role("main")).not_to_be_empty()


# Ends when no element has come or gone for a while, and nothing is being looked for.
RESTING = """() => new Promise((rest) => {
  const isBusy = () => /Looking …|Counting …|asking …|verifying/.test(document.body.innerText)
  let timer
  const begin = () => {
    clearTimeout(timer)
    timer = setTimeout(() => (isBusy() ? begin() : (watcher.disconnect(), rest())), 300)
  }
  const watcher = new MutationObserver(begin)
  watcher.observe(document.body, { childList: true, subtree: true })
  begin()
})"""


def await_rest(page: Page) -> None:
    """Waits until the page shows what it asked for."""
    page.evaluate(RESTING)


def furnish(story: Story) -> Effect:
    """Puts something on every page: calls, one of them in doubt, questions, people; gives the doubt."""
    ledger = story.ledger
    run = ledger.start_run(RUN, agent="billing", intent="refund order 200")
    refund = ToolCall(tool="stripe.refund", args={"charge": "ch_1", "amount": 4200}, run_id=RUN)
    for _ in range(2):
        ledger.run(refund, lambda effect: {"id": "re_1"}, side_effect="write")
    doubt = ledger.begin(ToolCall(tool="bank.send", args={"to": "x"}, run_id=RUN), lease=_INSTANT, on_crash="hold")
    assert isinstance(doubt, Claimed)
    while not ledger.effects(status="in_doubt"):
        ledger.reconcile()
    run.artifact("receipt.pdf", content=b"paid", metadata={"pages": 1}, step="receipt")
    for step in ("receipt", "mail"):
        run.checkpoint(state={"step": step})
    denied = story.ask("stripe.refund", run_id=RUN, charge="ch_2", amount=9)
    ledger.deny(str(denied.approval_id), reason="too little", by="ana")
    story.ask("stripe.refund", run_id=RUN, charge="ch_3", amount=7)
    story.people.invite("bob", ("approver",), by=ROOT)
    ledger.seal()
    return doubt.claim.effect
