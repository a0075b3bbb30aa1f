"""Who sent a request: the credential that its token names, or the person whose session its cookie names."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from fastapi import Request

from indelible.core.commands import Outrun, Record
from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.events import facts_json
from indelible.core.people.credentials import (
    CREDENTIALS_RUN,
    SECRET_BYTES,
    Credential,
    Token,
    credential_sheet,
    kind_for,
    read_credential,
    read_token,
    unknown_token,
)
from indelible.core.ports import Store
from indelible.core.remote.admitting import Caller
from indelible.core.remote.questions import Scope
from indelible.core.sheets import SheetFilter
from indelible.engine.mint import SystemMint
from indelible.errors import IllegalMove, NotAuthenticated, UnknownCredential
from indelible.server.requests.remembering import Remembering
from indelible.server.signin.sessions import Sessions, cookie_name
from indelible.server.signin.sightings import Sightings

_PAGE = 1000


class Identity:
    """Knows whose token and whose cookie is whose, by what is kept in the ledger itself."""

    def __init__(self, store: Store) -> None:
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
        credential = await self._credentials.find((token.tenant, token.credential_id))
        if credential is None:
            raise unknown_token()
        caller = credential.admits(token, token.tenant, datetime.now(UTC))
        self._sightings.note(token.tenant, credential.id)
        return caller

    def _look(self, tenant: str, credential_id: str) -> Credential | None:
        return find_credential(self._store, tenant, credential_id)


class Credentials:
    """Gives and revokes credentials of one tenant, on the record."""

    def __init__(self, store: Store, tenant: str) -> None:
        check_name("tenant", tenant)
        self._store = store
        self._tenant = tenant
        self._mint = SystemMint()

    def give(
        self,
        name: str,
        scopes: tuple[Scope, ...],
        *,
        by: Actor,
        expires_at: datetime | None = None,
        principal: str | None = None,
    ) -> tuple[Credential, Token]:
        """Makes a credential, and the token that nobody will see again."""
        credential_id = f"key_{self._mint.effect_id().removeprefix('eff_')}"
        token = Token(self._tenant, credential_id, secrets.token_urlsafe(SECRET_BYTES))
        credential = Credential(
            id=credential_id,
            name=name,
            kind=kind_for(scopes),
            scopes=scopes,
            principal=principal,
            hash=token.hash,
            given_by=by.id,
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )
        self._tell("credential_given", credential, by)
        return credential, token

    def revoke(self, credential_id: str, *, by: Actor) -> Credential:
        """Ends a credential; servers that know it let it in for a second more at most."""
        found = find_credential(self._store, self._tenant, credential_id)
        if found is None:
            raise UnknownCredential(
                f"no credential of {self._tenant} has the id {credential_id}; see: indelible apikeys list"
            )
        if found.is_revoked:
            return found
        over = found.revoked()
        self._tell("credential_revoked", over, by)
        return over

    def all(self) -> list[Credential]:
        """Lists credentials, the newest first; one whose sheet is not what the record says is left out."""
        found: list[Credential] = []
        before: str | None = None
        while True:
            page, before = self.page(before, _PAGE)
            found += page
            if before is None:
                return found

    def page(self, before: str | None, limit: int) -> tuple[list[Credential], str | None]:
        """Lists the newest credentials that are older than this one, and says before which the next page is."""
        sheets = self._store.sheets(self._tenant, SheetFilter(kind="credential", before=before, limit=limit))
        found = [read_credential(sheet) for sheet in sheets if sheet.body is not None]
        return found, sheets[-1].id if len(sheets) == limit else None

    def _tell(self, event_type: str, credential: Credential, by: Actor) -> None:
        command = Record(
            tenant=self._tenant,
            run_id=CREDENTIALS_RUN,
            stamp=self._mint.stamp(by),
            event_type=event_type,
            facts=facts_json({"id": credential.id}),
            sheet=credential_sheet(credential),
        )
        (answer,) = self._store.apply(self._tenant, [command], [None])
        if isinstance(answer, Outrun):
            raise IllegalMove(f"{credential.id} was changed by somebody else meanwhile; look at it again")


def find_credential(store: Store, tenant: str, credential_id: str) -> Credential | None:
    """Finds a credential; one that was edited in the database is none."""
    found = store.sheets(tenant, SheetFilter(kind="credential", id=credential_id, limit=1))
    return None if not found or found[0].body is None else read_credential(found[0])
