"""Who asks, and which ledger answers: what every endpoint begins with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPBearer

from indelible.aio import AsyncLedger
from indelible.core.effects.effect import Actor
from indelible.core.remote.admitting import Caller, check_scopes
from indelible.core.rights import VerbName
from indelible.server.ledgers import Ledgers
from indelible.server.signin.sessions import COOKIE, UNATTENDED, SignedIn

Authenticate = Callable[[Request], Awaitable[Caller]]
"""Says who sent a request, by its credential; raises `NotAuthenticated`."""

# For the description alone: whoever asks is found out by `Authenticate`, which can tell more than that one is missing.
_DESCRIBED = Depends(HTTPBearer(auto_error=False, description="A token of `indelible apikeys create`."))
_DESCRIBED_TOO = Depends(
    APIKeyCookie(
        name=COOKIE,
        scheme_name="Session",
        auto_error=False,
        description="The session of a person who signed in at `/signin`. What changes something also needs the header "
        "`X-CSRF-Token` with what `GET /v1/me` gives, and a page of this server to come from.",
    )
)
NOBODY_SAID = Actor("http", "agent", "api_key")
"""Acts where the other side is part of us and does not say who acts."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Is one request's caller, with the ledger of their tenant."""

    caller: Caller
    ledger: AsyncLedger
    ledgers: Ledgers
    request: Request
    signed_in: SignedIn | None = None
    """Is the session by which a person asks; None for those who have a token."""

    @property
    def actor(self) -> Actor:
        """Is who acts; never what a body says."""
        return self.caller.actor or NOBODY_SAID

    async def check_still_let_in(self) -> None:
        """Raises `NotAuthenticated` when the caller was revoked since they asked: for whoever waited, or still does."""
        self.request.scope[UNATTENDED] = True
        await self.request.app.state.authenticate(self.request)


def asking(verb: VerbName) -> Any:
    """Let only callers in whose scopes have this right; see the table in `core.rights`."""

    async def found(request: Request, _described: Any = _DESCRIBED, _too: Any = _DESCRIBED_TOO) -> Asking:
        authenticate: Authenticate = request.app.state.authenticate
        ledgers: Ledgers = request.app.state.ledgers
        caller = await authenticate(request)
        check_scopes(caller, verb)
        signed_in: SignedIn | None = getattr(request.state, "signed_in", None)
        return Asking(caller, ledgers.of(caller.tenant), ledgers, request, signed_in)

    found.verb = verb  # type: ignore[attr-defined]  # for the description
    return Depends(found)
