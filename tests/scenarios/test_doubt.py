"""In doubt is a state, not a guess: what may have happened is neither repeated nor called failed."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from indelible import (
    AsyncLedger,
    Claimed,
    Failed,
    InDoubt,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    Refused,
    Retry,
    RunningEffect,
    Succeeded,
)
from indelible.errors import EffectFailed, EffectInDoubt, LeaseLost, NotRecordable
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
    types_of,
)
from tests.waiting import PATIENCE, eventually

SOON = timedelta(milliseconds=50)


def leave_in_doubt(ledger: Driver, **options: Any) -> Any:
    """Makes the call that most scenarios are about, and leaves it in doubt."""
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(), Count(MayHaveHappened("line cut")), **options)
    (effect,) = ledger.effects(status="in_doubt")
    return effect


# ── how doubt comes about ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_may_say_that_it_does_not_know(ledger: Driver) -> None:
    effect = leave_in_doubt(ledger)
    assert effect.detail == "MayHaveHappened: line cut"
    handler = Count()
    with pytest.raises(EffectInDoubt, match=effect.id):
        ledger.run(charge(), handler)
    assert handler.entries == 0


def test_a_time_out_on_the_way_to_the_outside_world_leaves_doubt(ledger: Driver) -> None:
    with pytest.raises(TimeoutError):
        ledger.run(charge(), Count(TimeoutError("read")))
    assert ledger.effects()[0].status == "in_doubt"


@pytest.mark.parametrize("side_effect", ["write", "none", "read"])
def test_an_exception_of_what_changes_nothing_outside_is_a_plain_failure(ledger: Driver, side_effect: Any) -> None:
    for amount, error in enumerate((TimeoutError("read"), ValueError("no"))):
        with pytest.raises(type(error)):
            ledger.run(charge(args={"amount": amount}), Count(error), side_effect=side_effect)
        assert ledger.effects()[0].status == "failed"


@pytest.mark.parametrize("side_effect", ["payment", "external_mutation", "notification", "delegation"])
def test_an_undeclared_exception_of_what_changes_the_world_outside_leaves_doubt(
    ledger: Driver, side_effect: Any
) -> None:
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(), Count(ValueError("no")), side_effect=side_effect)
    (effect,) = ledger.effects()
    assert (effect.status, effect.detail) == ("in_doubt", "ValueError: no")
    handler = Count()
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), handler, side_effect=side_effect)
    assert handler.entries == 0


def test_a_time_out_of_what_may_be_repeated_leaves_doubt_that_the_next_call_resolves(ledger: Driver) -> None:
    with pytest.raises(TimeoutError):
        ledger.run(charge(), Count(TimeoutError("read")), on_crash="retry")
    assert ledger.effects()[0].status == "in_doubt"
    assert ledger.run(charge(), Count("again"), on_crash="retry") == "again"


def test_a_handler_over_its_time_limit_leaves_doubt_at_once_and_its_late_result_resolves_it(ledger: Driver) -> None:
    gate = Gate("after all")
    with pytest.raises(TimeoutError, match="did not return within"):
        ledger.run(charge(), gate, timeout=SOON)
    assert ledger.effects()[0].status == "in_doubt"
    gate.open()
    if ledger.kind != "async":  # a coroutine is stopped, a thread cannot be
        eventually(lambda: ledger.effects()[0].status == "succeeded")
        assert types_of(ledger) == ["tool_call_started", "tool_call_in_doubt", "tool_call_finished"]
        assert set(ledger.events("order-1")[-1].read()["commits"]) == {"result", "evidence"}
        assert ledger.run(charge(), Count()) == "after all"
    else:
        assert ledger.effects()[0].status == "in_doubt"
    assert gate.entries == 1 or (ledger.kind == "async" and gate.entries == 0)  # where there was no thread in time


def test_even_what_may_be_repeated_is_in_doubt_while_its_handler_may_still_run(ledger: Driver) -> None:
    gate = Gate()
    with pytest.raises(TimeoutError):
        ledger.run(charge(), gate, timeout=SOON, on_crash="retry")
    assert ledger.effects()[0].status == "in_doubt"
    assert ledger.run(charge(), Count("again"), on_crash="retry") == "again"
    gate.open()
    if ledger.kind != "async":  # a coroutine is stopped, a thread cannot be
        eventually(lambda: types_of(ledger)[-1] == "tool_call_late")
    assert ledger.effects()[0].outcome == Succeeded("again"), "the report of an older attempt changes nothing"


@pytest.mark.parametrize(
    ("kind", "status", "commits"), [(Refused, "failed", {"error", "evidence"}), (NothingHappened, "ready", {"reason"})]
)
def test_the_late_word_of_a_handler_over_its_time_limit_resolves_its_doubt(
    place: dict[str, Any], kind: type[Exception], status: str, commits: set[str]
) -> None:
    gate = Gate(kind("declined"))
    with Ledger.open(**place) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(charge(), gate, timeout=SOON)
        gate.open()
        eventually(lambda: ledger.effects()[0].status == status)
        assert set(ledger.events("order-1")[-1].read()["commits"]) == commits


def test_a_late_exception_that_proves_nothing_leaves_the_doubt(place: dict[str, Any]) -> None:
    gate = Gate(ValueError("too late"))
    with Ledger.open(**place) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(charge(), gate, timeout=SOON)
        gate.open()
        eventually(lambda: not late_threads())
        assert [event.type for event in ledger.events("order-1")] == ["tool_call_started", "tool_call_in_doubt"]
        assert ledger.effects()[0].status == "in_doubt"


def late_threads() -> list[str]:
    """Lists the threads of handlers that nobody waits for, and of what these still report."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("indelible-handler", "indelible-late")]


