"""One way to drive both ledgers, so that a scenario is written once and runs through both shells on both stores."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import indelible
from indelible import Approval, AsyncLedger, AwaitingApproval, Ledger, RunningEffect, ToolCall
from indelible.journal.keys.ring import KeyRing
from tests.waiting import PATIENCE, eventually

LEASE = timedelta(seconds=30)


def charge(**fields: Any) -> ToolCall:
    """Gives a call of the tool that most scenarios use."""
    return ToolCall(**{"tool": "charge", "args": {"amount": 5}, "run_id": "order-1", **fields})


class Shell:
    """Opens ledgers of one kind on one store, and closes what was opened."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        self.tenant = f"tenant-{uuid4().hex[:8]}"
        self._opened: list[Driver] = []

    def open(self, **options: Any) -> Driver:
        """Opens another ledger on the same store, for the same tenant and order if no other is named."""
        options.setdefault("tenant", self.tenant)
        options.setdefault("run", "order-1")
        driver: Driver = _DRIVERS[self.kind](self.url, options)
        self._opened.append(driver)
        return driver

    def close(self) -> None:
        """Closes everything; a ledger that a scenario has closed itself may be closed again."""
        for driver in self._opened:
            driver.end()


class Driver:
    """Has the verbs of a ledger, each waiting for its result, and `spawn` for one that runs beside the test."""

    ledger: Any
    kind: str
    url: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def spawn(self, verb: str, *args: Any, **words: Any) -> Future[Any]:
        """Starts a verb beside the test."""
        raise NotImplementedError

    def call(self, tool: Callable[..., Any], *args: Any, **words: Any) -> Any:
        """Calls a tool, blocking or not, and waits for its value."""
        raise NotImplementedError

    def end(self) -> None:
        """Gives everything back."""
        raise NotImplementedError

    @property
    def engine(self) -> Any:
        """Is what both shells share; scenarios look inside to see that somebody waits, never to change anything."""
        return self.ledger._engine


class BlockingDriver(Driver):
    """Drives a `Ledger`; what is spawned has a thread of its own."""

    kind = "blocking"

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url
        self.ledger = Ledger.open(url, **options)

    def spawn(self, verb: str, *args: Any, **words: Any) -> Future[Any]:
        return in_thread(functools.partial(getattr(self.ledger, verb), *args, **words))

    def call(self, tool: Callable[..., Any], *args: Any, **words: Any) -> Any:
        value = tool(*args, **words)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

    def end(self) -> None:
        self.ledger.close()


