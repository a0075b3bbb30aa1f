"""What a handler holds while it runs: its effect, and a transaction on the ledger's own database if it wants one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from weakref import WeakSet

from indelible.core.approvals.edits import carried_over
from indelible.core.commands import Answer, Command
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import with_added
from indelible.core.effects.request_keys import digest_of_body, is_same_request, shown_address
from indelible.core.effects.requests import Raised, Returned
from indelible.core.ports import Store, Transaction
from indelible.core.privacy.redaction import Screen
from indelible.core.values.canonical import decode
from indelible.errors import AmbiguousRequest, BadCall, LeaseLost, MayHaveHappened, NothingHappened

if TYPE_CHECKING:
    import asyncio

Result = TypeVar("Result")

_REQUESTS = threading.Lock()

_current: ContextVar[RunningEffect | None] = ContextVar("indelible_effect", default=None)
_request_name: ContextVar[tuple[RunningEffect, str] | None] = ContextVar("indelible_request", default=None)


def current_effect() -> RunningEffect | None:
    """Gives the effect whose handler is running here, or None outside a handler."""
    return _current.get()


def mark_all_running() -> None:
    """Note for every handler of this process that something leaves, because its own one is not known.

    A thread that a handler started without its context cannot be told from one that belongs to no handler.
    """
    with _REQUESTS:
        for effect in _all_running:
            effect._has_sent = True


CompensationStatus = Literal["done", "failed", "in_doubt", "waiting", "nothing_to_do", "undeclared"]


class Compensated(NamedTuple):
    """Is an effect, and what came of making it good: `value` is what its compensation gave, `error` what stood against.

    There was `nothing_to_do` if it had been made good before, and where nothing is declared for its tool, nothing could
    be done. What failed or is in doubt stays so until somebody retries or settles the compensation.
    """

    effect: Effect
    status: CompensationStatus
    value: Any = None
    error: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Is there something left to do, by another call or by a person first?"""
        return self.status in ("failed", "in_doubt", "waiting")


