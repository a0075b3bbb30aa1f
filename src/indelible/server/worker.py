"""The server's own worker: of several servers in front of one ledger, one goes the rounds, and the next one follows it.

Who that is says a lease. Nothing rests on it: what is done under it is safe when two do it, so a server that was held
up past its time does no harm. Whatever goes wrong here is told, and takes nothing else down.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from indelible import Ledger
from indelible.aio import AsyncLedger
from indelible.core.commands import Answer, Keep, Kept
from indelible.core.effects.effect import SYSTEM
from indelible.core.leases import (
    LEASES_TENANT,
    WorkLease,
    given_back,
    lease_filter,
    lease_sheet,
    read_lease,
    wanted_lease,
)
from indelible.engine.comparing import tenants_of
from indelible.engine.upkeep import Trouble, Upkeep
from indelible.errors import IndelibleError, KeyUnusable
from indelible.journal.sealing_thread import SEAL_EVERY
from indelible.notify.channels import Channel
from indelible.notify.outbox import Outbox
from indelible.notify.patrol import where
from indelible.notify.sending import store_time

if TYPE_CHECKING:
    from indelible.server.ledgers import Ledgers

LEASE = timedelta(seconds=15)
NAME = "worker"
_CLOSING_PATIENCE = 10.0
_log = logging.getLogger("indelible.server.worker")

Role = Literal["off", "leading", "standing by"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """Is what this server knows of the work: its own part in it, and how it goes, whoever does it."""

    role: Role
    is_done: bool
    """Does any server do it?"""
    lag_s: float
    """Is for how many seconds an event has been under no signed head, or nobody has gone the rounds."""
    problems: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Says how the rounds are gone."""

    lease: timedelta = LEASE
    """Is how long nobody goes them after a server died."""
    retain: timedelta | None = None
    """Is how long payloads are kept after what they belong to has ended; for ever, if it is not said."""


