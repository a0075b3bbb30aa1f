"""Two things side by side: the tool calls of two runs, or what an agent saved in two checkpoints of one."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from indelible.core.runs.diff import RunDifference
from indelible.core.runs.run import Checkpoint
from indelible.core.values.canonical import encode
from indelible.core.values.differences import differences
from indelible.engine.running import in_own_thread
from indelible.errors import TooLarge, UnknownCheckpoint
from indelible.runs.desk import RunsDesk
from indelible.server.requests.asking import Asking, asking
from indelible.server.requests.routing import answer, resources
from indelible.server.requests.strict import CheckedName, RunName
from indelible.server.routes.runs import found_run, sealing
from indelible.server.shapes.approvals import DifferenceShown, differences_shown
from indelible.server.shapes.runs import CheckpointShown, checkpoint_shown

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
    asked: Asking = asking("read"),
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


class CheckpointCompared(BaseModel):
    """Is a checkpoint and what the agent saved in it, as it is recorded; null where it saved nothing or it was erased.

    `fields` are those of the state that differ from the other checkpoint's; null where there are not two states.
    """

    checkpoint: CheckpointShown
    state: Any
    other: CheckpointShown | None
    fields: list[DifferenceShown] | None


@comparing.get("/v1/runs/{run_id}/checkpoints/{checkpoint_id}", response_model=CheckpointCompared)
async def get_checkpoint(
    run_id: RunName,
    checkpoint_id: CheckedName,
    other: Annotated[CheckedName | None, Query(description="A checkpoint of this run to compare with.")] = None,
    asked: Asking = asking("read"),
) -> Response:
    """Give a checkpoint with the state that the agent saved, and what changed since another one."""
    desk = asked.ledger._run_desk()
    return answer(await in_own_thread(_saved, desk, run_id, checkpoint_id, other))


def _saved(desk: RunsDesk, run_id: str, checkpoint_id: str, other_id: str | None) -> dict[str, Any]:
    checkpoint = _checkpoint(desk, run_id, checkpoint_id)
    other = None if other_id is None else _checkpoint(desk, run_id, other_id)
    state = desk.keeping.state_of(checkpoint)
    before = None if other is None else desk.keeping.state_of(other)
    are_two = state is not None and before is not None
    return {
        "checkpoint": _checkpoint_shown(desk, checkpoint),
        "state": json.loads(encode(state)),
        "other": None if other is None else _checkpoint_shown(desk, other),
        "fields": differences_shown(differences(before, state, "state")) if are_two else None,
    }


def _checkpoint(desk: RunsDesk, run_id: str, checkpoint_id: str) -> Checkpoint:
    found_run(desk, run_id)
    for one in desk.keeping.checkpoints(run_id):
        if one.id == checkpoint_id:
            return one
    raise UnknownCheckpoint(f"run {run_id!r} has no checkpoint {checkpoint_id!r}; its list is at /checkpoints")


def _checkpoint_shown(desk: RunsDesk, one: Checkpoint) -> dict[str, Any]:
    return checkpoint_shown(one, sealing(desk, one)).model_dump(mode="json")