def test_a_late_report_changes_nothing_once_a_person_has_settled(place: dict[str, Any]) -> None:
    gate = Gate("after all")
    with Ledger.open(**place) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(charge(), gate, timeout=SOON)
        ledger.settle(ledger.effects()[0].id, Failed("not found"), by="ada", evidence="the provider's page")
        gate.open()
        eventually(lambda: ledger.events("order-1")[-1].type == "tool_call_late")
        assert ledger.effects()[0].outcome == Failed("not found")


def test_a_handler_within_its_time_limit_is_like_any_other(ledger: Driver) -> None:
    assert ledger.run(charge(), Count("quick"), timeout=timedelta(seconds=PATIENCE)) == "quick"
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(args={"amount": 6}), Count(ValueError("no")), timeout=timedelta(seconds=PATIENCE))


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_blocking_handler_leaves_doubt_and_goes_on_its_way(
    place: dict[str, Any], kind: type[BaseException]
) -> None:
    with Ledger.open(**place) as ledger:
        with pytest.raises(kind):
            ledger.run(charge(), Count(kind()))
        assert ledger.effects()[0].status == "in_doubt"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_coroutine_leaves_doubt_and_goes_on_its_way(
    place: dict[str, Any], kind: type[BaseException]
) -> None:
    ledger = AsyncLedger.open(**place)

    async def handler(effect: RunningEffect) -> None:
        raise kind

    async def main() -> None:
        await ledger.run(charge(), handler)

    with pytest.raises(kind):
        asyncio.run(main())

    async def after() -> str:
        async with ledger:
            return (await ledger.effects())[0].status

    assert asyncio.run(after()) == "in_doubt"


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_cancelled_task_leaves_doubt_at_once(place: dict[str, Any], is_blocking: bool) -> None:
    gate = Gate("after all")

    async def coroutine(effect: RunningEffect) -> Any:
        gate.entered.set()
        await asyncio.sleep(PATIENCE)

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            task = asyncio.create_task(ledger.run(charge(), gate if is_blocking else coroutine))
            await asyncio.to_thread(gate.await_entry)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (effect,) = await ledger.effects()
            assert effect.status == "in_doubt"
            assert "CancelledError" in effect.detail
            gate.open()
            if is_blocking:  # its thread goes on; what it reports resolves the doubt
                events = await until_finished(ledger)
                assert events[-1].read()["status"] == "succeeded"

    asyncio.run(scenario())


