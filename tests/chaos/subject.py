"""The only place that knows the library under test: how to open it, call it, and read its store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from indelible.errors import (
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    LeaseLost,
    OutcomeUnknown,
    ResultNotRecorded,
    StillRunning,
    StoreUnavailable,
)
from tests.chaos import standin
from tests.chaos.oracle import StoredEffect, StoredEvent, StoreDump
from tests.chaos.standin import AsyncLedger, Ledger, ToolCall
from tests.chaos.world import Touch, World

# Lines of these files count as kill points.
SOURCES: tuple[str, ...] = (standin.__file__,)
# Warm in the process that forks workers, so that a worker starts in milliseconds.
PRELOAD = ["tests.chaos.worker", "apsw", "psycopg", "asyncio"]
# What the record calls a result that came after the lease was lost.
LATE_EVENT = "late_result"

Kind = Literal[
    "value", "failed", "in_doubt", "running", "lease_lost", "not_recorded", "unavailable", "unknown", "foreign"
]
_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (EffectFailed, "failed"),
    (EffectInDoubt, "in_doubt"),
    (StillRunning, "running"),
    (LeaseLost, "lease_lost"),
    (ResultNotRecorded, "not_recorded"),
    (StoreUnavailable, "unavailable"),
    (OutcomeUnknown, "unknown"),
)
# The store let us down; what the call did is for the oracle to say.
STORE_TROUBLE: frozenset[Kind] = frozenset({"not_recorded", "unavailable", "unknown"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a workload; `name` is unique in the whole job and stands in the recorded arguments."""

    name: str
    run_id: str
    is_repeatable: bool = False
    fails: bool = False
    padding: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the caller of one call got: a value, or the kind of error with its words."""

    call: str
    kind: Kind
    value: Any = None
    words: str = ""


class HandlerFailed(Exception):
    """Is raised by the handler of a call that is meant to fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a claim lasts without a sign of life, and how long a caller waits for another's result."""

    lease: float = 5.0
    wait: float = 30.0


class Session:
    """Holds the library open and turns calls of the harness into calls of the library."""

    def __init__(self, url: str, world: World, terms: Terms) -> None:
        self.world = world
        lease, wait = timedelta(seconds=terms.lease), timedelta(seconds=terms.wait)
        self.ledger = Ledger.open(url, lease=lease, wait=wait)

    def call(self, call: Call, inside: Callable[[], None] = lambda: None) -> Answer:
        """Makes the call and acknowledges its value; `inside` runs in the handler, before the world is touched."""
        try:
            value = self.ledger.run(_tool_call(call), self._handler(call, inside), on_crash=_on_crash(call))
        except Exception as error:
            return _answer_of(call, error)
        self.world.acknowledge(call.name, value)
        return Answer(call=call.name, kind="value", value=value)

    async def call_async(self, call: Call) -> Answer:
        """Does the same through the asynchronous shell."""
        try:
            ledger = AsyncLedger(self.ledger)
            value = await ledger.run(_tool_call(call), self._handler(call, lambda: None), on_crash=_on_crash(call))
        except Exception as error:
            return _answer_of(call, error)
        self.world.acknowledge(call.name, value)
        return Answer(call=call.name, kind="value", value=value)

    def call_all(self, calls: Iterable[Call]) -> list[Answer]:
        """Makes all calls at once, each in a task of one event loop."""

        async def together() -> list[Answer]:
            return list(await asyncio.gather(*(self.call_async(call) for call in calls)))

        return asyncio.run(together())

    def _handler(self, call: Call, inside: Callable[[], None]) -> Callable[[Any], Any]:
        def handler(effect: Any) -> Any:
            inside()
            self.world.touch(Touch(call=call.name, key=effect.key, attempt=effect.attempt))
            if call.fails:
                raise HandlerFailed(call.name)
            # A new number each time, so that two executions can never look like one.
            return {"call": call.name, "charge": os.urandom(8).hex()}

        return handler

    def close(self) -> None:
        """Closes the library."""
        self.ledger.close()


def dump(url: str, runs: Iterable[str] | None = None) -> StoreDump:
    """Reads the whole store, or what belongs to some runs of it."""
    ledger = Ledger.open(url, lease=timedelta(seconds=1), wait=timedelta(0))
    try:
        heads = {run_id: head for run_id, head in ledger.heads().items() if runs is None or run_id in runs}
        effects = [_stored(effect) for effect in ledger.effects() if runs is None or effect.run_id in runs]
        events = {run_id: [StoredEvent(seq=e.seq, body=e.body) for e in ledger.events(run_id)] for run_id in heads}
        return StoreDump(effects=effects, events=events, heads=heads)
    finally:
        ledger.close()


def is_source(filename: str) -> bool:
    """Does this file belong to the library under test?"""
    return filename.startswith(SOURCES)


def sqlite_url(path: Path) -> str:
    """Gives the address of a SQLite store."""
    return f"sqlite:///{path}"


def _stored(effect: Any) -> StoredEffect:
    lives = effect.status == "processing" and effect.lease_until > datetime.now(UTC)
    return StoredEffect(
        call=effect.args["call"],
        key=effect.key,
        status=effect.status,
        attempt=effect.attempt,
        result=effect.detail_json if effect.status == "succeeded" else None,
        has_live_lease=lives,
        is_repeatable=effect.on_crash == "retry",
    )


def _tool_call(call: Call) -> ToolCall:
    return ToolCall(run_id=call.run_id, tool="chaos.pay", args={"call": call.name, "padding": "x" * call.padding})


def _on_crash(call: Call) -> str:
    return "retry" if call.is_repeatable else "hold"


def _answer_of(call: Call, error: Exception) -> Answer:
    words = f"{type(error).__name__}: {error}"
    for kind, name in _KINDS:
        if isinstance(error, kind):
            return Answer(call=call.name, kind=name, words=words)
    if isinstance(error, RuntimeError | HandlerFailed) and call.fails:
        return Answer(call=call.name, kind="failed", words=words)
    known = "" if isinstance(error, IndelibleError) else "not an error of the library: "
    return Answer(call=call.name, kind="foreign", words=known + words)
