"""The credentials of one tenant: gives and revokes them, on the record."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from indelible.core.effects.effect import Actor
from indelible.core.people.credentials import (
    CREDENTIALS_RUN,
    SECRET_BYTES,
    Credential,
    Token,
    credential_sheet,
    kind_for,
    read_credential,
)
from indelible.core.people.standing import person_id
from indelible.core.ports import Store
from indelible.core.scopes import Scope
from indelible.errors import IllegalMove, UnknownCredential
from indelible.server.signin.people import People
from indelible.server.signin.register import Register


class Credentials(Register[Credential]):
    """Gives and revokes credentials of one tenant."""

    kind = "credential"
    run_id = CREDENTIALS_RUN
    read = staticmethod(read_credential)
    sheet_of = staticmethod(credential_sheet)

    def give(
        self,
        name: str,
        scopes: tuple[Scope, ...],
        *,
        by: Actor,
        expires_at: datetime | None = None,
        principal: str | None = None,
    ) -> tuple[Credential, Token]:
        """Makes a credential, and the token that nobody will see again; none for or by somebody who was revoked."""
        for who in {name, principal} if kind_for(scopes) == "person" else {principal}:
            self._check_not_revoked(who)
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
        self._write("credential_given", credential, by)
        return credential, token

    def _check_not_revoked(self, name: str | None) -> None:
        found = None if name is None else People(self._store, self._tenant).find(person_id(name))
        if found is not None and found.is_revoked:
            raise IllegalMove(f"{name} was revoked; to let them in again, first: indelible people invite")

    def revoke(self, credential_id: str, *, by: Actor) -> Credential:
        """Ends a credential; servers that know it let it in for a second more at most."""
        found = self.find(credential_id)
        if found is None:
            raise UnknownCredential(
                f"no credential of {self._tenant} has the id {credential_id}; see: indelible apikeys list"
            )
        if found.is_revoked:
            return found
        over = found.revoked()
        self._write("credential_revoked", over, by)
        return over

    def _write(self, event_type: str, credential: Credential, by: Actor) -> None:
        if not self._tell(event_type, {"id": credential.id}, credential, by):
            raise IllegalMove(f"{credential.id} was changed by somebody else meanwhile; look at it again")


def find_credential(store: Store, tenant: str, credential_id: str) -> Credential | None:
    """Finds a credential of any tenant."""
    return Credentials(store, tenant).find(credential_id)