def test_a_cancelled_handler_that_raises_a_declared_failure_for_it_leaves_doubt(place: dict[str, Any]) -> None:
    """Many clients translate CancelledError: what their error declares of an answer says nothing of none."""

    async def scenario() -> None:
        entered = asyncio.Event()

        async def handler(effect: RunningEffect) -> None:
            entered.set()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                raise ConnectionError("closed") from None

        async with AsyncLedger.open(**place) as ledger:
            task = asyncio.create_task(ledger.run(charge(), handler, failed_on=ConnectionError))
            await entered.wait()
            task.cancel()
            with pytest.raises((ConnectionError, asyncio.CancelledError)):
                await task
            assert (await ledger.effects())[0].status == "in_doubt"

    asyncio.run(scenario())


async def until_finished(ledger: AsyncLedger) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            events = await ledger.events("order-1")
            if events[-1].type == "tool_call_finished":
                return events
            await asyncio.sleep(0.002)


def test_a_result_that_comes_at_the_very_moment_of_the_cancel_is_kept(place: dict[str, Any]) -> None:
    gate = Gate("just now")

    def handlers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "indelible-handler"]

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            task = asyncio.create_task(ledger.run(charge(), gate))
            await asyncio.to_thread(gate.await_entry)
            task.cancel()
            gate.open()
            eventually(lambda: not handlers())  # without letting the loop go on
            with pytest.raises(asyncio.CancelledError):
                await task
            await until_finished(ledger)
            assert (await ledger.effects())[0].outcome == Succeeded("just now")

    asyncio.run(scenario())


def test_an_interrupt_while_a_handler_with_a_time_limit_runs_leaves_doubt_at_once(place: dict[str, Any]) -> None:
    gate = Gate("after all")

    def handler(effect: RunningEffect) -> Any:
        eventually(lambda: main_is_inside("engine.py:_in_thread", deepest="wait"))
        interrupt_main()
        return gate(effect)

    with Ledger.open(**place) as ledger:
        with pytest.raises(KeyboardInterrupt):
            ledger.run(charge(), handler, timeout=timedelta(seconds=PATIENCE))
        try:
            assert ledger.effects()[0].status == "in_doubt"
        finally:
            gate.open()
        eventually(lambda: ledger.effects()[0].status == "succeeded")


