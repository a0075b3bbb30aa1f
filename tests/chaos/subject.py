"""The only place, beside the mutants, that knows the library under test: opens it, calls it, reads its store."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg

import indelible
from indelible import AsyncLedger, Effect, Ledger, ToolCall
from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.engine.authenticating import read_rows
from indelible.errors import (
    ApprovalEndedUnused,
    ApprovalPending,
    BudgetExceeded,
    EffectCanceled,
    EffectDenied,
    EffectFailed,
    EffectInDoubt,
    IndelibleError,
    LeaseLost,
    OutcomeUnknown,
    ResultNotRecorded,
    StillRunning,
    StoreError,
    StoreUnavailable,
)
from indelible.stores import Reach, is_postgres, open_store
from indelible.stores.postgres import PostgresStore
from indelible.stores.sqlite import connections, schema
from tests.chaos.oracle import StoredEffect, StoredEvent, StoreDump
from tests.chaos.world import Touch, World
from tests.lending import lent_folder
from tests.stores.database import open_file

KEYS = "INDELIBLE_KEYS"
# Lines of files under this folder count as kill points.
SOURCE = f"{Path(indelible.__file__).parent}{os.sep}"
# Warm in the process that forks workers, so that a worker starts in milliseconds.
PRELOAD = [
    "tests.chaos.jobs",
    "indelible.core.policy.policy",
    "indelible.journal.exports.exporting",
    "indelible.journal.evidence.bundle",
]
# What the record calls a result that came after the lease was lost.
LATE_EVENT = "tool_call_late"

Kind = Literal[
    "value",
    "failed",
    "in_doubt",
    "running",
    "lease_lost",
    "not_recorded",
    "unavailable",
    "unknown",
    "unusable",
    "pending",
    "denied",
    "canceled",
    "ended",
    "over_budget",
    "foreign",
]
_KINDS: tuple[tuple[type[BaseException], Kind], ...] = (
    (EffectFailed, "failed"),
    (EffectInDoubt, "in_doubt"),
    (StillRunning, "running"),
    (ApprovalPending, "pending"),
    (EffectDenied, "denied"),
    (EffectCanceled, "canceled"),
    (ApprovalEndedUnused, "ended"),
    (BudgetExceeded, "over_budget"),
    (LeaseLost, "lease_lost"),
    (ResultNotRecorded, "not_recorded"),
    (StoreUnavailable, "unavailable"),
    (OutcomeUnknown, "unknown"),
    (StoreError, "unusable"),
)
# The store let us down; what the call did is for the oracle to say.
STORE_TROUBLE: frozenset[Kind] = frozenset({"not_recorded", "unavailable", "unknown"})
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a workload; `name` is unique in the whole job and stands in the recorded arguments.

    `takes` is how long its handler is at work, in seconds, when called from a task.
    """

    name: str
    run_id: str
    is_repeatable: bool = False
    fails: bool = False
    padding: int = 0
    takes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the caller of one call got: a value, or the kind of error with its words."""

    call: str
    kind: Kind
    value: Any = None
    words: str = ""


class HandlerFailed(indelible.Refused):
    """Is raised by the handler of a call that is meant to fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long things last, in seconds: a claim without a sign of life, a caller's wait, a store's trying.

    `checkpoint_pages` makes SQLite checkpoint more often than it would, so that short runs have some. `seals` lets the
    ledger seal its journal meanwhile, with keys of this point alone: copies of one database are one ledger to a signer.
    """

    lease: float = 5.0
    wait: float = 30.0
    patience: float = 10.0
    checkpoint_pages: int | None = None
    seals: bool = False


class Session:
    """Holds the library open and turns calls of the harness into calls of the library."""

    def __init__(self, url: str, world: World, terms: Terms, *, is_async: bool = False) -> None:
        apply_terms(terms)
        self.world = world
        lease, wait = timedelta(seconds=terms.lease), timedelta(seconds=terms.wait)
        shell: type[Ledger] | type[AsyncLedger] = AsyncLedger if is_async else Ledger
        seals = terms.seals and not is_postgres(url)
        reach = Reach(patience=timedelta(seconds=terms.patience))
        self._ledger = shell.open(url, reach=reach, lease=lease, wait=wait, seal=seals, keys=lent(world.path / "keys"))

    def call(self, call: Call, inside: Callable[[], None] = lambda: None) -> Answer:
        """Makes the call and acknowledges its value; `inside` runs in the handler, before the world is touched."""

        def handler(effect: Any) -> Any:
            inside()
            return self._act(call, effect)

        assert isinstance(self._ledger, Ledger)
        try:
            value = self._ledger.run(_tool_call(call), handler, on_crash="retry" if call.is_repeatable else "hold")
        except Exception as error:
            return answer_of(call.name, error, fails=call.fails)
        return self._acknowledged(call, value)

    async def call_async(self, call: Call) -> Answer:
        """Does the same through the asynchronous shell."""

        async def handler(effect: Any) -> Any:
            await asyncio.sleep(call.takes)
            return self._act(call, effect)

        assert isinstance(self._ledger, AsyncLedger)
        on_crash: Literal["retry", "hold"] = "retry" if call.is_repeatable else "hold"
        try:
            value = await self._ledger.run(_tool_call(call), handler, on_crash=on_crash)
        except Exception as error:
            return answer_of(call.name, error, fails=call.fails)
        return self._acknowledged(call, value)

    def _act(self, call: Call, effect: Any) -> Any:
        self.world.touch(Touch(call=call.name, key=effect.key, attempt=effect.attempt))
        if call.fails:
            raise HandlerFailed(call.name)
        # A new number each time, so that two executions can never look like one.
        return {"call": call.name, "charge": os.urandom(8).hex()}

    def _acknowledged(self, call: Call, value: Any) -> Answer:
        self.world.acknowledge(call.name, value)
        return Answer(call=call.name, kind="value", value=value)

    def close(self) -> None:
        """Closes the library."""
        if (closing := self._ledger.close()) is not None:
            asyncio.run(_until_done(closing))


async def _until_done(closing: Awaitable[None]) -> None:
    await closing


def prepare(url: str, writer_keys: bool) -> None:
    """Makes the schema; a SQLite file stays small, for it is copied and rebuilt thousands of times."""
    schema._PRESIZE_BYTES = 16_384
    indelible.migrate(url, writer_keys=writer_keys)


def lent(keys: Path) -> Path:
    """Return a folder of keys that has the writer keys of the bench's ledger, too."""
    return lent_folder(Path(os.environ[KEYS]), keys)


