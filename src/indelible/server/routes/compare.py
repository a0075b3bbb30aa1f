"""Two runs side by side: which tool calls they share, and in which fields the others differ."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from indelible.core.runs.diff import RunDifference
from indelible.engine.running import in_own_thread
from indelible.errors import TooLarge
from indelible.runs.desk import RunsDesk
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import ANYBODY, answer, resources
from indelible.server.requests.strict import CheckedName, RunName
from indelible.server.shapes.approvals import DifferenceShown, differences_shown

comparing: APIRouter = resources("runs")
MOST_CALLS = 1000
"""Is how many calls a run may have to be compared here; the work grows with the square of it."""


class CallCompared(BaseModel):
    """Is one place in two runs: a call that both made alike, made otherwise, or that only one of them made."""

    kind: Literal["same", "changed", "only_left", "only_right"]
    tool: str
    left: str | None
    right: str | None
    fields: list[DifferenceShown]


class RunsCompared(BaseModel):
    """Holds the calls of two runs, oldest first; `left` and `right` of a call are ids of effects."""

    left: str
    right: str
    calls: list[CallCompared]


@comparing.get("/v1/runs/{run_id}/differences", response_model=RunsCompared)
async def compare_runs(
    run_id: RunName,
    other: Annotated[CheckedName, Query(description="The run to compare with.")],
    asked: Asking = asking(*ANYBODY),
) -> Response:
    """Compare the tool calls of two runs, in their order; those that a fork replays are its own too."""
    desk = asked.ledger._run_desk()
    found = await in_own_thread(_compared, desk, run_id, other)
    return answer({"left": run_id, "right": other, "calls": [_shown(one) for one in found]})


def _compared(desk: RunsDesk, left: str, right: str) -> list[RunDifference]:
    for run_id in (left, right):
        calls = len(desk.keeping.story(run_id).effects)
        if calls > MOST_CALLS:
            raise TooLarge(f"run {run_id!r} has {calls} calls; use: indelible runs diff", limit=MOST_CALLS, size=calls)
    return desk.diff(left, right)


def _shown(one: RunDifference) -> dict[str, Any]:
    effect = one.left or one.right
    assert effect is not None, "a difference is about a call"
    return {
        "kind": one.kind,
        "tool": effect.tool,
        "left": None if one.left is None else one.left.id,
        "right": None if one.right is None else one.right.id,
        "fields": differences_shown(one.fields),
    }