def test_a_time_limit_of_the_callers_own_leaves_doubt(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        limit = asyncio.timeout(None)

        async def handler(effect: RunningEffect) -> None:
            limit.reschedule(asyncio.get_running_loop().time())  # it is over while this is at work
            await asyncio.sleep(PATIENCE)

        async with AsyncLedger.open(**place) as ledger:
            with pytest.raises(TimeoutError):
                async with limit:
                    await ledger.run(charge(), handler)
            assert (await ledger.effects())[0].status == "in_doubt"

    asyncio.run(scenario())


def test_the_result_of_a_coroutine_that_finished_in_spite_of_its_time_limit_is_kept(place: dict[str, Any]) -> None:
    async def handler(effect: RunningEffect) -> str:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            return "done in spite of all"
        raise AssertionError("not reached")

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            try:
                assert await ledger.run(charge(), handler, timeout=SOON) == "done in spite of all"
            except TimeoutError:
                assert (await ledger.effects())[0].status == "succeeded"

    asyncio.run(scenario())


def test_a_worker_that_lets_its_lease_run_out_is_in_doubt_until_it_reports(ledger: Driver, clock: FakeClock) -> None:
    claim = ledger.begin(charge()).claim
    clock.advance(LEASE)
    assert isinstance(ledger.begin(charge()), InDoubt)
    assert ledger.commit(claim, Succeeded("late")) == "late"
    assert ledger.effects()[0].outcome == Succeeded("late")
    assert types_of(ledger) == ["tool_call_started", "tool_call_in_doubt", "tool_call_finished"]
    assert set(ledger.events("order-1")[-1].read()["commits"]) == {"result", "evidence"}


def test_a_worker_that_reports_after_a_person_settled_is_told_and_its_report_is_kept(
    ledger: Driver, clock: FakeClock
) -> None:
    claim = ledger.begin(charge()).claim
    clock.advance(LEASE)
    assert isinstance(ledger.begin(charge()), InDoubt)
    ledger.settle(claim.effect.id, Failed("not found"), by="ada", evidence="the provider's page")
    with pytest.raises(LeaseLost) as lost:
        ledger.commit(claim, Succeeded("late"))
    assert lost.value.effect.status == "failed"
    assert types_of(ledger)[2:] == ["tool_call_finished", "tool_call_late"]


def test_a_worker_that_reports_while_another_attempt_is_in_doubt_settles_nothing(
    ledger: Driver, clock: FakeClock
) -> None:
    first = ledger.begin(charge(), on_crash="retry").claim
    clock.advance(LEASE)
    second = ledger.begin(charge(), on_crash="retry").claim
    clock.advance(LEASE)
    ledger.reconcile()
    with pytest.raises(LeaseLost) as lost:
        ledger.commit(first, Succeeded("first"))
    assert lost.value.effect.status == "in_doubt"
    assert types_of(ledger)[-1] == "tool_call_late"
    assert ledger.commit(second, Succeeded("second")) == "second"
    assert ledger.effects()[0].outcome == Succeeded("second")


def test_a_worker_whose_lease_ran_out_unnoticed_may_still_settle(ledger: Driver, clock: FakeClock) -> None:
    claim = ledger.begin(charge()).claim
    clock.advance(LEASE * 10)
    assert ledger.commit(claim, Succeeded("in time")) == "in time"


# ── leases and heartbeats ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_heartbeat_keeps_a_claim_alive(ledger: Driver, clock: FakeClock) -> None:
    claim = ledger.begin(charge()).claim
    for _ in range(5):
        clock.advance(LEASE * 0.9)
        ledger.heartbeat(claim)
    assert ledger.effects()[0].status == "processing"
    assert ledger.commit(claim, Succeeded(1)) == 1


def test_a_heartbeat_says_when_the_claim_is_gone(ledger: Driver, clock: FakeClock) -> None:
    claim = ledger.begin(charge()).claim
    clock.advance(LEASE)
    ledger.begin(charge())
    with pytest.raises(LeaseLost):
        ledger.heartbeat(claim)


def test_a_long_handler_is_kept_alive_without_its_help(place: dict[str, Any]) -> None:
    """Goes by the real clock: the handler stays inside for several leases."""
    gate = Gate("at last")
    with Ledger.open(**place, lease=timedelta(milliseconds=300)) as ledger:
        call = in_thread(lambda: ledger.run(charge(), gate))
        gate.await_entry()
        first = ledger.effects()[0].lease_until
        eventually(lambda: ledger.effects()[0].lease_until > first + timedelta(milliseconds=600))
        assert ledger.effects()[0].status == "processing"
        gate.open()
        assert call.result(PATIENCE) == "at last"


def test_a_heartbeat_never_shortens_a_lease(ledger: Driver) -> None:
    claim = ledger.begin(charge(), lease=timedelta(hours=1)).claim
    before = ledger.get_effect(claim.effect.id).lease_until
    ledger.heartbeat(claim)
    assert ledger.get_effect(claim.effect.id).lease_until >= before


# ── on_crash ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{"on_crash": "retry"}, {"side_effect": "read"}, {"side_effect": "none"}])
def test_what_may_be_repeated_is_entered_again_after_a_crash(
    ledger: Driver, clock: FakeClock, options: dict[str, Any]
) -> None:
    assert isinstance(ledger.begin(charge(), **options), Claimed)
    clock.advance(LEASE)
    seen: list[int] = []
    assert ledger.run(charge(), lambda effect: seen.append(effect.fence), **options) is None
    assert seen == [2]


def test_what_may_be_repeated_is_entered_again_after_it_was_left_in_doubt(ledger: Driver) -> None:
    leave_in_doubt(ledger, on_crash="retry")
    assert ledger.run(charge(), Count("again"), on_crash="retry") == "again"


def test_what_was_recorded_as_dangerous_stays_so_whatever_the_next_caller_says(ledger: Driver) -> None:
    leave_in_doubt(ledger, on_crash="hold")
    handler = Count()
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), handler, on_crash="retry")
    assert handler.entries == 0


@pytest.mark.parametrize("side_effect", ["write", "external_mutation", "payment", "notification", "delegation"])
def test_what_leaves_a_trace_outside_is_held(ledger: Driver, clock: FakeClock, side_effect: Any) -> None:
    assert isinstance(ledger.begin(charge(), side_effect=side_effect), Claimed)
    clock.advance(LEASE)
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), Count(), side_effect=side_effect)


