"""People on their sheets, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from indelible.core.events import instant, instant_or_none
from indelible.core.people.person import Invitation, Passkey, Person, Session
from indelible.core.people.vouching import read_issuer, read_vouched, vouched_content
from indelible.core.sheets import Sheet, body_of


def person_sheet(person: Person) -> Sheet:
    """Writes a person on their sheet."""
    invitation = person.invitation
    content = {
        "created_at": instant(person.created_at),
        "id": person.id,
        "invitation": None if invitation is None else _invitation_content(invitation),
        "is_revoked": person.is_revoked,
        "name": person.name,
        "passkeys": [_passkey_content(one) for one in person.passkeys],
        "scopes": list(person.scopes),
        "sessions": [_session_content(one) for one in person.sessions],
        "v": 1,
        "version": person.version,
        "vouched": vouched_content(person.vouched),
    }
    status = "revoked" if person.is_revoked else "active"
    return Sheet(kind="person", id=person.id, version=person.version, status=status, body=body_of(content))


def read_person(sheet: Sheet) -> Person:
    """Reads a person from their sheet."""
    content = sheet.read()
    invitation = content["invitation"]
    return Person(
        id=sheet.id,
        version=sheet.version,
        name=content["name"],
        scopes=tuple(content["scopes"]),
        vouched=read_vouched(content["vouched"]) if "vouched" in content else read_issuer(content.get("issuer")),
        created_at=datetime.fromisoformat(content["created_at"]),
        invitation=None if invitation is None else _read_invitation(invitation),
        passkeys=tuple(_read_passkey(one) for one in content["passkeys"]),
        sessions=tuple(_read_session(one) for one in content["sessions"]),
        is_revoked=content["is_revoked"],
    )


def person_again(sheet: Sheet) -> Sheet:
    """Return the sheet that belongs to the person on a sheet, in the form in which that one was written."""
    again, content = person_sheet(read_person(sheet)), sheet.read()
    if "vouched" in content:
        return again
    kept = {name: value for name, value in again.read().items() if name != "vouched"}
    return replace(again, body=body_of(kept | {"issuer": content.get("issuer")}))


def _invitation_content(invitation: Invitation) -> dict[str, Any]:
    return {
        "by": invitation.by,
        "expires_at": instant(invitation.expires_at),
        "hash": invitation.hash,
        "id": invitation.id,
    }


def _read_invitation(content: Mapping[str, Any]) -> Invitation:
    return Invitation(
        id=content["id"],
        hash=content["hash"],
        by=content["by"],
        expires_at=datetime.fromisoformat(content["expires_at"]),
    )


def _passkey_content(passkey: Passkey) -> dict[str, Any]:
    return {
        "created_at": instant(passkey.created_at),
        "credential": passkey.credential_id,
        "name": passkey.name,
        "public_key": passkey.public_key,
        "sign_count": passkey.sign_count,
        "used_at": instant_or_none(passkey.used_at),
    }


def _read_passkey(content: Mapping[str, Any]) -> Passkey:
    used_at = content["used_at"]
    return Passkey(
        credential_id=content["credential"],
        name=content["name"],
        public_key=content["public_key"],
        sign_count=content["sign_count"],
        created_at=datetime.fromisoformat(content["created_at"]),
        used_at=None if used_at is None else datetime.fromisoformat(used_at),
    )


def _session_content(session: Session) -> dict[str, Any]:
    return {
        "created_at": instant(session.created_at),
        "expires_at": instant(session.expires_at),
        "hash": session.hash,
        "id": session.id,
        "via": session.via,
    }


def _read_session(content: Mapping[str, Any]) -> Session:
    return Session(
        id=content["id"],
        hash=content["hash"],
        via=content["via"],
        created_at=datetime.fromisoformat(content["created_at"]),
        expires_at=datetime.fromisoformat(content["expires_at"]),
    )
