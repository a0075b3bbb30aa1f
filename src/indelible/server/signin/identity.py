"""Who sent a request: the credential that its token names, or the person whose session its cookie names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from fastapi import Request

from indelible.core.people.credentials import Credential, read_token, unknown_token
from indelible.core.people.standing import Standing
from indelible.core.ports import Store
from indelible.core.remote.admitting import Caller
from indelible.engine.authenticating import authenticate_rows, note_rights
from indelible.errors import NotAuthenticated
from indelible.server.requests.remembering import Remembering
from indelible.server.signin.credentials import find_credential
from indelible.server.signin.providers import standing_of
from indelible.server.signin.sessions import Sessions, cookie_name
from indelible.server.signin.sightings import Sightings


class _Found(NamedTuple):
    """A credential, and how those stand whom it acts as and for; None for names that the server does not know."""

    credential: Credential
    person: Standing | None
    principal: Standing | None


class Identity:
    """Knows whose token and whose cookie is whose, by what is kept in the ledger itself."""

    def __init__(self, store: Store) -> None:
        authenticate_rows(store, None)
        self._store = store
        self._sightings = Sightings(store)
        self._credentials = Remembering(self._look)
        self._sessions = Sessions(store, self._sightings)
        self._is_closed_by_app = False

    async def __call__(self, request: Request) -> Caller:
        """Gives who sent a request; raises `NotAuthenticated` when nobody known did. With a token, no cookie counts."""
        if not self._is_closed_by_app:  # else the store would be closed over what is being written
            request.app.state.closing.append(self._sightings.close)
            self._is_closed_by_app = True
        said = request.headers.get("authorization")
        cookie = request.cookies.get(cookie_name(request)) if said is None else None
        if cookie is not None:
            request.state.signed_in = await self._sessions.signed_in(request, cookie)
            caller: Caller = request.state.signed_in.caller
            return caller
        words = (said or "").split()
        if len(words) != 2 or words[0].lower() != "bearer":
            raise NotAuthenticated(
                "a token is needed: Authorization: Bearer …; make one with: indelible apikeys create"
            )
        token = read_token(words[1])
        place = (token.tenant, token.credential_id)
        found = await self._credentials.find(place)
        if found is not None and found.credential.kind != "agent" and request.method not in ("GET", "HEAD"):
            # What people change is decided on how they stand now; agents only ask, and ask often.
            found = await self._credentials.find_newest(place)
        if found is None:
            raise unknown_token()
        now = datetime.now(UTC)
        caller = found.credential.admits(token, token.tenant, now, person=found.person, principal=found.principal)
        self._sightings.note(token.tenant, token.credential_id)
        return caller

    def _look(self, tenant: str, credential_id: str) -> _Found | None:
        note_rights(self._store, tenant)
        credential = find_credential(self._store, tenant, credential_id)
        if credential is None:
            return None
        person = credential.name if credential.kind == "person" else None
        return _Found(
            credential,
            standing_of(self._store, tenant, person),
            standing_of(self._store, tenant, credential.principal),
        )
