"""The reference that the server itself shows: every operation at `/docs`, every type of problem at `/problems/…`.

The pages are made here from the description; a browser fetches nothing from anywhere else, and runs one small script
of ours that searches the page.
"""

from __future__ import annotations

from functools import cache
from importlib import resources as files
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, HTTPException, Path, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from indelible.core.remote.problem_types import PROBLEM_TYPES, PROBLEMS
from indelible.server.describing.reference_page import problem_page, reference_page
from indelible.server.requests.routing import PROBLEMS_TOLD, answer

reference = APIRouter(tags=["reference"])
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {"Content-Security-Policy": PAGE_POLICY}
_KINDS = {"reference.css": "text/css; charset=utf-8", "reference.js": "text/javascript; charset=utf-8"}
_HTML: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: PROBLEMS_TOLD[404]}


class ProblemExplained(BaseModel):
    """Says what a type of problem means, and what to do next."""

    type: str
    title: str
    statuses: list[int]
    means: str
    next_step: str


def add_reference(app: FastAPI) -> None:
    """Adds the pages."""
    app.include_router(reference)


@reference.get("/docs", response_class=HTMLResponse)
async def show_reference(request: Request) -> Response:
    """Show the reference of all operations, for people."""
    return HTMLResponse(_page_of(request.app), headers=_HEADERS)


def _page_of(app: FastAPI) -> str:
    """Makes the page once: it takes a moment, and the description does not change."""
    page: str | None = getattr(app.state, "reference_page", None)
    if page is None:
        page = app.state.reference_page = reference_page(app.openapi())
    return page


@reference.get(
    "/docs/{file}",
    response_class=Response,
    responses={200: {"content": {"text/css": {}, "text/javascript": {}}}, **_NOT_FOUND},
)
async def show_file(file: Annotated[str, Path(description="reference.css or reference.js.")]) -> Response:
    """Give what the pages are shown with."""
    kind = _KINDS.get(file)  # a name among these, never a path
    if kind is None:
        raise HTTPException(404, "the reference has no such file")
    return Response(_content_of(file), media_type=kind)


@cache
def _content_of(file: str) -> bytes:
    return files.files("indelible.server").joinpath("pages", file).read_bytes()


@reference.get(
    "/problems/{name}",
    response_model=ProblemExplained,
    responses={200: {"content": _HTML}, **_NOT_FOUND},
)
async def explain_problem(
    request: Request, name: Annotated[str, Path(description="The last part of a problem's `type`.")]
) -> Response:
    """Say what a type of problem means and what to do next; as a page to `Accept: text/html`."""
    told = PROBLEM_TYPES.get(name)
    if told is None:
        raise HTTPException(404, "there is no such type of problem")
    if "text/html" in request.headers.get("accept", ""):
        return HTMLResponse(problem_page(name, told), headers=_HEADERS)
    shown = {"type": PROBLEMS + name, "title": told.title, "statuses": list(told.statuses)}
    return answer({**shown, "means": told.means, "next_step": told.next_step})