class RunningEffect:
    """Is the effect as its handler sees it: the recorded arguments, the key to pass on, the fence."""

    __slots__ = (
        "__weakref__",
        "_added",
        "_args",
        "_effect",
        "_has_returned",
        "_has_sent",
        "_is_async",
        "_is_over",
        "_outer",
        "_own_args",
        "_pid",
        "_requests",
        "_store",
        "_transaction",
        "screen",
        "volatile",
        "was_entered",
    )

    def __init__(
        self,
        claim: Claim,
        store: Store,
        *,
        is_async: bool,
        screen: Screen | None = None,
        volatile: tuple[str, ...] = (),
        added: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._is_async = is_async
        self._is_over = False
        self._has_returned = False
        self._has_sent = False
        self.was_entered = False
        self.volatile = volatile
        self._added = added
        self._pid = os.getpid()
        self._effect = claim.effect
        self._store = store
        self._own_args = _own_arguments(claim, screen)
        self._args: dict[str, Any] | None = None
        self.screen = screen
        self._transaction: HandlersTransaction | None = None
        self._requests: dict[str, str | None] = {}
        self._outer = _current.get()
        with _REQUESTS:
            _all_running.add(self)

    @property
    def effect(self) -> Effect:
        """Is the record itself."""
        return self._effect

    @property
    def id(self) -> str:
        """Is the effect's id."""
        return self._effect.id

    @property
    def key(self) -> str:
        """Identifies the call; pass it downstream as the idempotency key."""
        return self._effect.key

    @property
    def digest(self) -> str:
        """Is the digest of the exact call."""
        return self._effect.digest

    @property
    def tool(self) -> str:
        """Names the tool."""
        return self._effect.tool

    @property
    def run_id(self) -> str:
        """Names the run the effect belongs to."""
        return self._effect.run_id

    @property
    def tenant(self) -> str:
        """Names the tenant."""
        return self._effect.tenant

    @property
    def attempt(self) -> int:
        """Numbers this entry into the handler."""
        return self._effect.attempt

    @property
    def fence(self) -> int:
        """Numbers this attempt, for a downstream that can refuse an older one."""
        return self._effect.fence

    @property
    def args(self) -> dict[str, Any]:
        """Return the recorded arguments, with the caller's own values where the record has marks.

        A parameter of `added` that the version which recorded the call did not have is there with its value.
        """
        if self._args is None:
            self._args = with_added(self._effect.args if self._own_args is None else self._own_args, self._added)
        return self._args

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Mark that something may leave from here on.

        With `marks_sending=True`, an exception before this block means that nothing happened.

        Example:
            with effect.sending():
                stripe.Charge.create(...)
        """
        self.mark_sending()
        yield

    def mark_sending(self) -> None:
        """Note that something is about to leave; our transports call it before the first byte of a request.

        Raises:
            BadCall: The handler has ended, or this process is a forked child of it. Send nothing.
        """
        self._mark(is_own=True)

    def _mark(self, *, is_own: bool) -> None:
        """Note that this handler sends, or that a call inside it does: that one has a record of its own.

        So a call inside may go on when this handler has returned. When it has raised, its caller may try it again.
        """
        if not self.is_of_this_process:
            raise BadCall(f"{self.tool} forked, and this is the child: what it sends is not seen by {self.id}")
        with _REQUESTS:
            if self._is_over or (is_own and self._has_returned):
                raise self._ended()
            self._has_sent = True
        if self._outer is not None:  # what is sent for a call inside a handler is sent by that handler too
            self._outer._mark(is_own=False)

    def check_running(self) -> None:
        """Raise `BadCall` if the handler has ended; our transports call it before they connect."""
        if self.is_over:
            raise self._ended()

    def _ended(self) -> BadCall:
        return BadCall(
            f"{self.tool}: attempt {self.attempt} of {self.id} is over, for its handler has ended; nothing was sent or "
            "begun for it now. Let the handler wait for its threads and tasks, or give them a call of their own: "
            "ledger.run(…)"
        )

    @property
    def is_of_this_process(self) -> bool:
        """Say whether this process entered the handler, and not one that it was forked from."""
        return os.getpid() == self._pid

    @property
    def is_over(self) -> bool:
        """Say whether the handler of this attempt has ended, whatever tasks and threads of it still run."""
        return self._has_returned or self._is_over

    @property
    def has_sent(self) -> bool:
        """Say whether this attempt entered `sending()`, or one of our transports wrote a byte."""
        return self._has_sent

    def transaction(self) -> HandlersTransaction:
        """Opens a transaction on the ledger's database, committed together with this effect: then exactly once.

        Use `with` in a blocking handler and `async with` in an asynchronous one; it gives the driver's connection. The
        handler returns after it; if the handler raises, all of it is rolled back.
        """
        if self._transaction is not None:
            raise BadCall(f"{self.tool}: a handler has one transaction; do everything inside it")
        self.check_running()
        self._transaction = HandlersTransaction(self._store, self.tenant, is_async=self._is_async)
        return self._transaction

    @property
    def holds_transaction(self) -> bool:
        """Is this handler's transaction open?"""
        return self._transaction is not None and self._transaction.is_open

    @property
    def had_transaction(self) -> bool:
        """Say whether this attempt began a transaction: once the attempt is given up, its rows are undone."""
        return self._transaction is not None

    def settle_inside(self, command: Command) -> Answer | None:
        """Settles in the handler's transaction; None when there is none, or the settlement did not hold."""
        return None if self._transaction is None else self._transaction.settle(command)

    def ended_with(self, report: Returned | Raised) -> Returned | Raised:
        """Ends the handler, in the process that entered it: a child that it forked must not speak for its parent."""
        if os.getpid() != self._pid:
            raise (
                report.error
                if isinstance(report, Raised)
                else LeaseLost(
                    f"{self.tool} forked, and this is the child: what became of {self.id} is told by its parent; end a "
                    "child inside of the handler, with os._exit",
                    effect=self._effect,
                )
            )
        if isinstance(report, Raised):
            self.give_up()
            if not report.is_interruption and self._transaction is not None and self._transaction.was_committed:
                return replace(report, error=_committed_by_handler(self, report.error))
            return replace(report, has_sent=self._has_sent)
        with _REQUESTS:  # after this nothing more of its own is marked
            self._has_returned = True
        return report

    def give_up(self) -> None:
        """Ends the attempt: what the handler wrote in its transaction is undone, and it gets no other."""
        with _REQUESTS:  # after this nothing more is marked, so that what is read of it stays true
            self._is_over = True
        if self._transaction is not None:
            self._transaction.give_up()

    @contextmanager
    def request(self, name: str) -> Iterator[None]:
        """Name the requests that are sent inside this block.

        Two requests to the same address with different names have different keys. Inside nested blocks the inner name
        counts. Choose a name that is the same in the next attempt, such as the id of an item.

        Args:
            name: The name, 1 to 500 characters.

        Raises:
            BadCall: The name is empty or too long, or the handler has ended.

        Example:
            for item in order.items:
                with effect.request(item.id):
                    client.post("https://api.example/charges", json={"item": item.id})
        """
        check_name("request name", name)
        self.check_running()
        token = _request_name.set((self, name))
        try:
            yield
        finally:
            _request_name.reset(token)

    def request_key(self, method: str, url: str, name: str | None = None) -> str:
        """Return the idempotency key that our transports give this request.

        Args:
            method: The HTTP method.
            url: The whole address. Its fragment and its credentials do not count.
            name: The request's name. Default: the name of the surrounding `effect.request()` block, if there is one.

        Returns:
            64 hexadecimal digits, the same in every attempt.

        Raises:
            BadCall: The address has no scheme or host, or cannot be read.
        """
        return self._effect.request_key(method, url, self._named() if name is None else name)

    def key_for_sending(self, method: str, url: str, body: bytes | None, content_type: str = "") -> str:
        """Return the idempotency key of a request that is about to leave; our transports call it.

        Args:
            method: The HTTP method.
            url: The whole address.
            body: The bytes of the body; None if it is a stream, which cannot be read twice.
            content_type: The request's `Content-Type`.

        Raises:
            AmbiguousRequest: Another body went to the same method, address and name in this attempt.
        """
        name = self._named()
        key = self._effect.request_key(method, url, name)
        digest = None if body is None else digest_of_body(body, content_type, self.volatile)
        with _REQUESTS:
            if key not in self._requests:
                self._requests[key] = digest
            elif not is_same_request(self._requests[key], digest, is_named=name is not None):
                raise AmbiguousRequest(
                    f"{self.tool}: {method.upper()} {shown_address(url)} was requested before in this attempt with "
                    "another body, and both would have the same idempotency key. This one was not sent. Name each "
                    'request: with effect.request("item-7"): … If only fields such as a time stamp differ, list them: '
                    'volatile=["sent_at"]'
                )
        return key

    def _named(self) -> str | None:
        """Return the name that a block around us gives; one around the call of another tool names nothing here."""
        found = _request_name.get()
        return found[1] if found is not None and found[0] is self else None


def _committed_by_handler(running: RunningEffect, error: BaseException) -> MayHaveHappened:
    doubt = MayHaveHappened(
        f"{running.tool} raised {type(error).__qualname__}, and may have ended the transaction of "
        "effect.transaction() before, so what it wrote may be there; leave commit and rollback to the ledger"
    )
    doubt.__cause__ = error
    return doubt


def _own_arguments(claim: Claim, screen: Screen | None) -> dict[str, Any] | None:
    """Gives the arguments that this caller passed, where what is recorded was made of them; None when nothing was.

    An approver may have changed some. A claim is never given to a caller whose call is another than the recorded one,
    so what is left of the recorded arguments is this caller's.
    """
    if screen is None or claim.effect.args_json is None:
        return None
    value = decode(screen.args_json)
    if screen.recorded_args != claim.effect.args_json:
        value = carried_over(claim.effect.args, decode(screen.recorded_args), value)
    assert isinstance(value, dict)
    return value


_all_running: WeakSet[RunningEffect] = WeakSet()


def _begin_in_child() -> None:
    """Let a forked child begin with a lock that no thread holds, and with no handler running."""
    global _REQUESTS
    _REQUESTS = threading.Lock()
    _all_running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)


