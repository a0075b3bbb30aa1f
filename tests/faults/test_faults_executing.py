"""Faults that other systems have when they execute: each is a promise here, on both stores through both shells."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from indelible import (
    AsyncLedger,
    AwaitingApproval,
    Claim,
    Claimed,
    Denied,
    Failed,
    InDoubt,
    InFlight,
    Ledger,
    NothingHappened,
    Refused,
    Replayed,
    RunningEffect,
    Succeeded,
    ToolCall,
)
from indelible.errors import (
    ApprovalPending,
    EffectCanceled,
    EffectFailed,
    EffectInDoubt,
    KeyReused,
    LeaseLost,
    ResultNotRecorded,
    StoreUnavailable,
)
from indelible.testing import FakeClock
from tests.chaos.procs import Child, ChildDied
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, approve, charge
from tests.waiting import PATIENCE, eventually


class Receipt(BaseModel):
    id: str


# 1: staleness was measured on a time that every retry renewed, so a crashed call was waited for without end.
def test_01_retries_do_not_keep_a_crashed_effect_alive(ledger: Driver, shell: Shell, clock: FakeClock) -> None:
    crashed = ledger.begin(charge()).claim
    until = crashed.effect.lease_until
    others = [ledger, shell.open(clock=clock)]
    for second in range(29):
        clock.advance(timedelta(seconds=1))
        assert isinstance(others[second % 2].begin(charge()), InFlight)
    assert ledger.get_effect(crashed.effect.id).lease_until == until
    clock.advance(timedelta(seconds=1))
    assert isinstance(others[1].begin(charge()), InDoubt)


# 2: a call that only took long was taken for dead and run twice, and its late failure replaced the second's success.
def test_02_a_slow_handler_is_neither_run_twice_nor_overwrites_the_winner(ledger: Driver, clock: FakeClock) -> None:
    slow = ledger.begin(charge(), on_crash="retry").claim
    for _ in range(5):
        clock.advance(LEASE * 0.9)
        ledger.heartbeat(slow)
        assert isinstance(ledger.begin(charge(), on_crash="retry"), InFlight), "it lives, so nobody takes over"
    clock.advance(LEASE)
    assert ledger.run(charge(), Count("winner"), on_crash="retry") == "winner"
    with pytest.raises(LeaseLost):
        ledger.heartbeat(slow)
    with pytest.raises(LeaseLost):
        ledger.commit(slow, Failed("timed out"))
    assert ledger.run(charge(), Count()) == "winner"
    assert ledger.events("order-1")[-1].type == "tool_call_late"


# 3: a cancelled or timed-out caller left its row in progress for good.
def test_03_a_call_that_ran_out_of_time_is_in_doubt_at_once(ledger: Driver) -> None:
    gate = Gate()
    with pytest.raises(TimeoutError):
        ledger.run(charge(), gate, timeout=timedelta(milliseconds=50))
    assert ledger.effects()[0].status == "in_doubt"
    gate.open()


@pytest.mark.parametrize("is_blocking", [True, False])
def test_03_a_cancelled_call_is_in_doubt_at_once(place: dict[str, Any], is_blocking: bool) -> None:
    gate = Gate()

    async def coroutine(effect: RunningEffect) -> None:
        gate.entered.set()
        await asyncio.sleep(PATIENCE)

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            task = asyncio.create_task(ledger.run(charge(), gate if is_blocking else coroutine))
            await asyncio.to_thread(gate.await_entry)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await ledger.effects())[0].status == "in_doubt"
            gate.open()

    asyncio.run(scenario())


# 4: an inner call that replayed its failure left the outer one unfinished.
@pytest.mark.parametrize(("options", "status"), [({"failed_on": EffectFailed}, "failed"), ({}, "in_doubt")])
def test_04_a_nested_call_that_replays_a_failure_leaves_the_outer_one_settled_or_in_doubt(
    ledger: Driver, options: dict[str, Any], status: str
) -> None:
    inner = charge(tool="inner")
    with pytest.raises(Refused, match="declined"):
        ledger.run(inner, Count(Refused("declined")))
    with pytest.raises(EffectFailed, match="declined"):
        ledger.run(charge(tool="outer"), lambda effect: ledger.run(inner, Count()), **options)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"inner": "failed", "outer": status}


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready"), ("none", "ready")])
@pytest.mark.parametrize(
    ("left", "raised", "inside"),
    [(TimeoutError, EffectInDoubt, "in_doubt"), (NothingHappened, NothingHappened, "ready")],
    ids=["in doubt", "nothing"],
)
def test_04_a_nested_call_that_is_open_makes_no_failure_of_the_outer_one(
    ledger: Driver, side_effect: Any, status: str, left: type[Exception], raised: type[Exception], inside: str
) -> None:
    inner = charge(tool="inner")
    with pytest.raises(left):
        ledger.run(inner, Count(left("x")))
    with pytest.raises(raised):
        ledger.run(charge(tool="outer"), lambda effect: ledger.run(inner, Count(left("x"))), side_effect=side_effect)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"inner": inside, "outer": status}


def test_04_a_write_whose_nested_call_lost_its_answer_is_not_failed(ledger: Driver) -> None:
    with pytest.raises(ConnectionResetError):
        ledger.run(
            charge(tool="outer"),
            lambda effect: ledger.run(charge(tool="inner"), Count(ConnectionResetError("lost"))),
            side_effect="write",
        )
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"inner": "in_doubt", "outer": "in_doubt"}


def test_04_a_read_that_waits_for_a_person_inside_goes_on_when_the_person_has_decided(ledger: Driver) -> None:
    """The outer call had failed for ever, and the approved payment was never made."""
    inner, paid = charge(tool="inner"), Count("paid")

    def outer(effect: RunningEffect) -> Any:
        return ledger.run(inner, paid, approval="required", wait=False)

    with pytest.raises(ApprovalPending) as pending:
        ledger.run(charge(tool="outer"), outer, side_effect="read")
    approve(ledger, pending.value.approval)
    assert ledger.run(charge(tool="outer"), outer, side_effect="read") == "paid"
    assert paid.entries == 1


# 5: what had happened was recorded as failed, because its result could not be stored.
@pytest.mark.parametrize(
    "value",
    [datetime(2030, 1, 2, tzinfo=UTC), date(2030, 1, 2), Decimal("1.1"), b"\x00", "nul \0", Receipt(id="r"), (1, 2)],
    ids=lambda value: type(value).__name__,
)
def test_05_a_result_of_a_usual_type_is_stored(ledger: Driver, value: Any) -> None:
    assert ledger.run(charge(), Count(value)) == ledger.run(charge(), Count()) is not None
    assert ledger.effects()[0].status == "succeeded"


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}, "\ud800"], ids=["nan", "object", "set", "surrogate"])
def test_05_an_effect_whose_result_cannot_be_stored_is_in_doubt_and_not_failed(ledger: Driver, value: Any) -> None:
    with pytest.raises(ResultNotRecorded) as problem:
        ledger.run(charge(), Count(value))
    assert problem.value.value is value
    assert ledger.effects()[0].status == "in_doubt"


def test_05_a_blocking_handler_of_the_asynchronous_ledger_is_no_failure(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            assert await ledger.run(charge(), Count("done")) == "done"
            assert (await ledger.effects())[0].status == "succeeded"

    asyncio.run(scenario())


@pytest.mark.parametrize("refused", [1, 2])
def test_05_a_store_that_blinks_when_the_handler_returns_makes_no_failure(
    ledger: Driver, clock: FakeClock, refused: int
) -> None:
    """The store refuses the report, or also what the ledger then tries once: to say that there is doubt."""
    store = ledger.engine.store
    apply, tried = store.apply, threading.Semaphore(0)

    def blink(*args: Any) -> Any:
        tried.release()
        raise StoreUnavailable("gone for a moment")

    def blink_once(*args: Any) -> Any:
        store.apply = apply
        return blink(*args)

    def handler(effect: RunningEffect) -> str:
        store.apply = blink_once if refused == 1 else blink
        return "charged"

    with pytest.raises(ResultNotRecorded) as problem:
        ledger.run(charge(), handler)
    assert problem.value.value == "charged", "whoever called knows what happened"
    assert all(tried.acquire(timeout=PATIENCE) for _ in range(refused))
    store.apply = apply
    if refused == 1:
        assert eventually(lambda: ledger.effects()[0].status == "in_doubt"), "at once"
    else:
        assert ledger.effects()[0].status == "processing", "until its lease ends"
        clock.advance(LEASE)
    second = Count()
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), second)
    assert second.entries == 0
    assert ledger.effects()[0].status == "in_doubt"


# 6: the first caller got what the handler returned, later ones what the store made of it.
@pytest.mark.parametrize(
    "value", [(1, (2,)), {"b": 1, "a": (2,)}, {"z": {"y": 1, "x": 2}}, Receipt(id="r"), 1.0, bytearray(b"x")]
)
def test_06_the_first_answer_is_the_replay(ledger: Driver, value: Any) -> None:
    first, second = ledger.run(charge(), Count(value)), ledger.run(charge(), Count())
    assert repr(first) == repr(second)


def test_06_keys_that_are_no_texts_are_refused_rather_than_changed(ledger: Driver) -> None:
    with pytest.raises(ResultNotRecorded):
        ledger.run(charge(), Count({1: "one"}))


# 7: an id was enough to settle somebody else's effect.
def test_07_a_stranger_who_knows_an_id_cannot_settle(ledger: Driver, shell: Shell) -> None:
    claim = ledger.begin(charge()).claim
    stranger = shell.open()
    seen = stranger.get_effect(claim.effect.id)
    for token in ("", "00" * 16, seen.token_hash):
        forged = Claim(replace(seen), token)
        with pytest.raises(LeaseLost):
            stranger.commit(forged, Succeeded("stolen"))
        with pytest.raises(LeaseLost):
            stranger.heartbeat(forged)
    assert ledger.commit(claim, Succeeded("mine")) == "mine"


# 8: the documented begin and commit ran twice when used at once, ran what nobody had approved, and hid refusals.
def test_08_begin_grants_one_claim_however_many_ask_at_once(ledger: Driver, shell: Shell) -> None:
    ledgers = [ledger, shell.open(), shell.open()]
    answers = [at.spawn("begin", charge()) for at in ledgers * 6]
    kinds = Counter(type(answer.result(PATIENCE)) for answer in answers)
    assert kinds == {Claimed: 1, InFlight: 17}


def test_08_begin_never_grants_what_is_not_approved_and_says_what_was_denied(ledger: Driver) -> None:
    first = ledger.begin(charge(), approval="required")
    assert isinstance(first, AwaitingApproval)
    assert isinstance(ledger.begin(charge(), approval="required"), AwaitingApproval)
    assert isinstance(ledger.begin(charge()), AwaitingApproval), "nor does leaving the option away"
    ledger.deny(first.approval.id, by="ada", reason="too much")
    answer = ledger.begin(charge())
    assert isinstance(answer, Denied)
    assert answer.reason == "too much"


def test_08_only_a_claim_can_be_committed() -> None:
    with Ledger.open(":memory:") as ledger:
        ledger.commit(ledger.begin(charge()).claim, Succeeded(None))  # type: ignore[union-attr]
        answer = ledger.begin(charge())
        assert isinstance(answer, Replayed)
        assert not hasattr(answer, "claim"), "what is replayed gives nothing to commit"
        assert answer.value is None, "and None is a result like any other"


# 9: the store in memory threw away what was running or waiting, and handed out its own objects.
def test_09_a_ledger_in_memory_forgets_nothing_and_hands_out_copies() -> None:
    with Ledger.open(":memory:") as ledger:
        running: Any = ledger.begin(charge(args={"n": -1}))
        waiting: Any = ledger.begin(charge(args={"n": -2}), approval="required")
        for n in range(2500):
            ledger.commit(ledger.begin(charge(args={"n": n})).claim, Succeeded({"items": [n]}))  # type: ignore[union-attr]
        assert isinstance(ledger.begin(charge(args={"n": -1})), InFlight)
        assert isinstance(ledger.begin(charge(args={"n": -2})), AwaitingApproval)
        assert ledger.get_effect(waiting.effect.id) == waiting.effect
        assert ledger.commit(running.claim, Succeeded("done")) == "done"
        assert len(ledger.effects(limit=10_000)) == 2502
        ledger.begin(charge(args={"n": 7})).value["items"].append("mine")  # type: ignore[union-attr]
        assert ledger.run(charge(args={"n": 7}), Count()) == {"items": [7]}


# 10: going on after a pause went past the deduplication: some calls fired again, a gated one never did.
def test_10_going_on_after_an_approval_repeats_nothing_and_skips_nothing(shell: Shell) -> None:
    charged, refunded = Count("charged"), Count("refunded")

    def agent() -> list[Any]:
        """Is the same agent each time it is started: it makes all its calls from the beginning."""
        ledger = shell.open()
        return [
            ledger.run(charge(tool="charge"), charged),
            ledger.run(charge(tool="refund"), refunded, approval="required", wait=False),
        ]

    for _ in range(3):
        with pytest.raises(ApprovalPending) as question:
            agent()
    approve(shell.open(), question.value)
    assert agent() == agent() == ["charged", "refunded"]
    assert (charged.entries, refunded.entries) == (1, 1)


def test_10_a_retry_goes_the_same_way_as_the_first_call(ledger: Driver) -> None:
    handler = Count(Refused("no"))
    with pytest.raises(Refused, match="no"):
        ledger.run(charge(), handler)
    ledger.retry(ledger.effects()[0].id, by="ada")
    calls = [ledger.spawn("run", charge(), handler) for _ in range(5)]
    outcomes = Counter(type(call.exception(PATIENCE)) for call in calls)
    assert outcomes == {Refused: 1, EffectFailed: 4}
    assert handler.entries == 2, "one person's word is one more entry"


# 11: a crash between the effect and its record fired the effect again.
def charge_and_die(line: Connection, url: str, tenant: str, world: str) -> None:
    """Runs in another process, which ends inside the handler, right after the outside world was changed."""

    def handler(effect: RunningEffect) -> None:
        with Path(world).open("a") as file:
            file.write(f"{effect.key}\n")
        os._exit(9)

    Ledger.open(url, tenant=tenant).run(charge(), handler)


def test_11_a_crash_after_the_effect_and_before_its_record_fires_nothing_again(shell: Shell, tmp_path: Path) -> None:
    world = tmp_path / "world"
    with Child(charge_and_die, shell.url, shell.tenant, str(world)) as child, pytest.raises(ChildDied):
        child.result()
    assert len(world.read_text().splitlines()) == 1
    later = shell.open(clock=FakeClock(datetime.now(UTC) + timedelta(hours=1)))
    handler = Count()
    for _ in range(2):
        with pytest.raises(EffectInDoubt):
            later.run(charge(), handler)
    assert handler.entries == 0
    found = later.run(charge(), handler, reconcile=lambda effect: Succeeded(world.read_text().strip()))
    assert found == later.effects()[0].key, "the outside world was asked, and knows the key"
    assert handler.entries == 0


# 12: a refusal or a pause was kept as if it were the result.
def test_12_neither_a_hold_nor_a_cancel_is_kept_as_a_result(ledger: Driver) -> None:
    handler = Count("ran")
    with pytest.raises(ApprovalPending) as question:
        ledger.run(charge(), handler, approval="required", wait=False)
    effect = question.value.effect
    assert effect.outcome is None
    approve(ledger, question.value)
    assert ledger.run(charge(), handler) == "ran"
    withdrawn = ledger.begin(charge(args={"amount": 6}), approval="required").effect
    ledger.cancel(withdrawn.id, by="ada")
    for _ in range(2):
        with pytest.raises(EffectCanceled):
            ledger.run(charge(args={"amount": 6}), handler)
    assert ledger.get_effect(withdrawn.id).outcome is None
    assert handler.entries == 1


# 13: naming a default made another call of it, and True was taken for 1.
def test_13_an_explicit_default_is_the_same_call_and_true_is_not_one(ledger: Driver) -> None:
    calls: list[Any] = []

    @ledger.tool()
    def send(to: str, copies: int = 1) -> None:
        calls.append((to, copies))

    ledger.call(send, "ada")
    ledger.call(send, "ada", copies=1)
    ledger.call(send, to="ada", copies=1)
    assert calls == [("ada", 1)]
    handler = Count()
    for value in (1, True, "1", 0, False, None, ""):
        ledger.run(charge(args={"value": value}), handler)
    assert handler.entries == 7


# 14: other arguments under the same key silently got the old result, and falsy results came back as nothing.
def test_14_a_key_used_for_other_content_is_refused(ledger: Driver) -> None:
    claim = ledger.begin(charge(args={"order": 7, "amount": 5}, key=["order"])).claim
    handler = Count()
    with pytest.raises(KeyReused) as conflict:
        ledger.run(charge(args={"order": 7, "amount": 500}, key=["order"]), handler)
    assert conflict.value.effect.id == claim.effect.id
    assert handler.entries == 0


@pytest.mark.parametrize("value", [0, False, None, "", [], {}])
def test_14_a_falsy_result_is_replayed_and_not_run_again(ledger: Driver, value: Any) -> None:
    handler = Count(value)
    found = [ledger.run(charge(), handler) for _ in range(3)]
    assert found == [value] * 3
    assert {type(each) for each in found} == {type(value)}
    assert handler.entries == 1


# 15: calls that were meant to be repeated were swallowed, and nobody was told.
def test_15_intended_repeats_run_when_the_call_id_says_so(ledger: Driver) -> None:
    handler = Count()
    for call_id in ("c1", "c2", "c3", "c3"):
        ledger.run(charge(call_id=call_id, dedupe="call"), handler)
    assert handler.entries == 3


def test_15_what_looks_like_a_repeat_is_asked_about(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(call_id="c1", dedupe="ask"), handler)
    questions = [ledger.begin(charge(call_id=call_id, dedupe="ask")) for call_id in ("c2", "c3")]
    assert all(isinstance(question, AwaitingApproval) for question in questions)
    for question in questions:
        approve(ledger, question)
    for call_id in ("c2", "c3", "c2"):
        ledger.run(charge(call_id=call_id, dedupe="ask"), handler)
    assert handler.entries == 3


def test_15_a_call_id_that_is_needed_and_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="call_id"):
        ToolCall(tool="charge", dedupe="call", run_id="order-1")
