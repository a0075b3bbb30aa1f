"""How somebody stands: whose place was revoked opens nothing any more, by no vote, grant or delegation. Pure."""

from __future__ import annotations

from hashlib import sha256

from indelible.core.approvals.approval import folded
from indelible.core.effects.effect import Actor
from indelible.core.sheets import CREDENTIAL, PERSON, SheetRef, Sheets, sheet_at

_PERSON_TAG = b"indelible/person/v1\0"


def person_id(name: str) -> str:
    """Gives the id of whoever has this name: however it is written, one name is one person."""
    return f"per_{sha256(_PERSON_TAG + folded(name).encode()).hexdigest()[:32]}"


def person_ref(id_: str) -> SheetRef:
    """Locates a person."""
    return SheetRef(PERSON, id_)


def place_of(name: str) -> SheetRef:
    """Locates whoever has this name, if the server knows them."""
    return person_ref(person_id(name))


def places_of(actor: Actor) -> tuple[SheetRef, ...]:
    """Locates who acts, if that is somebody whom a server let in: whoever works at the ledger itself needs no leave."""
    return (place_of(actor.id),) if actor.kind == "person" and actor.via != "process" else ()


def credential_ref(credential_id: str) -> SheetRef:
    """Locate the credential of a token."""
    return SheetRef(CREDENTIAL, credential_id)


def is_token_revoked(credential_id: str | None, sheets: Sheets) -> bool:
    """Say whether a token was revoked. One that is not there any more, or was edited by hand, counts as revoked.

    One that has expired does not: it was good when it was used.
    """
    if credential_id is None:
        return False
    sheet = sheet_at(sheets, credential_ref(credential_id))
    return sheet is None or sheet.body is None or sheet.read()["is_revoked"] is True


def is_revoked(name: str, sheets: Sheets) -> bool:
    """Was this person revoked? Of one whose sheet was edited by hand nobody knows better, so they were.

    Whom no server knows was never let in by one, and cannot be revoked.
    """
    sheet = sheet_at(sheets, place_of(name))
    return sheet is not None and (sheet.body is None or sheet.read()["is_revoked"] is True)
