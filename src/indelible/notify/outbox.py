"""The outbox: has people told of open approvals, sends what is due, and sees to approvals whose time has come.

Each channel has a thread of its own, so that one which hangs or fails holds up nobody else, and no run at all.
"""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from weakref import WeakMethod

from indelible.core.approvals.approval import OPEN_STATUSES
from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import Answer, ApprovalEnded, Attend, AwaitingApproval, Decided, Moved
from indelible.core.effects.effect import SYSTEM
from indelible.core.sheets import Sheet, SheetFilter
from indelible.engine.engine import Engine
from indelible.forks import after_fork
from indelible.notify.channels import Channel, check_names
from indelible.notify.patrol import Patrol
from indelible.notify.sending import SENDING_PATIENCE, Sender, Tenants, store_time

CLOSING_PATIENCE = timedelta(seconds=5)
_PAGE = 100
_LOOK_THROUGH_EVERY = 60.0
_log = logging.getLogger("indelible.notify")


class Attendant:
    """Sees to approvals: asks more people, calls late ones expired, and has open ones told by these channels.

    An open approval that names no channel is told by the channels of every process that has some, whichever process
    asked. Processes need not know of each other: the store notes the channels that told of it.
    """

    def __init__(self, engine: Engine, tenants: Tenants, channels: Sequence[str] = ()) -> None:
        self._engine = engine
        self._tenants = tenants
        self._channels = tuple(channels)
        self._hopeless: set[tuple[str, int]] = set()
        self._seen: dict[str, set[str]] = {}
        self._looked_at: dict[str, float] = {}

    def go(self) -> bool:
        """Attends to what is due now, and has people told of what is new; says whether there was anything."""
        store = self._engine.store
        has_found = False
        for tenant in self._tenants():
            now = store_time(store)
            for sheet in store.sheets(tenant, SheetFilter(kind="approval", due_by=now, limit=_PAGE)):
                if sheet.body is not None and (sheet.id, sheet.version) not in self._hopeless:
                    has_found |= self._attend(sheet, now)
            if self._channels:
                has_found |= self._tell(tenant)
        return has_found

    def _tell(self, tenant: str) -> bool:
        """Has people told of open approvals that name no channel; says whether there were any that are new here.

        The newest come first, and a page without a new one is the last. Once a minute all are looked through: the
        clocks of other machines may put a new approval among old ones.
        """
        seen, started = self._seen.setdefault(tenant, set()), time.monotonic()
        is_full = started - self._looked_at.get(tenant, float("-inf")) >= _LOOK_THROUGH_EVERY
        open_ids: set[str] = set()
        has_found = False
        statuses = sorted(OPEN_STATUSES, reverse=True)
        before: str | None = None
        while statuses:
            selected = SheetFilter(kind="approval", status=statuses[-1], before=before, limit=_PAGE)
            page = self._engine.store.sheets(tenant, selected)
            new = [sheet for sheet in page if sheet.body is not None and sheet.id not in seen]
            for sheet in new:
                approval = read_approval(sheet)
                if not approval.question.notify:
                    stamp = self._engine.mint.stamp(SYSTEM)
                    command = Attend(ref=approval.ref, stamp=stamp, approval_id=approval.id, channels=self._channels)
                    answer = self._engine.write_alone(command)
                    has_found = True
                    if isinstance(answer, Decided) and answer.approval.version != sheet.version:
                        continue  # something else was due; it is told next time
                seen.add(sheet.id)
            open_ids.update(sheet.id for sheet in page)
            before = page[-1].id if len(page) == _PAGE and (new or is_full) else None
            if before is None:
                statuses.pop()
        if is_full:
            seen &= open_ids
            self._looked_at[tenant] = started
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
        self._attendant = Attendant(engine, tenants, [channel.name for channel in channels])
        self._names = [channel.name for channel in channels]
        self._closing_patience = closing_patience.total_seconds()
        self._at_exit: Callable[[], None] | None = None
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        """Starts with no thread; in a forked child there is none, whatever the parent had."""
        self._attending = Patrol("indelible-attending", self._attend)
        self._sending: list[Patrol] = []
        for name, sender in zip(self._names, self._senders, strict=True):
            patrol = Patrol(f"indelible-outbox-{name}", sender.go)
            sender.may_pause = patrol.pause
            self._sending.append(patrol)

    def _attend(self) -> bool:
        has_found = self._attendant.go()
        if has_found:  # it may have brought messages
            for patrol in self._sending:
                patrol.call()
        return has_found

    def start(self) -> None:
        """Begins to send and to attend, also what earlier processes left."""
        self._engine.writer.listeners.append(self.hear)
        self._at_exit = _closer(WeakMethod(self.close))
        atexit.register(self._at_exit)  # a program that ends without closing its ledger still sends what is due
        for patrol in (self._attending, *self._sending):
            patrol.start()

    def hear(self, answers: Iterable[Answer]) -> None:
        """Hears what was just written in this process; when there may be news, it goes out at once."""
        if any(_may_bring_news(answer) for answer in answers):
            self.call()

    def call(self) -> None:
        """Looks for something to send now."""
        for patrol in (self._attending, *self._sending):
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
        ends = time.monotonic() + self._closing_patience
        self._attending.close()
        has_ended = [self._attending.join(ends)]  # its last round may bring messages, so the channels end after it
        for patrol in self._sending:
            patrol.close()
        has_ended += [patrol.join(ends) for patrol in self._sending]
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
