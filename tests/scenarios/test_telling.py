"""Who is told that somebody has to decide: the program's own function, and channels."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

import pytest

from indelible.core.approvals.deliveries import read_delivery
from indelible.core.sheets import SheetFilter
from indelible.errors import BadCall
from indelible.notify.channels import Channels, Message
from indelible.testing.clock import FakeClock
from tests.scenarios.policies import asking
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge, somebody_waits
from tests.waiting import PATIENCE, eventually


class Mailbox:
    """Is a channel that keeps what it was given."""

    def __init__(self, name: str = "mailbox") -> None:
        self.name = name
        self.messages: SimpleQueue[Message] = SimpleQueue()

    def send(self, message: Message) -> Mapping[str, Any]:
        self.messages.put(message)
        return {"at": "mailbox"}

    def take(self) -> Message:
        return self.messages.get(timeout=PATIENCE)


def test_the_programs_own_function_is_told_with_what_is_asked(shell: Shell) -> None:
    told: SimpleQueue[Any] = SimpleQueue()
    ledger = shell.open(on_approval_required=lambda approval, effect: told.put((approval, effect)))
    question = asked(ledger)
    approval, effect = told.get(timeout=PATIENCE)
    assert (approval.id, approval.digest) == (question.approval.id, question.approval.digest)
    assert effect.args == {"amount": 5}


def test_a_function_that_is_a_coroutine_is_told_too(shell: Shell) -> None:
    told: SimpleQueue[Any] = SimpleQueue()

    async def hook(approval: Any, effect: Any) -> None:
        await asyncio.sleep(0)
        told.put(approval.id)

    assert asked(shell.open(on_approval_required=hook)).approval.id == told.get(timeout=PATIENCE)


def test_the_function_may_decide_and_the_waiting_call_goes_on(shell: Shell) -> None:
    """A program with a person at its prompt: whoever sits there is asked, and the run waits."""
    person = shell.open()
    ledger = shell.open(on_approval_required=lambda approval, effect: approve(person, approval, by="ada"))
    assert ledger.run(charge(), Count("ran"), approval="required", wait=PATIENCE) == "ran"


def test_each_question_is_told_once_however_often_it_is_called(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox])
    for _ in range(3):
        asked(ledger)
    other = asked(ledger, run_id="order-2")
    assert mailbox.take().approval.run_id == "order-1"
    assert mailbox.take().approval.id == other.approval.id
    approve(ledger, other)
    assert mailbox.take().about == "approved"
    assert mailbox.messages.empty()


def test_how_it_ended_is_told_too(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox])
    for end in ("denied", "canceled", "approved"):
        question = asked(ledger, run_id=end)
        assert mailbox.take().about == "requested"
        if end == "approved":
            approve(ledger, question)
        elif end == "denied":
            ledger.deny(question.approval.id, by="ada", reason="no")
        else:
            ledger.cancel(question.effect.id, by="ada")
        assert mailbox.take().about == end


def test_a_function_that_raises_holds_up_no_call_and_is_called_again(shell: Shell, clock: FakeClock) -> None:
    calls: list[str] = []
    twice = threading.Event()

    def hook(approval: Any, effect: Any) -> None:
        calls.append(approval.id)
        if len(calls) == 1:
            raise RuntimeError("the pager is down")
        twice.set()

    ledger = shell.open(on_approval_required=hook, clock=clock)
    question = asked(ledger)
    eventually(lambda: calls)
    eventually(lambda: _tried_again(ledger, clock, twice))
    assert calls == [question.approval.id] * 2
    approve(ledger, question)
    assert ledger.run(charge(), Count("ran"), approval="required") == "ran"


def _tried_again(ledger: Driver, clock: FakeClock, done: threading.Event) -> bool:
    """Lets time pass for what waits to be sent again, and wakes who sends."""
    (sheet,) = ledger.engine.store.sheets(ledger.tenant, SheetFilter(kind="delivery"))
    delivery = read_delivery(sheet)
    if delivery.due_at is not None and delivery.status == "due":
        clock.advance(max(delivery.due_at - clock.now(), timedelta(0)))
        ledger.ledger._outbox.call()
    return done.wait(0.01)


def test_a_repeat_that_is_asked_about_is_told_like_any_question(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox])
    ledger.run(charge(call_id="c1", dedupe="ask"), Count())
    question = ledger.begin(charge(call_id="c2", dedupe="ask"))
    assert mailbox.take().approval.id == question.approval.id


def test_an_edit_is_told_to_those_who_were_told_of_the_question(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox], policy=asking())
    question = ledger.begin(charge()).approval
    mailbox.take()
    elsewhere = shell.open(policy=asking())
    elsewhere.edit_approval(question.id, {"amount": 4}, digest=question.digest, by="ana")
    ledger.ledger._outbox.call()
    told = mailbox.take()
    assert (told.kind, told.effect.args) == ("edited", {"amount": 4})


def test_a_rule_may_name_the_channels_it_is_told_by(shell: Shell) -> None:
    loud, quiet = Mailbox("loud"), Mailbox("quiet")
    shell.open().apply_policy(asking(notify=["loud"]), by="root")  # an agent's own policy would only add to it
    ledger = shell.open(channels=[loud, quiet])
    ledger.begin(charge())
    assert loud.take().about == "requested"
    ledger.close()
    assert quiet.messages.empty()


def test_what_a_channel_without_its_process_left_is_sent_by_the_next(shell: Shell) -> None:
    """A program that asks and ends at once has told nobody; whoever has the channel next does."""
    first = shell.open(policy=asking(notify=["mailbox"]))
    question = first.begin(charge()).approval
    first.close()
    mailbox = Mailbox()
    shell.open(channels=[mailbox])
    assert mailbox.take().approval.id == question.id


def test_arguments_reach_channels_as_they_are_recorded(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox], redact=["args.card"])
    asked(ledger, args={"card": "4111111111111111", "amount": 5})
    told = mailbox.take()
    assert "4111111111111111" not in str(told.effect.args)
    assert told.effect.args["amount"] == 5


@pytest.mark.parametrize(
    "words",
    [
        {"on_approval_required": "print"},
        {"channels": [Mailbox("one"), Mailbox("one")]},
        {"channels": [Mailbox("hook")], "on_approval_required": print},
        {"channels": [Mailbox("Two Words")]},
    ],
)
def test_channels_that_cannot_be_told_apart_or_called_are_refused(shell: Shell, words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        shell.open(**words)


def test_the_link_of_channels_reaches_them(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=Channels([mailbox], link="https://ledger.example.com"), on_approval_required=print)
    question = asked(ledger)
    assert question.approval.id in (mailbox.take().link or "")


def test_a_channel_is_told_of_a_waiting_call_while_it_waits(shell: Shell) -> None:
    mailbox = Mailbox()
    ledger = shell.open(channels=[mailbox])
    waiter = ledger.spawn("run", charge(), Count("ran"), approval="required", wait=PATIENCE)
    message = mailbox.take()
    somebody_waits(ledger)
    approve(ledger, message.approval)
    assert waiter.result(PATIENCE) == "ran"
