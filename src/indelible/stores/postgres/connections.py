"""One held connection: sends a statement, waits no longer than it may, and knows what became of it.

This speaks to libpq through psycopg's thin layer. A cursor would adapt types and keep state that we do not need, and it
would wait for ever; here each wait has an end, and Ctrl-C ends it too.
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
import weakref
from collections.abc import Sequence

from indelible.errors import Misconfigured, StoreUnavailable
from indelible.stores.postgres import wire
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.driver import pq, psycopg
from indelible.stores.postgres.statements import SQL, Statement

Values = Sequence[bytes | None]

_OK = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
# "canceling wait for synchronous replication": committed here, perhaps nowhere else. The text is translated, the codes
# are not; a warning that means something else costs no more than a second look.
_UNSAFE_WARNINGS = ("01000", "57P01")
# The classes 28 and 3D. The driver does not tell the code of a connection that was refused, only the words; a server
# that speaks another language is asked again until the time is up.
_NOT_LET_IN = re.compile(
    r"FATAL:\s+(?:\S+ authentication failed|no pg_hba\.conf entry|pg_hba\.conf rejects|role \".*\" |"
    r"database \".*\" does not exist|permission denied for database)"
)
_MISSING_OR_TAKEN = ("26000", "42P05")


class Lost(Exception):
    """The connection is gone, or was never had.

    Attributes:
        may_have_run: Whether the last statement may have been carried out.
        is_final: Whether the server said that it will not let us in: the next try would be answered the same.
    """

    def __init__(self, why: str, *, may_have_run: bool, is_final: bool = False) -> None:
        super().__init__(why)
        self.may_have_run = may_have_run
        self.is_final = is_final


class Rejected(Exception):
    """The server answered with an error and undid the statement."""

    def __init__(self, result: pq.abc.PGresult) -> None:
        def said(field: pq.DiagnosticField) -> str:
            return (result.error_field(field) or b"").decode("utf-8", "replace")

        self.sqlstate = said(pq.DiagnosticField.SQLSTATE)
        self.severity = said(pq.DiagnosticField.SEVERITY_NONLOCALIZED)
        self.raised_in = said(pq.DiagnosticField.SOURCE_FUNCTION)
        column = f"{said(pq.DiagnosticField.TABLE_NAME)}.{said(pq.DiagnosticField.COLUMN_NAME)}"
        self.violated = said(pq.DiagnosticField.CONSTRAINT_NAME) or column
        super().__init__(f"{said(pq.DiagnosticField.MESSAGE_PRIMARY)} (SQLSTATE {self.sqlstate})")


class Session:
    """Is one connection to the server. Any surprise closes it: a connection in an unknown state is never used again."""

    def __init__(self, target: Target) -> None:
        try:
            self.connection = psycopg.connect(target.conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as error:
            said = target.without_password(str(error)).strip()
            raise Lost(said, may_have_run=False, is_final=_NOT_LET_IN.search(said) is not None) from None
        self._target = target
        self._pg = self.connection.pgconn
        self._poll = select.poll()
        self._poll.register(self._pg.socket, select.POLLIN)
        self._prepared: set[bytes] = set()
        self._tenant: bytes | None = None
        self.is_warned = False
        """Did a warning come during the last statement that puts its durability in doubt?"""
        self.awaited: list[str] = []
        """Are the keys of the effects moved by the last write that other processes wait for."""
        self.connection.add_notice_handler(self._notice)

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING" and diagnostic.sqlstate in _UNSAFE_WARNINGS:
            self.is_warned = True

    @property
    def backend_pid(self) -> int:
        """Is the number of the server's process, as the connection was told."""
        return self._pg.backend_pid

    @property
    def is_idle(self) -> bool:
        """Does it work, with no transaction open and no statement under way?"""
        return self._pg.transaction_status == pq.TransactionStatus.IDLE

    def run(self, statement: Statement, values: Values, until: float) -> pq.abc.PGresult:
        """Carries out a statement; raises `Rejected` or `Lost`, and takes no longer than `until`."""
        if self._target.shows_by_tenant:
            self._act_for(statement, values, until)
        is_sent = False
        try:
            self.take_in()
            self.is_warned = False
            if statement.is_kept and not self._target.is_pooled:
                if statement.name not in self._prepared:
                    self._prepare(statement, until)
                self._pg.send_query_prepared(statement.name, values, statement.formats, 1)
            else:
                self._pg.send_query_params(statement.sql, values, None, statement.formats, 1)
            is_sent = True
            return self._answer(until)
        except Rejected as rejected:
            if rejected.sqlstate in _MISSING_OR_TAKEN:
                self._target.is_pooled = True  # statements get prepared on one server and sent to another
            raise
        except BaseException as error:
            self._give_up(error, is_sent=is_sent)
            raise

    def _act_for(self, statement: Statement, values: Values, until: float) -> None:
        """Says for which tenant this connection works from now on, if that is another than before."""
        tenant = _tenant_in(statement, values)
        if tenant is not None and tenant != self._tenant:
            self._tenant = tenant
            self.run(SQL["act_for"], [tenant], until)

    def command(self, sql: bytes, until: float) -> None:
        """Carries out SQL that has no parameters; several statements are one transaction."""
        self._tenant = None  # what a transaction says of it goes if the transaction does
        is_sent = False
        try:
            self.take_in()
            self.is_warned = False
            self._pg.send_query(sql)
            is_sent = True
            self._answer(until)
        except Rejected:
            raise
        except BaseException as error:
            self._give_up(error, is_sent=is_sent)
            raise

    def _give_up(self, error: BaseException, *, is_sent: bool) -> None:
        """Close the connection; raise `Lost` if it was lost."""
        self.close()
        if isinstance(error, psycopg.OperationalError):
            raise Lost(self._target.without_password(str(error)).strip(), may_have_run=is_sent) from None

    def take_in(self) -> None:
        """Reads what the server said unasked. If that was good-bye, it raises before anything can be in doubt."""
        while self._poll.poll(0):
            self._pg.consume_input()
            self._pg.is_busy()

    def _prepare(self, statement: Statement, until: float) -> None:
        self._pg.send_prepare(statement.name, statement.sql)
        self._answer(until)
        self._prepared.add(statement.name)

    def _answer(self, until: float) -> pq.abc.PGresult:
        """Waits for everything the server has to say: only when it is ready again is a commit known to be one."""
        pg = self._pg
        while pg.flush():
            self._wait(until, select.POLLIN | select.POLLOUT)
            pg.consume_input()
        self._wait(until, select.POLLIN)
        pg.consume_input()
        answer: pq.abc.PGresult | None = None
        failure: pq.abc.PGresult | None = None
        while True:
            while pg.is_busy():
                self._wait(until, select.POLLIN)
                pg.consume_input()
            result = pg.get_result()
            if result is None:
                break
            answer = result
            if result.status not in _OK:
                failure = failure or result
        if failure is not None or answer is None:
            raise self._problem(failure)
        return answer

    def _problem(self, failure: pq.abc.PGresult | None) -> Exception:
        if failure is None:
            return Lost("the server gave no answer", may_have_run=True)
        rejected = Rejected(failure)
        if self._pg.status != pq.ConnStatus.OK or rejected.severity in ("FATAL", "PANIC") or not rejected.sqlstate:
            return Lost(failure.get_error_message().strip(), may_have_run=True)
        return rejected

    def _wait(self, until: float, events: int) -> None:
        """Waits for the socket, a second at most: what TLS has already read does not show on it."""
        left = until - time.monotonic()
        if left <= 0:
            raise Lost("the server did not answer in time", may_have_run=True)
        if events != select.POLLIN:
            self._poll.modify(self._pg.socket, events)
        self._poll.poll(min(left, 1.0) * 1000)
        if events != select.POLLIN:
            self._poll.modify(self._pg.socket, select.POLLIN)

    def close(self) -> None:
        """Closes the connection; whatever it was doing, the server finds out."""
        self.connection.close()

    def second_handle(self) -> socket.socket:
        """Gives another handle of the line, by which it can be cut while a thread uses the connection; to be closed.

        It is taken beforehand: the number of a line that somebody closes meanwhile may be that of another line by then.
        """
        return socket.socket(fileno=os.dup(self._pg.socket))


