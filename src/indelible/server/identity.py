"""Who sent a request: looks up the credential that its token names, and remembers it for a moment."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request

from indelible.core.admitting import Caller
from indelible.core.calls import check_name
from indelible.core.commands import Outrun, Record
from indelible.core.credentials import (
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
from indelible.core.effects import Actor
from indelible.core.events import facts_json
from indelible.core.ports import Store
from indelible.core.remote import Scope
from indelible.core.sheets import SheetFilter
from indelible.errors import BadCall, IllegalMove, NotAuthenticated
from indelible.mint import SystemMint
from indelible.running import in_own_thread

REMEMBERED = 1.0
"""Is how many seconds a credential is taken for what it was: for so long a revoked one may still be let in."""
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Known:
    credential: Credential | None
    until: float


class Identity:
    """Knows whose token is whose, by the credentials kept in the ledger itself."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, str], _Known] = {}
        self._looking: dict[tuple[str, str], asyncio.Future[Credential | None]] = {}

    async def __call__(self, request: Request) -> Caller:
        """Gives who sent a request; raises `NotAuthenticated` when nobody known did."""
        words = request.headers.get("authorization", "").split()
        if len(words) != 2 or words[0].lower() != "bearer":
            raise NotAuthenticated(
                "a token is needed: Authorization: Bearer …; make one with: indelible apikeys create"
            )
        token = read_token(words[1])
        credential = await self._find(token)
        if credential is None:
            raise unknown_token()
        return credential.admits(token, token.tenant, datetime.now(UTC))

    async def _find(self, token: Token) -> Credential | None:
        place = (token.tenant, token.credential_id)
        known = self._known.get(place)
        if known is not None and known.until >= time.monotonic():
            return known.credential
        looking = self._looking.get(place)
        if looking is None:  # of all who ask at once, one looks
            looking = self._looking[place] = asyncio.ensure_future(self._look(place))
            looking.add_done_callback(lambda done: self._looking.pop(place, None))
        return await asyncio.shield(looking)

    async def _look(self, place: tuple[str, str]) -> Credential | None:
        credential = await in_own_thread(find_credential, self._store, *place)
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[place] = _Known(credential, time.monotonic() + REMEMBERED)
        return credential


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
            raise BadCall(f"no credential of {self._tenant} has the id {credential_id}; see: indelible apikeys list")
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
            page = self._store.sheets(self._tenant, SheetFilter(kind="credential", before=before, limit=1000))
            found += [read_credential(sheet) for sheet in page if sheet.body is not None]
            if len(page) < 1000:
                return found
            before = page[-1].id

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
