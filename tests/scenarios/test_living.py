"""A ledger among threads, tasks, forks and loops that come and go: opening, sharing, closing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from indelible import AsyncLedger, Claimed, Ledger, RunningEffect, Succeeded
from indelible.engine.heartbeats import Heartbeats
from indelible.errors import BadCall, IndelibleError, StoreUnavailable
from indelible.testing.clock import FakeClock
from tests.scenarios.shells import (
    LEASE,
    Count,
    Driver,
    Gate,
    Shell,
    charge,
    in_thread,
    interrupt_main,
    main_is_inside,
    somebody_waits,
)
from tests.waiting import PATIENCE, eventually

# ── many at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_many_callers_of_many_calls_each_get_their_own_result(ledger: Driver) -> None:
    calls = [
        ledger.spawn("run", charge(args={"amount": number}, run_id=f"run-{number % 3}"), lambda e: e.args["amount"])
        for number in range(60)
    ]
    assert [call.result(PATIENCE) for call in calls] == list(range(60))
    for run_id in ("run-0", "run-1", "run-2"):
        events = ledger.events(run_id)
        assert [event.seq for event in events] == list(range(40))
        assert [event.read()["prev"] for event in events[1:]] == [event.hash for event in events[:-1]]


def test_commands_that_come_while_one_is_written_share_a_transaction(place: dict[str, Any]) -> None:
    with Ledger.open(**place, seal=False) as ledger:
        store: Any = ledger._engine.store
        apply = store.apply
        sizes: list[int] = []
        is_held, may_go_on = threading.Event(), threading.Event()

        def slow_apply(tenant: str, commands: Any, known: Any) -> Any:
            sizes.append(len(commands))
            if len(sizes) == 1:
                is_held.set()
                assert may_go_on.wait(PATIENCE)
            return apply(tenant, commands, known)

        store.apply = slow_apply
        first = in_thread(lambda: ledger.begin(charge(args={"amount": 0})))
        assert is_held.wait(PATIENCE)
        rest = [in_thread(lambda n=n: ledger.begin(charge(args={"amount": n}))) for n in range(1, 21)]
        eventually(lambda: len(ledger._engine.writer._queue) == 20)
        may_go_on.set()
        assert all(isinstance(call.result(PATIENCE), Claimed) for call in [first, *rest])
        assert sizes[:2] == [1, 20]


def test_no_transaction_crosses_tenants(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        other = Ledger(ledger._engine, tenant=f"{ledger.tenant}-other")
        store: Any = ledger._engine.store
        apply = store.apply
        batches: list[set[str]] = []
        is_held, may_go_on = threading.Event(), threading.Event()

        def slow_apply(tenant: str, commands: Any, known: Any) -> Any:
            batches.append({command.ref.tenant for command in commands})
            is_held.set()
            assert may_go_on.wait(PATIENCE)
            return apply(tenant, commands, known)

        store.apply = slow_apply
        first = in_thread(lambda: ledger.begin(charge()))
        assert is_held.wait(PATIENCE)
        rest = [
            in_thread(lambda n=n, at=at: at.begin(charge(args={"amount": n})))
            for n, at in enumerate([ledger, other, ledger, other])
        ]
        eventually(lambda: len(ledger._engine.writer._queue) == 4)
        may_go_on.set()
        for call in [first, *rest]:
            call.result(PATIENCE)
        assert all(len(tenants) == 1 for tenants in batches)


def test_one_ledger_serves_several_loops_at_once(place: dict[str, Any]) -> None:
    ledger = AsyncLedger.open(**place)

    def loop(number: int) -> Any:
        return asyncio.run(ledger.run(charge(args={"amount": number}), lambda effect: effect.args["amount"]))

    futures = [in_thread(lambda n=n: loop(n)) for n in range(5)]
    assert [future.result(PATIENCE) for future in futures] == list(range(5))
    asyncio.run(ledger.close())


# ── cancelled tasks ──────────────────────────────────────────────────────────────────────────────────────────────────


class HeldStore:
    """Holds a ledger's writes back until it is told to go on."""

    def __init__(self, ledger: Any) -> None:
        self._store = ledger._engine.store
        self._apply = self._store.apply
        self.is_held = threading.Event()
        self.may_go_on = threading.Event()
        self._store.apply = self._held

    def _held(self, *args: Any) -> Any:
        self.is_held.set()
        assert self.may_go_on.wait(PATIENCE)
        return self._apply(*args)


