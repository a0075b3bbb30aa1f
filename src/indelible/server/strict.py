"""What all resources are read and refused with: strict JSON, names that can be, and problems in one form."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from indelible.core.calls import check_name, check_run_id
from indelible.core.canonical import parse_strict
from indelible.errors import BadCall

LARGEST_NUMBER = 2**53 - 1
"""Is the largest whole number that every reader of JSON reads as it was written."""


class StrictRoute(APIRoute):
    """Reads bodies so that no two readers could understand them differently: no repeated names, no NaN."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Gives what answers a request."""
        answer = super().get_route_handler()
        has_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            strict = _StrictRequest(request.scope, request.receive)
            if has_body and await strict.body():
                try:
                    await strict.json()  # here, and not where the framework would call every refusal by one name
                except BadCall:
                    await request.app.state.authenticate(request)  # to strangers, nothing else is said
                    raise
            return await answer(strict)

        return strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            self._strict = parse_strict(await self.body())
        return self._strict


class Body(BaseModel):
    """Is what a client sends; a word that is not known is refused, for it may have meant something."""

    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """Says what is wrong, as RFC 9457 wants it; `code` is one word for programs."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str | None = None


_MEANINGS = {
    400: "The request is wrong.",
    401: "No credential that is known here.",
    403: "The credential is not for this.",
    404: "Nothing of this tenant has this name.",
    409: "How things stand does not allow this; `code` says why.",
    413: "More than is allowed at once.",
    422: "A member of the request is wrong, or has no recorded form.",
    429: "Too many requests.",
    503: "The store does not answer; ask again.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "content": {"application/problem+json": {"schema": Problem.model_json_schema()}}}
    for status, meaning in _MEANINGS.items()
}
"""Are the refusals that every resource may answer with, for its description."""


def _name(value: str) -> str:
    check_name("name", value)
    return value


def _run_name(value: str) -> str:
    check_run_id(value)
    if "/" in value or value in (".", ".."):
        raise BadCall("a run with this name cannot be found by an address; choose one without a slash")
    return value


CheckedName = Annotated[str, AfterValidator(_name)]
"""Is a name that can stand in an event, and in every store."""
RunName = Annotated[str, AfterValidator(_run_name)]
Seq = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
DriverToken = Annotated[str, AfterValidator(_name), Field(min_length=16, max_length=200)]
"""Is a secret: whoever has the newest one drives the run."""
