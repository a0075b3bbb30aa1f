"""Exports over HTTP: ordered, watched, fetched and removed, for auditors."""

from __future__ import annotations

from base64 import b64encode
from contextlib import suppress
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, HTTPException, Path, Response
from fastapi.responses import FileResponse
from pydantic import BaseModel, Field

from indelible.core.events import instant, instant_or_none
from indelible.core.filtering.reading import parse
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall, JournalError, UnknownExport
from indelible.journal.exports.erased_since import ErasedSince
from indelible.journal.exports.exporting import Exported, Form, check_form, export
from indelible.journal.exports.selecting import PAYLOAD_FIELDS, Between, Disclosure, During, OfRun, Selection, Whole
from indelible.server.export_jobs import Job, Ordered, State
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.shapes.effects import Moment, Name, Sent

exports: APIRouter = resources("exports")
BY_AUDITOR = asking("audit")
Id = Annotated[str, Path(description="An export's id, as in exp_0123.")]
Place = Annotated[int, Field(ge=0, le=2**53 - 1)]
_TYPES: dict[Form, str] = {
    "bundle": "application/zip",
    "html": "text/html",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file, as an attachment.", "content": {kind: {} for kind in _TYPES.values()}}
}


class ExportAsked(Sent):
    """Says what to export: everything, or a run, or a period, or places of the journal."""

    form: Form
    """`bundle` and `html` verify offline; `ndjson` of everything does; `csv` and `parquet` are tables."""
    run_id: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    first: Place | None = None
    last: Place | None = None
    q: Annotated[str, Field(max_length=2000)] = ""
    """A filter of events, in forms that prove nothing."""
    without_payloads: bool = False
    """Disclose no arguments, results or other values."""
    withhold: Annotated[list[str], Field(default_factory=list, max_length=len(PAYLOAD_FIELDS))]
    """Disclose all but these values, by the names of their fields."""


class ExportShown(BaseModel):
    """Is an export and how far it is; `total` is null while nobody knows. `why` says what went wrong."""

    id: str
    state: State
    form: Form
    by: str
    done: int
    total: int | None
    asked_at: str
    expires_at: str | None
    events: int | None
    payloads: int | None
    withheld: int | None
    not_covered: int | None
    size: int | None
    sha256: str | None
    why: str | None


class ExportPage(BaseModel):
    """Lists the exports of this server that have not been removed, newest first."""

    exports: list[ExportShown]
    next: Literal[None] = None


@exports.post("/v1/exports", status_code=202, response_model=ExportShown)
async def order_export(body: ExportAsked, asked: Asking = BY_AUDITOR) -> Response:
    """Have the journal, or a part of it, written to a file, beside everything else; look how far it is by its id."""
    query = parse(body.q, "events")
    check_form(body.form, query)
    ordered = Ordered(
        form=body.form,
        selection=_selection(body),
        disclosure=Disclosure(frozenset(body.withhold), body.without_payloads),
        query=query,
    )
    jobs = asked.ledgers.exports

    def make(job: Job, path: FilePath) -> Exported:
        return _make(asked, job, path)

    job = jobs.order(asked.caller.tenant, asked.actor.id, ordered, make)
    return answer(_shown(job), 202, {"Location": f"exports/{job.id}"})


def _make(asked: Asking, job: Job, path: FilePath) -> Exported:
    """Writes the file of a job, by the same function as the command line; what can be sealed is sealed first."""

    def progress(done: int, total: int | None) -> None:
        asked.ledgers.exports.keep_on(job)
        job.done, job.total = done, total

    ledger, ordered = asked.ledger, job.ordered
    with suppress(JournalError):  # without a key that it can use, what was signed before is exported
        ledger.blocking.seal()
    store = ledger._engine.recorded
    since = ErasedSince(store, job.tenant, store.journal.tree(job.tenant).size)
    known = since.look()
    job.erased_since = lambda: since.look() != known
    return export(
        store,
        job.tenant,
        path,
        form=ordered.form,
        selection=ordered.selection,
        disclosure=ordered.disclosure,
        query=ordered.query,
        progress=progress,
    )


def _selection(body: ExportAsked) -> Selection:
    ways = [
        body.run_id is not None,
        body.since is not None or body.until is not None,
        body.first is not None or body.last is not None,
    ]
    if sum(ways) > 1:
        raise BadCall("choose one: run_id, or since and until, or first and last")
    if body.run_id is not None:
        return OfRun(body.run_id)
    if ways[1]:
        return During(body.since, body.until)
    return Between(body.first or 0, body.last) if ways[2] else Whole()


@exports.get("/v1/exports", response_model=ExportPage)
async def list_exports(asked: Asking = BY_AUDITOR) -> Response:
    """List the exports of this server, newest first."""
    found = asked.ledgers.exports.of(asked.caller.tenant)
    return answer({"exports": [_shown(job) for job in found], "next": None})


@exports.get("/v1/exports/{export_id}", response_model=ExportShown)
async def show_export(export_id: Id, asked: Asking = BY_AUDITOR) -> Response:
    """Show how far an export is."""
    return answer(_shown(_find(asked, export_id)))


@exports.get("/v1/exports/{export_id}/download", response_class=FileResponse, responses=_FILE)
async def fetch_export(export_id: Id, asked: Asking = BY_AUDITOR) -> Response:
    """Fetch the file of an export that is done; `Repr-Digest` is its SHA-256."""
    job = _find(asked, export_id)
    if await in_own_thread(job.erased_since):
        asked.ledgers.exports.drop(job.tenant)
        job = _find(asked, export_id)
    if job.state != "done" or job.sha256 is None:
        why = job.why or f"{job.done} of {'?' if job.total is None else job.total} events so far"
        raise HTTPException(409, f"{job.id} is {job.state}: {why}; look at GET /v1/exports/{job.id}")
    digest = b64encode(bytes.fromhex(job.sha256)).decode()
    headers = {"X-Content-Type-Options": "nosniff", "Repr-Digest": f"sha-256=:{digest}:", "ETag": f'"{job.sha256}"'}
    path = asked.ledgers.exports.path_of(job)
    return FileResponse(path, headers=headers, media_type=_TYPES[job.ordered.form], filename=job.file_name)


@exports.delete("/v1/exports/{export_id}", status_code=204, response_class=Response)
async def remove_export(export_id: Id, asked: Asking = BY_AUDITOR) -> Response:
    """Remove an export, under way or done."""
    asked.ledgers.exports.remove(_find(asked, export_id))
    return Response(status_code=204)


def _find(asked: Asking, export_id: str) -> Job:
    job = asked.ledgers.exports.find(asked.caller.tenant, export_id)
    if job is None:
        raise UnknownExport(f"this server has no export {export_id[:100]} of this tenant; see: GET /v1/exports")
    return job


def _shown(job: Job) -> dict[str, Any]:
    made = job.exported
    return {
        "id": job.id,
        "state": job.state,
        "form": job.ordered.form,
        "by": job.by,
        "done": job.done,
        "total": job.total,
        "asked_at": instant(job.asked_at),
        "expires_at": instant_or_none(job.expires_at),
        "events": None if made is None else made.events,
        "payloads": None if made is None else made.payloads,
        "withheld": None if made is None else made.withheld,
        "not_covered": None if made is None else made.not_covered,
        "size": job.size,
        "sha256": job.sha256,
        "why": job.why,
    }
