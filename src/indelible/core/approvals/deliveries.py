"""Deliveries: messages that have to go out because of an approval, kept until they have gone or are given up.

A question that names channels brings its messages along in its own transaction. One that names none is told by the
channels of every process that has some: such a process finds it open, and one transaction writes the messages and notes
the channels. All later messages about it go to these. Each message is named by what it says and where it goes, so none
comes into being twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from indelible.core.approvals.approval import Approval
from indelible.core.sheets import Sheet, SheetRef, Sheets, body_of, sheet_at

DeliveryStatus = Literal["due", "sending", "sent", "dead"]
DELIVERY_STATUSES: tuple[DeliveryStatus, ...] = get_args(DeliveryStatus)
MOST_ATTEMPTS = 36
"""Is how often a message is tried: with these pauses, for about as long as a question stands by default."""
LONGEST_PAUSE = timedelta(hours=1)
SENDING_LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Is one message about an approval to one channel: `about` is requested, escalated, or how the approval ended.

    `receipt` is what the channel wants to remember of a message that went, for example to change it later. `sender` is
    a token of whoever has it in hand, so that of two who take it at once only one believes that they did.
    """

    id: str
    version: int = 1
    status: DeliveryStatus = "due"
    channel: str
    about: str
    approval_id: str
    due_at: datetime | None
    attempts: int = 0
    error: str | None = None
    receipt: Mapping[str, Any] = field(default_factory=dict)
    sender: str | None = None

    def is_free(self, now: datetime) -> bool:
        """May somebody send it now? Whoever took it and did not report lost it with the time they had."""
        return self.status in ("due", "sending") and self.due_at is not None and self.due_at <= now

    @property
    def is_worn_out(self) -> bool:
        """Was it tried as often as makes sense? Then it is not taken again, even if the last sender never reported."""
        return self.attempts >= MOST_ATTEMPTS

    def taken(self, now: datetime, sender: str) -> Delivery:
        """Gives it in the hands of one sender, for a while."""
        return replace(
            self,
            version=self.version + 1,
            status="sending",
            attempts=self.attempts + 1,
            due_at=now + SENDING_LEASE,
            sender=sender,
        )

    def sent(self, receipt: Mapping[str, Any]) -> Delivery:
        """Gives it as it went out."""
        return replace(
            self, version=self.version + 1, status="sent", due_at=None, error=None, receipt=receipt, sender=None
        )

    def failed(
        self,
        error: str,
        now: datetime,
        *,
        is_final: bool = False,
        after: timedelta | None = None,
        spread: float = 0.0,
    ) -> Delivery:
        """Gives it to be tried later, ever more seldom, or dead when that makes no sense any more.

        `after` is how long the receiver asked to be left alone. `spread` makes the pause longer by a part of it, so
        that many who failed together do not come back together.
        """
        if is_final or self.is_worn_out:
            return replace(self, version=self.version + 1, status="dead", due_at=None, error=error, sender=None)
        pause = min(LONGEST_PAUSE, max(timedelta(seconds=1) * 2 ** (self.attempts - 1), after or timedelta(0)))
        return replace(
            self,
            version=self.version + 1,
            status="due",
            due_at=now + pause * (1 + spread),
            error=error,
            sender=None,
        )

    def again(self, now: datetime) -> Delivery:
        """Gives it to be sent once more, on somebody's word."""
        return replace(self, version=self.version + 1, status="due", due_at=now, attempts=0, error=None, sender=None)


def kind_of(about: str) -> str:
    """Gives what a message is about, without the number that tells it from others of its kind."""
    return about.partition("-")[0]


def why_no_news(about: str, approval: Approval, now: datetime) -> str | None:
    """Says why a message need not go any more: what it says is no longer so; None when it is."""
    match kind_of(about):
        case "requested" | "escalated" | "edited" | "reopened":
            if approval.is_overdue(now):
                return "its time ran out before this went"
            return None if approval.status == "pending" else f"it was {approval.status} before this went"
        case "approved" if approval.status == "pending":
            return "the approval was taken back before this went"
        case _:
            return None


