"""Faults of agent-ledger, by their numbers in the list of them: none of them is here."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import AsyncLedger, migrate
from indelible.compat.agent_ledger import (
    CommitSucceeded,
    Effect,
    EffectFailedError,
    EffectInDoubtError,
    EffectLedger,
    EffectLedgerInvariantError,
    EffectLedgerOptions,
    EffectLedgerValidationError,
    EffectStatus,
    EffectTimeoutError,
    LedgerHooks,
    LedgerStore,
    MemoryStore,
    ResourceDescriptor,
    RunOptions,
    StaleOptions,
    ToolCall,
)
from tests.compat.agent_ledger.calling import ASKED, BRIEFLY, CHARGE, DEPLOY, Bank, until

pytestmark = pytest.mark.anyio


async def test_2_a_worker_that_lives_is_never_taken_over_from(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    bank = Bank(entered=entered, leave=leave)
    stale = RunOptions(stale=StaleOptions(after_ms=3000), concurrency=BRIEFLY)
    slow = asyncio.ensure_future(quick.run(CHARGE, bank, run_options=stale))
    await entered.wait()
    ours = memory.open()
    taken = ours.effects()[0].lease_until
    await until(lambda: ours.effects()[0].lease_until != taken)  # it is heard of, so its time has begun anew
    with pytest.raises(EffectTimeoutError):
        await quick.run(CHARGE, bank, run_options=stale)
    leave.set()
    assert await slow == bank._answer
    assert len(bank.seen) == 1


async def test_2_nobody_is_taken_for_dead_within_a_second(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()
    hasty = RunOptions(stale=StaleOptions(after_ms=1))
    slow = asyncio.ensure_future(quick.run(CHARGE, Bank(entered=entered, leave=leave), run_options=hasty))
    await entered.wait()
    (found,) = memory.open().effects()
    assert found.lease_until is not None
    assert found.lease_until - found.updated_at >= timedelta(seconds=0.9)  # two clocks: the store's and the stamp's
    leave.set()
    await slow


async def test_3_a_canceled_caller_leaves_the_effect_in_doubt_at_once(ledger: EffectLedger[Any]) -> None:
    entered = asyncio.Event()
    caller = asyncio.ensure_future(ledger.run(CHARGE, Bank(entered=entered, leave=asyncio.Event())))
    await entered.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    bank = Bank()
    with pytest.raises(EffectInDoubtError, match="may have happened"):
        await ledger.run(CHARGE, bank)
    found = await ledger.find_by_idem_key(ledger.idem_key(CHARGE))
    assert found is not None
    assert found.status is EffectStatus.IN_DOUBT
    assert not bank.seen


async def test_1_what_may_be_repeated_is_taken_over_from_a_worker_that_is_gone(ledger: EffectLedger[Any]) -> None:
    entered, stale = asyncio.Event(), RunOptions(stale=StaleOptions(after_ms=60_000))
    gone = asyncio.ensure_future(ledger.run(CHARGE, Bank(entered=entered, leave=asyncio.Event()), run_options=stale))
    await entered.wait()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert await ledger.run(CHARGE, Bank("again"), run_options=stale) == "again"


async def test_3_who_begins_and_goes_away_leaves_it_in_doubt(sqlite_url: str) -> None:
    store = LedgerStore(sqlite_url)
    ledger = EffectLedger(EffectLedgerOptions(store=store))
    await asyncio.to_thread(asyncio.run, ledger.begin(CHARGE))  # its loop ends before it commits
    with pytest.raises(EffectInDoubtError):
        await ledger.begin(CHARGE)
    store.close()


async def test_4_a_replayed_failure_inside_settles_the_call_around_it(quick: EffectLedger[Any]) -> None:
    with pytest.raises(KeyError):
        await quick.run(CHARGE, Bank(KeyError("inner")))

    async def outer(effect: Effect) -> Any:
        return await quick.run(CHARGE, Bank())

    around = ToolCall(workflow_id="order-123", tool="outer", args={})
    with pytest.raises(EffectFailedError, match="inner"):
        await quick.run(around, outer)
    found = await quick.find_by_idem_key(quick.idem_key(around))
    assert found is not None
    assert found.status is EffectStatus.FAILED


async def test_5_what_happened_is_not_called_failed_because_it_cannot_be_recorded(quick: EffectLedger[Any]) -> None:
    with pytest.raises(EffectInDoubtError, match="cannot be recorded"):
        await quick.run(CHARGE, Bank(object()))
    found = await quick.find_by_idem_key(quick.idem_key(CHARGE))
    assert found is not None
    assert found.status is EffectStatus.IN_DOUBT


async def test_5_a_handler_that_blocks_is_as_good(quick: EffectLedger[Any]) -> None:
    assert await quick.run(CHARGE, lambda effect: effect.tool) == "stripe.charge"
    assert await quick.run(CHARGE, lambda effect: None) == "stripe.charge"


async def test_6_the_first_return_is_the_replay(quick: EffectLedger[Any]) -> None:
    first = await quick.run(CHARGE, Bank({"b": (1, 2), "a": 0}))
    again = await quick.run(CHARGE, Bank())
    assert first == again == {"a": 0, "b": [1, 2]}
    assert list(first) == list(again)


async def test_7_a_stranger_who_knows_the_id_settles_nothing(memory: MemoryStore) -> None:
    mine, theirs = (EffectLedger(EffectLedgerOptions(store=memory)) for _ in range(2))
    begun = await mine.begin(CHARGE)
    assert await theirs.commit(begun.effect.id, CommitSucceeded(result="forged")) is False
    with pytest.raises(EffectLedgerValidationError):
        await mine.commit(begun.effect.id, "done")  # type: ignore[arg-type]
    assert await mine.commit(begun.effect.id, CommitSucceeded(result="true")) is True
    assert await theirs.run(CHARGE, Bank()) == "true"


async def test_9_memory_evicts_nothing_and_hands_out_copies() -> None:
    store = MemoryStore(max_size=1, ttl_seconds=0.001)
    ledger = EffectLedger(EffectLedgerOptions(store=store))
    calls = [ToolCall(workflow_id="w", tool="t", args={"n": number}) for number in range(5)]
    for call in calls:
        await ledger.run(call, Bank({"list": []}))
    (await ledger.run(calls[0], Bank()))["list"].append("changed")
    assert await ledger.run(calls[0], Bank()) == {"list": []}
    assert (store.size, await store.count()) == (5, 5)
    assert {one.args_canonical for one in await store.list_effects()} == {f'{{"n":{n}}}' for n in range(5)}
    store.clear()
    assert store.size == 0
    del store, ledger
    gc.collect()  # what nobody closed is closed when it goes, or a warning fails this test


async def test_15_a_call_id_is_shown_and_does_not_make_another_call(quick: EffectLedger[Any]) -> None:
    bank = Bank()
    for call_id in ("a", "b"):
        call = ToolCall(workflow_id="w", tool="t", args={}, call_id=call_id)
        await quick.run(call, bank)
    assert [seen.call_id for seen in bank.seen] == ["a"]


async def test_16_parts_that_only_look_alike_when_joined_are_two_calls(memory: MemoryStore) -> None:
    for scheme in ("indelible", "agent-ledger"):
        ledger = EffectLedger(EffectLedgerOptions(store=memory, key_scheme=scheme))
        bank = Bank()
        for namespace, kind in (("a/b", "c"), ("a", "b/c")):
            thing = ResourceDescriptor(namespace=namespace, type=kind, id={"id": 1})
            call = ToolCall(workflow_id=f"w-{scheme}", tool="t", args={}, resource=thing)
            await ledger.run(call, bank)
        assert len(bank.seen) == (2 if scheme == "indelible" else 1)  # its own keys cannot tell them apart


async def test_17_large_numbers_are_arguments(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    call = ToolCall(workflow_id="w", tool="t", args={"id": 2**60})
    bank = Bank()
    await quick.run(call, bank)
    assert str(2**60) in bank.seen[0].args_canonical
    theirs = EffectLedger(EffectLedgerOptions(store=memory, key_scheme="agent-ledger"))
    with pytest.raises(EffectLedgerValidationError):  # its keys are made of JSON, which has no such numbers
        await theirs.run(call, bank)


def issue(body: str) -> ToolCall:
    args = {"title": "Bug", "body": body}
    return ToolCall(workflow_id="w", tool="issue", args=args, idempotency_keys=["title"])


async def test_19_a_key_approves_nothing_that_nobody_saw(quick: EffectLedger[Any]) -> None:
    """The same key fields, another body: the button that was made for the first does not approve the second."""
    bank, told = Bank(), asyncio.Queue[Effect]()
    hooks = LedgerHooks(on_approval_required=told.put)
    with pytest.raises(EffectTimeoutError):
        await quick.run(
            issue("harmless"), bank, run_options=RunOptions(requires_approval=True, concurrency=BRIEFLY), hooks=hooks
        )
    seen = await told.get()
    second = asyncio.ensure_future(quick.run(issue("something else"), bank, run_options=ASKED, hooks=hooks))
    other = await told.get()
    assert (other.idem_key == seen.idem_key, other.digest == seen.digest) == (True, False)
    with pytest.raises(EffectLedgerInvariantError, match="other arguments"):
        await quick.approve(seen.idem_key)
    with pytest.raises(EffectLedgerInvariantError, match="something else"):
        await quick.approve(seen.idem_key, digest=seen.digest)
    assert await quick.approve(other.idem_key, digest=other.digest, by="ana") is True
    await second
    assert [effect.args_canonical for effect in bank.seen] == ['{"body":"something else","title":"Bug"}']


async def test_19_who_waits_is_told_that_something_else_is_asked_about(quick: EffectLedger[Any]) -> None:
    """And does not ask anew, or two such callers would take each other's place for ever."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(effect: Effect) -> None:
        asked.set()
        await go_on.wait()

    first = asyncio.ensure_future(
        quick.run(issue("a"), Bank(), run_options=ASKED, hooks=LedgerHooks(on_approval_required=slowly))
    )
    await asked.wait()
    with pytest.raises(EffectTimeoutError):
        await quick.run(issue("b"), Bank(), run_options=RunOptions(requires_approval=True, concurrency=BRIEFLY))
    go_on.set()
    with pytest.raises(EffectLedgerInvariantError, match="no longer about what would run"):
        await first
    found = await quick.find_by_idem_key(quick.idem_key(issue("a")))
    assert found is not None
    assert found.args_canonical == '{"body":"b","title":"Bug"}'


