"""Forgetting over HTTP: an administrator sees what would go, and lets it go. The record stays and verifies."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from indelible.core.privacy.forgetting import Erasure
from indelible.engine.running import in_own_thread
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import resources
from indelible.server.requests.strict import LARGEST_NUMBER, Body, CheckedName

erasures: APIRouter = resources("erasures")


class ErasureAsked(Body):
    """Names what is to be forgotten: a run, one of its events, some fields of these; or all calls about a person.

    `force` withdraws calls about a person that wait. With `dry_run` nothing is erased: the answer says what would be.
    """

    run_id: CheckedName | None = None
    seq: Annotated[int, Field(ge=0, le=LARGEST_NUMBER)] | None = None
    fields: Annotated[list[CheckedName], Field(min_length=1, max_length=100)] | None = None
    subject: Annotated[str, Field(min_length=1, max_length=10_000, examples=["customer-7"])] | None = None
    reason: Annotated[str, Field(min_length=1, max_length=10_000, examples=["request of 3 May"])]
    force: bool = False
    dry_run: bool = False


class KeptShown(BaseModel):
    """Is what was not erased, and why."""

    run_id: str
    effect_id: str | None
    why: str


class ErasureShown(BaseModel):
    """Says how many values of which run went or would go, what is kept, and what else there is to know."""

    erased: int
    runs: dict[str, int]
    kept: list[KeptShown]
    remarks: list[str]
    dry_run: bool


def _shown(report: Erasure) -> ErasureShown:
    return ErasureShown(
        erased=report.count,
        runs=dict(report.erased),
        kept=[KeptShown(run_id=one.run_id, effect_id=one.effect_id, why=one.why) for one in report.kept],
        remarks=list(report.remarks),
        dry_run=report.is_rehearsal,
    )


@erasures.post("/v1/erasures")
async def erase(body: ErasureAsked, asked: Asking = asking("administer")) -> ErasureShown:
    """Erase values of a run or a person, or say what would go; what is still needed is kept, with the reason."""
    try:
        return _shown(await asked.ledger.erase(by=asked.actor, **body.model_dump()))
    finally:
        if not body.dry_run:  # a part of it may be gone, also if it was cut off
            await in_own_thread(asked.ledgers.exports.drop, asked.caller.tenant)