class AsyncDriver(Driver):
    """Drives an `AsyncLedger` on a loop in a thread of its own; blocking handlers become coroutine functions."""

    kind = "async"

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.url = url
        self.ledger = AsyncLedger.open(url, **options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ledger, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **words: self.spawn(name, *args, **words).result(PATIENCE)

    def spawn(self, verb: str, *args: Any, **words: Any) -> Future[Any]:
        if verb == "run":
            call, handler = args
            args = (call, handler if inspect.iscoroutinefunction(handler) else as_coroutine_function(handler))
        return asyncio.run_coroutine_threadsafe(getattr(self.ledger, verb)(*args, **words), self.loop)

    def call(self, tool: Callable[..., Any], *args: Any, **words: Any) -> Any:
        async def called() -> Any:
            value = tool(*args, **words)
            return await value if inspect.isawaitable(value) else value

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(PATIENCE)

    def end(self) -> None:
        if not self.loop.is_closed():
            self.spawn("close").result(PATIENCE)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(PATIENCE)
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


# What these say is for whoever keeps the store.
_OF_THE_SERVER = [
    "clock",
    "encrypt",
    "environment",
    "keys",
    "on_unsealed",
    "seal",
    "sign_events",
    "signer",
    "witnesses",
]


class HttpDriver(BlockingDriver):
    """Drives a `Ledger` that is behind a server of its own."""

    kind = "http"

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        from tests.server.serving import serve_believing

        shared = {"environment", "keys"}
        own = {word: value for word, value in options.items() if word not in _OF_THE_SERVER or word in shared}
        self._served = serve_believing(url, **{word: options[word] for word in _OF_THE_SERVER if word in options})
        self.url = url
        try:
            self.ledger = Ledger.open(self._served.url, token=quote(json.dumps(own["tenant"])), **own)
            self._make_key(options.get("keys"))
        except BaseException:
            self._served.stop()
            raise

    def _make_key(self, keys: Path | None) -> None:
        """Make the key that the server would make when it first signs, for tests that ask for it before."""
        ring = KeyRing.open(self.ledger._engine.store.ledger_name, keys)
        if ring.current() is None:
            ring.create(self.ledger.tenant)

    def end(self) -> None:
        super().end()
        self._served.stop()


_DRIVERS: dict[str, type[Any]] = {"blocking": BlockingDriver, "async": AsyncDriver, "http": HttpDriver}


def as_coroutine_function(handler: Callable[[RunningEffect], Any]) -> Callable[[RunningEffect], Any]:
    """Gives a handler that awaits what the blocking one does in a thread."""

    async def entered(effect: RunningEffect) -> Any:
        return await asyncio.to_thread(handler, effect)

    return entered


async def _awaited(value: Any) -> Any:
    return await value


def in_thread(body: Callable[[], Any]) -> Future[Any]:
    """Runs something beside the test."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(body())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def main_is_inside(place: str, deepest: str = "wait") -> bool:
    """Does the main thread wait in a function, named as `file.py:function`, and not still begin to?"""
    main = threading.main_thread().ident
    assert main is not None
    frame = sys._current_frames()[main]
    names = []
    while frame is not None:
        names.append(f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}")
        frame = frame.f_back  # type: ignore[assignment]
    return place in names and names[0].endswith(f":{deepest}") and "threading.py:start" not in names


def interrupt_main() -> None:
    """Does what Ctrl-C does."""
    os.kill(os.getpid(), signal.SIGINT)


class Gate:
    """Is a handler that says when it was entered and goes on when it is let."""

    def __init__(self, value: Any = "done") -> None:
        self.value = value
        self.entries = 0
        self.entered = threading.Event()
        self._open = threading.Event()

    def __call__(self, effect: RunningEffect) -> Any:
        self.entries += 1
        self.entered.set()
        assert self._open.wait(PATIENCE), "nobody opened the gate"
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    def await_entry(self) -> None:
        """Waits until the handler is inside."""
        assert self.entered.wait(PATIENCE), "the handler was not entered"

    def open(self) -> None:
        """Lets the handler go on."""
        self._open.set()


class Count:
    """Is a handler that counts its entries."""

    def __init__(self, value: Any = "done") -> None:
        self.value = value
        self.entries = 0
        self._lock = threading.Lock()

    def __call__(self, effect: RunningEffect) -> Any:
        with self._lock:
            self.entries += 1
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def asked(driver: Driver, **fields: Any) -> AwaitingApproval:
    """Makes a call that somebody has to approve, and gives the question."""
    begun = driver.begin(charge(**fields), approval="required")
    assert isinstance(begun, AwaitingApproval), begun
    return begun


def approve(driver: Driver, question: Any, by: str = "ada", **words: Any) -> Approval:
    """Approves what a question is about, with the digest that it shows; `question` is anything with an approval."""
    approval = getattr(question, "approval", question)
    approved: Approval = driver.approve(approval.id, digest=approval.digest, by=by, **words)
    return approved


def somebody_waits(driver: Driver, number: int = 1) -> None:
    """Waits until so many callers of this ledger wait for an effect to move."""
    waiting = driver.engine.waiting
    eventually(lambda: sum(len(wakers) for wakers in list(waiting._wakers.values())) >= number)


def types_of(driver: Driver, run_id: str = "order-1") -> list[str]:
    """Lists the types of a run's events."""
    return [event.type for event in driver.events(run_id)]


def prepare_store(url: str, keys: Path | None = None) -> str:
    """Makes the schema, where that is not done by opening."""
    if url.startswith("postgres"):
        indelible.migrate(url, keys=keys)
    return url
