"""What a server answered before: a request that comes again under the same key gets the same answer. Pure.

A reply is a sheet that is kept aside. It is there before the request is carried out, so a server that dies in between
leaves it without an answer: then nobody knows whether the request was carried out, and it is not carried out again.
The ledger itself knows calls again and makes each at most once, so these are asked of it until there is an outcome.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal

from indelible.core.events import instant
from indelible.core.sheets import Sheet, body_of

KEPT_FOR = timedelta(hours=24)
"""Is how long a reply is kept at least."""
PATIENCE = timedelta(seconds=60)
"""Is how long a request may be under way before it counts as lost."""
LONGEST_KEY = 255
_PLACE_TAG = b"indelible/reply/v1\0"
_CALLS = re.compile(r"/v1/effects|/v1/tools/.+/calls")
_UNDONE = frozenset({"asked-too-often", "overloaded"})
"""Are the problems that come before anything is written: another may come after that, when the answer is read."""

Standing = Literal["under way", "lost", "another request", "answered"]


def is_call(path: str) -> bool:
    """Say whether a request to this path is a call that the ledger knows again, so that it does no harm twice."""
    return _CALLS.fullmatch(path) is not None


def is_final(path: str, status: int, problem: str | None) -> bool:
    """Say whether this answer, with a problem of this name, is also the answer when the request comes again.

    Of a call only its outcome is: a claim is given once, and an open question or a tool that was away says how the call
    stood then.
    """
    return status == 200 if is_call(path) else problem not in _UNDONE


def reply_id(who: str, key: str) -> str:
    """Gives the place of the reply to what somebody sent under a key of theirs."""
    raw = who.encode()
    return f"rep_{sha256(_PLACE_TAG + len(raw).to_bytes(4, 'big') + raw + key.encode()).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Is the answer to one request, as soon as there is one; `sealed` can be opened by whoever sent the request."""

    id: str
    version: int = 1
    request: str
    begun_at: datetime
    sealed: str | None = field(default=None, repr=False)

    def standing(self, request: str, now: datetime) -> Standing:
        """Says what a request that comes under this key gets."""
        if request != self.request:
            return "another request"
        if self.sealed is not None:
            return "answered"
        return "under way" if now - self.begun_at < PATIENCE else "lost"

    def answered(self, sealed: str) -> Reply:
        """Gives the reply with its answer."""
        return Reply(id=self.id, version=self.version + 1, request=self.request, begun_at=self.begun_at, sealed=sealed)

    def begun_again(self, at: datetime) -> Reply:
        """Give the reply to the same request, which is carried out anew."""
        return Reply(id=self.id, version=self.version + 1, request=self.request, begun_at=at)


def reply_sheet(reply: Reply) -> Sheet:
    """Writes a reply on its sheet."""
    content = {"begun_at": instant(reply.begun_at), "request": reply.request, "sealed": reply.sealed}
    return Sheet(
        kind="reply",
        id=reply.id,
        version=reply.version,
        status="begun" if reply.sealed is None else "answered",
        due_at=reply.begun_at + KEPT_FOR,
        body=body_of(content),
    )


def read_reply(sheet: Sheet) -> Reply:
    """Reads a reply from its sheet."""
    content = sheet.read()
    return Reply(
        id=sheet.id,
        version=sheet.version,
        request=content["request"],
        begun_at=datetime.fromisoformat(content["begun_at"]),
        sealed=content["sealed"],
    )
