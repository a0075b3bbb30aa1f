"""What the Python client asks: the questions of `core.remote`, each a POST. Other languages use the resources."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from indelible.core.remote.problem_types import PROBLEMS
from indelible.core.remote.questions import LEDGER_HEADER, PROTOCOL, PROTOCOL_HEADER
from indelible.core.remote.wire import to_wire
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall
from indelible.server.answering import Answering, read_words
from indelible.server.ledgers import Ledgers
from indelible.server.requests.asking import Authenticate
from indelible.server.requests.bodies import read_json
from indelible.server.requests.strict import check_is_json


def add_store_routes(app: FastAPI) -> None:
    """Adds them as plain routes: what is read and written here has a reader of its own, and is on the hot path."""
    app.add_route("/v1/store/{name}", _answered, methods=["POST"])


async def _answered(request: Request) -> Response:
    authenticate: Authenticate = request.app.state.authenticate
    ledgers: Ledgers = request.app.state.ledgers
    await authenticate(request)
    name = request.path_params["name"]
    if (elsewhere := _why_elsewhere(request, name, ledgers.store.ledger_name)) is not None:
        return JSONResponse(elsewhere, 421, media_type="application/problem+json")
    check_is_json(request)
    body = await read_json(request)
    caller = await authenticate(request)  # again: a body can take its time
    if name == "introduce":
        if not isinstance(body, dict):
            raise BadCall("body: an object is expected here")
        told = {"ledger": ledgers.store.ledger_name, "protocol": PROTOCOL, "tenant": caller.tenant}
        origin = await in_own_thread(ledgers.store.origin, caller.tenant)
        return JSONResponse({**told, "origin": origin, "scopes": sorted(caller.scopes)})
    words = read_words(name, body)
    answering = Answering(ledgers.of(caller.tenant), caller, ledgers)
    answer = await answering.answer(name, words)
    return JSONResponse({"answer": to_wire(answer)})


def _why_elsewhere(request: Request, name: str, ledger: str) -> dict[str, Any] | None:
    """Says why a question is not for this server: it keeps another ledger, or speaks otherwise than the client."""
    meant, spoken = request.headers.get(LEDGER_HEADER, ledger), request.headers.get(PROTOCOL_HEADER, str(PROTOCOL))
    if meant != ledger:
        detail = "this server keeps another ledger than the one you began with; name only servers of one ledger"
    elif spoken != str(PROTOCOL) and name != "introduce":
        detail = f"this server speaks protocol {PROTOCOL}; bring the older side up to date, then connect again"
    else:
        return None
    return {"type": f"{PROBLEMS}misconfigured", "title": "Misdirected Request", "status": 421, "detail": detail}
