"""Promises of core.effects.compensations: what was undone is not replayed as done."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.commands import Adopt, AwaitingApproval, Claimed, Replayed
from indelible.core.effects import walk
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.compensations import (
    by_effect,
    compensated,
    compensated_ref,
    compensation_ref,
    is_compensation,
    undoing,
)
from indelible.core.effects.effect import Status
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Judge, Judged, Origin, Recall, Submit
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.sheets import Sheet
from indelible.core.steps import needed_sheets, next_step
from indelible.errors import EffectCompensated
from tests.core.making import NOON, CountingMint, asks, effect, open_command, prepared

DONE = effect("succeeded")
RUN_ID = "run-1"


def test_the_place_of_a_compensation_is_that_of_its_call() -> None:
    args = {"args": {"amount": 5}, "effect": DONE.id, "result": None}
    call = ToolCall(tool=f"{DONE.tool}.compensate", args=args, run_id=DONE.run_id, key=["effect"])
    assert identify(call, DONE.tenant).ref == compensation_ref(DONE)
    assert is_compensation(call.tool)
    assert not is_compensation(DONE.tool)


@pytest.mark.parametrize("status", ["succeeded", "processing", "in_doubt"])
def test_a_success_does_not_stand_while_it_is_undone(status: Status) -> None:
    found = replace(effect(status), id="eff_undo")
    assert undoing(DONE, found) == found
    assert by_effect([DONE], [found]) == {DONE.id: found}
    assert "eff_undo" in str(compensated(DONE, found))


@pytest.mark.parametrize("status", ["failed", "requires_approval", "ready", "denied", "canceled"])
def test_a_success_stands_if_nothing_undid_it(status: Status) -> None:
    assert undoing(DONE, effect(status)) is None
    assert undoing(DONE, None) is None
    assert undoing(effect("failed"), DONE) is None
    assert by_effect([DONE, DONE], [effect(status), None]) == {}


class Read(dict[Any, Any]):
    """Holds sheets, and None for every other place."""

    def __missing__(self, ref: Any) -> None:
        return None


def test_the_first_compensation_of_a_run_is_noted_with_its_claim() -> None:
    ref = compensated_ref(RUN_ID)
    command = replace(open_command(), tool="charge.compensate")
    assert ref in needed_sheets(command, None)
    assert ref not in needed_sheets(open_command(), None)
    step = next_step(command, None, NOON, 0, Read())
    assert isinstance(step.answer, Claimed)
    assert step.change is not None
    assert [sheet.ref for sheet in step.change.sheets] == [ref]
    noted = Read({ref: Sheet(kind=ref.kind, id=ref.id, status="noted", body=b"{}")})
    again = next_step(command, None, NOON, 0, noted)
    assert again.change is not None
    assert again.change.sheets == (), "once is enough"
    waiting = next_step(replace(command, verdict=asks()), None, NOON, 0, Read())
    assert isinstance(waiting.answer, AwaitingApproval)
    assert waiting.change is not None
    assert ref not in [sheet.ref for sheet in waiting.change.sheets], "nothing was undone yet"


def test_96_a_compensation_that_a_packet_brings_is_noted_too() -> None:
    ref = compensated_ref(RUN_ID)
    undo = replace(DONE, tool="charge.compensate")
    adopt = Adopt(effect=undo, stamp=open_command().stamp, origin_json=b"{}")
    assert ref in needed_sheets(adopt, None)
    assert ref not in needed_sheets(replace(adopt, effect=DONE), None)
    for command, noted in ((adopt, [ref]), (replace(adopt, effect=DONE), [])):
        change = next_step(command, None, NOON, 0, Read()).change
        assert change is not None
        assert [sheet.ref for sheet in change.sheets] == noted


@pytest.mark.parametrize("is_forked", [False, True])
@pytest.mark.parametrize("undone", ["succeeded", "failed", None])
def test_96_a_replay_asks_whether_its_call_was_compensated(is_forked: bool, undone: Status | None) -> None:
    origin = Origin(DONE.ref, RUN_ID, 9)
    steps = walk.begin(prepared(), CountingMint())
    assert isinstance(next(steps), Judge)
    judged = Judged(ALLOWED, origins=(origin,) if is_forked else (), may_be_compensated=True)
    first = steps.send(judged)
    asked = steps.send(DONE if is_forked else Replayed(DONE))
    assert isinstance(first, Recall if is_forked else Submit)
    assert asked == Recall(compensation_ref(DONE))
    found = None if undone is None else replace(effect(undone), id="eff_undo", opened_seq=3)
    if undone == "succeeded":
        with pytest.raises(EffectCompensated):
            steps.send(found)
    else:
        with pytest.raises(StopIteration) as end:
            steps.send(found)
        assert isinstance(end.value.value, Replayed)
