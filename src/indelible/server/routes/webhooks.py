"""Providers' signed webhooks: they settle effects in doubt, and let in nobody else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import HTTPException, Path, Request, Response
from pydantic import BaseModel

from indelible.errors import StillRunning
from indelible.server.ledgers import Ledgers
from indelible.server.requests.routing import PROBLEMS_TOLD, answer, resources
from indelible.webhooks import Received

MOST_BYTES = 256 * 1024
"""Is the largest message that is read of a sender who is not known yet."""

webhooks = resources("webhooks")
Name = Annotated[str, Path(description="The provider, as the server's file names it.")]


class ReceivedShown(BaseModel):
    """Is what came of a message; nothing but `settled` changed anything."""

    result: Literal["settled", "already_settled", "conflict", "ignored", "no_effect", "unknown_effect", "replayed"]
    message_id: str
    effect_id: str | None


_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: PROBLEMS_TOLD[status] for status in (400, 401, 404, 409, 413, 429, 503)
}


@webhooks.post("/v1/webhooks/{name}", response_model=ReceivedShown, responses=_REFUSALS)
async def receive_webhook(name: Name, request: Request) -> Response:
    """Take a provider's message, which its signature vouches for; 409 while the effect runs: send it again later."""
    ledgers: Ledgers = request.app.state.ledgers
    taken = ledgers.webhooks.get(name)
    if taken is None:
        raise HTTPException(404, "no webhook of this name is taken here")
    ledger = ledgers.of(taken.tenant)
    received = await taken.webhook.receive_async(ledger, request.headers, await _body_of(request))
    if received.is_to_come_again:
        raise StillRunning(f"{received.effect_id} may be running; send this message again later")
    return answer(_shown(received))


async def _body_of(request: Request) -> bytes:
    """Read the raw body, no more of it than is allowed."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"body: at most {MOST_BYTES} bytes are allowed")
    return body


def _shown(received: Received) -> dict[str, str | None]:
    return {"result": received.result, "message_id": received.message_id, "effect_id": received.effect_id}
