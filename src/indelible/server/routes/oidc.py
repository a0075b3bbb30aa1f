"""Signing in by a provider: off to it, and back with its word."""

from __future__ import annotations

import secrets as random
from datetime import UTC, datetime
from hmac import compare_digest
from html import escape

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from indelible.core.people.standing import person_id
from indelible.core.people.vouching import Vouched, name_in, secrets_of, voucher_in
from indelible.engine.running import in_own_thread
from indelible.errors import IndelibleError, NotAuthenticated, NotPermitted
from indelible.server.routes.sessions import count_as_stranger, refusals
from indelible.server.signin.oidc import Provider
from indelible.server.signin.origins import is_private, own_origin
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers
from indelible.server.signin.sessions import cookie_name, set_cookie

oidc = APIRouter(include_in_schema=False)
_LASTS = 600
_POLICY = {"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{head}<title>{title} · Indelible</title></head>
<body><main><h1>{title}</h1><p>{text}</p><p><a href="../../signin">Go on</a></p></main></body></html>
"""


def _provider(request: Request) -> Provider:
    provider: Provider | None = getattr(request.app.state, "provider", None)
    if provider is None:
        raise HTTPException(404, "nobody signs in by a provider here")
    return provider


def _callback(request: Request) -> str:
    return f"{own_origin(request)}{request.scope.get('root_path', '')}/signin/oidc/callback"


def _cookie(request: Request) -> str:
    return f"{cookie_name(request)}-oidc"


@oidc.get("/signin/oidc")
async def leave(request: Request) -> Response:
    """Sends a browser to the provider, and lets it keep what it is known by when it comes back."""
    count_as_stranger(request)
    kept = random.token_urlsafe(32)
    address = await _provider(request).address(secrets_of(kept), _callback(request))
    response = RedirectResponse(address, 303)
    # Lax, for it comes back from another site; it is good for nothing but for coming back.
    response.set_cookie(
        _cookie(request), kept, max_age=_LASTS, path="/", secure=is_private(request), httponly=True, samesite="lax"
    )
    return response


@oidc.get("/signin/oidc/callback")
async def come_back(request: Request) -> Response:
    """Signs in whoever the provider vouches for and a rule lets in."""
    count_as_stranger(request)
    try:
        response = await _entered(request)
    except IndelibleError as problem:
        status = 403 if isinstance(problem, NotPermitted) else 401 if isinstance(problem, NotAuthenticated) else 503
        page = _PAGE.format(head="", title="Not signed in", text=escape(str(problem)))
        response = HTMLResponse(page, status, _POLICY)
    response.delete_cookie(_cookie(request), path="/", secure=is_private(request), httponly=True, samesite="lax")
    return response


async def _entered(request: Request) -> Response:
    provider, query = _provider(request), request.query_params
    secrets = secrets_of(request.cookies.get(_cookie(request)) or random.token_urlsafe(32))
    if not compare_digest(query.get("state", "").encode(), secrets.state.encode()):
        raise NotAuthenticated("this sign-in was not begun in this browser, or too long ago; begin again")
    if "code" not in query or query.get("iss", provider.issuer) != provider.issuer:
        raise NotAuthenticated("the provider vouches for nobody; begin again")
    claims = await provider.claims(query["code"], secrets, _callback(request))
    name, voucher = name_in(claims), voucher_in(claims)
    store = request.app.state.ledgers.store
    people = People(store, provider.tenant)
    rules = await in_own_thread(Providers(store, provider.tenant).rules)
    if rules is None or rules.issuer != provider.issuer:
        raise NotPermitted(
            f"{provider.name} lets nobody in here any more: another server of this ledger was started with other "
            "--oidc options. Start all of them with the same"
        )
    vouched = Vouched(by=voucher, said=rules.asked_for(claims), at=datetime.now(UTC))
    try:
        _, ticket = await in_own_thread(people.vouch, name, vouched, rules)
    except (NotPermitted, NotAuthenticated):
        found = await in_own_thread(people.find, person_id(name))
        why = "subject" if found is not None and found.is_somebody_else(voucher) else "oidc"
        await refusals(request).tell(store, provider.tenant, person_id(name), why)
        raise
    # Not a redirect: a browser that another site sent here would not show a strict cookie at its end.
    head = '<meta http-equiv="refresh" content="0;url=../../signin">'
    response = HTMLResponse(_PAGE.format(head=head, title="Signed in", text="You are signed in."), 200, _POLICY)
    set_cookie(request, response, ticket)
    return response