def _tenant_in(statement: Statement, values: Values) -> bytes | None:
    """Gives the tenant that a statement is about; none crosses tenants."""
    if "tenant" in statement.parameters:
        return values[statement.parameters.index("tenant")]
    if "tenants" in statement.parameters:
        named = wire.read_array(values[statement.parameters.index("tenants")] or b"")
        return named[0] if named else None
    return None


def open_session(target: Target, until: float) -> Session:
    """Connects, finds out who answers there, and settles in if the session is ours to keep."""
    session = Session(target)
    try:
        found = session.run(SQL["introduce"], (), until)
        answering, target.synchronous_commit = _read_introduction(found)
        target.shows_by_tenant = found.get_value(0, 2) == b"\1"
        if target.may_be_pooled and answering != session.backend_pid:
            target.is_pooled = True
        if target.is_pooled:
            _refuse_unsafe_commits(target, tells_warnings=found.get_value(0, 3) == b"\1")
            _refuse_shared_tenants(target)
            return session
        wanted = "on" if target.synchronous_commit == "off" else target.synchronous_commit
        session.run(SQL["settle_in"], [wanted.encode()], until)
    except BaseException:
        session.close()
        raise
    return session


def _read_introduction(found: pq.abc.PGresult) -> tuple[int, str]:
    pid, synchronous_commit = found.get_value(0, 0), found.get_value(0, 1)
    assert pid is not None
    assert synchronous_commit is not None
    return wire.read_bigint(pid), synchronous_commit.decode()