async def until(is_so: Callable[[], Any]) -> None:
    """Waits until something is so, without stopping the loop."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def test_a_task_cancelled_while_its_claim_is_written_gives_it_back(place: dict[str, Any]) -> None:
    handler = Count()

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            held = HeldStore(ledger)
            task = asyncio.create_task(ledger.run(charge(), handler))
            await asyncio.to_thread(held.is_held.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            held.may_go_on.set()
            blocking = Ledger(ledger._engine, tenant=ledger.tenant)
            await until(lambda: [effect.status for effect in blocking.effects()] == ["ready"])
            assert await ledger.run(charge(), Count("later")) == "later"

    asyncio.run(scenario())
    assert handler.entries == 0


def test_a_task_cancelled_at_the_end_of_its_loop_gives_its_claim_back(place: dict[str, Any]) -> None:
    ledger = AsyncLedger.open(**place)
    held = HeldStore(ledger)
    handler = Count()

    async def first() -> None:
        task = asyncio.create_task(ledger.run(charge(), handler))
        await asyncio.to_thread(held.is_held.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(first())
    held.may_go_on.set()
    eventually(lambda: not ledger._engine.writer._queue and not ledger._engine.writer._busy.locked())

    async def second() -> list[str]:
        async with ledger:
            return [effect.status for effect in await ledger.effects()]

    assert asyncio.run(second()) == ["ready"]
    assert handler.entries == 0


def test_a_task_cancelled_while_its_result_is_written_loses_nothing(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            held: list[HeldStore] = []

            async def handler(effect: RunningEffect) -> str:
                held.append(HeldStore(ledger))
                return "done"

            task = asyncio.create_task(ledger.run(charge(), handler))
            await until(lambda: held)
            await asyncio.to_thread(held[0].is_held.wait, PATIENCE)
            task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not task.done(), "it is cancelled only when its result is safe"
            held[0].may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await ledger.run(charge(), Count()) == "done"

    asyncio.run(scenario())


def test_a_task_cancelled_while_it_waits_leaves_the_winner_alone(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            claim = (await ledger.begin(charge())).claim  # type: ignore[union-attr]
            task = asyncio.create_task(ledger.run(charge(), Count()))
            await until(lambda: ledger._engine.waiting._wakers)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert ledger._engine.waiting._wakers == {}
            assert await ledger.commit(claim, Succeeded(1)) == 1

    asyncio.run(scenario())


def test_a_loop_that_was_closed_with_a_waiting_task_harms_nobody(place: dict[str, Any]) -> None:
    ledger = Ledger.open(**place)
    gate = Gate("fine")
    winner = in_thread(lambda: ledger.run(charge(), gate))
    gate.await_entry()
    loop = asyncio.new_event_loop()
    shared = AsyncLedger(ledger._engine, tenant=ledger.tenant)
    task = loop.create_task(shared.run(charge(), Count()))
    while not ledger._engine.waiting._wakers:
        loop.run_until_complete(asyncio.sleep(0.002))
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    gate.open()
    try:
        assert winner.result(PATIENCE) == "fine"
    finally:
        ledger.close()


def interrupted(body: Callable[[], Any], inside: str) -> None:
    """Runs something in the main thread and interrupts it, as Ctrl-C does, once it waits inside of this function."""
    in_thread(lambda: (eventually(lambda: main_is_inside(inside)), interrupt_main()))
    with pytest.raises(KeyboardInterrupt):
        body()


def test_an_interrupt_while_a_claim_is_written_gives_it_back(place: dict[str, Any]) -> None:
    handler = Count()
    with Ledger.open(**place) as ledger:
        held = HeldStore(ledger)
        other = in_thread(lambda: ledger.begin(charge(args={"amount": 6})))
        assert held.is_held.wait(PATIENCE)
        interrupted(lambda: ledger.run(charge(), handler), inside="writer.py:wait")
        held.may_go_on.set()
        other.result(PATIENCE)
        eventually(lambda: {e.args["amount"]: e.status for e in ledger.effects()} == {5: "ready", 6: "processing"})
    assert handler.entries == 0


def test_an_interrupt_while_waiting_leaves_nobody_behind(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        assert isinstance(ledger.begin(charge()), Claimed)
        wakers = ledger._engine.waiting._wakers
        interrupted(lambda: ledger.run(charge(), Count()), inside="waiting.py:wait")
        assert wakers == {}


def test_one_caller_whose_store_fails_does_not_take_the_others_with_it(place: dict[str, Any]) -> None:
    """A command that cannot be written at all is answered alone; those in its batch are written."""
    with Ledger.open(**place, seal=False) as ledger:
        store: Any = ledger._engine.store
        apply = store.apply
        is_held, may_go_on = threading.Event(), threading.Event()

        def picky_apply(tenant: str, commands: Any, known: Any) -> Any:
            is_held.set()
            assert may_go_on.wait(PATIENCE)
            if any(b"poison" in command.args_json for command in commands):
                raise RuntimeError("poison")
            return apply(tenant, commands, known)

        store.apply = picky_apply
        first = in_thread(lambda: ledger.begin(charge(args={"n": 0})))
        assert is_held.wait(PATIENCE)
        good = [in_thread(lambda n=n: ledger.begin(charge(args={"n": n}))) for n in (1, 2)]
        bad = in_thread(lambda: ledger.begin(charge(args={"n": "poison"})))
        eventually(lambda: len(ledger._engine.writer._queue) == 3)
        may_go_on.set()
        assert all(isinstance(call.result(PATIENCE), Claimed) for call in [first, *good])
        with pytest.raises(RuntimeError, match="poison"):
            bad.result(PATIENCE)


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def in_fork(body: Callable[[], None]) -> int:
    """Runs something in a forked child and gives its exit code; a child that hangs is ended by a signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(int(PATIENCE))
            body()
            code = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_ledger_opened_before_a_fork_works_in_parent_and_child(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        assert ledger.run(charge(), Count("parent")) == "parent"

        def child() -> None:
            assert ledger.run(charge(), Count("child")) == "parent"
            assert ledger.run(charge(args={"amount": 6}), Count("child")) == "child"
            ledger.close()

        assert in_fork(child) == 0
        assert ledger.run(charge(args={"amount": 6}), Count("parent")) == "child"
        assert ledger.run(charge(args={"amount": 7}), Count("parent")) == "parent"
        writers = {event.read()["writer"] for event in ledger.events("order-1")}
        assert len(writers) == 2, "parent and child are two writers"


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_the_ledger_is_busy_works(place: dict[str, Any]) -> None:
    """At the moment of the fork other threads hold every lock there is; in the child nobody will release them."""
    with Ledger.open(**place) as ledger:
        gate = Gate()
        running = in_thread(lambda: ledger.run(charge(), gate))
        gate.await_entry()
        waiting = in_thread(lambda: ledger.run(charge(), Count()))
        eventually(lambda: ledger._engine.waiting._wakers)
        engine: Any = ledger._engine

        def child() -> None:
            assert ledger.run(charge(args={"amount": 6}), Count("child")) == "child"
            ledger.close()

        with engine.waiting._lock, engine.heartbeats._changed, engine.writer._starting, engine.writer._busy:
            code = in_fork(child)
        gate.open()
        running.result(PATIENCE)
        waiting.result(PATIENCE)
        assert code == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_ledger_in_memory_says_that_it_cannot_be_shared_with_a_child() -> None:
    with Ledger.open(":memory:") as ledger:
        ledger.run(charge(), Count())

        def child() -> None:
            with pytest.raises(BadCall, match="memory"):
                ledger.run(charge(), Count())

        assert in_fork(child) == 0
        assert ledger.run(charge(args={"amount": 6}), Count("still here")) == "still here"


# ── closing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_closed_ledger_says_so_and_enters_nothing(shell: Shell) -> None:
    ledger, handler = shell.open(), Count()
    ledger.run(charge(), handler)
    ledger.spawn("close").result(PATIENCE)
    for amount in (5, 6):
        with pytest.raises(StoreUnavailable):
            ledger.run(charge(args={"amount": amount}), handler)
    assert handler.entries == 1


def test_a_ledger_may_be_closed_twice(shell: Shell) -> None:
    ledger = shell.open()
    ledger.run(charge(), Count())
    ledger.spawn("close").result(PATIENCE)
    ledger.spawn("close").result(PATIENCE)


def test_a_ledger_that_did_nothing_can_be_closed(shell: Shell) -> None:
    shell.open().spawn("close").result(PATIENCE)


def test_a_ledger_is_closed_at_the_end_of_its_block(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        pass
    with pytest.raises(StoreUnavailable):
        ledger.begin(charge())

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as awaited:
            pass
        with pytest.raises(StoreUnavailable):
            await awaited.begin(charge())

    asyncio.run(scenario())


def test_a_ledger_closed_at_once_ends_at_once() -> None:
    """A short program runs one call and ends: the thread that keeps leases has hardly begun by then."""

    def many() -> None:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(300):
                heartbeats = Heartbeats(lambda claim, lease: True)
                claim: Any = SimpleNamespace(token="t")
                heartbeats.keep(claim, timedelta(seconds=30))
                heartbeats.drop(claim)
                heartbeats.close()
        finally:
            sys.setswitchinterval(before)

    in_thread(many).result(PATIENCE)


class Beats:
    """Is a store's heartbeat that answers by a script, and says when it was asked so many times."""

    def __init__(self, *answers: Any) -> None:
        self.asked = 0
        self.is_over = threading.Event()
        self._answers = answers

    def __call__(self, claim: Any, lease: timedelta) -> bool:
        answer = self._answers[min(self.asked, len(self._answers) - 1)]
        self.asked += 1
        if self.asked >= len(self._answers):
            self.is_over.set()
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)


def test_a_store_that_blinks_does_not_end_the_heartbeats() -> None:
    beats = Beats(True, StoreUnavailable("for a moment"), True, True)
    heartbeats = Heartbeats(beats)
    claim: Any = SimpleNamespace(token="t")
    heartbeats.keep(claim, timedelta(milliseconds=15))
    assert beats.is_over.wait(PATIENCE)
    heartbeats.close()


def test_a_claim_that_is_gone_gets_no_more_heartbeats() -> None:
    gone, kept = Beats(False), Beats(*[True] * 5)

    def beat(claim: Any, lease: timedelta) -> bool:
        return (gone if claim.token == "gone" else kept)(claim, lease)

    heartbeats = Heartbeats(beat)
    for token in ("gone", "kept"):
        claim: Any = SimpleNamespace(token=token)
        heartbeats.keep(claim, timedelta(milliseconds=15))
    assert kept.is_over.wait(PATIENCE)
    heartbeats.close()
    assert gone.asked == 1


def test_closing_waits_for_what_is_being_written(place: dict[str, Any]) -> None:
    ledger = Ledger.open(**place)
    store: Any = ledger._engine.recorded  # not a view of it: scenarios before this one may have left data keys
    is_inside, may_go_on = threading.Event(), threading.Event()

    class SlowClock(FakeClock):
        """Is read inside of the store's transaction."""

        def now(self) -> Any:
            is_inside.set()
            assert may_go_on.wait(PATIENCE)
            return super().now()

    writing = store._lane if hasattr(store, "_lane") else store._pen
    assert hasattr(writing, "_clock")
    writing._clock = SlowClock()
    call = in_thread(lambda: ledger.begin(charge()))
    assert is_inside.wait(PATIENCE)
    closing = in_thread(ledger.close)
    may_go_on.set()
    closing.result(PATIENCE)
    assert isinstance(call.result(PATIENCE), Claimed), "what had begun was finished, and told"


def test_a_handler_that_returns_after_the_ledger_was_closed_is_told(shell: Shell) -> None:
    ledger, gate = shell.open(), Gate("too late")
    running = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    ledger.spawn("close").result(PATIENCE)
    gate.open()
    with pytest.raises(IndelibleError, match="could not be recorded"):
        running.result(PATIENCE)


def test_nobody_who_waits_keeps_a_ledger_from_closing(shell: Shell) -> None:
    ledger = shell.open()
    assert isinstance(ledger.begin(charge()), Claimed)
    waiter = ledger.spawn("run", charge(), Count(), wait=PATIENCE)
    somebody_waits(ledger)
    ledger.spawn("close").result(PATIENCE)
    with pytest.raises(IndelibleError):
        waiter.result(PATIENCE)


def test_threads_end_with_their_ledger(place: dict[str, Any]) -> None:
    before = set(threading.enumerate())
    with Ledger.open(**place, lease=LEASE) as ledger:
        claim = ledger.begin(charge()).claim  # type: ignore[union-attr]
        waiter = in_thread(lambda: ledger.run(charge(), Count()))
        eventually(lambda: ledger._engine.waiting._wakers)
        ledger.commit(claim, Succeeded(1))
        waiter.result(PATIENCE)
        ledger.run(charge(args={"amount": 6}), Count())
    eventually(lambda: not {t.name for t in set(threading.enumerate()) - before if t.name.startswith("indelible")})


def test_a_ledger_that_cannot_be_opened_leaves_nothing_open(sqlite_url: str) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    Ledger.open(sqlite_url).close()
    before = descriptors()
    held = []
    for _ in range(3):
        with pytest.raises(BadCall) as refusal:
            Ledger.open(sqlite_url, tenant="")
        held.append(refusal)  # keeps the frames alive, as a logged traceback would
    assert descriptors() == before
