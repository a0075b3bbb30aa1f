"""The machinery both ledgers share: store, writer, waiting, heartbeats, and the two drivers of walks."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
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
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects.calls import DEFAULT_TENANT, Handling
from indelible.core.effects.effect import SYSTEM, Claim, Effect
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
from indelible.core.privacy.redaction import Screen
from indelible.engine.heartbeats import Heartbeats
from indelible.engine.judging import Judging
from indelible.engine.notary import Notary
from indelible.engine.running import RunningEffect, _current, in_own_thread, set_unless_done, tell_loop
from indelible.engine.tracing import Span, executing, tell_replayed
from indelible.engine.waiting import Waiting
from indelible.engine.writer import Writer
from indelible.errors import BadCall, IndelibleError, LeaseLost

if TYPE_CHECKING:
    # Loaded when it is needed: whoever only makes blocking calls should not wait for an event loop's modules.
    import asyncio
    from concurrent.futures import Future

Handler = Callable[[RunningEffect], Any]


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
        self.writer = Writer(store, self.waiting.publish, before=notary.before_write, after=self._after_write)
        self.heartbeats = Heartbeats(store.heartbeat)
        self._waits: set[asyncio.Future[Effect | None]] = set()
        self._may_wait = True

    def close(self) -> None:
        """Finishes what is under way and gives everything back."""
        self.heartbeats.close()
        self.writer.close()
        self.notary.close()
        self.waiting.close()
        if self._owns_store:
            self.store.close()

    # Blocking

    def drive(self, walk: Walk, handler: Handler | None = None) -> Any:
        """Carries a walk out in the caller's own thread."""
        _refuse_inside_transaction(self.store)
        errand = _Errand(handler)
        answer: Any = None
        error: BaseException | None = None
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

    def _perform(self, request: Request, errand: _Errand) -> Any:
        match request:
            case Submit(command, known):
                errand.note(command)
                answer = errand.settle_inside(command)
                if answer is None:
                    return errand.heard(self.writer.do(command, known, self._return_claim))
                self._publish_settled(answer)
                return answer
            case Invoke(claim, handling, screen):
                return self._invoke(claim, handling, errand, screen)
            case AwaitChange(effect, most):
                since = time.monotonic()
                return _awaited(self.waiting.wait(effect, most), most, since)
            case Pause(duration):
                threading.Event().wait(duration.total_seconds())
                return None
            case Probe(effect, reconcile):
                return _report(lambda: _finish_coroutine(reconcile(effect)))
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

    def _invoke(self, claim: Claim, handling: Handling, errand: _Errand, screen: Screen | None) -> Returned | Raised:
        lease = handling.lease
        if not self._is_still_ours(claim, lease, errand):
            return _lost_before_entry(claim)
        running = errand.enter(claim, self.store, screen)
        with self._entering(claim, lease) as span:
            if handling.timeout is None:
                report = _report(lambda: _entered(running, errand.handler))
            else:
                report = self._in_thread(claim, running, errand.handler, handling.timeout)
            span.end_with(report)
        return running.ended_with(report)

    def _is_still_ours(self, claim: Claim, lease: timedelta, errand: _Errand) -> bool:
        """Was this process held up so long after its claim that the lease may be gone? Then ask before entering.

        A clock may have been set back meanwhile, and the other one may have stood still with the machine.
        """
        held_up = timedelta(seconds=_seconds_up() - errand.asked_at)
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
        self, claim: Claim, running: RunningEffect, handler: Handler, timeout: timedelta
    ) -> Returned | Raised:
        """Runs a blocking handler that has a time limit; when it is up, nobody waits for it any more."""
        from concurrent.futures import Future

        future: Future[Returned | Raised] = Future()
        context = copy_context()

        def body() -> None:
            context.run(_fulfil, future, lambda: _entered(running, handler))

        threading.Thread(target=body, name="indelible-handler", daemon=True).start()
        error: BaseException
        try:
            return future.result(timeout.total_seconds())
        except TimeoutError:
            error = TimeoutError(f"{claim.effect.tool} did not return within {timeout}")
        except BaseException as interrupt:
            error = interrupt
        future.add_done_callback(lambda done: self._keep_late_aside(claim, done.result(), running.screen))
        return Raised(error, is_interruption=True)

    # Asynchronous

    async def drive_async(self, walk: Walk, handler: Handler | None = None) -> Any:
        """Carries a walk out in the caller's own task."""
        _refuse_inside_transaction(self.store)
        errand = _Errand(handler)
        answer: Any = None
        error: BaseException | None = None
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

    async def _perform_async(self, request: Request, errand: _Errand) -> Any:
        import asyncio

        match request:
            case Submit(command, known):
                return await self._submit(command, known, errand)
            case Invoke(claim, handling, screen):
                return await self._invoke_async(claim, handling, errand, screen)
            case AwaitChange(effect, most):
                since = time.monotonic()
                return _awaited(await self._wait_async(effect, most), most, since)
            case Pause(duration):
                return await asyncio.sleep(duration.total_seconds())
            case Probe(effect, reconcile):
                return await _report_async(_in_own_time(reconcile, effect))
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

    async def _submit(self, command: Command, known: Effect | None, errand: _Errand) -> Answer:
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
            self.writer.hand_in(_nothing_entered(answer.claim, self.mint), answer.claim.effect)

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

    async def _invoke_async(
        self, claim: Claim, handling: Handling, errand: _Errand, screen: Screen | None
    ) -> Returned | Raised:
        lease, most = handling.lease, handling.timeout
        if not self._is_still_ours(claim, lease, errand):
            return _lost_before_entry(claim)
        running = errand.enter(claim, self.store, screen)
        with self._entering(claim, lease) as span:
            token = _current.set(running)
            try:
                entered = self._enter_async(claim, running, errand.handler)
                report = await (_report_async(entered) if most is None else _report_in_time(entered, most, claim))
            finally:
                _current.reset(token)
            span.end_with(report)
        return running.ended_with(report)

    async def _enter_async(self, claim: Claim, running: RunningEffect, handler: Handler) -> Any:
        """Enters a handler from a task: a coroutine function here, any other function in a thread of its own."""
        import asyncio
        from concurrent.futures import Future

        if _is_coroutine_function(handler):
            return await handler(running)
        future: Future[Returned | Raised] = Future()
        try:
            report = await in_own_thread(lambda: _fulfil(future, lambda: handler(running)))
        except asyncio.CancelledError:
            # The thread cannot be stopped. What it reports, or has just reported, is kept.
            future.add_done_callback(lambda done: self._keep_late_aside(claim, done.result(), running.screen))
            raise
        if isinstance(report, Raised):
            raise report.error
        return await report.value if _is(inspect.isawaitable, report.value) else report.value

    # Both

    def write_alone(self, command: Command, known: Effect | None = None) -> Answer:
        """Writes a command that belongs to no walk; blocks until it is durable."""
        _refuse_inside_transaction(self.store)
        return self.writer.do(command, known)

    def keep_late(self, claim: Claim, report: Returned | Raised, screen: Screen | None = None) -> None:
        """Keeps, as an event, what a handler reported after nobody waited for it any more."""
        stamp = self.mint.stamp(SYSTEM)
        reason = b'"its caller stopped waiting"'
        try:
            # The doubt comes first: a report that nobody waited for must never settle the effect.
            doubt = Relinquish(claim=claim, stamp=self.mint.stamp(SYSTEM), status="in_doubt", detail_json=reason)
            self.writer.do(doubt, claim.effect)
            if isinstance(report, Returned):
                detail = result_json(report.value, screen)
                command = Finish(claim=claim, stamp=stamp, status="succeeded", detail_json=detail)
            else:
                detail = error_json(report.error, screen)
                command = Finish(claim=claim, stamp=stamp, status="failed", detail_json=detail)
            self.writer.do(command)
        except IndelibleError:
            return  # in doubt it is already; there is nobody left to tell

    def _keep_late_aside(self, claim: Claim, report: Returned | Raised, screen: Screen | None) -> None:
        """Does so in a thread of its own, for whoever finds out may be a loop."""
        arguments = (claim, report, screen)
        threading.Thread(target=self.keep_late, args=arguments, name="indelible-late", daemon=True).start()

    def _after_write(self) -> None:
        for hear in self.on_write:
            hear()

    def _publish_settled(self, answer: Answer) -> None:
        self._after_write()
        if isinstance(answer, Moved):
            self.waiting.publish([answer.effect])


