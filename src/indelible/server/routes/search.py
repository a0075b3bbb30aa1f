"""One box for everything: an id, a key, the beginning of one, a run's name, or a text in what happened lately."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from indelible.core.approvals.approval import Approval
from indelible.core.effects.effect import Effect
from indelible.core.events import instant
from indelible.core.filtering.filters import Query as Asked
from indelible.core.filtering.filters import Resource, Text
from indelible.core.ports import Filter
from indelible.core.runs.run import Run
from indelible.core.sheets import SheetFilter
from indelible.engine.finding import Finding
from indelible.engine.running import in_own_thread
from indelible.errors import BadCall
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.filters import finding_of
from indelible.server.requests.routing import answer, resources

LONGEST = 200
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BEGINNING = re.compile(r"(eff|apr)_[0-9a-f]{4,28}", re.ASCII)

search: APIRouter = resources("search")
Kind = Literal["run", "effect", "approval"]


class Hit(BaseModel):
    """Is something that was found: what it is, by which name it is asked for, and a line to show."""

    kind: Kind
    id: str
    title: str
    status: str
    run_id: str
    at: str


class Hits(BaseModel):
    """Are what was found, what is named exactly first. Of texts, only the newest things were looked through."""

    hits: list[Hit]
    is_complete: bool


@search.get("/v1/search", response_model=Hits)
async def find_anything(
    q: Annotated[str, Query(min_length=1, max_length=LONGEST, description="An id, a key, a name, or a text.")] = "*",
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
    asked: Asking = asking("read"),
) -> Response:
    """Find runs, effects and approvals by id, by key, by the beginning of either, or by a text."""
    text = q.strip()
    if not text or not text.isprintable():
        raise BadCall("q: write what to look for: an id, a key, the name of a run, or a text")
    hits, is_complete = await in_own_thread(_found, asked, text, limit)
    return answer({"hits": hits, "is_complete": is_complete})


def _found(asked: Asking, text: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    finding = finding_of(asked)
    hits = {(hit["kind"], hit["id"]): hit for hit in _named(asked, text)}
    is_complete = True
    for found, is_all in (
        _runs(finding, text, limit),
        _effects(finding, text, limit),
        _approvals(finding, text, limit),
    ):
        is_complete = is_complete and is_all
        for hit in found:
            hits.setdefault((hit["kind"], hit["id"]), hit)
    return list(hits.values())[:limit], is_complete and len(hits) <= limit


def _named(asked: Asking, text: str) -> list[dict[str, Any]]:
    """Finds what has just this name, or the only thing whose id begins so."""
    ledger = asked.ledger.blocking
    hits = []
    run = ledger.get_run(text) if len(text) <= LONGEST else None
    if run is not None:
        hits.append(_run_hit(run))
    effect: Effect | None = None
    with suppress(BadCall):  # it is the key, or the beginning, of several
        if _KEY.fullmatch(text):
            effect = ledger.find_by_key(text)
        elif _BEGINNING.fullmatch(text):
            effect = ledger.get_effect(f"eff_{text[4:]}")  # an approval's first id is that of its effect
    if effect is not None:
        hits.append(_effect_hit(effect))
    approval = ledger.get_approval(text) if text.startswith("apr_") else None
    if approval is None and effect is not None and effect.approval_id is not None:
        approval = ledger.get_approval(effect.approval_id)
    return hits if approval is None else [*hits, _approval_hit(approval)]


def _text(resource: Resource, text: str) -> Asked:
    return Asked(resource, (Text(text),))


def _runs(finding: Finding, text: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    found = finding.runs(_text("runs", text), None, None, None, limit)
    return [_run_hit(run) for run in found.things], found.next is None


def _effects(finding: Finding, text: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    found = finding.effects(_text("effects", text), Filter(limit=limit))
    return [_effect_hit(effect) for effect in found.things], found.next is None


def _approvals(finding: Finding, text: str, limit: int) -> tuple[list[dict[str, Any]], bool]:
    found = finding.approvals(_text("approvals", text), SheetFilter(kind="approval", limit=limit))
    return [_approval_hit(approval) for approval in found.things], found.next is None


def _run_hit(run: Run) -> dict[str, Any]:
    title = f"{run.agent}: {run.intent}" if run.intent else run.agent or "unknown agent"
    return _hit("run", run.id, title, run.status, run.id, instant(run.updated_at))


def _effect_hit(effect: Effect) -> dict[str, Any]:
    return _hit("effect", effect.id, effect.tool, effect.status, effect.run_id, instant(effect.created_at))


def _approval_hit(approval: Approval) -> dict[str, Any]:
    return _hit("approval", approval.id, approval.tool, approval.status, approval.run_id, instant(approval.asked_at))


def _hit(kind: Kind, name: str, title: str, status: str, run_id: str, at: str) -> dict[str, Any]:
    return {"kind": kind, "id": name, "title": title[:500], "status": status, "run_id": run_id, "at": at}