class HandlersTransaction:
    """Stays open when its block ends well, until the effect is settled in it.

    Beginning can take long, for others may hold the database. Whoever gives up meanwhile leaves a note, and the one who
    waits undoes the transaction as soon as it has begun: nothing stays locked.
    """

    def __init__(self, store: Store, tenant: str, *, is_async: bool) -> None:
        self._scope: AbstractContextManager[Transaction] = store.transaction(tenant)
        self._inner: Transaction | None = None
        self._is_async = is_async
        self._is_given_up = False
        self._lock = threading.Lock()
        self.was_committed = False
        """Did the handler commit by itself, as far as that could be told when the transaction was given up?"""

    @property
    def is_open(self) -> bool:
        """Is it begun and not yet ended?"""
        return self._inner is not None

    def __enter__(self) -> Any:
        if self._is_async and is_in_loop():  # waiting here for the database would stop whoever holds it
            raise BadCall("in an asynchronous handler write: async with effect.transaction() as connection")
        return self._begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.give_up()

    async def __aenter__(self) -> Any:
        import asyncio

        try:
            return await in_own_thread(self._begin)
        except asyncio.CancelledError:
            self.give_up()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if error is not None:
            self.give_up()

    def _begin(self) -> Any:
        inner = self._scope.__enter__()
        with self._lock:
            if not self._is_given_up:
                self._inner = inner
                return inner.connection
        self._scope.__exit__(None, None, None)
        raise BadCall("this attempt is over; what its handler does now cannot be part of the effect")

    def settle(self, command: Command) -> Answer | None:
        """Settles the effect and commits; None when this transaction was given up before."""
        inner = self._taken()
        if inner is None:
            return None
        try:
            return inner.settle(command)
        finally:
            self._scope.__exit__(None, None, None)

    def give_up(self) -> None:
        """Undoes everything, now or as soon as it has begun."""
        inner = self._taken()
        if inner is not None:
            self.was_committed = inner.is_committed()
            self._scope.__exit__(None, None, None)

    def _taken(self) -> Transaction | None:
        with self._lock:
            self._is_given_up = True
            inner, self._inner = self._inner, None
            return inner


