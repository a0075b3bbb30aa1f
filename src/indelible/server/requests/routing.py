"""How requests reach the resources: the description says who may ask what, and the hot ones take a short way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope

from indelible.core.rights import RIGHTS, VerbName
from indelible.core.scopes import SCOPES
from indelible.server.requests.bodies import read_strictly
from indelible.server.requests.strict import StrictRoute, check_is_json, who_asks

SCOPES_TOLD = "x-scopes"
"""Is the member of an operation's description that names the scopes of which one is needed."""
RIGHT_TOLD = "x-right"
"""Is the member that says which right is needed, how far it reaches in each scope, and from which states it moves."""

PROBLEM_JSON = "application/problem+json"
MEANINGS = {
    400: "The request is wrong.",
    401: "No credential that is known here.",
    403: "The credential is not for this, or a rule refuses it.",
    404: "Nothing of this tenant has this name.",
    409: "How things stand does not allow this.",
    410: "It was recorded and then erased.",
    412: "It is no longer what `If-Match` names.",
    413: "More than is allowed at once.",
    415: "The body is not JSON.",
    422: "A member of the request is wrong, or has no recorded form.",
    429: "Too much at once; `Retry-After` says when to ask again, where that is known.",
    503: "The store, the journal or a tool does not answer; ask again.",
}
"""Says of each status of a refusal what it means wherever it comes."""
PROBLEMS_TOLD: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "content": {PROBLEM_JSON: {}}} for status, meaning in MEANINGS.items()
}
"""Describes refusals, for an endpoint with others than the description adds to all that want a credential."""


class DescribedRoute(StrictRoute):
    """Tells in the description which scopes let somebody ask."""

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        verb: VerbName | None = getattr(who_asks(self), "verb", None)
        if verb is not None:
            self.openapi_extra = {**right_told(verb), **(self.openapi_extra or {})}


class ThinRoute(DescribedRoute):
    """Answers an endpoint that takes `asked`, `body` and parts of the path, at a fraction of the usual cost.

    It is described like any other. What the framework does besides, such as looking for files and background tasks, is
    left out: these are on the way of every tool call. Errors are told by the application's own handlers.
    """

    def __init__(self, *words: Any, **named: Any) -> None:
        super().__init__(*words, **named)
        self.app = self._thin_app()

    def _thin_app(self) -> ASGIApp:
        found = who_asks(self)
        assert found is not None
        assert self.body_field is not None
        kind: type[BaseModel] = self.body_field.field_info.annotation  # type: ignore[assignment]
        endpoint = self.endpoint

        async def thinly(scope: ASGIScope, receive: Receive, send: Send) -> None:
            request = Request(scope, receive)
            await found(request)
            check_is_json(request)
            raw = await request.body()
            asked = await found(request)  # again: a body can take its time
            body = _read(kind, raw)
            answered: Response = await endpoint(asked=asked, body=body, **scope["path_params"])
            await answered(scope, receive, send)

        return thinly


def _read(kind: type[BaseModel], raw: bytes) -> BaseModel:
    content = read_strictly(raw)
    try:
        return kind.model_validate(content)
    except ValidationError as wrong:
        told = wrong.errors(include_context=False, include_input=False, include_url=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in told]) from None


def right_told(verb: VerbName) -> dict[str, Any]:
    """Return what the description says of a right, from the table in `core.rights`."""
    right = RIGHTS[verb]
    reaches = {scope: right.reach(scope) for scope in SCOPES if scope in right.scopes}
    return {
        SCOPES_TOLD: sorted(right.scopes),
        RIGHT_TOLD: {"verb": verb, "reach": reaches, "states": list(right.states)},
    }


def resources(tag: str) -> APIRouter:
    """Gives a router for resources of one kind."""
    return APIRouter(route_class=DescribedRoute, tags=[tag])


def answer(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Gives an answer in JSON, as it is."""
    return Response(_ENCODER.encode(content).encode(), status, headers, "application/json")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
