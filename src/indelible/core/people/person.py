"""People whom a server knows: how they were invited, their passkeys, and where they are signed in. Pure.

Everything of one person is on one sheet that an event commits to. So whoever edits the database makes nobody a person,
gives nobody a passkey and signs nobody in; and a link that two servers see at once is used up by one of them. What is
kept of secrets are hashes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import Literal, NamedTuple

from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.people.credentials import tenant_in, word_for
from indelible.core.people.standing import Standing, standing
from indelible.core.people.vouching import ProviderRules, Vouched, Voucher
from indelible.core.remote.admitting import Caller
from indelible.core.scopes import SCOPES_OF_PEOPLE, Scope
from indelible.errors import BadCall, IllegalMove, NotAuthenticated, NotPermitted

PEOPLE_RUN = "indelible:people"
"""Is the run in which people are invited, sign in and out, and are revoked."""
LONGEST_SESSION = timedelta(hours=12)
LONGEST_IDLE = timedelta(hours=1)
"""Is how long a session lasts in which nobody does anything."""
LONGEST_INVITATION = timedelta(days=7)
MOST_PASSKEYS = 20
MOST_SESSIONS = 20
"""Is in how many places a person is signed in at once; the oldest session ends when there is one more."""
_PASSKEY_TAG = b"indelible/passkey/v1\0"
_SECRET_TAG = b"indelible/ticket/v1\0"
_CSRF_TAG = b"indelible/csrf/v1\0"

SignedInBy = Literal["link", "passkey", "oidc"]
"""Says how we know who somebody is."""


class Ticket(NamedTuple):
    """Is what a browser holds, in its parts; `name` is a session's or an invitation's."""

    tenant: str
    person_id: str
    name: str
    secret: str

    def __str__(self) -> str:
        return f"{word_for(self.tenant)}.{self.person_id}.{self.name}.{self.secret}"

    @property
    def hash(self) -> str:
        """Is what is kept of the secret."""
        return sha256(_SECRET_TAG + self.name.encode() + b"\0" + self.secret.encode()).hexdigest()

    @property
    def csrf_token(self) -> str:
        """Is what a page of ours sends along: others can make a browser send its cookie, and cannot read this."""
        return sha256(_CSRF_TAG + self.secret.encode()).hexdigest()


def read_ticket(text: str) -> Ticket:
    """Takes a ticket apart; raises `NotAuthenticated` for what cannot be one."""
    parts = text.split(".")
    if len(parts) != 4 or not all(parts) or not text.isascii() or len(text) > 4096:
        raise not_signed_in()
    try:
        tenant = tenant_in(parts[0])
        check_name("person", parts[1])
    except ValueError:
        raise not_signed_in() from None
    return Ticket(tenant, *parts[1:])


def not_signed_in() -> NotAuthenticated:
    """Gives the refusal of whatever lets nobody in; it tells nothing of what would have."""
    return NotAuthenticated("this does not sign anybody in, or no longer: open /signin, or ask for a new link")


def passkey_id(credential_id: str) -> str:
    """Gives the id of a passkey, short enough for an address; authenticators make theirs as long as they like."""
    return f"pky_{sha256(_PASSKEY_TAG + credential_id.encode()).hexdigest()[:32]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """Is the public half of a key that an authenticator holds; `sign_count` is how often it says it was used."""

    credential_id: str
    name: str
    public_key: str
    sign_count: int
    created_at: datetime
    used_at: datetime | None = None

    @property
    def id(self) -> str:
        """Names it in addresses."""
        return passkey_id(self.credential_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Is one browser in which somebody is signed in."""

    id: str
    hash: str = field(repr=False)
    via: SignedInBy
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """Lets whoever has its link in, once."""

    id: str
    hash: str = field(repr=False)
    by: str
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Is somebody whom the server lets in under a name, within scopes, until they are revoked.

    `vouched` is what a provider said of them last; None is for people that were invited here. What a provider's person
    may follows from it and from the rules in force; `scopes` is what it was when they last came in.
    """

    id: str
    version: int = 1
    name: str
    scopes: tuple[Scope, ...]
    vouched: Vouched | None = None
    created_at: datetime
    invitation: Invitation | None = None
    passkeys: tuple[Passkey, ...] = ()
    sessions: tuple[Session, ...] = ()
    is_revoked: bool = False

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if not self.scopes or any(scope not in SCOPES_OF_PEOPLE for scope in self.scopes):
            raise BadCall(f"scopes: choose one or more of {', '.join(SCOPES_OF_PEOPLE)}; agents get tokens instead")

    @property
    def issuer(self) -> str | None:
        """Return the provider that let them in; None for people that were invited here."""
        return None if self.vouched is None else self.vouched.by.issuer

    def standing(self, rules: ProviderRules | None) -> Standing:
        """Return how they stand under the rules in force."""
        return standing(self.scopes, self.vouched, rules, is_revoked=self.is_revoked)

    def check_stands(self, rules: ProviderRules | None, now: datetime) -> tuple[Scope, ...]:
        """Return what they may now; raise `NotAuthenticated` if they may nothing."""
        stands = self.standing(rules)
        if stands.is_revoked:
            raise not_signed_in()
        why = stands.why_not(self.name, now)
        if why is not None:
            raise NotAuthenticated(why)
        return stands.scopes

    # Coming in

    def opened(self, ticket: Ticket, session: Session, now: datetime) -> Person:
        """Gives the person signed in by their link, which is used up; raises `NotAuthenticated` if it is not good."""
        invitation = self.invitation
        if self.is_revoked or invitation is None or invitation.id != ticket.name:
            raise not_signed_in()
        if not compare_digest(invitation.hash, ticket.hash) or invitation.expires_at <= now:
            raise not_signed_in()
        return replace(self._with_session(session, now), invitation=None)

    def signed_in(
        self, credential_id: str, sign_count: int, session: Session, now: datetime, rules: ProviderRules | None = None
    ) -> Person:
        """Gives the person signed in by one of their passkeys.

        A count that does not grow tells that somebody else has the same key, or that this was seen before. A passkey
        that does not count says 0 always.
        """
        passkey = self.passkey(passkey_id(credential_id))
        if passkey is None:
            raise not_signed_in()
        scopes = self.check_stands(rules, now)
        if max(sign_count, passkey.sign_count) > 0 and sign_count <= passkey.sign_count:
            raise not_signed_in()
        used = replace(passkey, sign_count=sign_count, used_at=now)
        passkeys = tuple(used if one.id == passkey.id else one for one in self.passkeys)
        return replace(self._with_session(session, now), passkeys=passkeys, scopes=scopes)

    def vouched_for(self, vouched: Vouched, scopes: tuple[Scope, ...], session: Session, now: datetime) -> Person:
        """Return the person signed in on the word of a provider; `scopes` is what the rules let them do by it."""
        if self.is_revoked or self.issuer != vouched.by.issuer:
            raise not_signed_in()
        if self.is_somebody_else(vouched.by):
            raise NotPermitted(
                f"{self.name} is somebody else here: the provider has given this name to another person since. An "
                "administrator lets you in: indelible people revoke, then people invite"
            )
        return replace(self._with_session(session, now), scopes=scopes, vouched=vouched)

    def disallowed(self, vouched: Vouched) -> Person:
        """Return the person with what the provider says now, by which no rule lets them in: their sessions end."""
        return replace(self, version=self.version + 1, vouched=vouched, sessions=())

    def is_somebody_else(self, by: Voucher) -> bool:
        """Does the provider speak of another person, who only has the same name by now?"""
        return self.vouched is not None and self.issuer == by.issuer and self.vouched.by != by

    def _with_session(self, session: Session, now: datetime) -> Person:
        there = [one for one in self.sessions if one.expires_at > now]
        sessions = (*there, session)[-MOST_SESSIONS:]
        return replace(self, version=self.version + 1, sessions=sessions)

    # Being in

    def admits(
        self, ticket: Ticket, seen_at: datetime | None, now: datetime, rules: ProviderRules | None = None
    ) -> tuple[Caller, Session]:
        """Gives who asks with this ticket, and their session; `seen_at` is when somebody last did something in it."""
        session = next((one for one in self.sessions if one.id == ticket.name), None)
        if session is None or not compare_digest(session.hash, ticket.hash):
            raise not_signed_in()
        scopes = frozenset(self.check_stands(rules, now))
        idle_since = max(session.created_at, seen_at or session.created_at)
        if now >= session.expires_at or now >= idle_since + LONGEST_IDLE:
            raise not_signed_in()
        actor = Actor(self.name, "person", session.via)
        return Caller(tenant=ticket.tenant, scopes=scopes, actor=actor, credential_id=session.id), session

    def passkey(self, id_: str) -> Passkey | None:
        """Finds one of their passkeys."""
        return next((one for one in self.passkeys if one.id == id_), None)

    # Changes

    def invited(
        self, scopes: tuple[Scope, ...], invitation: Invitation, now: datetime, *, convert: bool = False
    ) -> Person:
        """Return the person with a new link and these scopes; the passkeys they have stay.

        A person who was revoked begins anew: no vote from before `now` counts, see `standing.may_permit`.
        With `convert`, a provider's person becomes one of the ledger's own: sessions and passkeys from before end.
        """
        if self.vouched is not None and not self.is_revoked and not convert:
            raise IllegalMove(
                f"{self.name} signs in through {self.issuer} and needs no link. To make them a person of this ledger "
                f"instead: indelible people invite {self.name} --scope SCOPE --convert. To end all their access: "
                f"indelible people revoke {self.name}"
            )
        kept = self if self.vouched is None else replace(self, vouched=None, passkeys=(), sessions=())
        return replace(
            kept,
            version=self.version + 1,
            scopes=scopes,
            created_at=now if self.is_revoked else self.created_at,
            invitation=invitation,
            is_revoked=False,
        )

    def uninvited(self) -> Person:
        """Gives the person without the link that they had not used."""
        return replace(self, version=self.version + 1, invitation=None)

    def with_passkey(self, passkey: Passkey) -> Person:
        """Gives the person with one more passkey."""
        if self.passkey(passkey.id) is not None:
            raise IllegalMove("this passkey is there already")
        if len(self.passkeys) >= MOST_PASSKEYS:
            raise IllegalMove(f"{MOST_PASSKEYS} passkeys are there; remove one first")
        return replace(self, version=self.version + 1, passkeys=(*self.passkeys, passkey))

    def without_passkey(self, id_: str) -> Person:
        """Gives the person without one of their passkeys."""
        return replace(self, version=self.version + 1, passkeys=tuple(one for one in self.passkeys if one.id != id_))

    def without_session(self, id_: str) -> Person:
        """Gives the person with one of their sessions over."""
        return replace(self, version=self.version + 1, sessions=tuple(one for one in self.sessions if one.id != id_))

    def revoked(self) -> Person:
        """Gives the person as nobody any more: without link, passkeys and sessions."""
        return replace(self, version=self.version + 1, invitation=None, passkeys=(), sessions=(), is_revoked=True)
