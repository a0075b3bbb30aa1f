"""The credentials of one tenant: gives and revokes them, on the record."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from indelible.core.effects.effect import Actor
from indelible.core.events import instant, instant_or_none
from indelible.core.people.credentials import (
    CREDENTIALS_RUN,
    SECRET_BYTES,
    Credential,
    Token,
    credential_sheet,
    kind_for,
    read_credential,
)
from indelible.core.ports import Store
from indelible.core.scopes import Scope
from indelible.errors import IllegalMove, UnknownCredential
from indelible.server.signin.providers import standing_of
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
            self._check_stands(who, scopes if who == name else ())
        credential_id = self._mint.new_id("key")
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

    def _check_stands(self, name: str | None, wanted: tuple[Scope, ...]) -> None:
        """Raise `IllegalMove` for a person who is out, and for a scope that reaches further than they do."""
        found = standing_of(self._store, self._tenant, name)
        if found is None or name is None:
            return
        if not found.scopes:
            raise IllegalMove(f"{found.why_not(name, datetime.now(UTC))}")
        more = set(wanted) - found.reach_of(wanted)
        if more:
            change = f"people invite {name} --scope SCOPE" if found.issuer is None else "serve --oidc-allow"
            raise IllegalMove(
                f"{name} has the scope {', '.join(found.scopes)}, not {', '.join(sorted(more))}; give it to them first "
                f"(indelible {change}), or leave that scope out"
            )

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


def credential_shown(credential: Credential) -> dict[str, Any]:
    """Return what may be shown of a credential: never its secret."""
    return {
        "id": credential.id,
        "name": credential.name,
        "kind": credential.kind,
        "scopes": list(credential.scopes),
        "principal": credential.principal,
        "given_by": credential.given_by,
        "created_at": instant(credential.created_at),
        "expires_at": instant_or_none(credential.expires_at),
        "is_revoked": credential.is_revoked,
    }
