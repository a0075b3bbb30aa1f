"""The page at which people sign in: plain HTML, a script and a style sheet of ours, nothing from elsewhere."""

from __future__ import annotations

from importlib import resources as files
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from indelible.server.requests.routing import PROBLEMS_TOLD, answer, resources
from indelible.server.signin.oidc import Provider

signin = APIRouter(include_in_schema=False)
ways = resources("people")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_KINDS = {"signin.html": "text/html", "signin.js": "text/javascript", "signin.css": "text/css"}
_TOLD: dict[int | str, dict[str, Any]] = {429: PROBLEMS_TOLD[429]}


class WaysIn(BaseModel):
    """Says how people sign in here: by passkeys always, and by a provider where there is one."""

    passkey: bool = True
    provider: str | None


def _file(name: str) -> Response:
    raw = files.files("indelible.server").joinpath("pages", name).read_bytes()
    return Response(raw, headers={"Content-Security-Policy": _POLICY}, media_type=f"{_KINDS[name]}; charset=utf-8")


@signin.get("/signin")
async def page() -> Response:
    """Shows the page."""
    return _file("signin.html")


@signin.get("/signin.js")
async def script() -> Response:
    """Gives the page's script."""
    return _file("signin.js")


@signin.get("/signin.css")
async def style() -> Response:
    """Gives the page's style."""
    return _file("signin.css")


@ways.get("/v1/sign-in", response_model=WaysIn, responses=_TOLD)
async def list_ways(request: Request) -> Response:
    """Tell how people sign in here."""
    provider: Provider | None = getattr(request.app.state, "provider", None)
    return answer({"passkey": True, "provider": None if provider is None else provider.name})
