"""The machinery both ledgers share: store, writer, waiting, heartbeats, and the two drivers of walks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from indelible.core.commands import (
    Answer,
    Claimed,
    Command,
    Finish,
    Moved,
    Open,
    Relinquish,
)
from indelible.core.effects.calls import DEFAULT_TENANT, Handling
from indelible.core.effects.effect import SYSTEM, Claim, Effect
from indelible.core.effects.meaning import meaning_of
from indelible.core.effects.outcomes import error_json, result_json
from indelible.core.effects.requests import (
    AwaitChange,
    Awaited,
    AwaitSeal,
    CheckSealing,
    Invoke,
    Judge,
    Mint,
    Pause,
    Probe,
    Raised,
    Recall,
    Request,
    Returned,
    Submit,
    Walk,
)
from indelible.core.ports import Store
from indelible.engine.current_run import EnteredRun, inside
from indelible.engine.entering import (
    Errand,
    Handler,
    OnReplay,
    entered,
    finish_awaitable,
    finish_coroutine,
    fulfil,
    in_own_time,
    is_coroutine_function,
    report_async,
    report_in_time,
    report_of,
    seconds_up,
)
from indelible.engine.heartbeats import Heartbeats
from indelible.engine.judging import Judging
from indelible.engine.notary import Notary
from indelible.engine.running import (
    RunningEffect,
    _current,
    in_own_thread,
    set_unless_done,
    start_handler_thread,
    tell_loop,
)
from indelible.engine.tracing import Span, executing
from indelible.engine.waiting import Waiting
from indelible.engine.writer import Writer
from indelible.errors import BadCall, IndelibleError, LeaseLost, NothingHappened

if TYPE_CHECKING:
    # Loaded when it is needed: whoever only makes blocking calls should not wait for an event loop's modules.
    import asyncio
    from concurrent.futures import Future


class Engine:
    """Carries out walks on one store, for blocking and for asynchronous callers."""

    def __init__(
        self,
        store: Store,
        notary: Notary,
        view: Store | None = None,
        judging: Judging | None = None,
        *,
        owns_store: bool = True,
    ) -> None:
        """Works through `view`, if there is one: the same store as those see it who can open what is encrypted."""
        self._owns_store = owns_store
        self.recorded = store
        self.judging = judging or Judging(store, DEFAULT_TENANT)
        self.store = store = view or store
        self.notary = notary
        self.mint = notary.mint
        self.waiting = Waiting(store)
        self.on_write: list[Callable[[], None]] = [notary.after_write]
        """Is called after each durable write of this process, and must not take long."""
        self.writer = Writer(store, self.waiting.publish, after=self._after_write)
        self.heartbeats = Heartbeats(store.heartbeat)
        self._waits: set[asyncio.Future[Effect | None]] = set()
        self._may_wait = True

    def close(self) -> None:
        """Write and seal what was recorded so far, and give everything back; handlers are not waited for."""
        self.heartbeats.close()
        self.writer.close()
        self.notary.close()
        self.waiting.close()
        if self._owns_store:
            self.store.close()

    # Blocking

    def drive(self, walk: Walk, handler: Handler | None = None, on_replay: OnReplay | None = None) -> Any:
        """Carries a walk out in the caller's own thread."""
        _refuse_inside_transaction(self.store)
        errand = Errand(handler, on_replay)
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    request = walk.send(answer) if error is None else walk.throw(error)
                except StopIteration as end:
                    return _value_or_raise(end.value)
                answer, error = None, None
                try:
                    answer = self._perform(request, errand)
                except BaseException as problem:
                    error = problem
        finally:
            self._give_back(errand)

    def _perform(self, request: Request, errand: Errand) -> Any:
        match request:
            case Submit(command, known):
                errand.note(command)
                answer = errand.settle_inside(command)
                if answer is None:
                    return errand.heard(self.writer.do(command, known, self._return_claim))
                self._publish_settled(answer)
                return answer
            case Invoke() as entry:
                return self._invoke(entry, errand)
            case AwaitChange(effect, most):
                since = time.monotonic()
                return _awaited(self.waiting.wait(effect, most), most, since)
            case Pause(duration):
                threading.Event().wait(duration.total_seconds())
                return None
            case Probe(effect, reconcile):
                return report_of(lambda: finish_coroutine(reconcile(effect)))
            case Judge(prepared, waited, afresh):
                if afresh:
                    self.judging.forget()
                return self.judging.judge(prepared, waited=waited)
            case Recall(ref):
                return self.store.look([ref]).effects[0]
            case CheckSealing():
                return self.notary.check()
            case AwaitSeal(effect, wherever):
                return self.notary.await_seal(effect, wherever=wherever)

    def _invoke(self, entry: Invoke, errand: Errand) -> Returned | Raised:
        claim, handling, lease = entry.claim, entry.handling, entry.handling.lease
        if not self._is_still_ours(claim, lease, errand):
            return _lost_before_entry(claim)
        running = errand.enter(entry, self.store)
        with self._entering(claim, lease) as span:
            if handling.timeout is None:
                report = report_of(lambda: entered(running, errand.handler))
            else:
                report = self._in_thread(claim, running, errand.handler, handling, handling.timeout)
            span.end_with(report)
        return running.ended_with(report)

    def _is_still_ours(self, claim: Claim, lease: timedelta, errand: Errand) -> bool:
        """Was this process held up so long after its claim that the lease may be gone? Then ask before entering.

        A clock may have been set back meanwhile, and the other one may have stood still with the machine.
        """
        held_up = timedelta(seconds=seconds_up() - errand.asked_at)
        if max(held_up, datetime.now(UTC) - claim.effect.updated_at) < lease / 2:
            return True
        return self.store.heartbeat(claim, lease)

    @contextmanager
    def _entering(self, claim: Claim, lease: timedelta) -> Iterator[Span]:
        """Is around every entry into a handler, in both shells: its lease is kept, and its span is open."""
        self.heartbeats.keep(claim, lease)
        try:
            with executing(claim.effect) as span:
                yield span
        finally:
            self.heartbeats.drop(claim)

    def _in_thread(
        self, claim: Claim, running: RunningEffect, handler: Handler, handling: Handling, timeout: timedelta
    ) -> Returned | Raised:
        """Runs a blocking handler that has a time limit; when it is up, nobody waits for it any more."""
        from concurrent.futures import Future

        future: Future[Returned | Raised] = Future()
        context = copy_context()

        def body() -> None:
            context.run(fulfil, future, lambda: entered(running, handler))

        error: BaseException
        running.was_entered = True  # before the thread begins: an interrupt here must not give the claim back
        try:
            start_handler_thread(body)
            return future.result(timeout.total_seconds())
        except NothingHappened as not_entered:
            return Raised(not_entered)
        except TimeoutError:
            error = TimeoutError(f"{claim.effect.tool} did not return within {timeout}")
        except BaseException as interrupt:
            error = interrupt
        future.add_done_callback(lambda done: self._keep_late_aside(claim, done.result(), handling, running))
        return Raised(error, is_interruption=True)

    # Asynchronous

    async def drive_async(self, walk: Walk, handler: Handler | None = None, on_replay: OnReplay | None = None) -> Any:
        """Carries a walk out in the caller's own task."""
        _refuse_inside_transaction(self.store)
        errand = Errand(handler, on_replay)
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                try:
                    request = walk.send(answer) if error is None else walk.throw(error)
                except StopIteration as end:
                    return _value_or_raise(end.value)
                answer, error = None, None
                try:
                    answer = await self._perform_async(request, errand)
                except BaseException as problem:
                    error = problem
        finally:
            self._give_back(errand)

    async def _perform_async(self, request: Request, errand: Errand) -> Any:
        import asyncio

        match request:
            case Submit(command, known):
                return await self._submit(command, known, errand)
            case Invoke() as entry:
                return await self._invoke_async(entry, errand)
            case AwaitChange(effect, most):
                since = time.monotonic()
                return _awaited(await self._wait_async(effect, most), most, since)
            case Pause(duration):
                return await asyncio.sleep(duration.total_seconds())
            case Probe(effect, reconcile):
                return await report_async(in_own_time(reconcile, effect))
            case Judge(prepared, waited, afresh):
                if afresh:
                    self.judging.forget()
                if self.judging.may_block(prepared, waited=waited):
                    return await in_own_thread(lambda: self.judging.judge(prepared, waited=waited))
                return self.judging.judge(prepared, waited=waited)
            case Recall(ref):
                return (await in_own_thread(self.store.look, [ref])).effects[0]
            case CheckSealing():
                return self.notary.check()
            case AwaitSeal(effect, wherever):
                return await in_own_thread(lambda: self.notary.await_seal(effect, wherever=wherever))

    async def _submit(self, command: Command, known: Effect | None, errand: Errand) -> Answer:
        import asyncio

        errand.note(command)
        if errand.holds_transaction:
            answer = await in_own_thread(errand.settle_inside, command)
            if answer is not None:
                self._publish_settled(answer)
                return answer
        answered = self.writer.try_without_writing(command, known)
        if answered is not None:
            return errand.heard(answered)
        slot = self.writer.post(command, known)
        assert slot.future is not None
        try:
            return errand.heard(await slot.future)
        except asyncio.CancelledError:
            if isinstance(command, Open):
                # The claim may still be granted to a task that is gone: give it back, nothing was entered.
                self.writer.leave(slot, self._return_claim)
            elif slot.future.cancelled() and not slot.is_done:
                # A report of what already happened must not get lost: wait for it, then go on being cancelled.
                slot.future = asyncio.get_running_loop().create_future()
                await asyncio.wait([slot.future])
            raise

    def _return_claim(self, answer: Answer) -> None:
        if isinstance(answer, Claimed):
            self.writer.hand_in(_interrupted(answer.claim, self.mint, was_entered=False), answer.claim.effect)

    def _give_back(self, errand: Errand) -> None:
        """Report a claim of which nothing was reported, because its caller was interrupted between two steps."""
        claim = errand.unreported
        if claim is not None:
            self.writer.hand_in(_interrupted(claim, self.mint, was_entered=errand.was_entered), claim.effect)

    async def _wait_async(self, effect: Effect, most: timedelta) -> Effect | None:
        import asyncio

        if not self._may_wait:
            return None
        loop = asyncio.get_running_loop()
        moved: asyncio.Future[Effect | None] = loop.create_future()

        def waker(newest: Effect) -> None:
            tell_loop(loop, set_unless_done, moved, newest)

        self._waits.add(moved)
        self.waiting.add(effect, waker)
        try:
            async with asyncio.timeout(most.total_seconds()):
                return await moved
        except TimeoutError:
            return None
        finally:
            self._waits.discard(moved)
            self.waiting.discard(effect, waker)

    def end_waits(self) -> None:
        """Lets tasks that wait for somebody else go on as if their time were up; in the loop's own thread."""
        self._may_wait = False
        for moved in tuple(self._waits):
            set_unless_done(moved, None)

    async def _invoke_async(self, entry: Invoke, errand: Errand) -> Returned | Raised:
        claim, handling = entry.claim, entry.handling
        lease, most = handling.lease, handling.timeout
        if not self._is_still_ours(claim, lease, errand):
            return _lost_before_entry(claim)
        running = errand.enter(entry, self.store)
        with self._entering(claim, lease) as span:
            token, run = _current.set(running), EnteredRun(running.run_id)
            try:
                body = self._enter_async(claim, running, errand.handler, handling)
                report = await (report_async(body) if most is None else report_in_time(body, most, claim))
            finally:
                run.leave()
                _current.reset(token)
            span.end_with(report)
        return running.ended_with(report)

    async def _enter_async(self, claim: Claim, running: RunningEffect, handler: Handler, handling: Handling) -> Any:
        """Enters a handler from a task: a coroutine function here, any other function in a thread of its own."""
        import asyncio
        from concurrent.futures import Future

        running.was_entered = True
        if is_coroutine_function(handler):
            return await handler(running)
        future: Future[Returned | Raised] = Future()
        try:
            report = await in_own_thread(lambda: fulfil(future, lambda: inside(running.run_id, handler, running)))
        except asyncio.CancelledError:
            # The thread cannot be stopped. What it reports, or has just reported, is kept.
            future.add_done_callback(lambda done: self._keep_late_aside(claim, done.result(), handling, running))
            raise
        if isinstance(report, Raised):
            raise report.error
        return await finish_awaitable(report.value)

    # Both

    def write_alone(self, command: Command, known: Effect | None = None) -> Answer:
        """Writes a command that belongs to no walk; blocks until it is durable."""
        _refuse_inside_transaction(self.store)
        return self.writer.do(command, known)

    def keep_late(self, claim: Claim, report: Returned | Raised, handling: Handling, running: RunningEffect) -> None:
        """Report what a handler did after its caller stopped waiting: that resolves the doubt it left.

        The rows of its transaction were undone when its caller stopped waiting, so a result that counts on them is no
        proof, and an exception may come from that alone.
        """
        stamp, screen, is_undone = self.mint.stamp(SYSTEM), running.screen, running.had_transaction
        try:
            if isinstance(report, Returned):
                if is_undone:
                    return
                detail = result_json(report.value, screen)
                self.writer.do(Finish(claim=claim, stamp=stamp, status="succeeded", detail_json=detail))
                return
            detail = error_json(report.error, screen)
            words = {"has_sent": running.has_sent, "is_interruption": is_undone}
            meaning = meaning_of(report.error, handling, claim.effect.id, **words)
            if meaning == "failed":
                self.writer.do(Finish(claim=claim, stamp=stamp, status="failed", detail_json=detail))
            elif meaning == "nothing":
                self.writer.do(Relinquish(claim=claim, stamp=stamp, status="ready", detail_json=detail))
        except IndelibleError:
            return  # it stays in doubt; there is no caller left to tell

    def _keep_late_aside(
        self, claim: Claim, report: Returned | Raised, handling: Handling, running: RunningEffect
    ) -> None:
        """Do so in a thread of its own: an event loop may have found out."""
        arguments = (claim, report, handling, running)
        threading.Thread(target=self.keep_late, args=arguments, name="indelible-late", daemon=True).start()

    def _after_write(self) -> None:
        for hear in self.on_write:
            hear()

    def _publish_settled(self, answer: Answer) -> None:
        self._after_write()
        if isinstance(answer, Moved):
            self.waiting.publish([answer.effect])


