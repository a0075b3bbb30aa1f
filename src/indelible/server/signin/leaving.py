"""What goes with somebody who is revoked: whatever of theirs could still open something ends, and the rest is listed.

They are revoked first. From then on the core counts none of their permissions and lets them set nothing up, so what is
found afterwards is all there is. If the process is stopped in between, the next revocation or invitation ends the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

from indelible.core.approvals.approval import OPEN_STATUSES, names_in, same_person
from indelible.core.approvals.grants import read_delegation, read_grant
from indelible.core.effects.effect import SYSTEM, Actor
from indelible.core.paging import event_of, every_event, every_sheet, read_sheet
from indelible.core.people.credentials import Credential
from indelible.core.people.person import PEOPLE_RUN, Person, Ticket
from indelible.core.people.standing import person_id
from indelible.core.ports import Store
from indelible.core.scopes import Scope
from indelible.core.sheets import POLICY_REF, Sheet, SheetFilter
from indelible.engine.approving import Approving, approval_on
from indelible.errors import IllegalMove
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.people import People

_PAGE = 500
_TRIES = 8
"""Is how often something is ended again that a call used at the same moment."""
Ended = TypeVar("Ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """Says what ended with a person, and what they had set up for others, which goes on until somebody ends it."""

    person: Person
    tokens: tuple[Credential, ...]
    """Are those in their name, and of agents that act for them."""
    links: tuple[Person, ...]
    """Are people whom they had invited and who had not come yet."""
    grants: tuple[str, ...]
    delegations: tuple[str, ...]
    approvals: tuple[str, ...]
    """Are questions that stand again without their votes."""
    tokens_of_others: tuple[Credential, ...]
    people_let_in: tuple[Person, ...]
    policy: str | None
    """Is the version of the policy in force, if it was they who applied it."""


class Leaving:
    """Revokes people of one tenant, with what they had."""

    def __init__(self, store: Store, tenant: str, approving: Approving) -> None:
        self._store = store
        self._tenant = tenant
        self._approving = approving
        self._people = People(store, tenant)
        self._credentials = Credentials(store, tenant)

    def revoke(self, id_: str, *, by: Actor) -> Left:
        """Lets a person in no more, and ends what they had; of one who was revoked before, what is left of it."""
        person = self._people.revoke(id_, by=by)
        name = person.name
        # Who revokes themselves may do nothing more from here on.
        by = SYSTEM if same_person(by.id, name) else by
        tokens, others = self._tokens(name, by)
        links, let_in = self._invited(name, by)
        return Left(
            person=person,
            tokens=tokens,
            links=links,
            grants=self._end_grants(name, by),
            delegations=self._end_delegations(name, by),
            approvals=self._reopen_approvals(name),
            tokens_of_others=others,
            people_let_in=let_in,
            policy=self._policy_by(name),
        )

    def invite(
        self, name: str, scopes: tuple[Scope, ...], *, by: Actor, lasts: timedelta, convert: bool = False
    ) -> tuple[Person, Ticket]:
        """Invite a person; of one who was revoked, first end what a revocation that was cut short left."""
        known = self._people.find(person_id(name))
        if known is not None and known.is_revoked:
            self.revoke(known.id, by=by)
        return self._people.invite(name, scopes, by=by, lasts=lasts, convert=convert)

    def _tokens(self, name: str, by: Actor) -> tuple[tuple[Credential, ...], tuple[Credential, ...]]:
        """Ends the tokens by which somebody acts, and gives those too that they gave to others."""
        good = [one for one in self._credentials.all() if not one.is_revoked]
        theirs = [one for one in good if _acts_as(one, name)]
        ended = tuple(_ended(partial(self._credentials.revoke, one.id, by=by)) for one in theirs)
        return ended, tuple(one for one in good if one not in theirs and same_person(one.given_by, name))

    def _invited(self, name: str, by: Actor) -> tuple[tuple[Person, ...], tuple[Person, ...]]:
        """Ends the links that somebody gave and nobody used, and gives those too whom they let in before."""
        links, let_in = [], []
        invited = self._ids_invited_by(name)
        for one in self._people.all():
            if one.is_revoked or same_person(one.name, name):
                continue
            if one.invitation is not None and same_person(one.invitation.by, name):
                links.append(self._people.end_link(one.id, by=by))
            elif one.id in invited:
                let_in.append(one)
        return tuple(links), tuple(let_in)

    def _ids_invited_by(self, name: str) -> set[str]:
        events = every_event(self._store, self._tenant, PEOPLE_RUN, page=_PAGE)
        told = (event.read() for event in events if event.type == "person_invited")
        return {each["facts"]["id"] for each in told if same_person(each["actor"]["id"], name)}

    def _end_grants(self, name: str, by: Actor) -> tuple[str, ...]:
        grants = map(read_grant, self._sheets("grant", "active"))
        given = [one.id for one in grants if any(same_person(giver, name) for giver in one.givers)]
        return tuple(_ended(partial(self._approving.end_grant, id_, by, _why(name))).id for id_ in given)

    def _end_delegations(self, name: str, by: Actor) -> tuple[str, ...]:
        given = [
            one.id
            for one in map(read_delegation, self._sheets("delegation", "active"))
            if same_person(one.giver, name) or same_person(one.to, name)
        ]
        return tuple(_ended(partial(self._approving.end_delegation, id_, by, _why(name))).id for id_ in given)

    def _reopen_approvals(self, name: str) -> tuple[str, ...]:
        """Takes their votes off questions on which nothing runs yet."""
        found = (approval_on(sheet) for status in sorted(OPEN_STATUSES) for sheet in self._sheets("approval", status))
        voted = [
            one for one in found if one and any(same_person(who, name) for vote in one.votes for who in names_in(vote))
        ]
        for one in voted:
            self._approving.attend(one)
        return tuple(one.id for one in voted)

    def _policy_by(self, name: str) -> str | None:
        found = read_sheet(self._store, self._tenant, POLICY_REF)
        if found is None or found.body is None:
            return None
        told = event_of(self._store, self._tenant, found)
        is_theirs = told is not None and same_person(told.read()["actor"]["id"], name)
        return str(found.read()["version"]) if is_theirs else None

    def _sheets(self, kind: str, status: str) -> Iterator[Sheet]:
        """Gives all sheets of a kind and status that can be read, the newest first."""
        found = every_sheet(self._store, self._tenant, SheetFilter(kind=kind, status=status, limit=_PAGE))
        return (sheet for sheet in found if sheet.body is not None)


def _ended(end: Callable[[], Ended]) -> Ended:
    """Ends something, again when it was changed at the same moment."""
    for _ in range(_TRIES - 1):
        with suppress(IllegalMove):
            return end()
    return end()


def _why(name: str) -> str:
    return f"{name} was revoked"


def _acts_as(credential: Credential, name: str) -> bool:
    """Does whoever shows this token act under that name, or for that person?"""
    is_them = credential.kind == "person" and same_person(credential.name, name)
    return is_them or (credential.principal is not None and same_person(credential.principal, name))


def left_shown(left: Left) -> dict[str, Any]:
    """Gives what may be shown of it, beside the person: ids, and names where those say more."""
    return {
        "ended": {
            "api_keys": [_token(one) for one in left.tokens],
            "links": [_named(one) for one in left.links],
            "grants": list(left.grants),
            "delegations": list(left.delegations),
            "approvals": list(left.approvals),
        },
        "not_ended": {
            "api_keys": [_token(one) for one in left.tokens_of_others],
            "people": [_named(one) for one in left.people_let_in],
            "policy": left.policy,
        },
    }


def _token(credential: Credential) -> dict[str, str]:
    return {"id": credential.id, "name": credential.name}


def _named(person: Person) -> dict[str, str]:
    return {"id": person.id, "name": person.name}
