"""Challenges, which a passkey answers once, and when somebody was last seen. Both are kept aside. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from indelible.core.events import instant
from indelible.core.sheets import Sheet, body_of

CHALLENGE_LASTS = timedelta(minutes=5)
_PLACE_TAG = b"indelible/challenge/v1\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """Is a question to a passkey: `purpose` says what its answer is good for."""

    id: str
    version: int = 1
    purpose: str
    due_at: datetime

    def is_good_for(self, purpose: str, now: datetime) -> bool:
        """May this be answered now, for this?"""
        return self.version == 1 and purpose == self.purpose and now < self.due_at


def challenge_id(challenge: bytes) -> str:
    """Gives the place of a challenge."""
    return f"cha_{sha256(_PLACE_TAG + challenge).hexdigest()}"


def challenge_sheet(challenge: Challenge) -> Sheet:
    """Writes a challenge on its sheet."""
    return Sheet(
        kind="challenge",
        id=challenge.id,
        version=challenge.version,
        status="open",
        due_at=challenge.due_at,
        body=body_of({"purpose": challenge.purpose}),
    )


def read_challenge(sheet: Sheet) -> Challenge:
    """Reads a challenge from its sheet."""
    assert sheet.due_at is not None, "every challenge ends"
    return Challenge(id=sheet.id, version=sheet.version, purpose=sheet.read()["purpose"], due_at=sheet.due_at)


def spent_sheet(challenge: Challenge, by: str) -> Sheet:
    """Gives the sheet of a challenge that was answered; `by` is a word that no other answer has: so one is first."""
    body = body_of({"by": by, "purpose": challenge.purpose})
    sheet = challenge_sheet(challenge)
    return sheet.after(status="spent", body=body, due_at=challenge.due_at)


def seen_sheet(id_: str, version: int, at: datetime, until: datetime | None = None) -> Sheet:
    """Writes down when a credential or a session was last used; `until` says when nobody asks that any more."""
    body = body_of({"at": instant(at)})
    return Sheet(kind="seen", id=id_, version=version, status="seen", due_at=until, body=body)


def seen_at(sheet: Sheet) -> datetime:
    """Reads when that was."""
    return datetime.fromisoformat(sheet.read()["at"])
