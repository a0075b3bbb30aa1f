"""The people of one tenant: invites them, signs them in and out, and revokes them, on the record."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.people.credentials import SECRET_BYTES
from indelible.core.people.person import (
    LONGEST_INVITATION,
    LONGEST_SESSION,
    PEOPLE_RUN,
    Invitation,
    Passkey,
    Person,
    Session,
    SignedInBy,
    Ticket,
    not_signed_in,
)
from indelible.core.people.sheets import person_sheet, read_person
from indelible.core.people.standing import person_id
from indelible.core.people.vouching import ProviderRules, Vouched, Voucher
from indelible.core.scopes import Scope, scopes_among
from indelible.errors import BadCall, NotPermitted, StoreUnavailable, UnknownCredential
from indelible.server.signin.register import Register

USUAL_INVITATION = timedelta(hours=1)
_TRIES = 8
"""Is how often a change is decided anew when somebody else was faster."""
_TRIES_ALONE = 64
"""Is how often when anybody else may have been faster."""


class People(Register[Person]):
    """Knows the people of one tenant; each change is an event."""

    kind = "person"
    run_id = PEOPLE_RUN
    read = staticmethod(read_person)
    sheet_of = staticmethod(person_sheet)

    def invite(
        self,
        name: str,
        scopes: tuple[Scope, ...],
        *,
        by: Actor,
        lasts: timedelta = USUAL_INVITATION,
        convert: bool = False,
    ) -> tuple[Person, Ticket]:
        """Lets somebody come in once by a link, whose secret nobody will see again; a link they had counts no more.

        With `convert`, a provider's person becomes one of the ledger's own.
        """
        if not timedelta(0) < lasts <= LONGEST_INVITATION:
            raise BadCall(f"a link lasts at most {LONGEST_INVITATION.days} days, and longer than nothing")
        now = datetime.now(UTC)
        ticket = self._ticket(person_id(name), "inv")
        invitation = Invitation(id=ticket.name, hash=ticket.hash, by=by.id, expires_at=now + lasts)
        chosen = scopes_among(scopes)

        def step(before: Person | None) -> Person:
            if before is not None:
                return before.invited(chosen, invitation, now, convert=convert)
            return Person(
                id=ticket.person_id,
                version=self._version(ticket.person_id) + 1,
                name=name,
                scopes=chosen,
                created_at=now,
                invitation=invitation,
            )

        return self._change(ticket.person_id, "person_invited", lambda person: by, step), ticket

    def open_link(self, link: Ticket) -> tuple[Person, Ticket]:
        """Signs in whoever has the link, and gives what their browser keeps; of all who come with it, one gets in."""
        return self._sign_in(
            link.person_id, "link", lambda before, session, now: _known(before).opened(link, session, now)
        )

    def sign_in(
        self, id_: str, credential_id: str, sign_count: int, rules: ProviderRules | None = None
    ) -> tuple[Person, Ticket]:
        """Signs in a person whose passkey answered; a provider's person, if the rules in force still let them in."""
        return self._sign_in(
            id_,
            "passkey",
            lambda before, session, now: _known(before).signed_in(credential_id, sign_count, session, now, rules),
        )

    def vouch(self, name: str, vouched: Vouched, rules: ProviderRules) -> tuple[Person, Ticket]:
        """Sign in a person on the word of a provider; one of whom it speaks is one person here, under one name.

        A person who was let in before and whom no rule covers by what it says now is out, with all that they have.
        """
        scopes, id_ = rules.scopes_of(vouched), person_id(name)
        if not scopes:
            self._disallow(vouched)
            raise NotPermitted(f"{name} is known to the provider, and no rule here lets them in: --oidc-allow")
        fresh = Person(
            id=id_, version=self._version(id_), name=name, scopes=scopes, vouched=vouched, created_at=datetime.now(UTC)
        )

        def step(before: Person | None, session: Session, now: datetime) -> Person:
            self._check_one_name(id_, name, vouched.by)
            return (before or fresh).vouched_for(vouched, scopes, session, now)

        return self._sign_in(id_, "oidc", step)

    def _check_one_name(self, id_: str, name: str, by: Voucher) -> None:
        """Raise `NotPermitted` for a person who is here under another name."""
        other = next((one for one in self._vouched_by(by) if one.id != id_), None)
        if other is not None:
            raise NotPermitted(
                f"you are {other.name} here, and the provider calls you {name} by now. An administrator ends the old "
                "name and lets you in under the new one: indelible people revoke, then people invite"
            )

    def _disallow(self, vouched: Vouched) -> None:
        """Keep what the provider says now of a person whom no rule lets in by it, under whatever name they came in."""
        for theirs in self._vouched_by(vouched.by):
            if not theirs.is_revoked:
                step = self._known(theirs.id, lambda person: person.disallowed(vouched))
                self._change(theirs.id, "person_disallowed", lambda person: SYSTEM, step)

    def _vouched_by(self, by: Voucher) -> list[Person]:
        """Return whom a provider speaks of, by whatever name; with two names they would be two who vote.

        A person who was revoked under one name does not come back under another, either.
        """
        return [one for one in self.all() if one.vouched is not None and one.vouched.by == by]

    def _sign_in(
        self,
        id_: str,
        via: SignedInBy,
        enter: Callable[[Person | None, Session, datetime], Person],
    ) -> tuple[Person, Ticket]:
        now = datetime.now(UTC)
        ticket = self._ticket(id_, "ses")
        session = Session(id=ticket.name, hash=ticket.hash, via=via, created_at=now, expires_at=now + LONGEST_SESSION)

        def step(before: Person | None) -> Person:
            return enter(before, session, now)

        def who(person: Person) -> Actor:
            return Actor(person.name, "person", via)

        return self._change(id_, "person_signed_in", who, step, is_alone=via == "oidc"), ticket

    def sign_out(self, id_: str, session_id: str, *, by: Actor) -> Person:
        """Ends one of somebody's sessions."""

        def step(person: Person) -> Person:
            if all(one.id != session_id for one in person.sessions):
                raise UnknownCredential(f"no session of {person.name} has the id {session_id}")
            return person.without_session(session_id)

        return self._change(id_, "person_signed_out", lambda person: by, self._known(id_, step))

    def add_passkey(self, id_: str, passkey: Passkey, *, by: Actor) -> Person:
        """Lets somebody sign in by one more passkey."""
        step = self._known(id_, lambda person: person.with_passkey(passkey))
        return self._change(id_, "passkey_added", lambda person: by, step)

    def remove_passkey(self, id_: str, passkey_id: str, *, by: Actor) -> Person:
        """Lets nobody sign in by this passkey any more."""

        def step(person: Person) -> Person:
            if person.passkey(passkey_id) is None:
                raise UnknownCredential(f"no passkey of {person.name} has the id {passkey_id}")
            return person.without_passkey(passkey_id)

        return self._change(id_, "passkey_removed", lambda person: by, self._known(id_, step))

    def end_link(self, id_: str, *, by: Actor) -> Person:
        """Lets nobody in by the link that somebody has not used."""
        step = self._known(id_, lambda person: person.uninvited())
        return self._change(id_, "invitation_ended", lambda person: by, step)

    def revoke(self, id_: str, *, by: Actor) -> Person:
        """Lets a person in no more: their sessions end, on other servers within a second.

        What else they had ends by `Leaving`.
        """
        found = self.find(id_)
        if found is not None and found.is_revoked:
            return found
        step = self._known(id_, lambda person: person.revoked())
        return self._change(id_, "person_revoked", lambda person: by, step)

    def tell_refused(self, id_: str, why: str) -> None:
        """Tells on the record that somebody could not come in as a person that there is."""
        self._tell("sign_in_refused", {"id": id_, "why": why}, None, SYSTEM)

    # Changing

    def _ticket(self, id_: str, kind: str) -> Ticket:
        return Ticket(self._tenant, id_, self._mint.new_id(kind), secrets.token_urlsafe(SECRET_BYTES))

    def _known(self, id_: str, step: Callable[[Person], Person]) -> Callable[[Person | None], Person]:
        def changed(before: Person | None) -> Person:
            if before is None:
                raise UnknownCredential(f"no person of {self._tenant} has the id {id_}; see: indelible people list")
            return step(before)

        return changed

    def _change(
        self,
        id_: str,
        event_type: str,
        who: Callable[[Person], Actor],
        step: Callable[[Person | None], Person],
        *,
        is_alone: bool = False,
    ) -> Person:
        """Decide a change on how the person stands, and again when they were changed meanwhile.

        With `is_alone`, a new person is decided on how all people stand: nobody else comes in between.
        """
        for _ in range(_TRIES_ALONE if is_alone else _TRIES):
            before = self.find(id_)
            after = self._last_event() if is_alone and before is None else None
            changed = step(before)
            if self._tell(event_type, {"id": id_}, changed, who(changed), after=after):
                return changed
        raise StoreUnavailable(f"{id_} is changed by too many at once; try again")


def _known(person: Person | None) -> Person:
    if person is None:
        raise not_signed_in()
    return person
