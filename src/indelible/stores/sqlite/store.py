"""The embedded store: one SQLite file, any number of threads and processes on one machine."""

from __future__ import annotations

import os
import threading
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from indelible import file_lock
from indelible.core.batch import Batch
from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload, Provenance
from indelible.core.macs import Macs
from indelible.core.moving import origin_of
from indelible.core.ports import Alarm, Begin, Clock, Compare, Expect, Filter, Outline, Seen
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import BadCall, Misconfigured, StoreUnavailable
from indelible.stores.assumptions import is_stop, named
from indelible.stores.sqlite import rows
from indelible.stores.sqlite.alarm import open_alarm
from indelible.stores.sqlite.bulk import Refused
from indelible.stores.sqlite.connections import Explained, check_alone, connect, folder_of, make_file
from indelible.stores.sqlite.forgetting import SqliteForgetting
from indelible.stores.sqlite.guard import Guard, Place, open_beside, place_of
from indelible.stores.sqlite.journal import SqliteJournal, tree_of
from indelible.stores.sqlite.pen import Pen, guessed, read_effect, read_effects
from indelible.stores.sqlite.schema import is_current, is_new, migrate
from indelible.stores.sqlite.sheets import list_sheets
from indelible.stores.sqlite.statements import SQL
from indelible.stores.sqlite.transaction import SqliteTransaction
from indelible.stores.sqlite.watching import Watched
from indelible.stores.sqlite.write_lock import WriteLock

"""Is asked with a file's whole path and the name of the ledger in it, None if it has none yet; raises to refuse it."""
_Where = tuple[Place | None, ...]


class _SetBack(Exception):
    """A claim was to be written to a database that lacks what was signed."""


class SystemClock:
    """Tells the machine's time."""

    def now(self) -> datetime:
        """Gives the moment, aware and in UTC."""
        return datetime.now(UTC)