def _refuse_inside_transaction(store: Store) -> None:
    running = _current.get()
    if running is None or not running.holds_transaction:
        return
    # Two ledgers on one file or server would wait for each other; every `:memory:` is a database of its own.
    if running._store is store or running._store.address == store.address != ":memory:":
        raise BadCall(
            f"{running.tool} is inside effect.transaction(): the ledger cannot be called until it has ended; make the "
            "other call before it, or in a handler of its own"
        )


def _awaited(newest: Effect | None, most: timedelta, since: float) -> Awaited:
    """Counts the time that waiting took, so that a call which is woken in vain does not start over."""
    left = most - timedelta(seconds=time.monotonic() - since)
    return Awaited(newest, timedelta(0) if newest is None else max(left, timedelta(0)))


def _value_or_raise(end: Any) -> Any:
    if isinstance(end, Raised):
        raise end.error
    return end


def _interrupted(claim: Claim, mint: Mint, *, was_entered: bool) -> Relinquish:
    if was_entered:
        reason = b'"the caller was interrupted before it could report"'
        return Relinquish(claim=claim, stamp=mint.stamp(SYSTEM), status="in_doubt", detail_json=reason)
    reason = b'"the caller went before its handler was entered"'
    return Relinquish(claim=claim, stamp=mint.stamp(SYSTEM), status="ready", detail_json=reason)


def _lost_before_entry(claim: Claim) -> Raised:
    effect = claim.effect
    message = f"{effect.tool}: the lease of {effect.id} ended before its handler could be entered; nothing was run"
    return Raised(LeaseLost(message, effect=effect), is_interruption=True, was_entered=False)