async def test_20_a_hook_that_raises_keeps_the_call_from_running(quick: EffectLedger[Any]) -> None:
    def broken(call: ToolCall) -> bool:
        raise LookupError("no such rule")

    bank = Bank()
    with pytest.raises(LookupError):
        await quick.run(CHARGE, bank, hooks=LedgerHooks(requires_approval=broken))
    assert not bank.seen
    assert await quick.find_by_idem_key(quick.idem_key(CHARGE)) is None


async def test_24_a_hook_that_fails_is_told_again(quick: EffectLedger[Any], caplog: pytest.LogCaptureFixture) -> None:
    told: list[Effect] = []

    def flaky(effect: Effect) -> None:
        told.append(effect)
        if len(told) == 1:
            raise ConnectionError("no network")

    bank = Bank("deployed")
    with caplog.at_level(logging.WARNING):
        waiting = asyncio.ensure_future(
            quick.run(DEPLOY, bank, run_options=ASKED, hooks=LedgerHooks(on_approval_required=flaky))
        )
        await until(lambda: len(told) == 2)
    assert "no network" in caplog.text
    await quick.approve(told[0].idem_key)
    assert await waiting == "deployed"
    assert len(told) == 2


async def test_79_a_caller_whose_twin_is_in_the_hook_logs_nothing(
    quick: EffectLedger[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Two callers of one call: one is telling, the other looks in meanwhile and has nothing to complain of."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def slowly(effect: Effect) -> None:
        entered.set()
        await leave.wait()

    hooks, briefly = LedgerHooks(on_approval_required=slowly), RunOptions(requires_approval=True, concurrency=BRIEFLY)
    with caplog.at_level(logging.WARNING):
        first = asyncio.ensure_future(quick.run(DEPLOY, Bank("deployed"), run_options=ASKED, hooks=hooks))
        await entered.wait()
        with pytest.raises(EffectTimeoutError):
            await quick.run(DEPLOY, Bank(), run_options=briefly, hooks=hooks)
        leave.set()
        await quick.approve(quick.idem_key(DEPLOY))
        assert await first == "deployed"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


_LOOKS_IN = """
import asyncio, logging, sys
from indelible.compat.agent_ledger import EffectLedger, EffectLedgerOptions, EffectTimeoutError, LedgerHooks
from indelible.compat.agent_ledger import LedgerStore, RunOptions
from tests.compat.agent_ledger.calling import BRIEFLY, DEPLOY, Bank

async def look_in():
    ledger = EffectLedger(EffectLedgerOptions(store=LedgerStore(sys.argv[1])))
    hooks = LedgerHooks(on_approval_required=lambda effect: print("told twice"))
    briefly = RunOptions(requires_approval=True, concurrency=BRIEFLY)
    try:
        await ledger.run(DEPLOY, Bank(), run_options=briefly, hooks=hooks)
    except EffectTimeoutError:
        print("waited in vain")

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(name)s logged")
asyncio.run(look_in())
"""


async def test_79_a_caller_whose_twin_in_another_process_is_in_the_hook_logs_nothing(store_url: str) -> None:
    migrate(store_url)
    store, entered, leave = LedgerStore(store_url), asyncio.Event(), asyncio.Event()
    ledger: EffectLedger[Any] = EffectLedger(EffectLedgerOptions(store=store))

    async def slowly(effect: Effect) -> None:
        entered.set()
        await leave.wait()

    hooks = LedgerHooks(on_approval_required=slowly)
    first = asyncio.ensure_future(ledger.run(DEPLOY, Bank("deployed"), run_options=ASKED, hooks=hooks))
    await entered.wait()
    words = [sys.executable, "-c", _LOOKS_IN, store_url]
    other = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3])
    said = (await other.communicate())[0].decode()
    assert said.splitlines() == ["waited in vain"]
    leave.set()
    await ledger.approve(ledger.idem_key(DEPLOY))
    assert await first == "deployed"
    store.close()


