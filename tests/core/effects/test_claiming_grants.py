"""Standing grants: they let calls pass, count them, and cover nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.approvals.grants import Grant, grant_ref, grant_sheet, read_grant
from indelible.core.commands import AwaitingApproval, Claimed, Open, OverBudget, RefusedByPolicy
from indelible.core.effects.identity import Ref
from tests.core.effects.claiming import ELSEWHERE, OTHER, claim_on, opening
from tests.core.making import HOUR, NOON, OTHER_ARGS, REF, SECOND, Shelf, allows, asks, attend, charge, refuses

PINNED = "99" * 32
GRANT = Grant(
    id="grt_1",
    tool="pay",
    pin=("amount",),
    pinned=PINNED,
    schema="",
    policy="policy-1",
    rule="ask first",
    uses_left=2,
    until=NOON + HOUR,
    given_by="ada",
    approval_id="apr_0",
)


def granted(*grants: Grant) -> Shelf:
    shelf = Shelf()
    for grant in grants:
        shelf.sheets[grant_ref(grant.id)] = grant_sheet(grant).told_by("run-0", 7)
    return shelf


def under_grant(number: int = 1, **words: Any) -> Open:
    return opening(number, **{"grants": {"grt_1": PINNED}, **words})


def test_a_grant_lets_calls_pass_and_counts_them() -> None:
    shelf = granted(GRANT)
    claim_on(shelf, under_grant())
    left = read_grant(shelf.sheets[grant_ref("grt_1")])
    assert (left.uses_left, left.version, left.before) == (1, 2, ("run-0", 7))
    assert (shelf.effects[REF].approval_id, shelf.effects[REF].permission_id) == (None, "grant:grt_1")
    assert set(shelf.last_commits()) == {"args", "key", "policy", "grant"}
    claim_on(shelf, under_grant(2, ref=ELSEWHERE))
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 0
    third = shelf.do(under_grant(3, ref=Ref("default", "run-1", "34" * 32)))
    assert isinstance(third, AwaitingApproval)


def test_of_many_calls_at_once_a_grant_lets_as_many_pass_as_it_has_uses() -> None:
    shelf = granted(GRANT)
    refs = [Ref("default", "run-1", f"{number:02x}" * 32) for number in range(9)]
    batch = shelf.apply(*(under_grant(number, ref=ref) for number, ref in enumerate(refs)))
    assert [type(answer) for answer in batch.answers].count(Claimed) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"uses_left": 0},
        {"until": NOON},
        {"is_ended": True},
        {"tool": "refund"},
        {"pinned": "98" * 32},
        {"schema": "f00d"},
        {"policy": "policy-2"},
        {"rule": "two for large ones"},
        {"given_by": "AGENT"},
        {"given_by": "Eve"},
    ],
)
def test_a_grant_covers_nothing_else(changes: Any) -> None:
    shelf = granted(replace(GRANT, **changes))
    assert isinstance(shelf.do(under_grant(principal="eve")), AwaitingApproval)


def test_a_grant_that_is_not_there_or_was_erased_covers_nothing() -> None:
    shelf = granted()
    assert isinstance(shelf.do(under_grant()), AwaitingApproval)
    shelf = granted(GRANT)
    shelf.sheets[grant_ref("grt_1")] = replace(shelf.sheets[grant_ref("grt_1")], body=None)
    assert isinstance(shelf.do(under_grant()), AwaitingApproval)


def test_the_first_grant_that_covers_is_used() -> None:
    over, good, other = (
        replace(GRANT, id="grt_0", uses_left=0),
        replace(GRANT, id="grt_1"),
        replace(GRANT, id="grt_2"),
    )
    shelf = granted(over, good, other)
    claim_on(shelf, opening(grants=dict.fromkeys(("grt_0", "grt_1", "grt_2"), PINNED)))
    assert [read_grant(shelf.sheets[grant_ref(f"grt_{number}")]).uses_left for number in range(3)] == [0, 1, 2]


def test_a_grant_is_not_used_where_nobody_asks_or_where_it_is_refused() -> None:
    shelf = granted(GRANT)
    claim_on(shelf, under_grant(verdict=allows()))
    assert isinstance(shelf.do(under_grant(2, ref=ELSEWHERE, verdict=refuses())), RefusedByPolicy)
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2


def test_a_grant_does_not_help_a_budget() -> None:
    shelf = granted(GRANT)
    assert isinstance(shelf.do(under_grant(verdict=asks(charges=(charge(6),)))), OverBudget)
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2
    claim_on(shelf, under_grant(2, verdict=asks(charges=(charge(5),))))
    assert shelf.budget().reserved == 5


def test_a_question_that_stands_is_not_passed_by_a_grant() -> None:
    shelf = Shelf()
    shelf.do(opening())
    shelf.sheets[grant_ref("grt_1")] = grant_sheet(GRANT).told_by("run-0", 7)
    assert isinstance(shelf.do(under_grant(2)), AwaitingApproval)


def test_a_question_that_lapsed_is_passed_by_a_grant() -> None:
    shelf = granted(GRANT)
    asked = shelf.do(opening(verdict=asks(expires=SECOND)))
    shelf.now += SECOND
    shelf.do(attend(asked.approval))
    claim = claim_on(shelf, under_grant(2))
    assert (claim.attempt, set(shelf.last_commits())) == (1, {"policy", "grant"})


def test_a_grant_never_runs_other_arguments_than_it_was_compared_with() -> None:
    """Under key fields the effect holds the arguments of a call whose question lapsed; this call has others."""
    shelf = granted(GRANT)
    asked = shelf.do(opening(verdict=asks(expires=SECOND)))
    shelf.now += SECOND
    shelf.do(attend(asked.approval))
    answer = shelf.do(under_grant(2, **OTHER))
    assert isinstance(answer, AwaitingApproval)
    assert answer.effect.args_json == OTHER_ARGS
    assert read_grant(shelf.sheets[grant_ref("grt_1")]).uses_left == 2
