"""What is sent and what is answered about people, their sessions and passkeys, and about tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from indelible.core.events import instant, instant_or_none
from indelible.core.people.credentials import Credential
from indelible.core.people.person import LONGEST_INVITATION, Passkey, Person, Session
from indelible.core.people.standing import Standing, StandingWord
from indelible.core.scopes import Scope
from indelible.server.shapes.effects import Moment, Name, Sent
from indelible.server.signin.credentials import credential_shown

TicketText = Annotated[str, Field(min_length=1, max_length=4096)]
Answer = Annotated[
    dict[str, Any], Field(description="What `navigator.credentials` gave, as WebAuthn writes it in JSON.")
]
Label = Annotated[str, Field(min_length=1, max_length=100)]
PersonScopes = Annotated[list[Literal["approver", "auditor", "admin"]], Field(min_length=1, max_length=3)]
Scopes = Annotated[list[Literal["agent", "approver", "auditor", "admin"]], Field(min_length=1, max_length=4)]
_LONGEST = LONGEST_INVITATION.total_seconds()


# What is sent


class LinkOpened(Sent):
    """Is what stands behind the # of a link."""

    ticket: TicketText


class TenantNamed(Sent):
    """Names the tenant to sign in to."""

    tenant: Name = "default"


class PasskeyAnswer(TenantNamed):
    """Is what a passkey answered when somebody signs in."""

    credential: Answer


class PasskeyMade(Sent):
    """Is what a new passkey answered, and what its owner calls it."""

    name: Label = "passkey"
    credential: Answer


class PersonInvited(Sent):
    """Says whom to let in by a link, and what they may."""

    name: Name
    scopes: PersonScopes
    lasts_s: Annotated[float, Field(gt=0, le=_LONGEST, allow_inf_nan=False)] = 3600
    convert: Annotated[bool, Field(description="Make a provider's person one of the ledger's own.")] = False


class TokenWanted(Sent):
    """Says whom a token is for, and what it is good for; `principal` is whom an agent acts for."""

    name: Name
    scopes: Scopes
    expires_at: Moment | None = None
    principal: Name | None = None


# What is answered


class SessionShown(BaseModel):
    """Is one browser in which somebody is signed in."""

    id: str
    via: str
    created_at: str
    expires_at: str
    is_this: bool


class SessionsShown(BaseModel):
    """Lists the caller's sessions."""

    sessions: list[SessionShown]


class SignedInShown(BaseModel):
    """Says who is signed in; `csrf_token` goes along with whatever changes something."""

    tenant: str
    name: str
    scopes: list[Scope]
    csrf_token: str
    session: SessionShown
    has_passkey: bool


class PasskeyShown(BaseModel):
    """Is a passkey, by what is known of it."""

    id: str
    name: str
    sign_count: int
    created_at: str
    used_at: str | None


class PasskeysShown(BaseModel):
    """Lists the caller's passkeys."""

    passkeys: list[PasskeyShown]


class OnePasskey(BaseModel):
    """Is the passkey that was added."""

    passkey: PasskeyShown


class CeremonyAsked(BaseModel):
    """Is what to pass to `navigator.credentials` as `publicKey`."""

    options: dict[str, Any]


class PersonShown(BaseModel):
    """Is somebody whom the server lets in; `standing` says whether it does now."""

    id: str
    name: str
    scopes: list[Scope]
    issuer: str | None
    standing: StandingWord
    created_at: str
    is_revoked: bool
    invited_until: str | None
    passkeys: int
    sessions: int


class PeopleShown(BaseModel):
    """Is a page of people."""

    people: list[PersonShown]
    next: str | None


class OnePerson(BaseModel):
    """Is one person."""

    person: PersonShown


class Named(BaseModel):
    """Is a person or a token, by id and name."""

    id: str
    name: str


class EndedWithThem(BaseModel):
    """Is what ended with a person: of approvals their votes, and of people the links that they had not used."""

    api_keys: list[Named]
    links: list[Named]
    grants: list[str]
    delegations: list[str]
    approvals: list[str]


class NotEnded(BaseModel):
    """Is what a person had set up for others: tokens, people they let in, and the policy, if it is in force."""

    api_keys: list[Named]
    people: list[Named]
    policy: str | None


class PersonLeft(OnePerson):
    """Is a person who was revoked, with what ended and what did not."""

    ended: EndedWithThem
    not_ended: NotEnded


class Invited(OnePerson):
    """Holds the link, from the server's own address on: it is not shown again."""

    link: str


class TokenShown(BaseModel):
    """Is what may be shown of a token; `last_used` is true to the minute."""

    id: str
    name: str
    kind: str
    scopes: list[Scope]
    principal: str | None
    given_by: str
    created_at: str
    expires_at: str | None
    is_revoked: bool
    last_used: str | None


class TokensShown(BaseModel):
    """Is a page of tokens."""

    api_keys: list[TokenShown]
    next: str | None


class OneToken(BaseModel):
    """Is one token, by what may be shown."""

    api_key: TokenShown


class TokenGiven(OneToken):
    """Holds the token itself: it is not shown again."""

    token: str


def session_shown(session: Session, current: str | None) -> dict[str, Any]:
    """Gives what may be shown of a session."""
    return {
        "id": session.id,
        "via": session.via,
        "created_at": instant(session.created_at),
        "expires_at": instant(session.expires_at),
        "is_this": session.id == current,
    }


def passkey_shown(passkey: Passkey) -> dict[str, Any]:
    """Gives what is worth showing of a passkey."""
    return {
        "id": passkey.id,
        "name": passkey.name,
        "sign_count": passkey.sign_count,
        "created_at": instant(passkey.created_at),
        "used_at": instant_or_none(passkey.used_at),
    }


def person_shown(person: Person, stands: Standing, now: datetime) -> dict[str, Any]:
    """Gives what may be shown of a person, and how they stand."""
    invitation = person.invitation
    is_open = invitation is not None and invitation.expires_at > now
    return {
        "id": person.id,
        "name": person.name,
        "scopes": list(stands.scopes or person.scopes),
        "issuer": person.issuer,
        "standing": stands.word(now),
        "created_at": instant(person.created_at),
        "is_revoked": person.is_revoked,
        "invited_until": instant(invitation.expires_at) if invitation is not None and is_open else None,
        "passkeys": len(person.passkeys),
        "sessions": sum(one.expires_at > now for one in person.sessions),
    }


def token_shown(credential: Credential, last_used: datetime | None) -> dict[str, Any]:
    """Gives what may be shown of a token."""
    return credential_shown(credential) | {"last_used": instant_or_none(last_used)}