# ── nothing happened, and retries ────────────────────────────────────────────────────────────────────────────────────


def test_when_nothing_happened_the_next_call_tries_again(ledger: Driver) -> None:
    with pytest.raises(NothingHappened, match="closed"):
        ledger.run(charge(), Count(NothingHappened("closed")))
    (effect,) = ledger.effects()
    assert (effect.status, effect.detail) == ("ready", "NothingHappened: closed")
    assert ledger.run(charge(), Count("open now")) == "open now"
    assert ledger.effects()[0].attempt == 2
    assert types_of(ledger) == ["tool_call_started", "tool_call_released", "tool_call_started", "tool_call_finished"]


class Flaky:
    """Fails a few times and then works."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.fences: list[int] = []
        self._failures = failures
        self._error = error

    def __call__(self, effect: RunningEffect) -> str:
        self.fences.append(effect.fence)
        if len(self.fences) <= self._failures:
            raise self._error
        return "at last"


def test_declared_exceptions_are_tried_again_with_a_new_fence(ledger: Driver) -> None:
    flaky = Flaky(2, ConnectionError("reset"))
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0))
    assert ledger.run(charge(), flaky, retry=retry) == "at last"
    assert flaky.fences == [1, 2, 3]


@pytest.mark.parametrize(
    ("options", "kind"), [({"failed_on": ConnectionError}, EffectFailed), ({}, EffectInDoubt)], ids=["declared", "not"]
)
def test_tries_end(ledger: Driver, options: dict[str, Any], kind: type[Exception]) -> None:
    flaky = Flaky(9, ConnectionError("reset"))
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0))
    with pytest.raises(ConnectionError):
        ledger.run(charge(), flaky, retry=retry, **options)
    assert flaky.fences == [1, 2, 3]
    with pytest.raises(kind):
        ledger.run(charge(), flaky)
    assert flaky.fences == [1, 2, 3]


def test_a_persons_retry_gets_the_full_number_of_tries(ledger: Driver) -> None:
    flaky = Flaky(5, ConnectionError("reset"))
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0))
    with pytest.raises(ConnectionError):
        ledger.run(charge(), flaky, retry=retry)
    (effect,) = ledger.effects()
    ledger.retry(effect.id, by="ana", reason="the line is mended")
    assert ledger.run(charge(), flaky, retry=retry) == "at last"
    assert flaky.fences == [1, 2, 3, 4, 5, 6]


def test_other_exceptions_are_not_tried_again(ledger: Driver) -> None:
    flaky = Flaky(9, ValueError("no"))
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(), flaky, retry=Retry(on=(ConnectionError,), backoff=timedelta(0)))
    assert flaky.fences == [1]


# ── probes ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_probe_that_finds_the_effect_settles_it(ledger: Driver) -> None:
    left = leave_in_doubt(ledger)
    asked: list[Any] = []

    def probe(effect: Any) -> Succeeded:
        asked.append(effect)
        return Succeeded({"id": "ch_1"})

    handler = Count()
    assert ledger.run(charge(), handler, reconcile=probe) == {"id": "ch_1"}
    assert ledger.run(charge(), handler) == {"id": "ch_1"}
    assert handler.entries == 0
    assert [effect.id for effect in asked] == [left.id]
    finished = ledger.events("order-1")[-1].read()
    assert finished["actor"] == {"id": "probe of charge", "kind": "system", "via": "process"}
    assert set(finished["commits"]) == {"result", "evidence"}


def test_a_probe_that_finds_nothing_done_settles_it_as_failed(ledger: Driver) -> None:
    leave_in_doubt(ledger)
    with pytest.raises(EffectFailed, match="no such charge"):
        ledger.run(charge(), Count(), reconcile=lambda effect: Failed("no such charge"))


def test_a_probe_that_does_not_know_leaves_the_doubt(ledger: Driver) -> None:
    leave_in_doubt(ledger)
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), Count(), reconcile=lambda effect: None)
    assert ledger.effects()[0].status == "in_doubt"


def test_a_probe_that_raises_leaves_the_doubt(ledger: Driver) -> None:
    leave_in_doubt(ledger)

    def probe(effect: Any) -> None:
        raise ConnectionError("no route")

    with pytest.raises(EffectInDoubt, match="no route") as doubt:
        ledger.run(charge(), Count(), reconcile=probe)
    assert isinstance(doubt.value.__cause__, ConnectionError)


@pytest.mark.parametrize("answer", [True, "succeeded", {"id": 1}])
def test_a_probe_that_answers_anything_else_settles_nothing(ledger: Driver, answer: Any) -> None:
    leave_in_doubt(ledger)
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), Count(), reconcile=lambda effect: answer)
    assert ledger.effects()[0].status == "in_doubt"


def test_a_probe_whose_answer_cannot_be_recorded_settles_nothing(ledger: Driver) -> None:
    leave_in_doubt(ledger)
    with pytest.raises(EffectInDoubt) as doubt:
        ledger.run(charge(), Count(), reconcile=lambda effect: Succeeded(object()))
    assert isinstance(doubt.value.__cause__, NotRecordable)
    assert ledger.effects()[0].status == "in_doubt"


def test_a_probe_may_be_a_coroutine_function(ledger: Driver) -> None:
    leave_in_doubt(ledger)

    async def probe(effect: Any) -> Succeeded:
        await asyncio.sleep(0)
        return Succeeded("awaited")

    assert ledger.run(charge(), Count(), reconcile=probe) == "awaited"


def test_a_probe_is_asked_when_a_lease_ran_out(ledger: Driver, clock: FakeClock) -> None:
    assert isinstance(ledger.begin(charge()), Claimed)
    clock.advance(LEASE)
    assert ledger.run(charge(), Count(), reconcile=lambda effect: Succeeded("found")) == "found"


def test_two_callers_who_probe_at_once_get_the_same_result(ledger: Driver) -> None:
    leave_in_doubt(ledger)
    together = threading.Barrier(2)

    def probe(effect: Any) -> Succeeded:
        together.wait(PATIENCE)
        return Succeeded("found")

    calls = [ledger.spawn("run", charge(), Count(), reconcile=probe) for _ in range(2)]
    assert [call.result(PATIENCE) for call in calls] == ["found", "found"]


def test_a_task_cancelled_while_it_probes_is_cancelled(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            with pytest.raises(MayHaveHappened):
                await ledger.run(charge(), Count(MayHaveHappened("x")))
            is_asked = asyncio.Event()

            async def probe(effect: Any) -> None:
                is_asked.set()
                await asyncio.sleep(PATIENCE)

            task = asyncio.create_task(ledger.run(charge(), Count(), reconcile=probe))
            await is_asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await ledger.effects())[0].status == "in_doubt"

    asyncio.run(scenario())


# ── reconcile() ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_reconcile_sees_to_everything_that_was_left(ledger: Driver, clock: FakeClock) -> None:
    known = {1: Succeeded("found"), 2: Failed("not found"), 3: None}

    @ledger.tool("charge", reconcile=lambda effect: known[effect.args["amount"]])
    def _charge(amount: int) -> None: ...

    for amount in (1, 2, 3):
        assert isinstance(ledger.begin(charge(args={"amount": amount})), Claimed)
    assert isinstance(ledger.begin(charge(tool="unknown", args={"amount": 4})), Claimed)
    clock.advance(LEASE)
    assert isinstance(ledger.begin(charge(args={"amount": 5})), Claimed)
    seen = {effect.args["amount"]: effect.status for effect in ledger.reconcile()}
    assert seen == {1: "succeeded", 2: "failed", 3: "in_doubt", 4: "in_doubt"}
    now = {effect.args["amount"]: effect.status for effect in ledger.effects()}
    assert now == {**seen, 5: "processing"}


def test_reconcile_goes_on_when_a_probe_raises(ledger: Driver, clock: FakeClock) -> None:
    def probe(effect: Any) -> Any:
        if effect.args["amount"] == 1:
            raise ConnectionError("no route")
        return Succeeded("found")

    @ledger.tool("charge", reconcile=probe)
    def _charge(amount: int) -> None: ...

    for amount in (1, 2):
        assert isinstance(ledger.begin(charge(args={"amount": amount})), Claimed)
    clock.advance(LEASE)
    seen = {effect.args["amount"]: effect.status for effect in ledger.reconcile()}
    assert seen == {1: "in_doubt", 2: "succeeded"}


_NO_TEXT: Any = object()


@pytest.mark.parametrize("answer", ["yes", Succeeded(object()), Failed(_NO_TEXT), Failed("lost", _NO_TEXT)])
def test_reconcile_goes_on_when_a_probe_answers_nonsense(ledger: Driver, clock: FakeClock, answer: Any) -> None:
    @ledger.tool("charge", reconcile=lambda effect: answer if effect.args["amount"] == 1 else Succeeded("found"))
    def _charge(amount: int) -> None: ...

    for amount in (1, 2):
        assert isinstance(ledger.begin(charge(args={"amount": amount})), Claimed)
    clock.advance(LEASE)
    seen = {effect.args["amount"]: effect.status for effect in ledger.reconcile()}
    assert seen == {1: "in_doubt", 2: "succeeded"}


def test_reconcile_asks_the_ledgers_own_probe_where_the_tool_has_none(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(clock=clock, reconcile=lambda effect: Succeeded("found"))
    assert isinstance(ledger.begin(charge()), Claimed)
    clock.advance(LEASE)
    assert [effect.status for effect in ledger.reconcile()] == ["succeeded"]


def test_reconcile_leaves_alone_what_is_running(ledger: Driver) -> None:
    assert isinstance(ledger.begin(charge()), Claimed)
    assert ledger.reconcile() == []


def test_reconcile_takes_as_many_as_it_is_told(ledger: Driver, clock: FakeClock) -> None:
    for amount in range(4):
        assert isinstance(ledger.begin(charge(args={"amount": amount})), Claimed)
    clock.advance(LEASE)
    assert len(ledger.reconcile(limit=3)) == 3
    assert len(ledger.effects(status="in_doubt")) == 3


def test_reconcile_is_interrupted_by_an_interrupt(place: dict[str, Any]) -> None:
    def probe(effect: Any) -> None:
        raise KeyboardInterrupt

    with Ledger.open(**place, reconcile=probe) as ledger:

        @ledger.tool("charge")
        def _charge(amount: int) -> None:
            raise MayHaveHappened("x")

        with pytest.raises(MayHaveHappened):
            _charge(5)
        with pytest.raises(KeyboardInterrupt):
            ledger.reconcile()


# ── late results ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_late_success_never_overwrites_the_one_who_took_over(ledger: Driver, clock: FakeClock) -> None:
    slow = ledger.begin(charge(), on_crash="retry").claim
    clock.advance(LEASE)
    assert ledger.run(charge(), Count("second"), on_crash="retry") == "second"
    with pytest.raises(LeaseLost):
        ledger.commit(slow, Succeeded("first"))
    assert ledger.run(charge(), Count()) == "second"
    late = ledger.events("order-1")[-1]
    assert (late.type, late.read()["status"]) == ("tool_call_late", "succeeded")
    (kept,) = ledger.engine.store.payloads(ledger.tenant, "order-1", [late.seq])
    assert (kept.field, kept.value) == ("late_result", b'"first"')


def test_a_late_failure_never_overwrites_the_one_who_took_over(ledger: Driver, clock: FakeClock) -> None:
    slow = ledger.begin(charge(), on_crash="retry").claim
    clock.advance(LEASE)
    ledger.run(charge(), Count("second"), on_crash="retry")
    with pytest.raises(LeaseLost):
        ledger.commit(slow, Failed("gave up"))
    assert ledger.effects()[0].outcome == Succeeded("second")


def test_a_handler_that_was_overtaken_is_told(ledger: Driver, clock: FakeClock) -> None:
    gate = Gate("first")
    slow = ledger.spawn("run", charge(), gate, on_crash="retry")
    gate.await_entry()
    clock.advance(LEASE)
    assert ledger.run(charge(), Count("second"), on_crash="retry") == "second"
    gate.open()
    with pytest.raises(LeaseLost):
        slow.result(PATIENCE)
    assert ledger.run(charge(), Count()) == "second"