def deliveries_of(approval: Approval, about: str, channels: Iterable[str], now: datetime) -> list[Sheet]:
    """Gives the messages that have to go out about an approval, each on its sheet."""
    return [
        delivery_sheet(
            Delivery(
                id=delivery_id(approval.id, about, channel, approval.version),
                channel=channel,
                about=about,
                approval_id=approval.id,
                due_at=now,
            )
        )
        for channel in dict.fromkeys(channels)
    ]


def has_told(messages: Iterable[Delivery]) -> bool:
    """Did one of these messages about an approval go out? One that was no news any more did not."""
    return any(one.status == "sent" and "skipped" not in one.receipt for one in messages)


def told_ref(approval_id: str) -> SheetRef:
    """Locate the note of the channels that told of an approval without being named by it."""
    return SheetRef("told", approval_id)


def told_besides(approval_id: str, sheets: Sheets) -> tuple[str, ...]:
    """Return the channels that told of an approval without being named by it."""
    sheet = sheet_at(sheets, told_ref(approval_id))
    return () if sheet is None or sheet.body is None else tuple(sheet.read()["channels"])


def channels_told(approval: Approval, sheets: Sheets) -> tuple[str, ...]:
    """Return every channel that told of an approval, and so has to tell how it ends."""
    return tuple(dict.fromkeys((*approval.told, *told_besides(approval.id, sheets))))


def told_by_more(approval: Approval, channels: Iterable[str], now: datetime, sheets: Sheets) -> list[Sheet]:
    """Return the messages by which these channels tell of an open question that names no channel, and the note.

    If it is approved and not used yet, they say that. Channels that told of it before are left out, so any number of
    processes may try: each channel tells once.
    """
    before = told_besides(approval.id, sheets)
    new = tuple(name for name in dict.fromkeys(channels) if name not in before)
    if not new or approval.question.notify or not approval.is_open or approval.is_overdue(now):
        return []
    about = "requested" if approval.status == "pending" else "approved"
    noted = sheet_at(sheets, told_ref(approval.id))
    note = Sheet(
        kind="told",
        id=approval.id,
        version=1 if noted is None else noted.version + 1,
        status="told",
        body=body_of({"channels": [*before, *new]}),
    )
    return [note, *deliveries_of(approval, about, new, now)]


def delivery_id(approval_id: str, about: str, channel: str, version: int = 1) -> str:
    """Names a message by what it says of which version of an approval, and where it goes.

    Something can be said twice of one approval: that it is approved, when it was taken back in between. There is no
    dot in it: webhooks are signed over "id.time.body".
    """
    return f"{approval_id}:{version}:{about}:{channel}"


def delivery_ref(delivery_id: str) -> SheetRef:
    """Locates a delivery."""
    return SheetRef("delivery", delivery_id)


def delivery_sheet(delivery: Delivery) -> Sheet:
    """Writes a delivery on its sheet."""
    content = {
        "about": delivery.about,
        "approval": delivery.approval_id,
        "attempts": delivery.attempts,
        "channel": delivery.channel,
        "error": delivery.error,
        "receipt": dict(delivery.receipt),
        "sender": delivery.sender,
    }
    return Sheet(
        kind="delivery",
        id=delivery.id,
        version=delivery.version,
        status=delivery.status,
        topic=delivery.channel,
        due_at=delivery.due_at,
        body=body_of(content),
    )


def read_delivery(sheet: Sheet) -> Delivery:
    """Reads a delivery from its sheet."""
    content = sheet.read()
    return Delivery(
        id=sheet.id,
        version=sheet.version,
        status=sheet.status,  # type: ignore[arg-type]  # the sheet of a delivery has no other
        channel=content["channel"],
        about=content["about"],
        approval_id=content["approval"],
        due_at=sheet.due_at,
        attempts=content["attempts"],
        error=content["error"],
        receipt=content["receipt"],
        sender=content["sender"],
    )
