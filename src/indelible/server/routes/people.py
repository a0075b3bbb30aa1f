"""People and tokens, for administrators: let somebody in, see who is, and let them in no more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Path, Query, Request, Response

from indelible.engine.running import in_own_thread
from indelible.errors import BadCall
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.shapes.people import (
    Invited,
    OneToken,
    PeopleShown,
    PersonInvited,
    PersonLeft,
    TokenGiven,
    TokensShown,
    TokenWanted,
    person_shown,
    token_shown,
)
from indelible.server.signin.credentials import Credentials
from indelible.server.signin.leaving import Leaving, left_shown
from indelible.server.signin.origins import own_origin
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.server.signin.sightings import last_seen

people = resources("people")
PersonId = Annotated[str, Path(min_length=1, max_length=100)]
KeyId = Annotated[str, Path(min_length=1, max_length=100)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Before = Annotated[str | None, Query(min_length=1, max_length=100)]


def _people(asked: Asking) -> People:
    return People(asked.ledgers.store, asked.caller.tenant)


def _leaving(asked: Asking) -> Leaving:
    return Leaving(asked.ledgers.store, asked.caller.tenant, asked.ledger._approving)


@people.get("/v1/people", response_model=PeopleShown)
async def list_people(limit: Limit = 100, before: Before = None, asked: Asking = asking("audit")) -> Response:
    """List whom the server lets in, revoked ones too."""
    found, following = await in_own_thread(_people(asked).page, before, limit)
    rules = await in_own_thread(Providers(asked.ledgers.store, asked.caller.tenant).rules)
    now = datetime.now(UTC)
    return answer({"people": [person_shown(one, one.standing(rules), now) for one in found], "next": following})


@people.post("/v1/people", status_code=201, response_model=Invited)
async def invite(body: PersonInvited, request: Request, asked: Asking = asking("administer")) -> Response:
    """Invite a person, or let one sign in anew who lost their passkeys. The link is shown once."""
    lasts = timedelta(seconds=body.lasts_s)
    person, ticket = await in_own_thread(
        lambda: _leaving(asked).invite(body.name, tuple(body.scopes), by=asked.actor, lasts=lasts, convert=body.convert)
    )
    root: str = request.scope.get("root_path", "")
    link = f"{own_origin(request)}{root}/signin#{ticket}"
    return answer({"person": person_shown(person, person.standing(None), datetime.now(UTC)), "link": link}, 201)


@people.post("/v1/people/{person_id}/revoke", response_model=PersonLeft)
async def revoke_person(person_id: PersonId, asked: Asking = asking("administer")) -> Response:
    """Let a person in no more, and end what they had: link, passkeys, sessions, tokens, grants, delegations and votes.

    `not_ended` lists what they had set up for others, which goes on.
    """
    left = await in_own_thread(lambda: _leaving(asked).revoke(person_id, by=asked.actor))
    shown = person_shown(left.person, left.person.standing(None), datetime.now(UTC))
    return answer({"person": shown, **left_shown(left)})


# Tokens


@people.get("/v1/api-keys", response_model=TokensShown)
async def list_tokens(limit: Limit = 100, before: Before = None, asked: Asking = asking("audit")) -> Response:
    """List tokens by what may be shown of them, the newest first."""
    store, tenant = asked.ledgers.store, asked.caller.tenant
    found, following = await in_own_thread(Credentials(store, tenant).page, before, limit)
    shown = await in_own_thread(lambda: [token_shown(one, last_seen(store, tenant, one.id)) for one in found])
    return answer({"api_keys": shown, "next": following})


@people.post("/v1/api-keys", status_code=201, response_model=TokenGiven)
async def give_token(body: TokenWanted, asked: Asking = asking("administer")) -> Response:
    """Make a token. It is shown once, and only a hash of it is kept."""
    if body.expires_at is not None and body.expires_at <= datetime.now(UTC):
        raise BadCall("expires_at: that is past; give a moment to come")
    credentials = Credentials(asked.ledgers.store, asked.caller.tenant)
    given, token = await in_own_thread(
        lambda: credentials.give(
            body.name, tuple(body.scopes), by=asked.actor, expires_at=body.expires_at, principal=body.principal
        )
    )
    return answer({"api_key": token_shown(given, None), "token": str(token)}, 201)


@people.post("/v1/api-keys/{key_id}/revoke", response_model=OneToken)
async def revoke_token(key_id: KeyId, asked: Asking = asking("administer")) -> Response:
    """End a token; servers stop letting it in within a second."""
    store, tenant = asked.ledgers.store, asked.caller.tenant
    over = await in_own_thread(lambda: Credentials(store, tenant).revoke(key_id, by=asked.actor))
    seen = await in_own_thread(last_seen, store, tenant, over.id)
    return answer({"api_key": token_shown(over, seen)})
