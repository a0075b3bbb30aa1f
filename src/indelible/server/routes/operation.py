"""What whoever runs the server asks: is it alive, can it work, which version is it, and who am I."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from indelible import __version__
from indelible.core.remote.questions import PROTOCOL
from indelible.core.scopes import Scope
from indelible.engine.running import in_own_thread
from indelible.server.readiness import Ready, readiness
from indelible.server.requests.asking import _DESCRIBED, Asking, asking
from indelible.server.requests.metrics import ledger_figures, worker_figures
from indelible.server.requests.routing import DescribedRoute

operation = APIRouter(route_class=DescribedRoute, tags=["operation"])


class Alive(BaseModel):
    """Says that the process answers."""

    status: str = "alive"


class Version(BaseModel):
    """Says which software this is."""

    version: str = __version__
    protocol: int = PROTOCOL


class Demo(BaseModel):
    """Says what to try in a demo: a call that was made before, and a command that changes the record."""

    repeat: dict[str, Any]
    tamper: str


class Me(BaseModel):
    """Is what the server knows of the caller."""

    tenant: str
    name: str
    kind: str
    via: str
    scopes: list[Scope]
    principal: str | None
    csrf_token: str | None = None
    """What a page sends along as `X-CSRF-Token`, in a session."""
    demo: Demo | None = None
    """What there is to try, where the ledger is made up (`serve --demo`)."""


@operation.get("/livez")
async def livez() -> Alive:
    """Answers as long as the process does."""
    return Alive()


@operation.get(
    "/readyz",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "The store does not answer, or the server is about to stop."}},
)
async def readyz(request: Request) -> Any:
    """Answers with 200 when the store does; else with 503, so that a balancer sends requests elsewhere."""
    found = await readiness(request.app.state.ledgers)
    return JSONResponse(found.model_dump(), 200 if found.status == "ready" else 503)


_AUDITOR = asking("audit").dependency


async def _may_measure(request: Request, _described: Any = _DESCRIBED) -> Asking | None:
    """Lets auditors in, and whoever reaches the server where it was told to be open."""
    if getattr(request.app.state, "is_metrics_open", False):
        return None
    found: Asking = await _AUDITOR(request)
    return found


_may_measure.verb = _AUDITOR.verb  # type: ignore[attr-defined]  # for the description


@operation.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus' text."}},
)
async def metrics(request: Request, asked: Asking | None = Depends(_may_measure)) -> Response:
    """Gives what this process counted, and what waits in the ledger of the token's tenant, for Prometheus."""
    ledgers = request.app.state.ledgers

    def look() -> bytes:
        tenants = ledgers.store.journal.tenants() if asked is None else [asked.caller.tenant]
        state = None if ledgers.worker is None else ledgers.worker.state
        text: bytes = ledgers.metrics.text(ledger_figures(ledgers.store, tenants), worker_figures(state))
        return text

    return Response(await in_own_thread(look), media_type="text/plain; version=0.0.4; charset=utf-8")


@operation.get("/version")
async def version() -> Version:
    """Says which software answers here."""
    return Version()


@operation.get("/v1/me")
async def me(request: Request, asked: Asking = asking("read")) -> Me:
    """Says whom the server takes the caller for."""
    actor, caller = asked.actor, asked.caller
    return Me(
        tenant=caller.tenant,
        name=actor.id,
        kind=actor.kind,
        via=actor.via,
        scopes=sorted(caller.scopes),
        principal=caller.principal,
        csrf_token=None if asked.signed_in is None else asked.signed_in.csrf_token,
        demo=getattr(request.app.state, "demo", None),
    )