def _refuse_unsafe_commits(target: Target, *, tells_warnings: bool) -> None:
    if not tells_warnings:
        raise Misconfigured(
            f"{target.address} tells no warnings (client_min_messages is error), so a commit that the standbys lack "
            "looks like any other, and behind a pooler that cannot be changed from here; run: ALTER ROLE … SET "
            "client_min_messages = warning"
        )
    if target.synchronous_commit == "off":
        raise Misconfigured(
            f"{target.address} answers before a commit is on the disk (synchronous_commit is off), and behind a pooler "
            "that cannot be changed from here; run: ALTER ROLE … SET synchronous_commit = on"
        )


def _refuse_shared_tenants(target: Target) -> None:
    if target.shows_by_tenant:
        raise Misconfigured(
            f"{target.address} shows rows by tenant (migrate --row-security), and behind a pooler in transaction mode "
            "no connection keeps the tenant it works for; connect to the server itself, or pool sessions"
        )


class Line:
    """Holds one session behind a lock: made when it is first needed, and again after it was lost."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lock = threading.Lock()
        self._session: Session | None = None
        self._is_closed = False
        self.generation = 0
        """Counts the sessions: behind each one there may be another server, or a database that was restored."""
        _LINES.add(self)

    def session(self, until: float) -> Session:
        """Gives the session, a new one if there is none or it was left in the middle of something.

        Call it with the lock held.
        """
        if self._is_closed:  # by another thread, while we waited for the lock
            raise StoreUnavailable(f"{self.target.address} is closed here; open it again")
        if self._session is None or not self._session.is_idle:
            self.drop()
            self._session = open_session(self.target, until)
            self.generation += 1
        return self._session

    def roll_back(self, until: float) -> None:
        """Ends the transaction that is open, if one is."""
        if self._session is not None and not self._session.is_idle:
            self._session.command(b"ROLLBACK", until)

    def drop(self) -> None:
        """Closes the session, if there is one."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def renew(self) -> None:
        """Closes the session; the next statement goes to whichever server answers then."""
        with self.lock:
            self.drop()

    def close(self) -> None:
        """Closes the session for good."""
        with self.lock:
            self._is_closed = True
            self.drop()

    def leave_behind(self) -> None:
        """Starts afresh in a forked child; the parent goes on using the connection, so it is not even closed."""
        self.lock = threading.Lock()
        if self._session is not None:
            _INHERITED.append(self._session)
            self._session = None


_LINES: weakref.WeakSet[Line] = weakref.WeakSet()
_INHERITED: list[object] = []


def _leave_all_behind() -> None:
    for line in list(_LINES):
        line.leave_behind()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all_behind)
