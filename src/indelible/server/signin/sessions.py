"""The cookie that a signed-in browser keeps, and what is known of whoever shows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request, Response

from indelible.core.people.person import LONGEST_SESSION, Person, Session, Ticket, not_signed_in, read_ticket
from indelible.core.people.vouching import ProviderRules
from indelible.core.ports import Store
from indelible.core.remote.admitting import Caller
from indelible.engine.authenticating import note_rights
from indelible.server.requests.remembering import Remembering
from indelible.server.signin.origins import check_session_request, is_private
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.server.signin.sightings import Sightings, last_seen

COOKIE = "__Host-indelible"
"""Is the cookie's name where there is TLS: browsers then see to it that nobody else sets it."""
UNATTENDED = "indelible.unattended"
"""Is set where a request is looked at again though nobody did anything, as when a stream goes on."""
_BETWEEN = " "


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Is who sent a request by their session."""

    caller: Caller
    person: Person
    session: Session
    csrf_token: str


@dataclass(frozen=True, slots=True)
class _Found:
    person: Person
    rules: ProviderRules | None
    seen_at: datetime | None


class Sessions:
    """Knows whose cookie is whose, by what is on the record of people."""

    def __init__(self, store: Store, sightings: Sightings) -> None:
        self._store = store
        self._sightings = sightings
        self._found = Remembering(self._look)

    async def signed_in(self, request: Request, cookie: str) -> SignedIn:
        """Gives who sent a request; raises `NotAuthenticated` for nobody, `NotPermitted` for another site's page."""
        ticket = read_ticket(cookie)
        place = (ticket.tenant, f"{ticket.person_id}{_BETWEEN}{ticket.name}")
        is_reading = request.method in ("GET", "HEAD")
        # What changes something is decided on how the person stands now.
        found = await (self._found.find(place) if is_reading else self._found.find_newest(place))
        if found is None:
            raise not_signed_in()
        caller, session = found.person.admits(ticket, found.seen_at, datetime.now(UTC), found.rules)
        check_session_request(request, ticket)
        if not request.scope.get(UNATTENDED):
            self._sightings.note(ticket.tenant, session.id, session.expires_at)
        return SignedIn(caller=caller, person=found.person, session=session, csrf_token=ticket.csrf_token)

    def _look(self, tenant: str, place: str) -> _Found | None:
        note_rights(self._store, tenant)
        id_, _, session_id = place.partition(_BETWEEN)
        person = People(self._store, tenant).find(id_)
        if person is None or all(one.id != session_id for one in person.sessions):
            return None
        rules = Providers(self._store, tenant).rules_for(person)
        return _Found(person, rules, last_seen(self._store, tenant, session_id))


def cookie_name(request: Request) -> str:
    """Gives the name of our cookie; without TLS it names the port too, for all servers of a machine share cookies."""
    if is_private(request):
        return COOKIE
    return f"indelible_{request.headers.get('host', '').rpartition(':')[2]}"


def set_cookie(request: Request, response: Response, ticket: Ticket) -> None:
    """Lets the browser keep what signs it in; no script reads it, and no other site sends it."""
    response.set_cookie(
        cookie_name(request),
        str(ticket),
        max_age=int(LONGEST_SESSION.total_seconds()),
        path="/",
        secure=is_private(request),
        httponly=True,
        samesite="strict",
    )


def drop_cookie(request: Request, response: Response) -> None:
    """Lets the browser forget it."""
    response.delete_cookie(cookie_name(request), path="/", secure=is_private(request), httponly=True, samesite="strict")