async def test_79_the_keys_of_a_result_have_one_order_the_first_time_and_in_every_replay(
    ledger: EffectLedger[Any],
) -> None:
    """The recorded form has its keys sorted; the caller gets that form, not the handler's object."""
    bank = Bank({"z": 1, "a": {"y": 1, "b": [{"d": 1, "c": 2}]}})
    answers = [await ledger.run(CHARGE, bank) for _ in range(3)]
    assert {repr(answer) for answer in answers} == {repr({"a": {"b": [{"c": 2, "d": 1}], "y": 1}, "z": 1})}
    assert len(bank.seen) == 1


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready")])
@pytest.mark.parametrize("is_asked", [True, False])
async def test_37_a_call_by_this_face_that_stays_open_settles_no_outer_call(
    store_url: str, side_effect: Any, status: str, is_asked: bool
) -> None:
    async def lose(effect: Effect) -> None:
        raise ConnectionError("lost")

    migrate(store_url)
    async with AsyncLedger.open(store_url, seal=False) as ours:
        face: EffectLedger[Any] = EffectLedger(EffectLedgerOptions(store=LedgerStore(ours), failed_on=()))
        options = RunOptions(requires_approval=is_asked, concurrency=BRIEFLY)
        if not is_asked:
            with pytest.raises(ConnectionError):
                await face.run(CHARGE, lose)

        @ours.tool("outer", side_effect=side_effect)
        async def outer() -> Any:
            return await face.run(CHARGE, lose, run_options=options)

        with ours.in_run("w"), pytest.raises(EffectTimeoutError if is_asked else EffectInDoubtError):
            await outer()
        assert [effect.status for effect in await ours.effects(tool="outer")] == [status]
