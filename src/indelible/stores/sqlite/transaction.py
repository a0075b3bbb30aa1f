"""A handler's own transaction: what it writes and the settlement of its effect are one commit."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import ExitStack
from weakref import WeakSet

import apsw

from indelible.core.batch import Batch
from indelible.core.commands import Answer, Command, Moved
from indelible.core.events import Provenance
from indelible.errors import BadCall
from indelible.stores.sqlite.connections import Explained
from indelible.stores.sqlite.pen import Pen, read_effects
from indelible.stores.sqlite.write_lock import WriteLock

# Gone when the transaction ends, so it tells whether the handler kept to this one.
_MARK = "indelible"


class SqliteTransaction:
    """Is a handler's own transaction: `connection` is an `apsw.Connection`, open until the effect is settled.

    It holds the file's write lock from its first moment, so nobody else can write meanwhile.
    """

    def __init__(
        self,
        lock: WriteLock,
        connect: Callable[[], apsw.Connection],
        make_pen: Callable[[apsw.Connection], Pen],
        explained: Explained,
        check_place: Callable[[], None],
        ring: Callable[[Batch], None],
        by: Provenance,
        tenant: str,
    ) -> None:
        self._pid = os.getpid()
        self._by = by
        self._ring = ring
        self._tenant = tenant
        self._explained = explained
        self._check_place = check_place
        with ExitStack() as stack:
            stack.enter_context(explained)
            stack.enter_context(lock)
            self.connection = connect()
            self._cursors: WeakSet[apsw.Cursor] = WeakSet()
            self.connection.cursor_factory = self._made_cursor
            stack.callback(self.connection.close, True)
            check_place()
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute(f"SAVEPOINT {_MARK}")
            self.connection.set_commit_hook(_refuse_commit, id=_refuse_commit)
            self._pen = make_pen(self.connection)
            self._undo = stack.pop_all()

    def settle(self, command: Command) -> Answer:
        """Settles the effect and commits both, or rolls both back: what a lost claim wrote must not stay."""
        if os.getpid() != self._pid:
            raise BadCall("a transaction belongs to the process that began it; let the handler of the parent return")
        with self._explained:
            self._check_same_transaction()
            batch = self._pen.write(
                self._tenant, [command], read_effects(self.connection, [command], self._by.macs), self._by
            )
            answer = batch.answers[0]
            self._check_place()
            self.connection.set_commit_hook(None, id=_refuse_commit)
            self.connection.execute("COMMIT" if isinstance(answer, Moved) else "ROLLBACK")
            self._check_place()
        if isinstance(answer, Moved):
            self._ring(batch)
        return answer

    def is_committed(self) -> bool:
        """Say whether the handler committed by itself, which SQLite refuses here."""
        return False

    def _made_cursor(self, connection: apsw.Connection) -> apsw.Cursor:
        cursor = apsw.Cursor(connection)
        self._cursors.add(cursor)
        return cursor

    def _end_statements(self) -> None:
        """End what the handler has not read to its end: SQLite commits nothing before that."""
        for cursor in list(self._cursors):
            try:
                cursor.close()
            except apsw.IncompleteExecutionError as left:
                raise BadCall(
                    "the handler began statements in effect.transaction() and did not run all of them, so nothing of "
                    f"it was committed; read the cursor to its end ({left})"
                ) from None

    def _check_same_transaction(self) -> None:
        self._end_statements()
        try:
            self.connection.execute(f"RELEASE {_MARK}")
        except apsw.SQLError:
            raise _ended_by_handler() from None

    def close(self) -> None:
        """Undo what is not committed and close the connection, also while the handler still uses it.

        A forked child leaves all of it to its parent: to roll back or close here would undo what the parent wrote.
        """
        if os.getpid() != self._pid:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # also when the child's interpreter ends
            return
        while True:
            try:
                self.connection.close(True)
                break
            except apsw.ThreadingViolationError:  # an abandoned handler is inside a statement: end that first
                self.connection.interrupt()
        self._undo.close()


def _ended_by_handler() -> BadCall:
    return BadCall(
        "the handler ended the transaction that effect.transaction() gave it, so nothing of it was committed and the "
        "effect could not be settled in it; leave COMMIT and ROLLBACK to the ledger"
    )


def _refuse_commit() -> bool:
    """Refuse a COMMIT of the handler, also that of a single statement after its ROLLBACK: SQLite rolls back instead."""
    raise _ended_by_handler()