@contextmanager
def reading(url: str) -> Iterator[Ledger]:
    """Open a ledger without its writer keys, as an auditor does."""
    with closing(open_store(url, wakeups=False)) as store:
        read_rows(store, DEFAULT_TENANT)
        with Ledger.open(store=store, seal=False) as ledger:
            yield ledger


def dump(url: str, runs: Collection[str] | None = None) -> StoreDump:
    """Reads the whole store, or what belongs to some runs of it.

    Effects and heads are read apart: a reader that finds nothing in one place must not find nothing everywhere.
    """
    with reading(url) as ledger:
        effects = [effect for effect in _effects(ledger, runs) if runs is None or effect.run_id in runs]
        heads = {run_id: head for run_id, head in read_heads(url) if runs is None or run_id in runs}
        named = dict.fromkeys([*heads, *(effect.run_id for effect in effects)])
        events = {run_id: list(_events(ledger, run_id)) for run_id in named}
    return StoreDump(effects=[_stored(effect) for effect in effects], events=events, heads=heads)


def is_source(filename: str) -> bool:
    """Does this file belong to the library under test?"""
    return filename.startswith(SOURCE)


def sqlite_url(path: Path) -> str:
    """Gives the address of a SQLite store."""
    return f"sqlite:///{path}"


def apply_terms(terms: Terms) -> None:
    """Sets what the library leaves to its stores' constants."""
    connections.BUSY_MS = int(terms.patience * 1000)
    defaults = PostgresStore.__init__.__kwdefaults__
    assert defaults is not None
    defaults["patience"] = timedelta(seconds=terms.patience)
    if terms.checkpoint_pages is not None:
        connections.CHECKPOINT_PAGES = terms.checkpoint_pages


def read_heads(url: str) -> Iterable[tuple[str, tuple[int, str]]]:
    """Reads where the runs' chains end. The library does not list runs, so this is SQL; the schema is there."""
    sql = "SELECT run_id, count, head FROM indelible_runs"
    if is_postgres(url):
        with psycopg.connect(url) as server:
            return [(run_id, (count, head.hex())) for run_id, count, head in server.execute(sql)]
    file = open_file(url)
    try:
        return [(run_id, (count, head.hex())) for run_id, count, head in file.execute(sql)]
    finally:
        file.close()


def _effects(ledger: Ledger, runs: Collection[str] | None) -> Iterator[Effect]:
    for run_id in [None] if runs is None else runs:
        page = ledger.effects(run_id=run_id, limit=_PAGE)
        while page:
            yield from page
            page = ledger.effects(run_id=run_id, limit=_PAGE, before=page[-1].id) if len(page) == _PAGE else []


def _events(ledger: Ledger, run_id: str) -> Iterator[StoredEvent]:
    page = ledger.events(run_id, limit=_PAGE)
    while page:
        yield from (StoredEvent(seq=event.seq, body=event.body) for event in page)
        page = ledger.events(run_id, after=page[-1].seq, limit=_PAGE) if len(page) == _PAGE else []


def _stored(effect: Effect) -> StoredEffect:
    return StoredEffect(
        call=effect.args["call"],
        key=effect.key,
        status=effect.status,
        attempt=effect.attempt,
        result=effect.detail_json if effect.status == "succeeded" else None,
        has_live_lease=effect.status == "processing" and not effect.is_abandoned(datetime.now(UTC)),
        is_repeatable=effect.on_crash == "retry",
    )


def _tool_call(call: Call) -> ToolCall:
    return ToolCall(run_id=call.run_id, tool="chaos.pay", args={"call": call.name, "padding": "x" * call.padding})


def answer_of(call: str, error: Exception, *, fails: bool = False) -> Answer:
    """Says what an error means to the caller of a call; `fails` when its handler is meant to."""
    words = f"{type(error).__name__}: {error}"
    for kind, name in _KINDS:
        if isinstance(error, kind):
            return Answer(call=call, kind=name, words=words)
    if isinstance(error, HandlerFailed) and fails:
        return Answer(call=call, kind="failed", words=words)
    known = "" if isinstance(error, IndelibleError) else "not an error of the library: "
    return Answer(call=call, kind="foreign", words=known + words)
