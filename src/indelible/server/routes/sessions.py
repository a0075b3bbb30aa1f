"""Signing in and out: by a link once, by a passkey from then on; and the sessions one has."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Request, Response

from indelible.core.people.person import Person, Session, Ticket, not_signed_in, read_ticket
from indelible.core.ports import Store
from indelible.engine.running import in_own_thread
from indelible.errors import NotAuthenticated, NotPermitted
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.limits import TICKET
from indelible.server.requests.limits import Ticket as Counted
from indelible.server.requests.routing import PROBLEMS_TOLD, answer, resources
from indelible.server.shapes.people import (
    CeremonyAsked,
    LinkOpened,
    PasskeyAnswer,
    SessionsShown,
    SignedInShown,
    TenantNamed,
    session_shown,
)
from indelible.server.signin.ceremonies import Here, NotAnswered, asked_to_sign_in, challenge_in, person_in, signed
from indelible.server.signin.challenges import Challenges
from indelible.server.signin.origins import check_from_us, host_of, own_origin
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.server.signin.sessions import SignedIn, drop_cookie, set_cookie

signing_in = resources("people")
SIGN_IN = "sign-in"
MOST_REFUSALS = 60
"""Is how many refusals a minute of one tenant this server tells on the record: nobody fills a journal from outside."""
_REFUSED_WITH = (400, 401, 403, 413, 415, 422, 429, 503)
_TOLD: dict[int | str, dict[str, Any]] = {status: PROBLEMS_TOLD[status] for status in _REFUSED_WITH}


class Refusals:
    """Tells on the record of those who could not come in."""

    def __init__(self) -> None:
        self._told: dict[str, deque[float]] = {}

    async def tell(self, store: Store, tenant: str, id_: str, why: str) -> None:
        """Tells of one, unless too many were told of in the last minute or there is no such person."""
        people = People(store, tenant)
        if await in_own_thread(people.find, id_) is None:
            return
        told = self._told.setdefault(tenant, deque(maxlen=MOST_REFUSALS))
        if len(told) == MOST_REFUSALS and time.monotonic() - told[0] < 60:
            return
        told.append(time.monotonic())
        await in_own_thread(people.tell_refused, id_, why)


def refusals(request: Request) -> Refusals:
    """Gives who tells of refusals here."""
    state = request.app.state
    if not hasattr(state, "refusals"):
        state.refusals = Refusals()
    found: Refusals = state.refusals
    return found


def here(request: Request) -> Here:
    """Says where we are asked."""
    return Here(host_of(request), own_origin(request))


def check_may_try(request: Request) -> Store:
    """Lets somebody unknown try to come in, from a page of ours or from no page, and not too often."""
    check_from_us(request, is_needed=False)
    count_as_stranger(request)
    store: Store = request.app.state.ledgers.store
    return store


def count_as_stranger(request: Request) -> None:
    """Counts who is unknown whatever cookie they show, for what is asked here costs more than a page."""
    counted: Counted | None = request.scope.get(TICKET)
    if counted is not None:
        counted.count_as_stranger()


@signing_in.post("/v1/sign-in/link", status_code=201, response_model=SignedInShown, responses=_TOLD)
async def open_link(body: LinkOpened, request: Request) -> Response:
    """Sign in by a one-time link. The answer sets the session's cookie; the link is used up."""
    store = check_may_try(request)
    link = read_ticket(body.ticket)
    try:
        person, ticket = await in_own_thread(People(store, link.tenant).open_link, link)
    except NotAuthenticated:
        await refusals(request).tell(store, link.tenant, link.person_id, "link")
        raise
    return entered(request, person, ticket)


@signing_in.post("/v1/sign-in/options", response_model=CeremonyAsked, responses=_TOLD)
async def ask_passkey(body: TenantNamed, request: Request) -> Response:
    """Ask for what a passkey is to sign. It names nobody: whoever signs says who they are."""
    store = check_may_try(request)
    challenge = await in_own_thread(Challenges(store, body.tenant).ask, SIGN_IN)
    return answer({"options": asked_to_sign_in(challenge, here(request))})


