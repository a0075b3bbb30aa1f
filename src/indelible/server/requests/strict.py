"""What all resources are read and refused with: strict JSON, names that can be, and problems in one form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from indelible.core.effects.calls import check_name, check_run_id
from indelible.errors import BadCall
from indelible.server.requests.bodies import MOST_FROM_STRANGERS, limited, read_strictly

LARGEST_NUMBER = 2**53 - 1
"""Is the largest whole number that every reader of JSON reads as it was written."""


class StrictRoute(APIRoute):
    """Reads bodies so that no two readers could understand them differently: no repeated names, no NaN."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Gives what answers a request: who asks is found out by its head alone, before anything of its body is read.

        To strangers, nothing else is said. Where anybody may ask, as to sign in, little is read. A body can take its
        time, so the framework finds out again who asks when it is there: who was revoked meanwhile does nothing by it.
        """
        answer = super().get_route_handler()
        has_body = self.body_field is not None
        found = who_asks(self)

        async def strictly(request: Request) -> Response:
            receive = request.receive
            if has_body and found is not None:
                await found(request)
            elif has_body:
                receive = limited(receive, MOST_FROM_STRANGERS)
            strict = _StrictRequest(request.scope, receive)
            if has_body and await strict.body():
                check_is_json(request)
                await strict.json()  # here, and not where the framework would call every refusal by one name
            return await answer(strict)

        return strictly


def who_asks(route: APIRoute) -> Callable[[Request], Awaitable[Any]] | None:
    """Gives what finds out who asks and whether they may; None where anybody may."""
    calls = (each.call for each in route.dependant.dependencies)
    return next((call for call in calls if hasattr(call, "verb")), None)


def check_is_json(request: Request) -> None:
    """Refuses a body that is not said to be JSON: a page of another site can send any other without being asked."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != "application/json" and not (said.startswith("application/") and said.endswith("+json")):
        raise HTTPException(415, "a body is read as JSON only: send Content-Type: application/json")


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            self._strict = read_strictly(await self.body())
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