def is_in_loop() -> bool:
    """Say whether an event loop runs in this thread."""
    import asyncio  # takes long to load, and blocking programs do without

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def in_own_thread(function: Callable[..., Result], *arguments: Any) -> Result:
    """Runs a blocking function in a thread of its own: a shared pool may be full of threads that wait for this one."""
    import asyncio

    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()
    context = copy_context()

    def body() -> None:
        try:
            value = context.run(function, *arguments)
        except BaseException as error:
            tell_loop(loop, _fail_unless_done, done, error)
        else:
            tell_loop(loop, set_unless_done, done, value)

    start_handler_thread(body)
    return await done


def start_handler_thread(body: Callable[[], None]) -> None:
    """Start a thread for a handler; raise `NothingHappened` if the system starts no more threads."""
    try:
        threading.Thread(target=body, name="indelible-handler", daemon=True).start()
    except RuntimeError as problem:
        raise NothingHappened(
            f"the handler was not entered, for the system starts no more threads ({problem}); run fewer calls at once, "
            "or raise the limit of processes (ulimit -u, pids of the container)"
        ) from problem


def tell_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    """Calls back in a loop's own thread, if the loop still runs."""
    try:
        loop.call_soon_threadsafe(callback, *arguments)
    except RuntimeError:  # the loop was closed; nobody waits there any more
        return


def set_unless_done(future: asyncio.Future[Any], value: Any) -> None:
    """Gives a future its value, if somebody still waits for it."""
    if not future.done():
        future.set_result(value)


def _fail_unless_done(future: asyncio.Future[Any], error: BaseException) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):  # a future cannot carry it
        error = RuntimeError(f"raised StopIteration: {error}")
    future.set_exception(error)