@signing_in.post("/v1/sign-in/passkey", status_code=201, response_model=SignedInShown, responses=_TOLD)
async def sign_in(body: PasskeyAnswer, request: Request) -> Response:
    """Sign in by a passkey. The answer sets the session's cookie."""
    store = check_may_try(request)
    said = ""
    try:
        said = person_in(body.credential)
        return entered(request, *await in_own_thread(_checked, store, body, said, here(request)))
    except NotAnswered as refused:
        await refusals(request).tell(store, body.tenant, said, refused.why)
        raise not_signed_in() from refused
    except NotAuthenticated:  # the passkey is theirs, and their provider's word does not let them in
        await refusals(request).tell(store, body.tenant, said, "provider")
        raise


def _checked(store: Store, body: PasskeyAnswer, said: str, place: Here) -> tuple[Person, Ticket]:
    """Signs a person in whose passkey answered; the challenge is used up first, so that each gives one try."""
    people = People(store, body.tenant)
    person = people.find(said)
    if person is None:
        raise NotAnswered("person")
    challenge = challenge_in(body.credential)
    if not Challenges(store, body.tenant).take(challenge, SIGN_IN):
        raise NotAnswered("challenge")
    credential_id, count = signed(body.credential, person, challenge, place)
    rules = Providers(store, body.tenant).rules_for(person)
    person.check_stands(rules, datetime.now(UTC))
    try:
        return people.sign_in(said, credential_id, count, rules)
    except NotAuthenticated as refused:
        raise NotAnswered("count") from refused


def entered(request: Request, person: Person, ticket: Ticket) -> Response:
    """Answers whoever has just come in."""
    session = next(one for one in person.sessions if one.id == ticket.name)
    response = answer(_shown(ticket.tenant, person, session, ticket.csrf_token), 201)
    set_cookie(request, response, ticket)
    return response


def _shown(tenant: str, person: Person, session: Session, csrf_token: str) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "name": person.name,
        "scopes": list(person.scopes),
        "csrf_token": csrf_token,
        "session": session_shown(session, session.id),
        "has_passkey": bool(person.passkeys),
    }


# Being in


def signed_in_person(asked: Asking) -> SignedIn:
    """Gives whose session this is; raises `NotPermitted` for those who have a token instead."""
    if asked.signed_in is None:
        raise NotPermitted(
            "this is for people who are signed in: open /signin; a token has no sessions and no passkeys"
        )
    return asked.signed_in


@signing_in.post("/v1/sign-out", status_code=204)
async def sign_out(request: Request, asked: Asking = asking("read")) -> Response:
    """End the caller's own session."""
    mine = signed_in_person(asked)
    people = People(asked.ledgers.store, asked.caller.tenant)
    await in_own_thread(lambda: people.sign_out(mine.person.id, mine.session.id, by=asked.actor))
    response = Response(status_code=204)
    drop_cookie(request, response)
    return response


@signing_in.get("/v1/sessions", response_model=SessionsShown)
async def list_sessions(asked: Asking = asking("read")) -> Response:
    """List where the caller is signed in."""
    mine = signed_in_person(asked)
    return answer({"sessions": [session_shown(one, mine.session.id) for one in mine.person.sessions]})


SessionId = Annotated[str, Path(min_length=1, max_length=100)]


@signing_in.post("/v1/sessions/{session_id}/end", response_model=SessionsShown)
async def end_session(session_id: SessionId, asked: Asking = asking("read")) -> Response:
    """End one of the caller's sessions, as on a machine that got lost."""
    mine = signed_in_person(asked)
    people = People(asked.ledgers.store, asked.caller.tenant)
    person = await in_own_thread(lambda: people.sign_out(mine.person.id, session_id, by=asked.actor))
    return answer({"sessions": [session_shown(one, mine.session.id) for one in person.sessions]})
