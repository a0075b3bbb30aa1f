"""What the Python client asks: the questions of `core.remote`, each a POST. Other languages use the resources."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from indelible.core.remote import PROTOCOL
from indelible.core.wire import to_wire
from indelible.server.answering import Answering, read_words
from indelible.server.asking import Authenticate
from indelible.server.bodies import read_json
from indelible.server.ledgers import Ledgers


def add_store_routes(app: FastAPI) -> None:
    """Adds them as plain routes: what is read and written here has a reader of its own, and is on the hot path."""
    app.add_route("/v1/store/{name}", _answered, methods=["POST"])


async def _answered(request: Request) -> Response:
    authenticate: Authenticate = request.app.state.authenticate
    ledgers: Ledgers = request.app.state.ledgers
    caller = await authenticate(request)
    name = request.path_params["name"]
    body = await read_json(request)
    if name == "introduce":
        return JSONResponse({"ledger": ledgers.store.ledger_name, "protocol": PROTOCOL, "tenant": caller.tenant})
    words = read_words(name, body)
    answering = Answering(ledgers.of(caller.tenant), caller, ledgers.claims, ledgers.gateway)
    answer = await answering.answer(name, words)
    return JSONResponse({"answer": to_wire(answer)})
