"""Promises of core.approvals.shown: what programs see of approvals, grants and delegations is all there and is JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from indelible.core.approvals.approval import Person, Vote
from indelible.core.approvals.grants import Delegation, GrantTerms, grant_of
from indelible.core.approvals.shown import approval_shown, delegation_shown, differences_shown, grant_shown
from indelible.core.values.differences import MISSING, Difference
from tests.core.making import HOUR, NOON, asked, asks, effect, vote

_, APPROVAL = asked(effect("requires_approval"), asks(rule="payments"), schema="f00d")


def test_an_approval_shows_who_may_decide_and_who_has() -> None:
    votes = (
        Vote(by="ada", via="signature", at=NOON, is_approval=True, on_behalf_of="bo", signature=b"\1\2"),
        Vote(by="cy", via="process", at=NOON, is_approval=False),
    )
    people = {"ada": Person(roles=("finance",)), "cy": Person()}
    question = replace(APPROVAL.question, people=people)
    shown = approval_shown(replace(APPROVAL, question=question, votes=votes))
    assert json.loads(json.dumps(shown)) == shown
    assert shown["people"] == {"ada": ["finance"], "cy": []}
    assert [(one["by"], one["on_behalf_of"], one["signature"]) for one in shown["votes"]] == [
        ("ada", "bo", "AQI="),
        ("cy", None, None),
    ]
    assert approval_shown(APPROVAL)["people"] is None, "anybody may"
    assert (shown["effect_id"], shown["run_id"]) == (APPROVAL.effect_id, APPROVAL.run_id)


def test_a_side_that_is_not_there_has_no_member() -> None:
    found = [Difference("a", 1, 2), Difference("b", MISSING, 2**70), Difference("c", None, MISSING)]
    assert differences_shown(found) == [
        {"path": "a", "before": 1, "after": 2},
        {"path": "b", "after": {"$int": str(2**70)}},
        {"path": "c", "before": None},
    ]
    assert differences_shown(None) is None


def test_grants_and_delegations_show_until_when() -> None:
    pinned = grant_of("grt_1", APPROVAL, GrantTerms(count=3, until=NOON + HOUR, pin=("a",)), "ab" * 32, vote("ada"))
    shown = grant_shown(pinned)
    assert (shown["pin"], shown["uses_left"], shown["approval_id"]) == (["a"], 3, APPROVAL.id)
    assert grant_shown(replace(pinned, pin=None))["pin"] is None
    lent = delegation_shown(Delegation(id="dlg_1", giver="ada", to="bo", until=NOON + HOUR))
    assert (lent["to"], lent["is_ended"], lent["until"]) == ("bo", False, shown["until"])