class Worker:
    """Goes the rounds in a thread of its own, while it has the lease."""

    def __init__(
        self,
        ledgers: Ledgers,
        rounds: Rounds | None = None,
        *,
        channels: Sequence[Channel] = (),
        keys: Path | None = None,
        encrypt: bool = False,
    ) -> None:
        rounds = rounds or Rounds()
        self._ledgers = ledgers
        self._channels = channels
        self._keys, self._encrypt = keys, encrypt
        self._length, self._retain = rounds.lease, rounds.retain
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._ledger: Ledger | None = None
        self._upkeep: Upkeep | None = None
        self._outbox: Outbox | None = None
        self._lease: WorkLease | None = None
        self._others: WorkLease | None = None
        self._holds_until = self._renew_at = self._seen_at = float("-inf")
        self._problem: str | None = None
        self._has_no_key = False
        ledgers.on_open.append(self._hear_from)

    def start(self) -> None:
        """Begins; the first thing it does is to try for the lease."""
        self._seen_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="indelible-worker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Finishes the round, gives the lease back, so that the next one begins at once, and ends."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(_CLOSING_PATIENCE)
            if self._thread.is_alive():
                _log.warning("the worker is still busy; what it has not done is left to the next one")

    @property
    def state(self) -> WorkerState:
        """Is how it stands now."""
        now = time.monotonic()
        upkeep, problems = self._upkeep, int(self._problem is not None) + int(self._has_no_key)
        if self._lease is not None and upkeep is not None:
            problems += len(upkeep.problems) - int(self._has_no_key)
            return WorkerState(role="leading", is_done=True, lag_s=upkeep.lag(now), problems=problems)
        others = self._others
        is_done = others is not None and bool(others.holder) and now < self._seen_at
        lag = float(others.lag_s) if is_done and others is not None else max(0.0, now - max(self._seen_at, 0.0))
        problems += others.problems if is_done and others is not None else 0
        return WorkerState(role="standing by", is_done=is_done, lag_s=lag, problems=problems)

    # In the thread

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._turn(time.monotonic())
            except IndelibleError as problem:
                self._complain(str(problem))
            except Exception as problem:  # a fault of ours; the thread has to live on, or nobody goes the rounds
                self._complain(f"{type(problem).__name__} {where(problem)}")
            else:
                self._complain(None)
            self._stopped.wait(SEAL_EVERY.total_seconds())
        try:
            self._stand_back()
        except IndelibleError as problem:
            _log.warning("the lease could not be given back: %s", problem)
        if self._ledger is not None:
            self._ledger.close()

    def _turn(self, now: float) -> None:
        if self._ledger is None:
            self._ledger = Ledger.open(store=self._ledgers.store, seal=False, keys=self._keys, encrypt=self._encrypt)
        if self._lease is not None and now >= self._holds_until:
            self._stop_leading()
        if now >= self._renew_at:
            self._renew(self._ledger, now)
        if self._lease is None or self._upkeep is None:
            return
        self._upkeep.go(now)
        self._has_no_key = any(isinstance(problem, KeyUnusable) for problem in self._upkeep.problems.values())
        if self._has_no_key:
            # Another server may have the key. If none has, we are back soon, and do what needs none.
            self._stand_back()
            self._renew_at = now + self._length.total_seconds()

    def _renew(self, ledger: Ledger, now: float) -> None:
        """Takes the lease or goes on with it; whoever cannot have it looks again when its time is up."""
        engine, seconds = ledger._engine, self._length.total_seconds()
        self._renew_at = now + seconds / 3
        found = engine.recorded.sheets(LEASES_TENANT, lease_filter(NAME))
        known = read_lease(found[0]) if found else None
        stores_now = store_time(engine.recorded)
        upkeep = self._upkeep
        lag, problems = (0, 0) if upkeep is None else (int(upkeep.lag(now)), len(upkeep.problems))
        holder = engine.recorded.writer_id
        wanted = wanted_lease(known, NAME, holder, stores_now, self._length, lag_s=lag, problems=problems)
        if wanted is not None and self._write(ledger, wanted):
            self._lease, self._holds_until = wanted, now + seconds
            self._lead(ledger)
            return
        self._stop_leading()
        if known is not None and known.holder != holder:
            self._others = known
            left = (known.until - stores_now).total_seconds()
            self._seen_at = now + max(left, 0.0)
            self._renew_at = min(self._renew_at, now + max(left, 0.05))

    def _write(self, ledger: Ledger, lease: WorkLease) -> bool:
        """Writes the lease, unless somebody else was faster."""
        engine = ledger._engine
        command = Keep(tenant=LEASES_TENANT, stamp=engine.mint.stamp(SYSTEM, 0), sheet=lease_sheet(lease))
        return isinstance(engine.write_alone(command), Kept)

    def _lead(self, ledger: Ledger) -> None:
        if self._upkeep is None:
            self._upkeep = Upkeep(ledger, self._tenants, tell=_tell, retain=self._retain)
        if self._outbox is None:
            upkeep = self._upkeep
            outbox = Outbox(ledger._engine, lambda: upkeep.tenants, self._channels)
            outbox.start()
            self._outbox = outbox
            _log.info("this server goes the rounds now")

    def _tenants(self) -> set[str]:
        """Lists all tenants; those who asked here are known even where the database does not list the others."""
        return {*tenants_of(self._ledgers.store), *self._ledgers.tenants}

    def _stop_leading(self) -> None:
        outbox, self._outbox, self._lease = self._outbox, None, None
        self._seen_at = time.monotonic()
        if outbox is not None:
            outbox.close()
            _log.info("this server goes the rounds no more")

    def _stand_back(self) -> None:
        """Stops leading and says so, so that nobody waits for our lease to end."""
        lease, ledger = self._lease, self._ledger
        self._stop_leading()
        if lease is not None and ledger is not None:
            self._write(ledger, given_back(lease, store_time(ledger._engine.recorded)))

    def _complain(self, problem: str | None) -> None:
        """Says once what is wrong, and again when that changes."""
        if problem != self._problem:
            self._problem = problem
            if problem is None:
                _log.warning("well again")
            else:
                _log.warning("cannot go the rounds: %s", problem)

    # In the threads of those who write

    def _hear_from(self, ledger: AsyncLedger) -> None:
        ledger._engine.writer.listeners.append(self._hear)

    def _hear(self, answers: Sequence[Answer]) -> None:
        outbox = self._outbox
        if outbox is not None:
            outbox.hear(answers)


def _tell(trouble: Trouble, problem: IndelibleError | None) -> None:
    place = f" of tenant {trouble.tenant}" if trouble.tenant else ""
    if problem is None:
        _log.warning("%s%s: well again", trouble.duty, place)
    else:
        _log.error("%s%s: %s", trouble.duty, place, problem)
