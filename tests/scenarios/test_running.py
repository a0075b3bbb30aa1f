"""A call runs once; whoever asks again gets what was recorded."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from indelible import (
    AwaitingApproval,
    Canceled,
    Claimed,
    Denied,
    Failed,
    InDoubt,
    InFlight,
    MayHaveHappened,
    Replayed,
    ReplayedFailure,
    RunningEffect,
    Succeeded,
)
from indelible.errors import BadCall, EffectFailed, LeaseLost, NotRecordable, ResultNotRecorded, TooLarge
from tests.scenarios.shells import Count, Driver, Shell, charge, types_of


def test_a_call_runs_once_and_is_replayed_ever_after(ledger: Driver, shell: Shell) -> None:
    handler = Count({"id": "ch_1"})
    assert ledger.run(charge(), handler) == {"id": "ch_1"}
    assert ledger.run(charge(), handler) == {"id": "ch_1"}
    assert shell.open().run(charge(), handler) == {"id": "ch_1"}, "another ledger on the same store knows it too"
    assert handler.entries == 1
    assert types_of(ledger) == ["tool_call_started", "tool_call_finished"]


def test_the_handler_gets_the_recorded_arguments_and_its_key_and_fence(ledger: Driver) -> None:
    seen: list[RunningEffect] = []

    def handler(effect: RunningEffect) -> None:
        seen.append(effect)

    ledger.run(charge(args={"amount": 5, "to": ("a", "b")}), handler)
    (effect,) = seen
    recorded = ledger.get_effect(effect.id)
    assert effect.args == {"amount": 5, "to": ["a", "b"]} == recorded.args
    assert (effect.key, effect.digest, effect.tool) == (recorded.key, recorded.digest, "charge")
    assert (effect.attempt, effect.fence, effect.run_id, effect.tenant) == (1, 1, "order-1", ledger.tenant)
    assert effect.effect.id == effect.id


@pytest.mark.parametrize("value", [None, 0, False, "", [], {}, 0.0])
def test_a_falsy_result_is_replayed_as_it_is(ledger: Driver, value: Any) -> None:
    handler = Count(value)
    first, second = ledger.run(charge(), handler), ledger.run(charge(), handler)
    assert first == second == value
    assert type(first) is type(second)
    assert handler.entries == 1


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, 3)),
        {"b": 1, "a": 2},
        Decimal("1.10"),
        datetime(2030, 1, 2, tzinfo=UTC),
        date(2030, 1, 2),
        UUID(int=7),
        b"\x00\xff",
        2**80,
        "nul \0 and 🎁",
        1.0,
    ],
)
def test_the_first_answer_has_the_form_of_every_later_one(ledger: Driver, value: Any) -> None:
    first, second = ledger.run(charge(), Count(value)), ledger.run(charge(), Count(value))
    assert repr(first) == repr(second)
    assert first == second
    if isinstance(value, dict):
        assert list(first) == list(second)


def test_a_result_cannot_be_changed_through_what_a_caller_got(ledger: Driver) -> None:
    first = ledger.run(charge(), Count({"items": [1]}))
    first["items"].append(2)
    again = ledger.run(charge(), Count())
    again["items"].append(3)
    assert ledger.run(charge(), Count()) == {"items": [1]}


def test_a_failure_is_raised_as_itself_once_and_as_a_recorded_one_after(ledger: Driver) -> None:
    handler = Count(KeyError("no such card"))
    with pytest.raises(KeyError, match="no such card"):
        ledger.run(charge(), handler, failed_on=KeyError)
    with pytest.raises(EffectFailed, match="no such card") as failure:
        ledger.run(charge(), handler)
    assert failure.value.error_type == "KeyError"
    assert failure.value.effect.status == "failed"
    assert handler.entries == 1


def test_other_arguments_are_another_call(ledger: Driver) -> None:
    handler = Count()
    for amount in (5, 6, 5):
        ledger.run(charge(args={"amount": amount}), handler)
    assert handler.entries == 2


def test_arguments_that_cannot_be_recorded_are_refused_before_anything_happens(ledger: Driver) -> None:
    handler = Count()
    with pytest.raises(NotRecordable, match=r"args\.card"):
        ledger.run(charge(args={"card": object()}), handler)
    assert handler.entries == 0
    assert ledger.effects() == []


def test_arguments_over_the_limit_are_refused_before_anything_happens(shell: Shell) -> None:
    ledger, handler = shell.open(max_args_bytes=100), Count()
    with pytest.raises(TooLarge) as refusal:
        ledger.run(charge(args={"text": "x" * 100}), handler)
    assert refusal.value.limit == 100
    assert handler.entries == 0
    ledger.run(charge(args={"text": "x" * 80}), handler)
    assert handler.entries == 1


def test_arguments_and_results_of_a_mebibyte_are_kept_whole(ledger: Driver) -> None:
    text = "ä" * 500_000
    assert ledger.run(charge(args={"text": text}), lambda effect: effect.args["text"]) == text
    assert ledger.effects()[0].args == {"text": text}
    with pytest.raises(TooLarge):
        ledger.run(charge(args={"text": text + text}), Count())


def test_arguments_nested_too_deeply_are_refused(ledger: Driver) -> None:
    nested: Any = []
    for _ in range(70):
        nested = [nested]
    with pytest.raises(TooLarge, match="64"):
        ledger.run(charge(args={"nested": nested}), Count())


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), "\ud800"])
def test_a_result_that_cannot_be_recorded_leaves_the_effect_in_doubt(ledger: Driver, value: Any) -> None:
    handler = Count(value)
    with pytest.raises(ResultNotRecorded) as problem:
        ledger.run(charge(), handler)
    assert problem.value.value is value, "what happened must not be lost"
    assert ledger.effects()[0].status == "in_doubt"
    assert handler.entries == 1


def test_a_result_over_the_limit_leaves_the_effect_in_doubt(shell: Shell) -> None:
    ledger = shell.open(max_result_bytes=100)
    with pytest.raises(ResultNotRecorded):
        ledger.run(charge(), Count("x" * 100))
    assert ledger.effects()[0].status == "in_doubt"


# ── by hand ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_begin_gives_a_claim_to_one_and_tells_the_others_that_it_is_running(ledger: Driver) -> None:
    first, second = ledger.begin(charge()), ledger.begin(charge())
    assert isinstance(first, Claimed)
    assert isinstance(second, InFlight)
    assert second.effect.id == first.claim.effect.id


def test_commit_settles_what_begin_claimed(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    assert ledger.commit(claim, Succeeded((1, 2))) == [1, 2]
    answer = ledger.begin(charge())
    assert isinstance(answer, Replayed)
    assert answer.value == [1, 2]


def test_commit_of_a_failure_is_replayed_as_one(ledger: Driver) -> None:
    ledger.commit(ledger.begin(charge()).claim, Failed("declined", "CardError"))
    answer = ledger.begin(charge())
    assert isinstance(answer, ReplayedFailure)
    assert answer.error == "declined"


def test_commit_said_twice_is_answered_twice(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    assert ledger.commit(claim, Succeeded(1)) == ledger.commit(claim, Succeeded(1)) == 1
    assert types_of(ledger) == ["tool_call_started", "tool_call_finished"]


def test_commit_of_something_else_afterwards_is_refused_and_kept(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    ledger.commit(claim, Succeeded(1))
    with pytest.raises(LeaseLost):
        ledger.commit(claim, Succeeded(2))
    assert types_of(ledger)[-1] == "tool_call_late"
    assert ledger.begin(charge()).value == 1


def test_commit_of_what_cannot_be_recorded_leaves_doubt(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    with pytest.raises(ResultNotRecorded):
        ledger.commit(claim, Succeeded(object()))
    assert isinstance(ledger.begin(charge()), InDoubt)


@pytest.mark.parametrize("outcome", ["done", None, {"ok": True}])
def test_commit_takes_an_outcome_and_nothing_else(ledger: Driver, outcome: Any) -> None:
    claim = ledger.begin(charge()).claim
    with pytest.raises(BadCall):
        ledger.commit(claim, outcome)
    assert ledger.commit(claim, Succeeded(1)) == 1, "the claim is still good"


def test_every_state_has_an_answer_that_cannot_be_misread(ledger: Driver) -> None:
    waiting = charge(args={"amount": 1})
    answer = ledger.begin(waiting, approval="required")
    assert isinstance(answer, AwaitingApproval)
    ledger.deny(answer.approval.id, by="ada", reason="too much")
    match ledger.begin(waiting):
        case Denied(reason):
            assert reason == "too much"
        case other:
            pytest.fail(f"{other}")

    canceled = charge(args={"amount": 2})
    ledger.cancel(ledger.begin(canceled, approval="required").effect.id, by="ada", reason="not needed")
    match ledger.begin(canceled):
        case Canceled(reason):
            assert reason == "not needed"
        case other:
            pytest.fail(f"{other}")

    doubtful = charge(args={"amount": 3})
    with pytest.raises(MayHaveHappened):
        ledger.run(doubtful, Count(MayHaveHappened("cut off")))
    match ledger.begin(doubtful):
        case InDoubt(effect):
            assert effect.detail == "MayHaveHappened: cut off"
        case other:
            pytest.fail(f"{other}")


# ── the record ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_events_of_a_run_are_one_chain_in_order(ledger: Driver) -> None:
    for amount in range(3):
        ledger.run(charge(args={"amount": amount}), Count())
    events = ledger.events("order-1")
    prev = "0" * 64
    for number, event in enumerate(events):
        body = event.read()
        assert (event.seq, body["seq"], body["prev"]) == (number, number, prev)
        prev = event.hash
    assert len(events) == 6


def test_no_event_holds_an_argument_a_result_or_a_key(ledger: Driver) -> None:
    # Texts that no hash and no name of a ledger holds by chance.
    ledger.run(charge(args={"card": "of ana, 4242"}), Count({"receipt": "of ana, 77"}))
    record = b"".join(event.body for event in ledger.events("order-1")).decode()
    effect = ledger.effects()[0]
    for secret in ("of ana", effect.key, effect.digest):
        assert secret not in record


def test_the_events_name_the_agent_and_the_ledger(shell: Shell) -> None:
    ledger = shell.open(actor="billing-bot", tenant="acme")
    ledger.run(charge(), Count())
    started, finished = (json.loads(event.body) for event in ledger.events("order-1"))
    assert started["actor"] == {"id": "billing-bot", "kind": "agent", "via": "process"}
    assert finished["actor"]["kind"] == "system"
    assert started["log"].endswith("/acme")
    assert (finished["status"], finished["tool"], finished["side_effect"]) == (
        "succeeded",
        "charge",
        "external_mutation",
    )


@pytest.mark.parametrize("actor", ["", "x" * 501, "\ud800", "a\0b"])
def test_an_agent_without_a_proper_name_is_refused_when_the_ledger_is_opened(shell: Shell, actor: str) -> None:
    with pytest.raises(BadCall):
        shell.open(actor=actor)


def test_a_handler_that_cannot_be_called_is_refused_before_anything_is_claimed(ledger: Driver) -> None:
    with pytest.raises(BadCall):
        ledger.call(ledger.ledger.run, charge(), None)
    assert ledger.effects() == []
