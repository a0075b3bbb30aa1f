"""A run uses the tools it names, and a dry fork touches nothing outside."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.core.calls import ToolCall
from indelible.core.identity import identify
from indelible.core.run_limits import ALLOWED_TOOLS_RULE, DRY_RUN_RULE, limit_on, origin_of
from indelible.core.runs import Fork, Run
from indelible.core.walk import Origin
from tests.core.making import NOON, REF, effect


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


def test_a_call_of_a_fork_stands_in_the_run_it_was_forked_from() -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="r")
    there = identify(ToolCall(tool="pay", args={"amount": 5}, run_id="o"), "default")
    forked = run(fork=Fork(run_id="o", at=3))
    assert origin_of(forked, call, "default", there.args_json) == Origin(there.ref, "o", 3)
    assert origin_of(run(), call, "default", there.args_json) is None
    scoped = ToolCall(tool="pay", args={"amount": 5}, run_id="r", scope="everywhere")
    assert origin_of(forked, scoped, "default", there.args_json) is None


def test_an_origin_has_what_was_opened_there_by_then() -> None:
    origin = Origin(REF, "run-1", 3)
    assert origin.has(effect("succeeded", opened_seq=3))
    assert not origin.has(effect("succeeded", opened_seq=4))
    assert not origin.has(effect("succeeded", opened_seq=3, run_id="other"))
    assert not origin.has(None)
