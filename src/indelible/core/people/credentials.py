"""Credentials: who may ask a server for what, until when. Pure.

A token is shown once. What is kept is a hash of its secret half, on a sheet that an event commits to: whoever edits the
database makes no credential that way. The other half says where to look: the tenant first, then the credential's id.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Literal, NamedTuple

from indelible.core.effects.calls import check_name
from indelible.core.effects.effect import Actor
from indelible.core.events import instant, instant_or_none
from indelible.core.people.standing import Standing
from indelible.core.remote.admitting import Caller
from indelible.core.scopes import SCOPES, Scope
from indelible.core.sheets import Sheet, body_of
from indelible.errors import BadCall, NotAuthenticated

CREDENTIALS_RUN = "indelible:credentials"
"""Is the run in which credentials are given and revoked."""
SECRET_BYTES = 32
_PREFIX = "ind"
_TOKEN_TAG = b"indelible/credential/v1\0"
_UNKNOWN = (
    "the server does not know this token: it is mistyped, revoked or of another server; see: indelible apikeys list"
)


class Token(NamedTuple):
    """Is a token in its parts."""

    tenant: str
    credential_id: str
    secret: str

    def __str__(self) -> str:
        return f"{_PREFIX}.{word_for(self.tenant)}.{self.credential_id}.{self.secret}"

    @property
    def hash(self) -> str:
        """Is what is kept of the secret."""
        return sha256(_TOKEN_TAG + self.secret.encode()).hexdigest()


def word_for(tenant: str) -> str:
    """Gives a tenant's name as it stands in tokens."""
    return urlsafe_b64encode(tenant.encode()).decode().rstrip("=")


def tenant_in(word: str) -> str:
    """Reads the tenant's name off a token; raises `ValueError` for what is none."""
    tenant = urlsafe_b64decode(word + "=" * (-len(word) % 4)).decode()
    check_name("tenant", tenant)
    return tenant


def read_token(text: str) -> Token:
    """Takes a token apart; raises `NotAuthenticated` for what cannot be one."""
    parts = text.split(".")
    if len(parts) != 4 or parts[0] != _PREFIX or not all(parts) or not text.isascii():
        raise NotAuthenticated(_UNKNOWN)
    try:
        tenant = tenant_in(parts[1])
        check_name("credential", parts[2])
    except ValueError:
        raise NotAuthenticated(_UNKNOWN) from None
    return Token(tenant, parts[2], parts[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """Lets whoever has its token act under a name, within scopes, until it expires or is revoked."""

    id: str
    version: int = 1
    name: str
    kind: Literal["agent", "person", "system"]
    scopes: tuple[Scope, ...]
    principal: str | None = None
    hash: str = field(repr=False)
    given_by: str
    created_at: datetime
    expires_at: datetime | None = None
    is_revoked: bool = False

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if self.principal is not None:
            check_name("principal", self.principal)
        if not self.scopes or any(scope not in SCOPES for scope in self.scopes):
            raise BadCall(f"scopes: choose one or more of {', '.join(SCOPES)}")
        # Whoever is asked is a person; an agent that could answer would ask itself.
        if self.kind == "agent" and set(self.scopes) != {"agent"}:
            raise BadCall(
                "an agent's credential has the scope agent and no other; give people credentials of their own"
            )
        if self.kind == "person" and "agent" in self.scopes:
            raise BadCall("a person's credential does not have the scope agent: requests and decisions stay apart")
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise BadCall("expires_at: needs a time zone: datetime(…, tzinfo=UTC)")

    def admits(
        self,
        token: Token,
        tenant: str,
        now: datetime,
        *,
        person: Standing | None = None,
        principal: Standing | None = None,
    ) -> Caller:
        """Gives who asks with this token; raises `NotAuthenticated` when it is not, or no longer, this credential's.

        Args:
            token: What was sent.
            tenant: Whose ledger it is for.
            now: The moment it is used.
            person: How the person of this name stands, if it is a person's; None if the server does not know them.
            principal: How the person stands for whom its holder acts; None if the server does not know them.
        """
        if not compare_digest(token.hash, self.hash) or self.is_revoked:
            raise NotAuthenticated(_UNKNOWN)
        if self.expires_at is not None and self.expires_at <= now:
            raise NotAuthenticated(f"{self.id} has expired; somebody has to give you another: indelible apikeys create")
        actor = Actor(self.name, self.kind, "api_key", credential=self.id)
        if principal is not None and self.principal is not None and not principal.scopes:
            raise NotAuthenticated(f"{self.id} acts for {self.principal}: {principal.why_not(self.principal, now)}")
        scopes = frozenset(self.scopes) if person is None else self._scopes_of(person, now)
        return Caller(tenant=tenant, scopes=scopes, actor=actor, principal=self.principal, credential_id=self.id)

    def _scopes_of(self, person: Standing, now: datetime) -> frozenset[Scope]:
        """Return what the token lets its person do."""
        why = person.why_not(self.name, now)
        if why is not None:
            raise NotAuthenticated(f"{self.id}: {why}")
        scopes = person.reach_of(self.scopes)
        if not scopes:
            raise NotAuthenticated(
                f"{self.id} has the scope {', '.join(self.scopes)}, and {self.name} has the scope "
                f"{', '.join(person.scopes)}; an administrator gives another token: indelible apikeys create"
            )
        return scopes

    def revoked(self) -> Credential:
        """Gives the credential as it ends."""
        return replace(self, version=self.version + 1, is_revoked=True)


def unknown_token() -> NotAuthenticated:
    """Gives the refusal of a token that nobody knows; it tells nothing of what is known."""
    return NotAuthenticated(_UNKNOWN)


def kind_for(scopes: Iterable[str]) -> Literal["agent", "person"]:
    """Says who gets a credential with these scopes: an agent one to ask with, a person all others."""
    return "agent" if set(scopes) == {"agent"} else "person"


def credential_sheet(credential: Credential) -> Sheet:
    """Writes a credential on its sheet."""
    content = {
        "created_at": instant(credential.created_at),
        "expires_at": instant_or_none(credential.expires_at),
        "given_by": credential.given_by,
        "hash": credential.hash,
        "id": credential.id,
        "is_revoked": credential.is_revoked,
        "kind": credential.kind,
        "name": credential.name,
        "principal": credential.principal,
        "scopes": list(credential.scopes),
        "v": 1,
        "version": credential.version,
    }
    return Sheet(
        kind="credential",
        id=credential.id,
        version=credential.version,
        status="revoked" if credential.is_revoked else "active",
        body=body_of(content),
    )


def read_credential(sheet: Sheet) -> Credential:
    """Reads a credential from its sheet."""
    content: dict[str, Any] = sheet.read()
    expires_at = content["expires_at"]
    return Credential(
        id=sheet.id,
        version=sheet.version,
        name=content["name"],
        kind=content["kind"],
        scopes=tuple(content["scopes"]),
        principal=content["principal"],
        hash=content["hash"],
        given_by=content["given_by"],
        created_at=datetime.fromisoformat(content["created_at"]),
        expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
        is_revoked=content["is_revoked"],
    )
