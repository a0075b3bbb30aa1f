"""A handler's own transaction: what it writes and the settlement of its effect are one commit."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from indelible.core.batch import Batch, decide
from indelible.core.commands import Answer, Command, Finish, Moved, Relinquish
from indelible.errors import BadCall
from indelible.stores.assumptions import sheets_for
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.connections import Lost, Rejected, Session
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.lane import COMMIT, ROLLBACK, Lane
from indelible.stores.postgres.statements import SQL
from indelible.stores.postgres.transitions import Locked, View, give_up, lock, look, write
from indelible.stores.postgres.trouble import explained

# The mark is gone when the transaction ends, so it tells whether the handler kept to this one.
_BEGIN = (
    b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL indelible.mark = 'open'; SET LOCAL client_min_messages = warning"
)
_SAVEPOINT = b"; SAVEPOINT indelible"
_UNDO = b"ROLLBACK TO SAVEPOINT indelible"
_SAFE_COMMIT = b"; SET LOCAL synchronous_commit = on"
_PREPARE_AFTER = 5  # the driver's own default


class PostgresTransaction:
    """Is a handler's own transaction: `connection` is a `psycopg.Connection`, open until the effect is settled."""

    def __init__(self, target: Target, lane: Lane, tenant: str, seconds: float) -> None:
        self._target = target
        self._lane = lane
        self._tenant = tenant
        self._seconds = seconds
        # Now, and not under locks of ours: for them somebody may wait who has the lane.
        self._provenance = lane.provenance_of(tenant)
        try:
            self._session = Session(target)
            self._line = self._begin()
        except (Lost, Rejected) as problem:
            raise explained(target, problem) from problem
        self.connection: Any = self._session.connection

    def _begin(self) -> socket.socket:
        if not self._target.is_pooled:
            self._session.connection.prepare_threshold = _PREPARE_AFTER
        begin = _BEGIN + (_SAFE_COMMIT if self._target.synchronous_commit == "off" else b"") + _SAVEPOINT
        try:
            self._session.command(begin, self._until())
            return self._session.second_handle()
        except BaseException:
            self._session.close()
            raise

    def _until(self) -> float:
        return time.monotonic() + self._seconds

    def settle(self, command: Command) -> Answer:
        """Settles the effect and commits both, or rolls both back: what a lost claim wrote must not stay."""
        try:
            self._check_same_transaction()
            batch = self._decide_and_write(command)
        except (Lost, Rejected) as problem:
            self._session.close()
            raise explained(self._target, problem) from problem
        answer = batch.answers[0]
        if isinstance(answer, Moved):
            self._commit(command, batch)
        else:
            self.rollback()
        return answer

    def _check_same_transaction(self) -> None:
        pgconn = self._session.connection.pgconn
        if pgconn.transaction_status == pq.TransactionStatus.INERROR:
            self.rollback()
            raise BadCall(
                "a statement of the handler failed inside effect.transaction(), so PostgreSQL rolls all of it back; "
                "let the exception pass, or use a savepoint: with connection.transaction()"
            )
        is_open = pgconn.transaction_status == pq.TransactionStatus.INTRANS
        if not is_open or self._session.run(SQL["read_mark"], (), self._until()).get_value(0, 0) != b"open":
            raise BadCall(
                "the handler ended the transaction that effect.transaction() gave it, so the effect could not be "
                "settled in it; leave commit, rollback and close to the ledger"
            )

    def is_committed(self) -> bool:
        """Say whether the handler may have committed by itself: PostgreSQL lets it.

        It has not if the savepoint is still there. A lost connection cannot tell.
        """
        lock = self._session.connection.lock
        if not lock.acquire(blocking=False):  # an abandoned handler is in a statement; its effect is in doubt anyway
            return False
        try:
            status = self._session.connection.pgconn.transaction_status
            if status not in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR):
                return True
            self._session.command(_UNDO, self._until())
        except (Lost, Rejected):
            return True
        finally:
            lock.release()
        return False

    def _decide_and_write(self, command: Command) -> Batch:
        session, until, commands = self._session, self._until(), [command]
        locked, seen = self._look(command)
        batch = decide(commands, seen.effects, seen.heads, seen.now, self._provenance, seen.sheets)
        is_settlement = not batch.is_empty and isinstance(batch.answers[0], Moved)
        if is_settlement and write(session, self._tenant, batch, seen.now, self._lane.test_time(), until) is not None:
            raise Lost("the run's first event was written by another at the same moment", may_have_run=False)
        give_up(session, self._tenant, locked, batch, until)
        return batch

    def _look(self, command: Command) -> tuple[Locked, View]:
        """Reads what the settlement rests on, under locks. The claim says what that is likely to be."""
        session, until, clock = self._session, self._until(), self._lane.test_time()
        claimed = command.claim.effect if isinstance(command, Finish | Relinquish) else None
        sheets = sheets_for([command], {command.ref: claimed})
        locked = lock(session, self._tenant, [command], until, sheets)
        seen = look(session, [command], clock, until, sheets, self._provenance.macs)
        if not locked.covers(seen, sheets_for([command], seen.effects)):
            raise Lost("what the effect rests on was written by another at the same moment", may_have_run=False)
        return locked, seen

    def _commit(self, command: Command, batch: Batch) -> None:
        try:
            self._session.command(COMMIT, self._until())
            if self._session.is_warned:
                raise Lost("the wait for the standbys was cut short", may_have_run=True)
        except Rejected as rejected:
            raise explained(self._target, rejected) from rejected
        except Lost as lost:
            if batch.is_empty:  # it was settled before, so no event of ours can tell
                raise explained(self._target, lost, is_outcome_unknown=True) from lost
            if not self._lane.find_out(self._tenant, command, batch):
                raise explained(self._target, lost) from lost
        self._lane.note_commit(self._tenant, batch)

    def rollback(self) -> None:
        """Undoes what the handler wrote; when even that cannot be said, closing the connection does it."""
        try:
            if not self._session.is_idle:
                self._session.command(ROLLBACK, self._until())
        except (Lost, Rejected):
            self._session.close()

    def close(self) -> None:
        """Closes the connection, also while an abandoned handler is in a statement; what is not committed is undone.

        To free a connection that another thread is using would crash it. Hanging up ends the statement there, and the
        thread then finds the connection closed.
        """
        lock = self._session.connection.lock
        with self._line as line:
            if lock.acquire(blocking=False):
                try:
                    self._session.close()
                finally:
                    lock.release()
            else:
                with contextlib.suppress(OSError):  # the thread may have closed the connection itself by now
                    line.shutdown(socket.SHUT_RDWR)