class _Errand:
    """Is what one drive of a walk carries along: the handler, and the effect it is running."""

    __slots__ = ("_handler", "_running", "asked_at")

    def __init__(self, handler: Handler | None) -> None:
        self.asked_at = 0.0
        self._handler = handler
        self._running: RunningEffect | None = None

    @property
    def handler(self) -> Handler:
        assert self._handler is not None, "only walks that were given a handler invoke one"
        return self._handler

    def note(self, command: Command) -> None:
        """Notes when a claim is asked for: its lease begins later than that."""
        if isinstance(command, Open):
            self.asked_at = _seconds_up()

    def enter(self, claim: Claim, store: Store, screen: Screen | None) -> RunningEffect:
        is_async = _is_coroutine_function(self.handler)
        self._running = RunningEffect(claim, store, is_async=is_async, screen=screen)
        return self._running

    def heard(self, answer: Answer) -> Answer:
        """Lets a call that has a handler and will not enter it leave a trace as well."""
        if self._handler is not None and isinstance(answer, Replayed | ReplayedFailure):
            tell_replayed(answer.effect)
        return answer

    @property
    def holds_transaction(self) -> bool:
        return self._running is not None and self._running.holds_transaction

    def settle_inside(self, command: Command) -> Answer | None:
        """Settles in the handler's own transaction; None when the command has to go the common way."""
        if self._running is None or not self._running.holds_transaction:
            return None
        if not isinstance(command, Finish):
            self._running.give_up()
            return None
        answer = self._running.settle_inside(command)
        return answer if isinstance(answer, Moved) else None


