"""Fault of our own, 53: what has not ended is the same call in each turn that asks for it, and runs once for all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import indelible
from indelible import (
    AwaitingApproval,
    Claimed,
    Failed,
    InDoubt,
    InFlight,
    Ledger,
    NothingHappened,
    Refused,
    Replayed,
    Succeeded,
    ToolCall,
)
from indelible.core.moving import moved_to
from indelible.engine.stops import Stops
from indelible.errors import ApprovalPending, EffectFailed, EffectInDoubt, StillRunning
from indelible.integrations.function_calls import FunctionCalls
from tests.journal.exported import key_of
from tests.scenarios.shells import Driver

CLASSES = ("notification", "payment", "write")


def mail(turn: str) -> ToolCall:
    return ToolCall(tool="mail", args={"to": "ada"}, run_id="r", dedupe="turn", turn=turn)


class Mails:
    """Counts what was sent."""

    def __init__(self, *problems: BaseException | None) -> None:
        self.problems = list(problems)
        self.entries = 0

    def __call__(self, effect: Any) -> int:
        self.entries += 1
        problem = self.problems.pop(0) if self.problems else None
        if problem is not None:
            raise problem
        return self.entries


def types_of(ledger: Driver) -> list[str]:
    return [event.type for event in ledger.events("r")]


def is_replayed(ledger: Driver, *turns: str, **words: Any) -> bool:
    answers = [ledger.begin(mail(turn), **words) for turn in turns]
    return all(isinstance(answer, Replayed) for answer in answers)


@pytest.mark.parametrize("side_effect", CLASSES)
def test_53_what_nothing_came_of_in_one_turn_runs_once_in_the_next(ledger: Driver, side_effect: str) -> None:
    send = Mails(NothingHappened("refused the connection"))
    with pytest.raises(NothingHappened):
        ledger.run(mail("m1"), send, side_effect=side_effect)
    assert [ledger.run(mail(turn), send, side_effect=side_effect) for turn in ("m2", "m2", "m1")] == [2, 2, 2]
    assert send.entries == 2
    assert types_of(ledger).count("tool_call_joined") == 0, "the claim itself tells of it"


@pytest.mark.parametrize("side_effect", CLASSES)
@pytest.mark.parametrize("first", ["m1", "m2"])
def test_53_what_two_turns_asked_a_person_runs_once(ledger: Driver, side_effect: str, first: str) -> None:
    words: dict[str, Any] = {"side_effect": side_effect, "approval": "required", "wait": False}
    send = Mails()
    for turn in ("m1", "m2"):
        with pytest.raises(ApprovalPending):
            ledger.run(mail(turn), send, **words)
    (question,) = ledger.approvals(status="pending")
    ledger.approve(question, digest=question.digest, by="ana")
    second = {"m1": "m2", "m2": "m1"}[first]
    assert [ledger.run(mail(turn), send, **words) for turn in (first, second, first)] == [1, 1, 1]
    assert len(ledger.approvals()) == 1


@pytest.mark.parametrize("side_effect", CLASSES)
def test_53_what_is_running_for_one_turn_is_waited_for_and_not_run_for_the_next(
    ledger: Driver, side_effect: str
) -> None:
    words = {"side_effect": side_effect}
    begun = ledger.begin(mail("m1"), **words)
    assert isinstance(begun, Claimed)
    waiting = ledger.spawn("run", mail("m2"), Mails(), **words)
    seen = ledger.begin(mail("m3"), **words)
    assert isinstance(seen, InFlight)
    with pytest.raises(StillRunning):
        ledger.run(mail("m4"), Mails(), wait=False, **words)
    ledger.commit(begun.claim, Succeeded("sent"))
    assert waiting.result(30) == "sent"
    assert is_replayed(ledger, "m1", "m2", "m3", "m4", **words)


@pytest.mark.parametrize("side_effect", CLASSES)
@pytest.mark.parametrize("outcome", [Succeeded("sent"), Failed("bounced")])
def test_53_what_is_in_doubt_is_settled_for_each_turn_that_asked(
    ledger: Driver, side_effect: str, outcome: Succeeded | Failed
) -> None:
    words = {"side_effect": side_effect, "on_crash": "hold"}
    send = Mails(TimeoutError("no answer"))
    if side_effect == "write":  # only what the handler itself says leaves a write in doubt
        send = Mails(indelible.MayHaveHappened("no answer"))
    with pytest.raises((TimeoutError, indelible.MayHaveHappened)):
        ledger.run(mail("m1"), send, **words)
    doubt = ledger.begin(mail("m2"), **words)
    assert isinstance(doubt, InDoubt)
    with pytest.raises(EffectInDoubt):
        ledger.run(mail("m2"), send, **words)
    ledger.settle(doubt.effect.id, outcome, by="ana", evidence="looked")
    for turn in ("m2", "m1"):
        if isinstance(outcome, Succeeded):
            assert ledger.run(mail(turn), send, **words) == "sent"
        else:
            with pytest.raises(EffectFailed):
                ledger.run(mail(turn), send, **words)
    assert send.entries == 1
    assert types_of(ledger).count("tool_call_joined") == 1, "each turn is noted once"


def test_53_a_call_that_very_many_turns_ask_for_runs_once_for_all_of_them(ledger: Driver) -> None:
    """Only so many turns are noted. The first ones were forgotten, and among them the one that ran it."""
    words: dict[str, Any] = {"side_effect": "notification", "on_crash": "hold"}
    send = Mails(TimeoutError("no answer"))
    with pytest.raises(TimeoutError):
        ledger.run(mail("m0"), send, **words)
    for number in range(1, 205):
        doubt = ledger.begin(mail(f"m{number}"), **words)
        assert isinstance(doubt, InDoubt)
    ledger.settle(doubt.effect.id, Succeeded("sent"), by="ana", evidence="looked")
    for turn in ("m0", "m1", "m204", "one that never asked before"):
        assert ledger.run(mail(turn), send, **words) == "sent"
    assert send.entries == 1


def test_53_a_turn_is_not_noted_where_the_tenant_was_moved_away(store_url: str) -> None:
    """What is added to the old place is lost, and its journal is not the beginning of the new one any more."""
    indelible.migrate(store_url)
    with indelible.Ledger.open(store_url, seal=False) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(mail("m1"), Mails(TimeoutError("no answer")), side_effect="payment", on_crash="hold")
        Stops(ledger._engine, ledger.tenant).leave(indelible.Actor("ben"), moved_to("postgresql://elsewhere/db"))
        before = [event.type for event in ledger.events(mail("m1").run)]
        ledger.begin(mail("m2"), side_effect="payment", on_crash="hold")
        assert [event.type for event in ledger.events(mail("m1").run)] == before


def test_53_a_probe_answers_for_the_turn_that_had_it_asked(ledger: Driver) -> None:
    send = Mails(TimeoutError("no answer"))
    words: dict[str, Any] = {"side_effect": "notification", "reconcile": lambda effect: Succeeded("was sent")}
    with pytest.raises(TimeoutError):
        ledger.run(mail("m1"), send, side_effect="notification")
    assert ledger.run(mail("m2"), send, **words) == "was sent"
    assert send.entries == 1


def test_53_the_record_of_turns_that_joined_verifies(store_url: str, tmp_path: Any) -> None:
    indelible.migrate(store_url, keys=tmp_path / "keys")
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        begun = ledger.begin(mail("m1"), side_effect="payment")
        assert isinstance(begun, Claimed)
        for turn in ("m2", '["m1"]', "[", "m2"):
            assert isinstance(ledger.begin(mail(turn), side_effect="payment"), InFlight)
        ledger.commit(begun.claim, Succeeded("paid"))
        for turn in ("m1", "m2", '["m1"]', "["):
            assert isinstance(ledger.begin(mail(turn), side_effect="payment"), Replayed)
        assert isinstance(ledger.begin(mail("m3"), side_effect="payment"), AwaitingApproval)
        assert [event.type for event in ledger.events("r")].count("tool_call_joined") == 3
        assert ledger.verify_run("r").is_valid
        ledger.export(tmp_path / "bundle")
        assert indelible.verify(tmp_path / "bundle", key=key_of(ledger), deep=True).verdict == "verified"


HOW = st.sampled_from(("ran", "nothing", "doubt", "refused", "retried"))
ACTS = st.lists(st.tuples(st.integers(1, 3), HOW), min_size=2, max_size=12)


@settings(max_examples=100)
@example(acts=[(1, "refused"), (2, "ran"), (1, "retried"), (2, "ran")])
@given(acts=ACTS)
def test_53_within_a_turn_nothing_that_succeeded_is_entered_again(acts: list[tuple[int, str]]) -> None:
    """Turns come and go in any order, and calls fail in any way: what succeeded in a turn replays in it."""
    entered: list[str] = []
    with Ledger.open(":memory:") as ledger:
        done: dict[str, int] = {}
        for number, (turn_number, how) in enumerate(acts):
            turn = f"m{turn_number}"

            def send(effect: Any, how: str = how, number: int = number) -> int:
                entered.append(how)
                if how in ("ran", "retried"):
                    return number
                if how == "refused":
                    raise Refused("the limit is reached")
                raise NothingHappened("refused") if how == "nothing" else TimeoutError("no answer")

            for failed in ledger.effects(status="failed") if how == "retried" else ():
                ledger.retry(failed, by="ana", reason="the limit was raised")
            before = len(entered)
            try:
                value = ledger.run(mail(turn), send, side_effect="notification")
            except (NothingHappened, TimeoutError, Refused, EffectFailed, EffectInDoubt):
                assert turn not in done
                for doubt in ledger.effects(status="in_doubt"):
                    if number % 2:
                        ledger.settle(doubt.id, Succeeded(number), by="ana", evidence="looked")
            else:
                assert done.setdefault(turn, value) == value
                assert len(entered) - before == (value == number and how in ("ran", "retried"))


@pytest.mark.parametrize("side_effect", ["payment", "write"])
def test_53_a_turn_keeps_its_own_effect_when_a_person_reopens_that_of_another(ledger: Driver, side_effect: str) -> None:
    """What m2 had made joined the reopened effect of m1, and was made once more."""
    send = Mails(Refused("card limit reached"))
    with pytest.raises(Refused):
        ledger.run(mail("m1"), send, side_effect=side_effect)
    assert [ledger.run(mail("m2"), send, side_effect=side_effect) for _ in range(2)] == [2, 2]
    (failed,) = ledger.effects(status="failed")
    for _ in range(2):
        ledger.retry(failed.id, by="ana", reason="the limit was raised")
        assert ledger.run(mail("m2"), send, side_effect=side_effect) == 2
        send.problems.append(Refused("card limit reached"))
        with pytest.raises(Refused):
            ledger.run(mail("m1"), send, side_effect=side_effect)
    ledger.retry(failed.id, by="ana", reason="the limit was raised")
    assert send.entries == 4
    if side_effect == "payment":
        assert isinstance(ledger.begin(mail("m3"), side_effect=side_effect), AwaitingApproval)
    assert ledger.run(mail("m1"), send, side_effect=side_effect) == 5, "as the person allowed"


def test_53_a_payment_that_a_person_reopened_is_asked_about_in_another_turn(ledger: Driver) -> None:
    """It may be made at any moment, so one of another turn is the second."""
    send = Mails(Refused("card limit reached"))
    with pytest.raises(Refused):
        ledger.run(mail("m1"), send, side_effect="payment")
    (failed,) = ledger.effects(status="failed")
    ledger.retry(failed.id, by="ana", reason="the limit was raised")
    assert isinstance(ledger.begin(mail("m2"), side_effect="payment"), AwaitingApproval)
    assert ledger.run(mail("m1"), send, side_effect="payment") == 2


def test_53_what_failed_again_for_one_turn_is_tried_in_the_next_as_if_it_was_not_reopened(
    ledger: Driver,
) -> None:
    send = Mails(Refused("card limit reached"), Refused("card limit reached"))
    for _ in range(2):
        with pytest.raises(Refused):
            ledger.run(mail("m1"), send, side_effect="payment")
        for failed in ledger.effects(status="failed") if send.entries == 1 else ():
            ledger.retry(failed.id, by="ana", reason="the limit was raised")
    assert ledger.run(mail("m3"), send, side_effect="payment", on_repeat="refuse") == 3


def test_53_function_calls_that_are_open_run_once_in_the_next_turn(store_url: str) -> None:
    indelible.migrate(store_url)
    sent: list[str] = []
    is_down = True

    def post(to: str) -> str:
        if is_down:
            raise NothingHappened("refused the connection")
        sent.append(to)
        return f"sent {len(sent)}"

    with Ledger.open(store_url) as ledger:
        calls = FunctionCalls(ledger, {"post": post}, run="r", terms={"post": {"side_effect": "notification"}})

        def answered(call_id: str, turn: str) -> Any:
            function = {"name": "post", "arguments": json.dumps({"to": "ada"})}
            return calls.answer([{"id": call_id, "type": "function", "function": function}], turn=turn)

        answered("c1", "m1")
        is_down = False
        for call_id in ("c2", "c3"):
            answered(call_id, "m2")
        assert sent == ["ada"]
        answered("c4", "m3")
        assert sent == ["ada", "ada"], "in a later turn it is meant once more"
