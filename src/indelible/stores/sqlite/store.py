"""The embedded store: one SQLite file, any number of threads and processes on one machine."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from indelible.core.batch import Batch, decide
from indelible.core.commands import Answer, Command, Moved, Open
from indelible.core.effects import Claim, Effect
from indelible.core.events import Event, Head, Payload, Provenance
from indelible.core.identity import Ref
from indelible.core.ports import Alarm, Clock, Filter, Seen
from indelible.errors import BadCall
from indelible.stores.named_sql import load_queries
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.alarm import open_alarm
from indelible.stores.sqlite.bulk import execute_rows, select_rows
from indelible.stores.sqlite.connections import Explained, WriteLock, connect, folder_of
from indelible.stores.sqlite.schema import migrate

SQL = load_queries(__package__)
_MOST_HEADS = 10_000
DETAIL_FIELDS = {"succeeded": "result", "failed": "error"}


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> datetime:
        """Gives the moment, aware and in UTC."""
        return datetime.now(UTC)


class _Refused(Exception):
    """An effect was not as it was thought to be; look, and decide again."""


class SqliteStore:
    """Keeps a ledger in one SQLite file, durable when a call returns."""

    is_cheap_to_read = True

    def __init__(self, path: str, *, clock: Clock | None = None, wakeups: bool = True) -> None:
        self._is_memory = path == ":memory:"
        if self._is_memory:
            # A named memory database can have the two connections that a file has, so that both behave alike.
            self._path = f"file:/indelible-{uuid.uuid4().hex}?vfs=memdb"
            self.address = ":memory:"
        else:
            self._path = str(folder_of(path).resolve() / Path(path).name)
            self.address = f"sqlite:///{path}"
        self._clock = clock or SystemClock()
        self._explained = Explained(self.address)
        self._wakeups = wakeups and not self._is_memory
        self._connect()

    def _connect(self) -> None:
        """Opens everything that belongs to this process."""
        self._pid = os.getpid()
        self._reading = threading.Lock()
        self._writing = WriteLock(None if self._is_memory else f"{self._path}-lock")
        with self._explained:
            self._writer = connect(self._path, is_memory=self._is_memory)
            with self._writing:
                migrate(self._writer, self._clock.now(), is_memory=self._is_memory)
            self._reader = connect(self._path, is_memory=self._is_memory)
            self.ledger_name = str(self._reader.execute(SQL["ledger_name"]).get)
        self._heads: dict[tuple[str, str], Head] = {}
        self._heads_version: object = None
        self._wake_file = self._open_wake_file() if self._wakeups else None
        self._writer_id = uuid.uuid4().hex

    def _open_wake_file(self) -> int:
        return os.open(f"{self._path}-wake", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _check_process(self) -> None:
        """Starts afresh in a forked child: SQLite's connections must not cross a fork."""
        if os.getpid() != self._pid:
            # Closing the parent's connections here would drop the parent's locks; they are left to rest.
            _INHERITED.append((self._writer, self._reader, self._writing))
            if self._is_memory:
                raise BadCall("a :memory: ledger belongs to the process that opened it; use a file to share it")
            self._connect()

    # Writing

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Decides and writes under the write lock: first on what is likely, and if that was wrong, on what is."""
        self._check_process()
        with self._explained, self._writing:
            try:
                return self._transact(tenant, commands, lambda: _guessed(commands, known)).answers
            except (_Refused, apsw.ConstraintError):
                return self._transact(tenant, commands, lambda: self._read_effects(commands)).answers

    def _transact(
        self, tenant: str, commands: Sequence[Command], effects: Callable[[], dict[Ref, Effect | None]]
    ) -> Batch:
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            batch = self._decide_and_write(tenant, commands, effects())
            self._writer.execute("ROLLBACK" if batch.is_empty else "COMMIT")
        except BaseException:
            self._abandon()
            raise
        self._remember(tenant, batch)
        return batch

    def _abandon(self) -> None:
        """Ends a transaction that went wrong; a connection that cannot even do that is replaced."""
        self._heads.clear()
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except apsw.Error:
            self._writer.close(True)
            self._writer = connect(self._path, is_memory=self._is_memory)

    def _read_effects(self, commands: Sequence[Command]) -> dict[Ref, Effect | None]:
        return {ref: _effect(self._writer, ref) for ref in {command.ref for command in commands}}

    def _decide_and_write(self, tenant: str, commands: Sequence[Command], effects: dict[Ref, Effect | None]) -> Batch:
        runs = {effect.run_id for effect in effects.values() if effect is not None}
        runs.update(command.run_id for command in commands if isinstance(command, Open))
        by = Provenance(log=f"{self.ledger_name}/{tenant}", writer=self._writer_id)
        batch = decide(commands, effects, self._heads_of(tenant, runs), self._clock.now(), by)
        self._write(tenant, batch)
        return batch

    def _heads_of(self, tenant: str, runs: set[str]) -> dict[str, Head]:
        """Gives the ends of runs' chains: as we wrote them last, if no other connection has written since."""
        version = self._writer.execute(SQL["data_version"]).get
        if version != self._heads_version or len(self._heads) > _MOST_HEADS:
            self._heads.clear()
            self._heads_version = version
        heads = {run: head for run in runs if (head := self._heads.get((tenant, run))) is not None}
        unknown = [(tenant, run) for run in runs if run not in heads]
        for run, count, head in select_rows(self._writer, SQL["heads_of"], unknown):
            heads[run] = Head(count, head.hex())
        return heads

    def _remember(self, tenant: str, batch: Batch) -> None:
        for run, (_, head) in batch.heads.items():
            self._heads[tenant, run] = head

    def _write(self, tenant: str, batch: Batch) -> None:
        """Writes a batch's rows; raises `_Refused` when an effect was not as it was thought to be."""
        events = [(event, bytes.fromhex(event.hash)) for event in batch.events]
        if batch.moved:
            moves = [rows.move_row(before, after) for before, after in batch.moved.values()]
            if execute_rows(self._writer, SQL["update_effects"], moves) != len(moves):
                raise _Refused
        execute_rows(self._writer, SQL["insert_effects"], [rows.effect_row(effect) for effect in batch.opened.values()])
        execute_rows(
            self._writer,
            SQL["put_heads"],
            [(tenant, run, head.length, bytes.fromhex(head.hash)) for run, (_, head) in batch.heads.items()],
        )
        execute_rows(
            self._writer,
            SQL["insert_events"],
            [
                (tenant, event.run_id, event.seq, event.effect_id, event.type, hash_, event.body)
                for event, hash_ in events
            ],
        )
        execute_rows(self._writer, SQL["insert_payloads"], [(tenant, *payload) for payload in batch.payloads])
        execute_rows(
            self._writer, SQL["insert_pending"], [(tenant, event.run_id, event.seq, hash_) for event, hash_ in events]
        )

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """Extends the lease while the claim holds."""
        self._check_process()
        effect = claim.effect
        until = rows.micros(self._clock.now() + lease)
        with self._explained, self._writing:
            self._writer.execute(
                SQL["heartbeat"], (until, *_place(effect.ref), bytes.fromhex(effect.token), effect.attempt)
            )
            return self._writer.changes() == 1

    @contextmanager
    def transaction(self, tenant: str) -> Iterator[SqliteTransaction]:
        """Opens a transaction for a handler; while it is open, nobody else can write to this file."""
        self._check_process()
        with self._explained, self._writing:
            self._writer.execute("BEGIN IMMEDIATE")
            transaction = SqliteTransaction(self, self._writer, tenant)
            try:
                yield transaction
            finally:
                self._abandon()

    # Reading

    def look(self, refs: Sequence[Ref]) -> Seen:
        """Reads the committed state of some effects."""
        self._check_process()
        with self._explained, self._reading:
            return Seen(self._clock.now(), [_effect(self._reader, ref) for ref in refs])

    def get_effect(self, tenant: str, effect_id: str) -> Effect | None:
        """Finds an effect by its id or the beginning of it."""
        found = self._read("find_ids", (tenant, effect_id, effect_id + "\U0010ffff"))
        if len(found) > 1 and effect_id not in {effect.id for effect in found}:
            raise BadCall(f"{effect_id}… is the beginning of more than one id; give more of it")
        return found[0] if found else None

    def find_by_key(self, tenant: str, key: str, scope: str | None) -> Effect | None:
        """Finds an effect by its key."""
        if scope is not None:
            return self.look([Ref(tenant, scope, key)]).effects[0]
        found = self._read("find_key", (tenant, bytes.fromhex(key)))
        return found[0] if found else None

    def abandoned(self, tenant: str, limit: int) -> list[Effect]:
        """Lists effects in doubt and effects whose lease ran out."""
        now = rows.micros(self._clock.now())
        return self._read("list_abandoned", {"tenant": tenant, "now": now, "limit": limit})

    def _read(self, query: str, parameters: tuple[object, ...] | dict[str, object]) -> list[Effect]:
        """Gives the effects at the places a query finds."""
        self._check_process()
        with self._explained, self._reading:
            places: list[Any] = self._reader.execute(SQL[query], parameters).fetchall()
            tenant = parameters["tenant"] if isinstance(parameters, dict) else parameters[0]
            effects = [_effect(self._reader, Ref(str(tenant), scope, key.hex())) for scope, key in places]
        return [effect for effect in effects if effect is not None]

    def effects(self, tenant: str, selected: Filter) -> list[Effect]:
        """Lists effects, newest first."""
        self._check_process()
        parameters = {
            "tenant": tenant,
            "before": selected.before,
            "status": selected.status,
            "tool": selected.tool,
            "run_id": selected.run_id,
            "side_effect": selected.side_effect,
            "limit": selected.limit,
        }
        with self._explained, self._reading:
            return [rows.effect_from(row) for row in self._reader.execute(SQL["list_effects"], parameters)]

    def events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """Lists a run's events."""
        self._check_process()
        with self._explained, self._reading:
            found = self._reader.execute(SQL["list_events"], (tenant, run_id, after, limit))
            return [rows.event_from(row) for row in found]

    def payloads(self, tenant: str, run_id: str, seqs: Iterable[int]) -> list[Payload]:
        """Lists what events commit to."""
        self._check_process()
        with self._explained, self._reading:
            return [
                rows.payload_from(row)
                for seq in seqs
                for row in self._reader.execute(SQL["list_payloads"], (tenant, run_id, seq))
            ]

    # Waking

    def alarm(self) -> Alarm | None:
        """Gives an alarm for writes by other processes."""
        self._check_process()
        return None if self._wake_file is None else open_alarm(f"{self._path}-wake")

    def ring(self, effects: Sequence[Effect]) -> None:
        """Touches the wake file."""
        if self._wake_file is not None and effects:
            os.pwrite(self._wake_file, b"!", 0)

    def close(self) -> None:
        """Closes the file."""
        if os.getpid() != self._pid:
            return
        with self._reading:
            self._reader.close()
        self._writer.close()
        self._writing.close()
        if self._wake_file is not None:
            os.close(self._wake_file)
            self._wake_file = None