def _seconds_up() -> float:
    """Gives a time that nobody can set back, and that goes on while the machine sleeps, where it tells that."""
    return time.monotonic() if _UP is None else time.clock_gettime(_UP)


_UP: int | None = getattr(time, "CLOCK_BOOTTIME", None)


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


def _nothing_entered(claim: Claim, mint: Mint) -> Relinquish:
    reason = b'"the caller went before its handler was entered"'
    return Relinquish(claim=claim, stamp=mint.stamp(SYSTEM), status="ready", detail_json=reason)


def _lost_before_entry(claim: Claim) -> Raised:
    effect = claim.effect
    message = f"{effect.tool}: the lease of {effect.id} ended before its handler could be entered; nothing was run"
    return Raised(LeaseLost(message, effect=effect), is_interruption=True)


def _entered(running: RunningEffect, handler: Handler) -> Any:
    token = _current.set(running)
    try:
        return _finish_coroutine(handler(running))
    finally:
        _current.reset(token)


def _report(body: Callable[[], Any]) -> Returned | Raised:
    try:
        return Returned(body())
    except BaseException as error:
        return Raised(error, is_interruption=not isinstance(error, Exception))


def _fulfil(future: Future[Returned | Raised], body: Callable[[], Any]) -> Returned | Raised:
    report = _report(body)
    future.set_result(report)
    return report


async def _report_async(body: Awaitable[Any]) -> Returned | Raised:
    try:
        return Returned(await body)
    except BaseException as error:
        return Raised(error, is_interruption=not isinstance(error, Exception))


async def _report_in_time(body: Awaitable[Any], most: timedelta, claim: Claim) -> Returned | Raised:
    import asyncio

    async with asyncio.timeout(most.total_seconds()) as limit:
        report = await _report_async(body)  # the limit's cancellation ends here, as a report
    if limit.expired() and isinstance(report, Raised):  # what a handler returned in spite of its limit is known
        return Raised(TimeoutError(f"{claim.effect.tool} did not return within {most}"), is_interruption=True)
    return report


def _is_coroutine_function(handler: Handler) -> bool:
    code = getattr(handler, "__code__", None)
    if code is not None:  # a plain function; asking `inspect` costs ten times as much
        return bool(code.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def _is(kind: Callable[[Any], bool], value: Any) -> bool:
    """Looks at what a handler gave; what cannot even be looked at was given all the same, and is no failure of it."""
    try:
        return kind(value)
    except Exception:
        return False


def _finish_coroutine(value: Any) -> Any:
    """Runs a coroutine that a blocking caller got from its handler; anything else is given back as it is."""
    if not _is(inspect.iscoroutine, value):
        return value
    import asyncio
    from concurrent.futures import Future

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(value)
    # This thread already runs a loop, which must not be entered twice: a thread of its own has its own loop.
    future: Future[Any] = Future()
    work = copy_context().run

    def body() -> None:
        try:
            future.set_result(work(asyncio.run, value))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=body, name="indelible-handler", daemon=True).start()
    return future.result()


async def _in_own_time(function: Callable[[Effect], Any], effect: Effect) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(effect)
    value = await in_own_thread(function, effect)
    return await value if inspect.isawaitable(value) else value
