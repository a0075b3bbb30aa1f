"""The brake: an administrator stops all effects of the tenant, and lets them go again."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from indelible.core.effects.stops import Stop
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import resources
from indelible.server.requests.strict import Body

stops: APIRouter = resources("stop")
Reason = Annotated[str, Field(min_length=1, max_length=2000, examples=["refunds go to the wrong accounts"])]


class StopAsked(Body):
    """Says why all effects are to be stopped."""

    reason: Reason


class StopEnded(Body):
    """Says why they may go on."""

    reason: Annotated[str, Field(max_length=2000, examples=["the account numbers are mended"])] = ""


class StopShown(BaseModel):
    """Says whether all effects of the tenant are stopped, and who said so last."""

    is_stopped: bool
    by: str | None = None
    at: datetime | None = None
    reason: str | None = None


def _shown(stop: Stop | None) -> StopShown:
    if stop is None:
        return StopShown(is_stopped=False)
    return StopShown(is_stopped=stop.is_in_force, by=stop.by, at=stop.at, reason=stop.reason)


@stops.get("/v1/stop")
async def show_stop(asked: Asking = asking("read")) -> StopShown:
    """Show whether all effects are stopped."""
    return _shown(await asked.ledger.stopped())


@stops.post("/v1/stop")
async def stop_effects(body: StopAsked, asked: Asking = asking("administer")) -> StopShown:
    """Stop all effects of the tenant at once: no handler is entered by anybody; those inside may finish."""
    return _shown(await asked.ledger.stop(by=asked.actor, reason=body.reason))


@stops.post("/v1/stop/end")
async def let_go(body: StopEnded, asked: Asking = asking("administer")) -> StopShown:
    """Let effects go that were stopped."""
    return _shown(await asked.ledger.go(by=asked.actor, reason=body.reason))
