"""What whoever runs the server asks: is it alive, can it work, which version is it, and who am I."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from indelible import __version__
from indelible.core.remote import PROTOCOL, Scope
from indelible.errors import StoreError
from indelible.running import in_own_thread
from indelible.server.asking import Asking, asking
from indelible.server.routing import DescribedRoute

operation = APIRouter(route_class=DescribedRoute, tags=["operation"])


class Alive(BaseModel):
    """Says that the process answers."""

    status: str = "alive"


class Ready(BaseModel):
    """Says whether the store answers."""

    status: str
    detail: str | None = None


class Version(BaseModel):
    """Says which software this is."""

    version: str = __version__
    protocol: int = PROTOCOL


class Me(BaseModel):
    """Is what the server knows of the caller."""

    tenant: str
    name: str
    kind: str
    via: str
    scopes: list[Scope]
    principal: str | None


@operation.get("/livez")
async def livez() -> Alive:
    """Answers as long as the process does."""
    return Alive()


@operation.get("/readyz", responses={503: {"model": Ready, "description": "The store does not answer."}})
async def readyz(request: Request) -> Any:
    """Answers with 200 when the store does; else with 503, so that a balancer sends requests elsewhere."""
    try:
        await in_own_thread(request.app.state.ledgers.store.look, [])
    except StoreError as problem:
        return JSONResponse(Ready(status="not ready", detail=str(problem)).model_dump(), 503)
    return Ready(status="ready")


@operation.get("/version")
async def version() -> Version:
    """Says which software answers here."""
    return Version()


@operation.get("/v1/me")
async def me(asked: Asking = asking("agent", "approver", "auditor")) -> Me:
    """Says whom the server takes the caller for."""
    actor, caller = asked.actor, asked.caller
    return Me(
        tenant=caller.tenant,
        name=actor.id,
        kind=actor.kind,
        via=actor.via,
        scopes=sorted(caller.scopes),
        principal=caller.principal,
    )
