"""A run uses the tools it names, and a dry fork touches nothing outside."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.commands import LimitsUnseen, Replayed
from indelible.core.effects import requests, walk
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.identity import identify
from indelible.core.effects.requests import Judged, Origin
from indelible.core.policy.verdicts import ALLOWED_TOOLS_RULE
from indelible.core.runs.limits import DRY_RUN_RULE, child_id, is_within, limit_on, origin_of, within
from indelible.core.runs.run import Fork, Run, fence_ref, limit_ref
from indelible.core.sheets import Sheet
from indelible.errors import BadCall, PolicyRefused
from tests.core.making import BY, NOON, REF, CountingMint, allows, decide, effect, next_step, open_command, prepared


def run(**words: Any) -> Run:
    return Run(**{"id": "r", "agent": "a", "created_at": NOON, "updated_at": NOON, **words})


@pytest.mark.parametrize(
    ("allowed", "tool", "passes"),
    [
        (None, "pay", True),
        (("pay",), "pay", True),
        (("pay",), "Pay", False),
        (("pay",), "payroll", False),
        (("crm.*",), "crm.lookup", True),
        (("crm.*",), "crm", False),
        ((), "pay", False),
        (("pay",), "pay.compensate", True),
        (("crm",), "pay.compensate", False),
    ],
)
def test_a_run_uses_the_tools_it_names(allowed: tuple[str, ...] | None, tool: str, passes: bool) -> None:
    verdict = limit_on(run(allowed_tools=allowed), tool, "payment")
    assert (verdict is None) == passes
    if verdict is not None:
        assert (verdict.decision, verdict.rule) == ("refuse", ALLOWED_TOOLS_RULE)


@pytest.mark.parametrize(
    ("side_effect", "is_dry", "passes"),
    [("read", True, True), ("none", True, True), ("payment", False, True), ("write", True, False)],
)
def test_a_dry_fork_touches_nothing_outside(side_effect: Any, is_dry: bool, passes: bool) -> None:
    verdict = limit_on(run(fork=Fork(run_id="o", at=3, is_dry=is_dry)), "pay", side_effect)
    assert (verdict is None) == passes
    if verdict is not None:
        assert verdict.rule == DRY_RUN_RULE


@pytest.mark.parametrize("part", [(), ("server", "bank-a")])
def test_a_call_of_a_fork_stands_in_the_run_it_was_forked_from(part: tuple[str, ...]) -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="r", part=part)
    there = identify(ToolCall(tool="pay", args={"amount": 5}, run_id="o", part=part), "default")
    forked = run(fork=Fork(run_id="o", at=3))
    assert origin_of(forked, call, "default", there.args_json) == Origin(there.ref, "o", 3)
    assert origin_of(run(), call, "default", there.args_json) is None
    scoped = ToolCall(tool="pay", args={"amount": 5}, run_id="r", scope="everywhere", part=part)
    assert origin_of(forked, scoped, "default", there.args_json) is None


def test_an_origin_has_what_was_opened_there_by_then() -> None:
    origin = Origin(REF, "run-1", 3)
    assert origin.has(effect("succeeded", opened_seq=3))
    assert not origin.has(effect("succeeded", opened_seq=4))
    assert not origin.has(effect("succeeded", opened_seq=3, run_id="other"))
    assert not origin.has(None)


# Who did not know that a run limits its calls

RUN_ID = "run-1"
LIMITED = {limit_ref(RUN_ID): Sheet(kind="limit", id=RUN_ID, status="active", body=b"{}")}


@pytest.mark.parametrize("known", [None, effect("ready"), effect("requires_approval")])
def test_a_call_that_was_judged_without_the_limits_of_its_run_enters_nothing(known: Any) -> None:
    step = next_step(open_command(), known, NOON, 0, LIMITED)
    assert (step.answer, step.changes) == (LimitsUnseen(known), ())
    for command, sheets in ((open_command(knows_limits=True), LIMITED), (open_command(), {})):
        assert not isinstance(next_step(command, known, NOON, 0, sheets).answer, LimitsUnseen)
    done = effect("succeeded")
    assert next_step(open_command(), done, NOON, 1, LIMITED).answer == Replayed(done), "what was done is told"


def test_a_batch_names_the_runs_that_must_have_no_limits() -> None:
    fence = fence_ref(RUN_ID)
    assert decide([open_command()], {}, {}, NOON, BY).unlimited == {RUN_ID, fence.id}
    assert decide([open_command(knows_limits=True)], {}, {}, NOON, BY).unlimited == {fence.id}
    lowered = {fence: Sheet(kind=fence.kind, id=fence.id, status="taken_back", body=b"{}")}
    assert decide([open_command()], {}, {}, NOON, BY, lowered).unlimited == {RUN_ID}, "it was seen"
    assert decide([open_command()], {}, {}, NOON, BY, LIMITED).unlimited == set(), "it enters nothing"


def test_such_a_call_is_judged_afresh_once_and_then_refused() -> None:
    walking = walk.begin(prepared(), CountingMint())
    first = next(walking)
    assert isinstance(first, requests.Judge)
    assert not first.afresh
    submitted = walking.send(Judged(allows()))
    assert isinstance(submitted, requests.Submit)
    again = walking.send(LimitsUnseen(None))
    assert isinstance(again, requests.Judge)
    assert again.afresh
    submitted = walking.send(Judged(allows(), knows_limits=True))
    assert isinstance(submitted, requests.Submit)
    assert submitted.command.knows_limits
    with pytest.raises(PolicyRefused, match="erased, or is not what was recorded"):
        walking.send(LimitsUnseen(None))


def test_55_a_run_does_not_limit_the_ledgers_own_record() -> None:
    assert limit_on(run(allowed_tools=("pay",)), "model.turn", "read") is None
    assert limit_on(run(allowed_tools=("pay",)), "model.turn", "payment") is not None


@pytest.mark.parametrize(
    ("wanted", "limit", "given"),
    [
        (None, None, None),
        (["pay"], None, ["pay"]),
        (None, ["crm.*"], ["crm.*"]),
        ([], ["crm.*"], []),
        (["crm.read"], ["crm.*"], ["crm.read"]),
        (["crm.*"], ["crm.*"], ["crm.*"]),
        (["crm.mail.*"], ["crm.*"], ["crm.mail.*"]),
        (["pay", "crm.?"], ["crm.*", "pay"], ["pay", "crm.?"]),
    ],
)
def test_29_a_child_gets_what_its_parent_may_use(wanted: Any, limit: Any, given: Any) -> None:
    assert within(wanted, limit) == given


@pytest.mark.parametrize(
    ("wanted", "limit"),
    [("pay", []), ("pay", ["crm.*"]), ("*", ["crm.*"]), ("crm.*", ["crm.?"]), ("crm.*", ["crm.*x"]), ("c*", ["[c]*"])],
)
def test_29_a_child_gets_nothing_that_its_parent_may_not_use(wanted: str, limit: list[str]) -> None:
    with pytest.raises(BadCall):
        within([wanted], limit)


@pytest.mark.parametrize(
    ("tools", "limit", "is_so"),
    [
        (None, None, True),
        (["pay"], None, True),
        (None, ["pay"], False),
        (["pay"], ["pay", "crm.*"], True),
        (["pay"], ["crm.*"], False),
        ([], [], True),
    ],
)
def test_39_a_child_that_is_delegated_again_is_known_to_have_more(tools: Any, limit: Any, is_so: bool) -> None:
    assert is_within(tools, limit) is is_so


def test_29_a_child_has_the_same_name_whenever_the_same_is_delegated() -> None:
    named = [
        child_id("r", "a", "i"),
        child_id("r", "a", "i", "1"),
        child_id("r", "a", "i", "2"),
        child_id("r", "ai", ""),
        child_id("ra", "", "i"),
    ]
    assert len(set(named)) == 5
    assert child_id("r", "a", "i") == named[0]
