"""Planted bugs: each job must find some of these before its silence about the real library means anything."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from indelible import AsyncLedger, Effect, Ledger
from indelible.core import batch, events, steps
from indelible.core.changes import Step, moved_to, step_to
from indelible.core.commands import Answer, Command, Finish, InFlight, Late
from indelible.core.effects import claiming
from indelible.core.effects.identity import Ref, identify
from indelible.core.events import Head, event_hash
from indelible.core.journal.journal import Tree
from indelible.core.steps import next_step
from indelible.engine.writer import Writer
from indelible.errors import IndelibleError, ResultNotRecorded, StoreError, StoreUnavailable
from indelible.journal import sealing
from indelible.journal.keys import signer
from indelible.journal.sealing import Sealer
from indelible.stores.postgres.connections import Session
from indelible.stores.postgres.journal import PostgresJournal
from indelible.stores.postgres.trouble import Patience
from indelible.stores.remote import RemoteStore
from indelible.stores.sqlite import connections
from indelible.stores.sqlite import store as sqlite_store
from indelible.stores.sqlite.journal import SqliteJournal
from tests.chaos.approval_mutants import APPROVAL_MUTANTS
from tests.chaos.planting import Mutant, put
from tests.chaos.run_mutants import RUN_MUTANTS

Handler = Callable[[Any], Any]


def plant(name: str | None) -> None:
    """Breaks the library in this process."""
    if name is not None:
        MUTANTS[name].plant()


def effect_before_claim() -> None:
    """The handler runs first and the claim is written afterwards, with the result."""
    run, run_async = Ledger.run, AsyncLedger.run

    def broken(self: Ledger, call: Any, handler: Handler, **options: Any) -> Any:
        if _is_known(self, call):
            return run(self, call, handler, **options)
        value = handler(_made_up(self, call))
        return run(self, call, lambda _: value, **options)

    async def broken_async(self: AsyncLedger, call: Any, handler: Handler, **options: Any) -> Any:
        if _is_known(self, call):
            return await run_async(self, call, handler, **options)
        value = await handler(_made_up(self, call))
        return await run_async(self, call, lambda _: value, **options)

    put(Ledger, "run", broken)
    put(AsyncLedger, "run", broken_async)


def ack_before_settle() -> None:
    """A blocking caller gets its value at once; the result is written before the next command or at the end."""
    do, close = Writer.do, Writer.close
    owed: list[Finish] = []

    def paid(self: Writer) -> Writer:
        while owed:
            with contextlib.suppress(IndelibleError):
                do(self, owed.pop())
        return self

    def broken(self: Writer, command: Command, known: Effect | None = None, if_unwanted: Any = None) -> Answer:
        if not isinstance(command, Finish):
            return do(paid(self), command, known, if_unwanted)
        owed.append(command)
        return next_step(command, command.claim.effect, command.stamp.at, 0).answer

    put(Writer, "do", broken)
    put(Writer, "close", lambda self: close(paid(self)))


def retry_in_doubt() -> None:
    """An abandoned effect is taken over and run again, whatever its class."""
    opened = steps._open

    def broken(command: Any, effect: Effect | None, now: Any, *rest: Any) -> Step:
        if effect is not None and (effect.status == "in_doubt" or effect.is_abandoned(now)):
            effect, command = replace(effect, on_crash="retry"), replace(command, on_crash="retry")
        return opened(command, effect, now, *rest)

    put(steps, "_open", broken)


def no_fence() -> None:
    """A result is written whoever holds the claim by now."""
    reported = steps._report

    def broken(command: Any, effect: Effect, now: Any, seq: int, sheets: Any) -> Step:
        step = reported(command, effect, now, seq, sheets)
        if not (isinstance(step.answer, Late) and isinstance(command, Finish)):
            return step
        written = moved_to(command, effect, seq, command.status, "tool_call_finished", result=command.detail_json)
        return step_to(written)

    put(steps, "_report", broken)


def late_result_dropped() -> None:
    """A late result is refused and forgotten."""
    reported = steps._report

    def broken(command: Any, effect: Effect, *rest: Any) -> Step:
        step = reported(command, effect, *rest)
        return Step(step.answer) if isinstance(step.answer, Late) else step

    put(steps, "_report", broken)


def naive_retry() -> None:
    """When the store blinks while a result is written, nobody asks what became of it: the tool is called again."""
    run = Ledger.run

    def broken(self: Ledger, call: Any, handler: Handler, **options: Any) -> Any:
        entered: list[Any] = []

        def noted(effect: Any) -> Any:
            entered.append(effect)
            return handler(effect)

        try:
            return run(self, call, noted, **options)
        except (ResultNotRecorded, StoreError):
            if not entered:
                raise
            return handler(entered[-1])

    put(Ledger, "run", broken)
    put(Patience, "is_over", property(lambda self: True))


def lost_answer_assumed() -> None:
    """A client whose report got no answer takes it for written."""
    apply = RemoteStore.apply

    def broken(self: RemoteStore, tenant: str, commands: Any, known: Any) -> list[Answer]:
        try:
            return apply(self, tenant, commands, known)
        except StoreError:
            if not all(isinstance(command, Finish) for command in commands):
                raise
            return [next_step(each, each.claim.effect, each.stamp.at, 0).answer for each in commands]

    put(RemoteStore, "apply", broken)


def warning_ignored() -> None:
    """A COMMIT that did not wait for its replica counts as durable."""
    put(Session, "_notice", lambda self, diagnostic: None)


def fail_open() -> None:
    """When the claim cannot be written, the handler runs all the same."""
    run = Ledger.run

    def broken(self: Ledger, call: Any, handler: Handler, **options: Any) -> Any:
        try:
            return run(self, call, handler, **options)
        except StoreUnavailable:
            return handler(_made_up(self, call))

    put(Ledger, "run", broken)


def sync_normal() -> None:
    """SQLite does not wait for the disk at each commit."""
    connect = connections.connect

    def broken(path: str, *, is_memory: bool) -> Any:
        connection = connect(path, is_memory=is_memory)
        connection.execute("PRAGMA synchronous=NORMAL").fetchall()
        return connection

    put(sqlite_store, "connect", broken)


def check_then_act() -> None:
    """Whoever once saw a key free takes it, though somebody else has claimed it since."""
    opened, run_async = steps._open, AsyncLedger.run
    free: set[Ref] = set()

    async def looked(self: AsyncLedger, call: Any, handler: Handler, **options: Any) -> Any:
        if not _is_known(self, call):
            free.add(identify(call, self.tenant).ref)
        return await run_async(self, call, handler, **options)

    def broken(command: Any, effect: Effect | None, now: Any, seq: int, sheets: Any, *rest: Any) -> Step:
        step = opened(command, effect, now, seq, sheets, *rest)
        if effect is not None and isinstance(step.answer, InFlight) and command.ref in free:
            free.discard(command.ref)
            return claiming._attempt(command, effect, now, sheets, ())
        return step

    put(AsyncLedger, "run", looked)
    put(steps, "_open", broken)


def stale_head() -> None:
    """A process links its events to the one it wrote last itself, whatever others wrote since."""
    write = events.effect_event
    last: dict[str, str] = {}

    def broken(*, effect: Effect, head: Head, **rest: Any) -> bytes:
        body = write(effect=effect, head=Head(head.length, last.get(effect.run_id, head.hash)), **rest)
        last[effect.run_id] = event_hash(body)
        return body

    put(batch, "effect_event", broken)


def _is_known(ledger: Ledger | AsyncLedger, call: Any) -> bool:
    return ledger._engine.store.look([identify(call, ledger.tenant).ref]).effects[0] is not None


def _made_up(ledger: Ledger | AsyncLedger, call: Any) -> Any:
    """Makes an effect that the store knows nothing of."""
    return SimpleNamespace(key=identify(call, ledger.tenant).ref.key, attempt=1)


def cursor_skips() -> None:
    """Every 50th entry cannot be read, as if a cursor had passed over it. Planted in the reader: it tries the judge."""
    for journal in (SqliteJournal, PostgresJournal):
        put(journal, "entries", _skipping(journal.entries))


def _skipping(entries: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def broken(self: Any, tenant: str, start: int, count: int) -> list[Any]:
        return [entry for entry in entries(self, tenant, start, count) if entry.index % 50 != 49]

    return broken


def forgetful_signer() -> None:
    """The signer remembers nothing, and now and then the database it signs is not the one of before."""
    sign = Sealer._sign

    def broken(self: Sealer, tree: Tree) -> Any:
        is_other = random.randrange(5) == 0
        return sign(self, Tree(tree.size, sha256(tree.root).digest()) if is_other else tree)

    for checker in (signer, sealing):
        put(checker, "check_growth", lambda last, head, prove: None)
    put(Sealer, "_sign", broken)


def locks_dropped() -> None:
    """Each connection opens and closes the database beside SQLite, and nothing else holds the shared lock."""
    connect = connections.connect

    def broken(path: str, *, is_memory: bool) -> Any:
        Path(path).open("rb").close()
        return connect(path, is_memory=is_memory)

    put(sqlite_store, "connect", broken)
    put(sqlite_store.Guard, "lock", lambda self: None)
    put(sqlite_store.SqliteStore, "_check_place", lambda self: None)


MUTANTS: dict[str, Mutant] = {
    "locks-dropped": Mutant(locks_dropped, frozenset({"lost ack", "duplicate effect", "store corrupt"})),
    "effect-before-claim": Mutant(effect_before_claim, frozenset({"duplicate effect", "effect without claim"})),
    "ack-before-settle": Mutant(ack_before_settle, frozenset({"lost ack"})),
    "retry-in-doubt": Mutant(retry_in_doubt, frozenset({"duplicate effect"})),
    "no-fence": Mutant(no_fence, frozenset({"changed result", "late result not kept"})),
    "late-result-dropped": Mutant(late_result_dropped, frozenset({"late result not kept"})),
    "naive-retry": Mutant(naive_retry, frozenset({"duplicate effect"})),
    "lost-answer-assumed": Mutant(lost_answer_assumed, frozenset({"lost ack"})),
    "warning-ignored": Mutant(warning_ignored, frozenset({"duplicate effect", "effect without claim", "lost ack"})),
    "fail-open": Mutant(fail_open, frozenset({"handler entered without claim", "effect without claim"})),
    "sync-normal": Mutant(sync_normal, frozenset({"effect without claim", "lost ack"})),
    "check-then-act": Mutant(check_then_act, frozenset({"duplicate effect"})),
    "cursor-skips": Mutant(cursor_skips, frozenset({"lost ack"})),
    "forgetful-signer": Mutant(forgetful_signer, frozenset({"broken chain"})),
    "stale-head": Mutant(stale_head, frozenset({"broken chain", "head differs"})),
    **APPROVAL_MUTANTS,
    **RUN_MUTANTS,
}
