"""Promises of core.approvals.grants: a permission given ahead holds for what was named, for a while, for no more."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Escalation, Need, Person, Question
from indelible.core.approvals.grants import (
    Delegation,
    Grant,
    GrantTerms,
    delegation_for,
    delegation_ref,
    delegation_sheet,
    grant_of,
    grant_ref,
    grant_sheet,
    pinned_digest,
    read_delegation,
    read_grant,
)
from indelible.errors import BadCall
from tests.core.making import HOUR, NOON, asked, asks, effect, vote

TICK = timedelta(microseconds=1)
_, APPROVAL = asked(effect("requires_approval"), asks(rule="payments"), schema="f00d")
TERMS = GrantTerms(count=3, until=NOON + HOUR, pin=("customer.id", "amount"))
GRANT = grant_of("grt_1", APPROVAL, TERMS, "ab" * 32, vote("ada"))
CALL: Any = {
    "tool": "pay",
    "pinned": "ab" * 32,
    "schema": "f00d",
    "policy": "policy-1",
    "question": Question(rule="payments"),
}

ALONE = "who gave it may not answer this question alone"


# ── grants ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("count", [0, -1, True, 1.5])
def test_a_grant_is_for_one_call_or_more(count: Any) -> None:
    with pytest.raises(BadCall, match="one call or more"):
        GrantTerms(count=count, until=NOON)


def test_a_grant_that_pins_nothing_is_none() -> None:
    with pytest.raises(BadCall, match="would allow everything"):
        GrantTerms(count=1, until=NOON, pin=())


def test_an_end_without_a_time_zone_is_no_end() -> None:
    naive = datetime(2030, 1, 1)  # noqa: DTZ001
    with pytest.raises(BadCall, match="time zone"):
        GrantTerms(count=1, until=naive)
    with pytest.raises(BadCall, match="time zone"):
        Delegation(id="d", giver="ada", to="bo", until=naive)


def test_a_grant_is_for_what_was_approved_under_the_same_rule_policy_and_schema() -> None:
    assert (GRANT.tool, GRANT.schema, GRANT.policy, GRANT.rule) == ("pay", "f00d", "policy-1", "payments")
    assert (GRANT.pin, GRANT.pinned, GRANT.uses_left, GRANT.until) == (TERMS.pin, "ab" * 32, 3, TERMS.until)
    assert (GRANT.given_by, GRANT.approval_id, GRANT.version, GRANT.is_ended) == ("ada", APPROVAL.id, 1, False)
    assert GRANT.why_not(**CALL, now=NOON) is None


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"tool": "refund"}, "its arguments are pinned to others"),
        ({"pinned": "cd" * 32}, "its arguments are pinned to others"),
        ({"schema": ""}, "the tool or the policy has changed"),
        ({"policy": "policy-2"}, "the tool or the policy has changed"),
        ({"question": Question(rule="large payments")}, "another rule asks"),
        ({"question": Question(rule="payments", needs=(Need(2),))}, ALONE),
        ({"question": Question(rule="payments", needs_signature=True)}, ALONE),
        ({"question": Question(rule="payments", people={"bo": Person()})}, ALONE),
        ({"asked_by": ("agent", "ADA")}, "it was given by who asks"),
    ],
)
def test_a_grant_says_why_it_does_not_cover_a_call(changes: Any, why: str) -> None:
    assert GRANT.why_not(**{**CALL, **changes}, now=NOON) == why


def test_a_grant_of_who_may_answer_once_it_is_escalated_covers_a_call() -> None:
    steps = (Escalation(after=HOUR, people={"ada": Person()}),)
    question = Question(rule="payments", people={"bo": Person()}, escalations=steps)
    assert GRANT.why_not(**{**CALL, "question": question}, now=NOON) is None
    assert (
        replace(GRANT, given_by="cleo", on_behalf_of="ada").why_not(**{**CALL, "question": question}, now=NOON) is None
    )


def test_a_grant_ends_at_its_end_with_its_last_use_and_on_somebodys_word() -> None:
    assert GRANT.why_not(**CALL, now=GRANT.until - TICK) is None
    assert GRANT.why_not(**CALL, now=GRANT.until) == "it has ended"
    used = GRANT
    for left in (2, 1, 0):
        assert used.why_not(**CALL, now=NOON) is None
        used = used.used()
        assert used.uses_left == left
    assert used.why_not(**CALL, now=NOON) == "it has ended"
    assert GRANT.withdrawn().why_not(**CALL, now=NOON) == "it has ended"


def test_each_state_of_a_grant_names_where_the_one_before_is_told() -> None:
    told = read_grant(grant_sheet(GRANT).told_by("run-1", 4))
    assert told.told_by == ("run-1", 4)
    for later in (told.used(), told.withdrawn()):
        assert (later.version, later.before, later.told_by) == (2, ("run-1", 4), None)
    assert read_grant(grant_sheet(told.used())).before == ("run-1", 4)


@pytest.mark.parametrize(
    ("grant", "status"),
    [
        (GRANT, "active"),
        (replace(GRANT, uses_left=1), "active"),
        (replace(GRANT, uses_left=0), "ended"),
        (GRANT.withdrawn(), "ended"),
        (replace(GRANT, pin=None), "active"),
        (replace(GRANT, pin=()), "active"),
        (replace(GRANT, before=("run-0", 0)), "active"),
    ],
)
def test_a_grant_comes_back_from_its_sheet_as_it_went(grant: Grant, status: str) -> None:
    sheet = grant_sheet(grant)
    assert (sheet.status, sheet.topic, sheet.ref, sheet.version) == (status, "pay", grant_ref("grt_1"), grant.version)
    assert read_grant(sheet) == grant
    assert grant_sheet(read_grant(sheet)) == sheet
    assert sheet.is_recorded


# ── what is pinned ───────────────────────────────────────────────────────────────────────────────────────────────────

ARGS = b'{"amount":5,"customer":{"id":7,"name":"x"},"note":"a"}'


def pinned(args: bytes, pin: Any = ("amount", "customer.id"), tenant: str = "default", tool: str = "pay") -> str:
    return pinned_digest(tenant, tool, pin, args)


def test_calls_that_agree_in_what_is_pinned_agree() -> None:
    other = b'{"amount":5,"customer":{"id":7,"name":"y"},"note":"b","more":1}'
    assert pinned(ARGS) == pinned(other)
    assert pinned(ARGS, None) != pinned(other, None), "without a pin all of them are"
    assert pinned(ARGS, ()) == pinned(other, ())


@pytest.mark.parametrize(
    "args",
    [
        b'{"amount":6,"customer":{"id":7}}',
        b'{"amount":"5","customer":{"id":7}}',
        b'{"amount":5.5,"customer":{"id":7}}',
        b'{"amount":true,"customer":{"id":7}}',
        b'{"amount":5,"customer":{"id":"7"}}',
        b'{"amount":5,"customer":{"id":null}}',
        b'{"amount":7,"customer":{"id":5}}',
    ],
)
def test_calls_that_differ_in_what_is_pinned_differ(args: bytes) -> None:
    assert pinned(args) != pinned(ARGS)


def test_what_is_pinned_is_pinned_for_one_tool_of_one_tenant() -> None:
    seen = {pinned(ARGS), pinned(ARGS, tool="refund"), pinned(ARGS, tenant="other"), pinned(ARGS, ("amount",))}
    assert len(seen) == 4


def test_a_call_that_lacks_what_is_pinned_is_none_of_them() -> None:
    for args in (b"{}", b'{"amount":5}', b'{"amount":5,"customer":7}'):
        with pytest.raises(BadCall, match=r"customer\.id|amount"):
            pinned(args)


# ── delegations ──────────────────────────────────────────────────────────────────────────────────────────────────────

LENT = Delegation(id="dlg_1", giver="ada", to="Bo", until=NOON + HOUR)


@pytest.mark.parametrize("to", ["ada", "ADA", "ａｄａ"])
def test_nobody_delegates_to_themselves(to: str) -> None:
    with pytest.raises(BadCall, match="themselves"):
        Delegation(id="d", giver="ada", to=to, until=NOON)


def test_a_delegation_is_for_one_person_until_its_end() -> None:
    assert LENT.covers("bo", NOON)
    assert LENT.covers("BO", LENT.until - TICK)
    assert not LENT.covers("bo", LENT.until)
    assert not LENT.covers("cy", NOON)
    assert not LENT.covers("ada", NOON)
    assert not replace(LENT, is_ended=True).covers("bo", NOON)


@given(st.booleans(), st.integers(1, 99), st.integers(0, 10**12))
def test_a_delegation_comes_back_from_its_sheet_as_it_went(is_ended: bool, version: int, micros: int) -> None:
    one = replace(LENT, is_ended=is_ended, version=version, until=NOON + micros * TICK)
    sheet = delegation_sheet(one)
    assert read_delegation(sheet) == one
    assert (sheet.ref, sheet.version) == (delegation_ref("dlg_1"), version)
    assert (sheet.status, sheet.topic) == ("ended" if is_ended else "active", "bo"), "it is found by a folded name"


def test_somebody_who_may_decide_needs_no_delegation() -> None:
    people = {"ada": Person(("finance",)), "cy": Person(("finance",)), "dan": Person(("legal",))}
    _, approval = asked(effect("requires_approval"), asks(Need(1, "finance"), people=people))
    other = replace(LENT, id="dlg_2", giver="cy")
    useless = replace(LENT, id="dlg_0", giver="dan")
    over = replace(LENT, id="dlg_3", is_ended=True)
    found = [over, useless, LENT, other]
    assert delegation_for(approval, "ADA", found, NOON) is None
    assert delegation_for(approval, "bo", found, NOON) == "dlg_1"
    assert delegation_for(approval, "bo", [over, useless, other], NOON) == "dlg_2"
    assert delegation_for(approval, "bo", [over, useless], NOON) is None
    assert delegation_for(approval, "eve", found, NOON) is None
    assert delegation_for(approval, "bo", found, LENT.until) is None
    assert delegation_for(APPROVAL, "bo", found, NOON) is None, "where anybody may decide, nobody needs one"


def test_51_a_delegate_of_several_people_votes_for_one_who_has_not() -> None:
    people = {name: Person(("finance",)) for name in ("ada", "cy")}
    _, approval = asked(effect("requires_approval"), asks(Need(2, "finance"), people=people))
    found = [LENT, replace(LENT, id="dlg_2", giver="cy")]
    assert delegation_for(replace(approval, votes=(vote("cy"),)), "bo", found, NOON) == "dlg_1"
    assert delegation_for(replace(approval, votes=(vote("ada"),)), "bo", found, NOON) == "dlg_2"
    assert delegation_for(replace(approval, editors=("ada",)), "bo", found, NOON) == "dlg_2"
    all_voted = replace(approval, votes=(vote("ada"), vote("cy")))
    assert delegation_for(all_voted, "bo", found, NOON) == "dlg_1", "the refusal says who voted"
    signed = replace(approval, question=replace(approval.question, needs_signature=True), votes=(vote("ada"),))
    assert delegation_for(signed, "bo", found, NOON) == "dlg_2"


def test_51_a_delegate_votes_for_the_person_whose_place_lacks() -> None:
    people = {"ada": Person(("finance",)), "bo": Person(("finance",)), "cy": Person(("legal",)), "dan": Person()}
    _, fresh = asked(effect("requires_approval"), asks(Need(1, "finance"), Need(1, "legal"), people=people))
    signed = replace(fresh, question=replace(fresh.question, needs_signature=True))
    approval = replace(fresh, votes=(vote("ada"),))
    for_bo = [replace(LENT, id="dlg_1", giver="ada"), replace(LENT, id="dlg_2", giver="cy")]
    for_dan = [*(replace(one, to="dan") for one in for_bo), replace(LENT, id="dlg_3", giver="bo", to="dan")]
    assert delegation_for(fresh, "bo", for_bo, NOON) is None, "their own vote fills a place"
    assert delegation_for(approval, "bo", for_bo, NOON) == "dlg_2"
    assert delegation_for(approval, "bo", for_bo, NOON, is_approval=False) is None, "a refusal needs no place"
    assert delegation_for(approval, "bo", for_bo[:1], NOON) is None
    assert delegation_for(approval, "dan", for_dan[::-1], NOON) == "dlg_2"
    assert delegation_for(replace(approval, votes=(vote("cy"),)), "dan", for_dan[::-1], NOON) == "dlg_3"
    assert delegation_for(signed, "dan", for_dan[1:], NOON) == "dlg_2"
