"""The server as an ASGI application: who asks is found out first, then one small function answers."""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from indelible import __version__
from indelible.core.ports import Store
from indelible.core.remote.carried import CARRIED, carried_by
from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS, type_of_status
from indelible.core.remote.problems import problem_of
from indelible.errors import IndelibleError, Overloaded, StoreError
from indelible.server.dashboard import dashboard
from indelible.server.describing.description import describe, operation_id
from indelible.server.describing.reference import add_reference
from indelible.server.ledgers import Ledgers
from indelible.server.peers.provedex import provedex
from indelible.server.peers.zehrava import zehrava
from indelible.server.peers.zehrava_intents import intents
from indelible.server.requests.asking import Authenticate
from indelible.server.requests.observing import route_of
from indelible.server.requests.repeating import Repeating
from indelible.server.requests.routing import PROBLEM_JSON
from indelible.server.resources import add_resources
from indelible.server.routes.operation import operation
from indelible.server.routes.runs import runs
from indelible.server.routes.store import add_store_routes

_log = logging.getLogger("indelible.server")
_METHODS = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
# The framework's own would tell paths, queries and messages of errors; `observing` tells names alone.
_NO_OTHER_SPANS: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
_SUMMARY = "Every tool call at most once, with permission, on a record nobody can quietly change."


def create_app(ledgers: Ledgers, authenticate: Authenticate) -> FastAPI:
    """Makes the application that answers for these ledgers."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        for close in app.state.closing:
            await close()
        await ledgers.close()

    app = FastAPI(
        title="Indelible",
        summary=_SUMMARY,
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,  # an address that is not there is not there
        telemetry=_NO_OTHER_SPANS,
    )
    app.state.ledgers = ledgers
    app.state.authenticate = authenticate
    app.state.closing = []  # what has to be finished before the ledgers are closed
    app.add_middleware(Repeating, ledgers=ledgers, authenticate=authenticate)
    app.add_exception_handler(IndelibleError, _told)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _not_served)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _our_fault)
    add_store_routes(app)
    add_resources(app)
    app.include_router(operation)
    app.include_router(runs)
    app.include_router(zehrava)
    app.include_router(intents)
    app.include_router(provedex)
    app.include_router(dashboard)
    add_reference(app)
    describe(app)
    return app


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, IndelibleError)
    problem = problem_of(error)
    store: Store = request.app.state.ledgers.store
    # Where the database is, and what is wrong with it, is for who runs the server.
    if isinstance(error, StoreError) and problem["status"] >= 500:
        _log.warning("%s %s: %s", request.method, route_of(request.scope), error)
        problem["detail"] = f"{problem['title']}; the server's log says more"
    problem["detail"] = problem["detail"].replace(store.address, "the store")
    if request.url.path.startswith("/v1/store/"):  # our own client raises it as what it is
        problem[CARRIED] = carried_by(error)
    headers = {"WWW-Authenticate": "Bearer"} if problem["status"] == 401 else {}
    if isinstance(error, Overloaded):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    return JSONResponse(problem, problem["status"], headers, media_type=PROBLEM_JSON)


async def _gone(request: Request, error: Exception) -> Response:
    """Answers nobody: whoever asked hung up in the middle of it, and that is no fault of ours."""
    return Response(status_code=400)


async def _not_valid(request: Request, error: Exception) -> Response:
    """Names each member that is wrong, and not what was in it: that may be a secret."""
    assert isinstance(error, RequestValidationError)
    wrong = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
    problem = {
        "type": f"{PROBLEMS}bad-call",
        "title": "The request is wrong",
        "status": 422,
        "detail": "; ".join(wrong),
        "problems": wrong,
    }
    return JSONResponse(problem, 422, media_type=PROBLEM_JSON)


async def _not_served(request: Request, error: Exception) -> Response:
    """Tells what the framework refuses, such as an address that is not there, in the same form."""
    assert isinstance(error, HTTPException)
    status, headers = error.status_code, dict(error.headers or {})
    if status == 405:
        headers["Allow"] = ", ".join(_methods_at(request))
    name = type_of_status(status)
    problem = {
        "type": PROBLEMS + name,
        "title": PROBLEM_TYPES[name].title,
        "status": status,
        "detail": f"{request.method} {request.url.path}: {error.detail}; see /docs",
    }
    return JSONResponse(problem, status, headers, media_type=PROBLEM_JSON)


async def _our_fault(request: Request, error: Exception) -> Response:
    """Tells that something went wrong here, in the same form, and not what; the error is raised on, into the log."""
    problem = problem_of(IndelibleError("the server tripped over this request; its log says why"))
    return JSONResponse(problem, 500, media_type=PROBLEM_JSON)


def _methods_at(request: Request) -> list[str]:
    """Names all methods that an address knows: a route knows its own only."""
    app: FastAPI = request.app
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in app.routes)
    ]
