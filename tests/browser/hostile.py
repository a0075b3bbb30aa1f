"""A tenant whose every field holds texts of the corpus: put there by the public verbs, as an agent could do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from indelible import AwaitingApproval, Claimed, Effect, Ledger, Refused, RunningEffect, Succeeded, ToolCall
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.people import People
from tests.server.places import ROOT

RUN = "hostile"
ASKS = "asks"
_INSTANT = timedelta(milliseconds=1)


def tool_of(number: int) -> str:
    """Names the tool of one text: names of tools and types of events are of plain letters, nothing else is accepted."""
    return f"tool.{number:03}"


def type_of(number: int) -> str:
    """Names the type of one text's event."""
    return f"acme.t{number:03}"


def fill(ledger: Ledger, people: People, credentials: Credentials, texts: Sequence[str]) -> Effect:
    """Fills a tenant; gives the effect that was in doubt, whose page has everything that an effect can have."""
    everything = {text: text for text in texts}
    settled = _settle(ledger, everything)
    _ask(ledger, texts, everything)
    for text in texts:
        ledger.start_run(text, agent=text, intent=text).complete(reason=text)
        people.invite(text, ("approver",), by=ROOT)
        credentials.give(text, ("agent",), by=ROOT)
    _work(ledger, texts, everything)
    _rule(ledger, texts)
    ledger.seal()
    return settled


def _work(ledger: Ledger, texts: Sequence[str], everything: dict[str, str]) -> None:
    """Does one run with a call, an event and an artifact for each text; every third call fails by it."""
    run = ledger.start_run(RUN, agent=texts[0], intent="\n".join(texts), permissions=everything)
    for number, text in enumerate(texts):
        call = ToolCall(tool=tool_of(number), args={text: text}, run_id=RUN)
        with suppress(Refused):  # it is on the record
            ledger.run(call, _failing(text) if number % 3 == 0 else _answering(text))
    told = [{"payload": {text: text}, "step": text, "actor": text} for text in texts]
    run.record_all([{"event_type": type_of(number), **one} for number, one in enumerate(told)])
    for text in texts:
        run.artifact(text, metadata={text: text})
    run.checkpoint(state=everything, suggested="\n".join(texts))


def _answering(text: str) -> Callable[[RunningEffect], Any]:
    return lambda effect: {text: text}


def _failing(text: str) -> Callable[[RunningEffect], Any]:
    def fail(effect: RunningEffect) -> None:
        raise Refused(text)

    return fail


def _ask(ledger: Ledger, texts: Sequence[str], everything: dict[str, str]) -> None:
    """Asks about a call for each text, the last of them with everything in its arguments; two thirds are denied."""
    asked = [_asked(ledger, tool_of(number), {text: text}) for number, text in enumerate(texts)]
    for number, effect in enumerate(asked):
        if number % 3:
            text = texts[number]
            ledger.deny(str(effect.approval_id), reason=text, by=text)
    _asked(ledger, tool_of(0), {**everything, "all": list(texts)})


def _asked(ledger: Ledger, tool: str, args: dict[str, Any]) -> Effect:
    begun = ledger.begin(ToolCall(tool=tool, args=args, run_id=ASKS), approval="required", side_effect="payment")
    assert isinstance(begun, AwaitingApproval)
    return begun.effect


def _settle(ledger: Ledger, everything: dict[str, str]) -> Effect:
    """Leaves a call in doubt, and settles it on somebody's word."""
    text = next(iter(everything))
    call = ToolCall(tool=tool_of(0), args={**everything, "settled": True}, run_id=ASKS)
    begun = ledger.begin(call, side_effect="payment", lease=_INSTANT, on_crash="hold")
    assert isinstance(begun, Claimed)
    while not ledger.effects(status="in_doubt"):
        ledger.reconcile()
    return ledger.settle(begun.claim.effect.id, Succeeded(everything), by=text, evidence="\n".join(everything))


def _rule(ledger: Ledger, texts: Sequence[str]) -> None:
    """Puts a policy in force that has each text as a rule's name and reason, and as a budget's name."""
    match = [{"tool": "x.y", "args": {"x": {"eq": text}}} for text in texts]
    names = [text if "{" not in text else f"rule {number}" for number, text in enumerate(texts)]
    rules = [
        {"name": name, "match": one, "then": "refuse", "why": text}
        for name, one, text in zip(names, match, texts, strict=True)
    ]
    budgets = [
        {"name": name, "match": one, "sum": "amount", "limit": 5, "window": "24h"}
        for name, one in zip(names, match, strict=True)
    ]
    ledger.apply_policy({"rules": rules, "budgets": budgets}, by=texts[0], reason="\n".join(texts))
