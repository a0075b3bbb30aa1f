"""The outbox: sends what is due, channel by channel, and sees to approvals whose time has come.

Each channel has a thread of its own, so that one which hangs or fails holds up nobody else, and no run at all.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from weakref import WeakMethod

from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import Answer, ApprovalEnded, Attend, AwaitingApproval, Decided, Moved
from indelible.core.effects.effect import SYSTEM
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine.engine import Engine
from indelible.engine.forks import after_fork
from indelible.notify.channels import Channel, check_names
from indelible.notify.patrol import Patrol
from indelible.notify.sending import SENDING_PATIENCE, Sender, Tenants, store_time

CLOSING_PATIENCE = timedelta(seconds=5)
_PAGE = 100
_log = logging.getLogger("indelible.notify")


class Attendant:
    """Sees to approvals that are due: asks more people, or calls them expired."""

    def __init__(self, engine: Engine, tenants: Tenants) -> None:
        self._engine = engine
        self._tenants = tenants
        self._hopeless: set[tuple[str, int]] = set()

    def go(self) -> bool:
        """Attends to what is due now; says whether anything was."""
        store = self._engine.store
        has_found = False
        for tenant in self._tenants():
            now = store_time(store)
            for sheet in store.sheets(tenant, SheetFilter(kind="approval", due_by=now, limit=_PAGE)):
                if sheet.body is not None and (sheet.id, sheet.version) not in self._hopeless:
                    has_found |= self._attend(sheet, now)
        return has_found

    def _attend(self, sheet: Sheet, now: datetime) -> bool:
        approval = read_approval(sheet)
        stamp = self._engine.mint.stamp(SYSTEM)
        answer = self._engine.write_alone(Attend(ref=approval.ref, stamp=stamp, approval_id=approval.id))
        if isinstance(answer, Decided):
            due_at = answer.approval.due_at
            return due_at is None or due_at > now  # what stays due is not looked at again at once
        self._hopeless.add((sheet.id, sheet.version))
        _log.warning("approval %s is due and cannot be seen to: %s", sheet.id, type(answer).__name__)
        return False


class Outbox:
    """Sends the messages of a tenant, or of several, by these channels, in threads that end with `close`.

    Messages for channels that are not here are left to processes that have them. Any number of processes may have the
    same channels: each message is sent by one of them. It is sent once, unless a sender dies or takes too long between
    sending it and writing that down; then it is sent again with the same id, by which receivers know it.
    """

    def __init__(
        self,
        engine: Engine,
        tenant: str | Tenants,
        channels: Sequence[Channel] = (),
        *,
        link: str | None = None,
        patience: timedelta = SENDING_PATIENCE,
        closing_patience: timedelta = CLOSING_PATIENCE,
    ) -> None:
        check_names(channels)
        link = link or getattr(channels, "link", None)
        tenants: Tenants = (lambda: (tenant,)) if isinstance(tenant, str) else tenant
        self._engine = engine
        self._senders = [Sender(engine, tenants, channel, link=link, patience=patience) for channel in channels]
        self._attendant = Attendant(engine, tenants)
        self._names = [channel.name for channel in channels]
        self._closing_patience = closing_patience.total_seconds()
        self._at_exit: Callable[[], None] | None = None
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        """Starts with no thread; in a forked child there is none, whatever the parent had."""
        self._attending = Patrol("indelible-attending", self._attendant.go)
        self._patrols = [self._attending]
        for name, sender in zip(self._names, self._senders, strict=True):
            patrol = Patrol(f"indelible-outbox-{name}", sender.go)
            sender.may_pause = patrol.pause
            self._patrols.append(patrol)

    def start(self) -> None:
        """Begins to send and to attend, also what earlier processes left."""
        self._engine.writer.listeners.append(self.hear)
        self._at_exit = _closer(WeakMethod(self.close))
        atexit.register(self._at_exit)  # a program that ends without closing its ledger still sends what is due
        for patrol in self._patrols:
            patrol.start()

    def hear(self, answers: Iterable[Answer]) -> None:
        """Hears what was just written in this process; when there may be news, it goes out at once."""
        if any(_may_bring_news(answer) for answer in answers):
            self.call()

    def call(self) -> None:
        """Looks for something to send now."""
        for patrol in self._patrols:
            patrol.call()

    def go_once(self) -> bool:
        """Attends and sends what is due now, in the caller's own thread; says whether there was anything."""
        found = [self._attendant.go(), *(sender.go() for sender in self._senders)]
        return any(found)

    def close(self) -> None:
        """Sends what was just written, if that is quick, and ends the threads.

        What is not sent in time stays where it is: the next process with the channel sends it.
        """
        if self._at_exit is not None:
            atexit.unregister(self._at_exit)
            self._at_exit = None
        if self.hear in self._engine.writer.listeners:
            self._engine.writer.listeners.remove(self.hear)
        for patrol in self._patrols:
            patrol.close()
        ends = time.monotonic() + self._closing_patience
        has_ended = [patrol.join(ends) for patrol in self._patrols]
        if not all(has_ended):
            _log.warning("a channel is still busy; what it has not sent stays in the ledger, to be sent later")


def _may_bring_news(answer: Answer) -> bool:
    """May this answer have come with messages to send?"""
    if isinstance(answer, Moved):
        return answer.effect.status == "canceled" and answer.effect.approval_id is not None
    return isinstance(answer, AwaitingApproval | ApprovalEnded | Decided)


def _closer(close: WeakMethod[Callable[[], None]]) -> Callable[[], None]:
    """Gives a function that closes an outbox as long as it lives; the end of the process must not keep it alive."""

    def at_exit() -> None:
        method = close()
        if method is not None:
            method()

    return at_exit