_INHERITED: list[object] = []


class SqliteTransaction:
    """Is a handler's own transaction: `connection` is an `apsw.Connection`."""

    def __init__(self, store: SqliteStore, connection: apsw.Connection, tenant: str) -> None:
        self.connection = connection
        self._store = store
        self._tenant = tenant

    def settle(self, command: Command) -> Answer:
        """Settles the effect and commits both, or rolls both back."""
        with self._store._explained:
            batch = self._store._decide_and_write(self._tenant, [command], self._store._read_effects([command]))
            answer = batch.answers[0]
            if isinstance(answer, Moved):
                self.connection.execute("COMMIT")
                self._store._remember(self._tenant, batch)
            else:
                self.rollback()
        return answer

    def rollback(self) -> None:
        """Undoes what the handler wrote."""
        self._store._abandon()


def _guessed(commands: Sequence[Command], known: Sequence[Effect | None]) -> dict[Ref, Effect | None]:
    """Gives the likely states: as their callers saw them last, and new where nobody has seen any.

    The write checks it: a key that is taken and a state that has moved on are both refused.
    """
    effects: dict[Ref, Effect | None] = {}
    for command, seen in zip(commands, known, strict=True):
        if seen is None and not isinstance(command, Open):
            raise _Refused
        effects.setdefault(command.ref, seen)
    return effects


def _place(ref: Ref) -> tuple[str, str, bytes]:
    return (ref.tenant, ref.scope, bytes.fromhex(ref.key))


def _effect(connection: apsw.Connection, ref: Ref) -> Effect | None:
    """Reads an effect, and its payloads only if there is one: a new call is the common case."""
    row = connection.execute(SQL["effect_at"], _place(ref)).fetchone()
    if row is None:
        return None
    found = connection.execute(SQL["payloads_of"], (ref.tenant, row[4], row[15], row[16])).fetchall()
    values = {(seq, field): value for seq, field, value in found}
    detail = values.get((row[16], DETAIL_FIELDS.get(row[10], "reason")))
    return rows.effect_from((*row, values.get((row[15], "args")), detail))
