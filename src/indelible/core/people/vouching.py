"""Who may come in on the word of a provider (OpenID Connect), and what they may. Without a rule, nobody. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from indelible.core.people.person import SCOPES_OF_PEOPLE, Voucher, scopes_among
from indelible.core.scopes import Scope
from indelible.errors import BadCall, NotPermitted

_TAG = b"indelible/oidc/v1\0"
_ANY_OF = "*@"


class Secrets(NamedTuple):
    """Is what one sign-in is bound to a browser by: all of it follows from what the browser keeps."""

    state: str
    nonce: str
    verifier: str

    @property
    def challenge(self) -> str:
        """Is what the provider is shown of the verifier (PKCE, S256)."""
        return _text(sha256(self.verifier.encode()).digest())


def secrets_of(kept: str) -> Secrets:
    """Gives the secrets of a sign-in from what the browser keeps of it."""
    return Secrets(*(_text(sha256(_TAG + word.encode() + b"\0" + kept.encode()).digest()) for word in Secrets._fields))


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Lets everybody in with a scope of whom the provider says this; an e-mail of `*@example.com` is any there."""

    claim: str
    value: str
    scope: Scope

    def covers(self, claims: Mapping[str, Any]) -> bool:
        """Does the provider say this? Of an e-mail it has to say that it is theirs, too."""
        said = claims.get(self.claim)
        if self.claim == "email":
            return isinstance(said, str) and claims.get("email_verified") is True and self._is_email(said.casefold())
        return self.value in said if isinstance(said, list) else said == self.value

    def _is_email(self, said: str) -> bool:
        wanted = self.value.casefold()
        if wanted.startswith(_ANY_OF):
            return said.count("@") == 1 and said.endswith(wanted[1:])
        return said == wanted


def read_allowed(text: str) -> Allowed:
    """Reads `claim=value:scope`."""
    said, _, scope = text.rpartition(":")
    claim, _, value = said.partition("=")
    if not claim or not value or scope not in SCOPES_OF_PEOPLE:
        raise BadCall(
            f"{text!r}: write claim=value:scope, as in email=ana@example.com:admin or groups=finance:approver; "
            f"scopes are {', '.join(SCOPES_OF_PEOPLE)}"
        )
    return Allowed(claim, value, scope)


def vouched_scopes(claims: Mapping[str, Any], allowed: Iterable[Allowed]) -> tuple[Scope, ...]:
    """Gives what somebody may of whom the provider says this; raises `NotPermitted` for who may nothing."""
    found = scopes_among(rule.scope for rule in allowed if rule.covers(claims))
    if not found:
        raise NotPermitted(f"{name_in(claims)} is known to the provider, and no rule here lets them in: --oidc-allow")
    return found


def voucher_in(claims: Mapping[str, Any]) -> Voucher:
    """Gives who vouches, and for whom, by words that mean the same person for ever."""
    return Voucher(str(claims["iss"]), str(claims["sub"]))


def name_in(claims: Mapping[str, Any]) -> str:
    """Gives the name somebody acts under: their e-mail if it is sure to be theirs, else the provider's own word."""
    email = claims.get("email")
    if isinstance(email, str) and email and claims.get("email_verified") is True:
        return email
    return str(claims["sub"])