class SqliteStore:
    """Keeps a ledger in one SQLite file, durable when a call returns."""

    is_cheap_to_read = True
    unseen_kinds: frozenset[str] = frozenset()
    sign_event: Callable[[bytes], bytes] | None = None
    introduce: Callable[[str], Command] | None = None
    macs: Callable[[str], Macs] | None = None
    compare: Compare | None = None

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        wakeups: bool = True,
        expect: Expect | None = None,
        begin: Begin | None = None,
    ) -> None:
        """Open the ledger in a file, or begin one there.

        Args:
            path: The file, or `:memory:`.
            clock: Tells the time. Default: the machine's.
            wakeups: Whether writes wake other processes. Default: True.
            expect: Is asked before a ledger is begun or used, and raises if another one belongs into the file.
            begin: Makes the writer keys of a ledger that is begun, so that its rows carry macs. Not used in memory.
        """
        self._is_memory = path == ":memory:"
        if self._is_memory:
            # A named memory database can have the two connections that a file has, so that both behave alike.
            self._path = f"file:/indelible-{uuid.uuid4().hex}?vfs=memdb"
            self.address = ":memory:"
        else:
            file_lock.require()
            self._path = str(folder_of(path).resolve() / Path(path).name)
            self.address = f"sqlite:///{path}"
        self.file = None if self._is_memory else str(Path(path).absolute())
        self._clock = clock or SystemClock()
        self._explained = Explained(self.address)
        self._wakeups = wakeups and not self._is_memory
        self._expect = None if self._is_memory else expect
        self._begin = None if self._is_memory else begin  # no other program can write there
        self._held: list[threading.Lock] = []
        self._connecting = threading.Lock()
        self.journal = SqliteJournal(self._write_connection, self._read_connection)
        self.forgetting = SqliteForgetting(self._write_connection, self._read_connection)
        self._connect()

    def _connect(self) -> None:
        """Opens everything that belongs to this process."""
        self._reading = threading.Lock()
        with self._explained, ExitStack() as undone:
            self._guard = None if self._is_memory else self._open_guard()
            if self._guard is not None:
                undone.callback(self._guard.release, lambda: None)
            self._writing = WriteLock(None if self._is_memory else f"{self._path}-lock", self.address)
            undone.callback(self._writing.close)
            self._writer = self._connection()
            undone.callback(self._writer.close)
            self.applied_migrations: list[str] = []
            if not is_current(self._writer):
                self._bring_up_to_date()
            self._pen = Pen(self._writer, self._clock)
            self._reader = self._connection()
            undone.callback(self._reader.close)
            self._watched = Watched()
            name: Any = self._reader.execute(SQL["ledger_name"]).get
            self.ledger_name = named(name, self.address)
            self._check_expected(self.ledger_name)
            self._wake_file = open_beside(f"{self._path}-wake") if self._wakeups else None
            self._place = self._hold_place()
            undone.pop_all()
        self._provenances: dict[str, Provenance] = {}
        self._compared: set[str] = set()
        self._introduced: set[str] = set()
        self._writer_id = uuid.uuid4().hex
        self._pid = os.getpid()  # only now: until then every thread of a forked child waits for the first one
        _STORES.add(self)

    def _open_guard(self) -> Guard:
        """Open nothing but the guard: a file that should not be begun, or not be used, is left as it is."""
        check_alone(self._path)
        if _is_empty(self._path):
            try:
                self._check_expected(None)
            except Misconfigured:
                if _is_empty(self._path):  # else another process has begun it since we looked
                    raise
        make_file(self._path)
        real = os.path.realpath(self._path)  # beside this one SQLite puts its files
        self._log, self._index = f"{real}-wal", f"{real}-shm"
        return Guard.of(real)

    def _bring_up_to_date(self) -> None:
        with self._writing:
            if is_new(self._writer):
                self._check_expected(None)
            self.applied_migrations = migrate(
                self._writer, self._clock.now(), is_memory=self._is_memory, begin=self._begin
            )

    def _check_expected(self, ledger_name: str | None) -> None:
        if self._expect is not None and self.file is not None:
            self._expect(self.file, ledger_name)

    def _hold_place(self) -> _Where | None:
        """Hold the database's locks, and return where it, its log and the log's index are."""
        if self._guard is None:
            return None
        self._has_log = self._writer.pragma("journal_mode") == "wal"
        if self._has_log:
            self._guard.lock()
        return self._where()

    def _where(self) -> _Where:
        here = _whole_place_of(self._path)
        return (here, place_of(self._log), place_of(self._index)) if self._has_log else (here,)

    def stand_still(self) -> None:
        """Keeps the threads of this process out of SQLite, until `go_on`."""
        locks = (self._writing.threads, self._reading)
        self._held = [lock for lock in locks if lock.acquire(timeout=_FORK_PATIENCE)]

    def go_on(self) -> None:
        """Lets them in again."""
        held, self._held = self._held, []
        for lock in held:
            lock.release()

    @property
    def writer_id(self) -> str:
        """Names this process in its events; a forked child has a name of its own."""
        self._check_process()
        return self._writer_id

    def _connection(self) -> apsw.Connection:
        return connect(self._path, is_memory=self._is_memory)

    def _check_process(self) -> None:
        """Starts afresh in a forked child: SQLite's connections must not cross a fork."""
        if os.getpid() == self._pid:
            return
        if self._is_memory:
            raise BadCall("a :memory: ledger belongs to the process that opened it; use a file to share it")
        with self._connecting:
            if os.getpid() != self._pid:
                # Closing the parent's connections here would drop the parent's locks; they are left to rest.
                _INHERITED.append((self._writer, self._reader, self._writing))
                self._connect()

    def _check_place(self) -> None:
        """Raise if the file, its log or index is not where it was, or the log is short: others would not see a write.

        Called before each write, and again before it is answered: what was written to a file that is gone starts
        nothing.
        """
        if self._is_out_of_place():
            raise self._out_of_place()

    def _is_out_of_place(self) -> bool:
        if self._place is None or self._guard is None:
            return False
        # The address that was given leads elsewhere if a link on the way to the file was switched.
        if self._where() != self._place or (self.file is not None and _whole_place_of(self.file) != self._place[0]):
            return True
        # Looked at again if it is too short: another program may have written between the two reads.
        return self._has_log and not any(self._guard.has_whole_log(self._log) for _ in range(_LOOKS_AT_LOG))

    def _out_of_place(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self.address}, its log ({Path(self._log).name}) or its index ({Path(self._index).name}) was moved, "
            "deleted, emptied or replaced while this process had it open; nothing was written that another process "
            "can see. Stop all programs that use it, put the files back or restore a backup, and start again: "
            "docs/how-to/backup.md"
        )

    # Writing

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Decides and writes under the write lock: first on what is likely, and if that was wrong, on what is."""
        self._check_process()
        while True:
            if tenant not in self._compared and not is_stop(commands):
                self._compare(tenant)
            try:
                return self._apply(tenant, commands, known)
            except _SetBack:
                self._compared.discard(tenant)
                self._introduced.discard(tenant)

    def _compare(self, tenant: str) -> None:
        """Compare a tenant's record with what was signed. One that lacks a part is compared again each time."""
        if self.compare is None or self.compare(tenant):
            self._compared.add(tenant)

    def _apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        with self._explained, self._writing:
            self._check_place()
            written = [*commands, *self._introduction(tenant)]
            seen = [*known, *[None] * (len(written) - len(commands))]
            try:
                batch = self._transact(tenant, written, guessed(written, seen))
            except (Refused, apsw.ConstraintError):
                batch = self._transact(tenant, written, None)
            self._check_place()
            if len(written) > len(commands):
                self._introduced.add(tenant)
        self._ring(batch)
        return batch.answers[: len(commands)]

    def _introduction(self, tenant: str) -> list[Command]:
        """Return what tells the key that signs this process's events, unless the tenant's journal was told."""
        return [] if self.introduce is None or tenant in self._introduced else [self.introduce(tenant)]

    def _transact(self, tenant: str, commands: Sequence[Command], likely: dict[Ref, Effect | None] | None) -> Batch:
        try:
            self._writer.execute("BEGIN IMMEDIATE")  # an interrupt meanwhile is raised when it has begun
            by = self._provenance(tenant)
            effects = read_effects(self._writer, commands, by.macs) if likely is None else likely
            batch = self._pen.write(tenant, commands, effects, by, is_guess=likely is not None)
            if batch.needs_signed and self.compare is not None:
                self._check_has_signed(tenant, self.compare.signed(by.log))
            self._writer.execute("ROLLBACK" if batch.is_empty else "COMMIT")
        except BaseException:
            try:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")  # right here: the stack may have no room for one function more
            except apsw.Error:
                self._replace_writer()
            self._pen.forget()
            raise
        self._pen.remember(tenant, batch)
        if batch.events:
            self._remember(tenant, by)
        return batch

    def _check_has_signed(self, tenant: str, signed: int) -> None:
        """Raise if the tree has fewer entries than were signed: the file was restored while it was open."""
        if signed and tree_of(self._writer, tenant).size < signed:
            raise _SetBack

    def _replace_writer(self) -> None:
        """Closes a connection that could not even end its transaction."""
        self._writer.close(True)
        self._writer = self._connection()
        self._pen = Pen(self._writer, self._clock)

    def _provenance(self, tenant: str) -> Provenance:
        known = self._provenances.get(tenant)
        macs = self._macs_of(tenant)
        if known is not None and known.sign is self.sign_event and known.macs is macs:
            return known
        log = self._origin(self._writer, tenant)
        return Provenance(log=log, writer=self._writer_id, sign=self.sign_event, macs=macs)

    def _macs_of(self, tenant: str) -> Macs | None:
        return None if self.macs is None else self.macs(tenant)

    def _remember(self, tenant: str, by: Provenance) -> None:
        """Notes whose events a tenant's are, once it has some: then it cannot be moved here under another name."""
        if len(self._provenances) >= _MOST_TENANTS:
            self._provenances.clear()
        self._provenances[tenant] = by

    def origin(self, tenant: str) -> str:
        """Names a tenant's journal, as its keys say if there are any."""
        with self._read_connection() as connection:
            return self._origin(connection, tenant)

    def _origin(self, connection: apsw.Connection, tenant: str) -> str:
        macs = self._macs_of(tenant)
        if macs is not None and macs.origin is not None:
            return macs.origin
        kept: Any = connection.execute(SQL["read_origin"], {"tenant": tenant}).get
        return origin_of(self.ledger_name, tenant, kept)

    @contextmanager
    def _write_connection(self) -> Iterator[apsw.Connection]:
        self._check_process()
        with self._explained, self._writing:
            self._check_place()
            yield self._writer

    @contextmanager
    def _read_connection(self) -> Iterator[apsw.Connection]:
        self._check_process()
        with self._explained, self._reading:
            yield self._reader

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """Extends the lease while the claim holds."""
        self._check_process()
        effect = claim.effect
        token = bytes.fromhex(claim.token_hash)
        with self._explained, self._writing:
            now = self._clock.now()
            until = rows.micros(now + lease)
            self._writer.execute(
                SQL["heartbeat"], (until, *rows.place(effect.ref), token, effect.attempt, rows.micros(now))
            )
            return self._writer.changes() == 1

    @contextmanager
    def transaction(self, tenant: str) -> Iterator[SqliteTransaction]:
        """Opens a transaction for a handler; while it is open, nobody else can write to this file."""
        self._check_process()
        with self._explained:
            self._check_place()
        if self._introduction(tenant):
            self.apply(tenant, [], [])
        transaction = SqliteTransaction(
            self._writing,
            self._connection,
            lambda connection: Pen(connection, self._clock),
            self._explained,
            self._check_place,
            self._ring,
            self._provenance(tenant),
            tenant,
        )
        try:
            yield transaction
        finally:
            transaction.close()

    # Reading

    def watch(self, refs: Sequence[Ref]) -> Seen:
        """Reads the committed state of some effects; every write rings here, so there is nothing to arrange."""
        self._check_process()
        with self._explained, self._reading:
            return Seen(self._clock.now(), self._watched.look(self._reader, refs, self._macs_of))

    def look(self, refs: Sequence[Ref]) -> Seen:
        """Reads the committed state of some effects."""
        self._check_process()
        with self._explained, self._reading:
            return Seen(self._clock.now(), [read_effect(self._reader, ref, self._macs_of(ref.tenant)) for ref in refs])

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
        if len(found) > 1:
            raise BadCall(f"{key} is the key of calls in several scopes; name the effect by its id")
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
            tenant = str(parameters["tenant"] if isinstance(parameters, dict) else parameters[0])
            macs = self._macs_of(tenant)
            effects = [read_effect(self._reader, Ref(tenant, scope, key.hex()), macs) for scope, key in places]
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
            macs = self._macs_of(tenant)
            return [rows.effect_from(row, macs) for row in self._reader.execute(SQL["list_effects"], parameters)]

    def outlines(self, tenant: str, since: str, before: str | None, limit: int) -> list[Outline]:
        """Lists effects without what they recorded, newest first."""
        self._check_process()
        last = "\U0010ffff" if before is None else before
        parameters = {"tenant": tenant, "since": since, "before": last, "limit": limit}
        with self._explained, self._reading:
            return [rows.outline_from(row) for row in self._reader.execute(SQL["list_outlines"], parameters)]

    def alike(self, tenant: str, digests: Sequence[str], since: datetime, limit: int) -> list[Outline]:
        """List effects that say the same."""
        self._check_process()
        found: list[Outline] = []
        with self._explained, self._reading:
            for digest in digests:
                parameters = {"tenant": tenant, "since": rows.micros(since), "limit": limit - len(found)}
                said = parameters | {"digest": bytes.fromhex(digest)}
                found += [rows.outline_from(row) for row in self._reader.execute(SQL["list_alike"], said)]
        return found

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

    def sheets(self, tenant: str, selected: SheetFilter) -> list[Sheet]:
        """Lists sheets of one kind with what is on them."""
        self._check_process()
        with self._explained, self._reading:
            return list_sheets(self._reader, tenant, selected, self._macs_of(tenant))

    def has_macs(self) -> bool:
        """Say whether this ledger's rows carry macs."""
        with self._read_connection() as connection:
            return bool(connection.execute(SQL["has_macs"]).get)

    # Waking

    def alarm(self) -> Alarm | None:
        """Gives an alarm for writes by other processes."""
        self._check_process()
        return None if self._wake_file is None else open_alarm(f"{self._path}-wake")

    def _ring(self, batch: Batch) -> None:
        """Touches the wake file, if anybody can have waited for what was written."""
        if self._wake_file is not None and batch.moved:
            try:
                os.pwrite(self._wake_file.fileno(), b"!", 0)
            except OSError:  # the commit stands; those who wait find it when they look by themselves
                return

    def close(self) -> None:
        """Closes the file."""
        if os.getpid() != self._pid:
            return
        with self._writing.threads, self._reading:
            if self._is_out_of_place():
                self._leave_log()
            guard, self._guard = self._guard, None
            if guard is None:
                self._close_connections()
            else:
                guard.release(self._close_connections)
        self._writing.close()
        if self._wake_file is not None:
            self._wake_file.close()
            self._wake_file = None

    def _leave_log(self) -> None:
        """Close without a last checkpoint: with an index that others do not share, it would undo their commits."""
        for connection in (self._reader, self._writer):
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _close_connections(self) -> None:
        self._reader.close()
        self._writer.close()


def _whole_place_of(path: str) -> Place | None:
    """Return the place of a file that is not empty; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  around every write, so it is the quick one
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size else None


def _is_empty(path: str) -> bool:
    return _whole_place_of(path) is None


_INHERITED: list[object] = []
_STORES: weakref.WeakSet[SqliteStore] = weakref.WeakSet()
# Whoever forks inside a transaction of its own holds a lock that it would wait for here.
_FORK_PATIENCE = 2.0
_MOST_TENANTS = 1000
_LOOKS_AT_LOG = 3


def _stand_still() -> None:
    """Lets no thread of ours be inside SQLite while the process forks: its inner locks would stay locked for ever."""
    for store in list(_STORES):
        store.stand_still()


def _go_on() -> None:
    for store in list(_STORES):
        store.go_on()


def _begin_in_child() -> None:
    _go_on()
    for store in list(_STORES):
        store._connecting = threading.Lock()  # whoever held it is not here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_stand_still, after_in_parent=_go_on, after_in_child=_begin_in_child)
