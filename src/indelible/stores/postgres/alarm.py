"""Wakes waiting processes when another one has written: NOTIFY, off the way of the writes, and LISTEN.

A NOTIFY inside the writing transaction would cost most of the throughput, for the server lets one such commit through
at a time. So a thread of its own tells what changed, gathered over two milliseconds. What people decide is told by the
writing transaction itself: they decide seldom, and whoever waits for them should not wait for this thread as well.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from indelible.stores.postgres.address import Target
from indelible.stores.postgres.connections import Line, Lost, Rejected, Session
from indelible.stores.postgres.driver import psycopg
from indelible.stores.postgres.statements import SQL

CHANNEL = b"indelible"
EVERYTHING = "*"
_PREFIX = 16
_MOST_PREFIXES = 7900 // (_PREFIX + 1)  # a payload has less than 8,000 bytes
_PAUSE = 0.002
_SECONDS = 5.0
_RECONNECT_EVERY = 1.0


class Ringer:
    """Tells other processes which effects changed; what it cannot tell, they find by looking at times."""

    def __init__(self, target: Target) -> None:
        self._line = Line(target)
        self._start()

    def _start(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.backend_pid = 0

    def ring(self, keys: Iterable[str]) -> None:
        """Notes the keys of effects that moved and returns at once."""
        if os.getpid() != self._pid:
            self._start()
        with self._lock:
            self._changed.update(key[:_PREFIX] for key in keys)
            if not self._changed or self._is_closed:
                return
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="indelible-ringer", daemon=True)
                thread.start()  # which the system may refuse; then the next ring tries again
                self._thread = thread
        self._wake.set()

    def _run(self) -> None:
        while not self._is_closed:
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                changed, self._changed = self._changed, set()
            if changed:
                self._tell(changed)
                time.sleep(_PAUSE)

    def _tell(self, changed: set[str]) -> None:
        payload = ",".join(sorted(changed)) if len(changed) <= _MOST_PREFIXES else EVERYTHING
        with self._line.lock:
            until = time.monotonic() + _SECONDS
            try:
                session = self._line.session(until)
                self.backend_pid = session.backend_pid
                session.run(SQL["say_changed"], [payload.encode()], until)
            except (Lost, Rejected):
                self._line.drop()

    def close(self) -> None:
        """Stops the thread."""
        self._is_closed = True
        self._wake.set()
        if self._thread is not None and os.getpid() == self._pid:
            self._thread.join()
        with self._line.lock:
            self._line.drop()


class NotifyAlarm:
    """Becomes readable when another process told of a change. Ask for `fileno` again before each wait."""

    def __init__(self, target: Target, own_pid: Callable[[], int]) -> None:
        self._target = target
        self._own_pid = own_pid
        self._bell: tuple[int, int] | None = os.pipe()
        self._session: Session | None = None
        self._may_have_missed = False
        self._retry_at = 0.0
        try:
            self._listen()
        except BaseException:
            self.close()
            raise

    def _listen(self) -> None:
        session = Session(self._target)
        try:
            session.command(b"LISTEN " + CHANNEL, time.monotonic() + _SECONDS)
        except BaseException:
            session.close()
            raise
        self._session = session

    def fileno(self) -> int:
        """Is readable after a change, and after it had to connect again."""
        if self._session is None and time.monotonic() >= self._retry_at:
            self._reconnect()
        if self._session is None or self._may_have_missed:
            return -1 if self._bell is None else self._bell[0]
        return self._session.connection.pgconn.socket

    def _reconnect(self) -> None:
        try:
            self._listen()
        except (Lost, Rejected):
            self._retry_at = time.monotonic() + _RECONNECT_EVERY
            return
        self._may_have_missed = True
        if self._bell is not None:
            os.write(self._bell[1], b"!")

    def drain(self) -> set[str] | None:
        """Takes what came in; None after the connection was lost, for then anything may have been missed."""
        if self._may_have_missed and self._bell is not None:
            os.read(self._bell[0], 1)
            self._may_have_missed = False
            return None
        if self._session is None:
            return None
        payloads: list[str] = []
        pgconn = self._session.connection.pgconn
        try:
            self._session.take_in()
            while (notice := pgconn.notifies()) is not None:
                if notice.be_pid != self._own_pid():
                    payloads.append(notice.extra.decode())
        except psycopg.OperationalError:
            self._session.close()
            self._session = None
            return None
        return None if EVERYTHING in payloads else {prefix for payload in payloads for prefix in payload.split(",")}

    def close(self) -> None:
        """Stops listening."""
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._bell is not None:
            for end in self._bell:
                os.close(end)
            self._bell = None
