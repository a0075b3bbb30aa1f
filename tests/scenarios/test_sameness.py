"""When are two calls the same? Arguments, key fields, resources, call ids, scopes and tenants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible import Claimed, InFlight, MayHaveHappened, Resource, Succeeded
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectDenied,
    IndelibleError,
    KeyReused,
    UnknownApproval,
    UnknownEffect,
)
from tests.scenarios.shells import Count, Driver, Shell, approve, charge

ORDER = Resource(namespace="shop", type="order", id="7")


# ── dedupe ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_by_arguments_call_ids_do_not_matter(ledger: Driver) -> None:
    handler = Count()
    for call_id in ("c1", "c2", None):
        ledger.run(charge(call_id=call_id), handler)
    assert handler.entries == 1


def test_by_call_every_call_id_is_a_call_of_its_own(ledger: Driver) -> None:
    handler = Count()
    for call_id in ("c1", "c2", "c1"):
        ledger.run(charge(call_id=call_id, dedupe="call"), handler)
    assert handler.entries == 2


def test_by_call_the_same_call_id_with_other_arguments_is_another_call(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(call_id="c1", dedupe="call"), handler)
    ledger.run(charge(call_id="c1", dedupe="call", args={"amount": 6}), handler)
    assert handler.entries == 2


def test_when_asked_for_a_new_call_id_with_equal_arguments_waits_for_a_person(ledger: Driver) -> None:
    handler = Count("ran")
    assert ledger.run(charge(call_id="c1", dedupe="ask"), handler) == "ran"
    assert ledger.run(charge(call_id="c1", dedupe="ask"), handler) == "ran", "the same call id is a retry"
    with pytest.raises(ApprovalPending) as question:
        ledger.run(charge(call_id="c2", dedupe="ask"), handler, wait=False)
    assert handler.entries == 1
    approve(ledger, question.value)
    assert ledger.run(charge(call_id="c2", dedupe="ask"), handler) == "ran"
    assert ledger.run(charge(call_id="c2", dedupe="ask"), handler) == "ran"
    assert handler.entries == 2


def test_when_asked_a_person_may_refuse_the_repeat(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(call_id="c1", dedupe="ask"), handler)
    repeat = ledger.begin(charge(call_id="c2", dedupe="ask"))
    ledger.deny(repeat.approval.id, by="ada", reason="a duplicate")
    with pytest.raises(EffectDenied, match="a duplicate"):
        ledger.run(charge(call_id="c2", dedupe="ask"), handler)
    assert ledger.run(charge(call_id="c1", dedupe="ask"), handler) == "done"
    assert handler.entries == 1


def test_when_asked_every_new_call_id_is_a_question_of_its_own(ledger: Driver) -> None:
    ledger.run(charge(call_id="c1", dedupe="ask"), Count())
    questions = {ledger.begin(charge(call_id=f"c{n}", dedupe="ask")).effect.id for n in (2, 3, 4)}
    assert len(questions) == 3


def test_when_asked_a_call_without_an_id_is_taken_for_a_retry(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(call_id="c1", dedupe="ask"), handler)
    ledger.run(charge(dedupe="ask"), handler)
    assert handler.entries == 1


# ── key fields, resources ────────────────────────────────────────────────────────────────────────────────────────────


def test_key_fields_identify_a_call_and_a_settled_one_replays(ledger: Driver) -> None:
    handler = Count("first")
    words: dict[str, Any] = {"key": ["order.id"], "on_reuse": "replay"}
    first = charge(args={"order": {"id": 7}, "note": "a"}, **words)
    again = charge(args={"order": {"id": 7}, "note": "b"}, **words)
    assert ledger.run(first, handler) == ledger.run(first, handler) == ledger.run(again, handler) == "first"
    assert ledger.run(charge(args={"order": {"id": 8}, "note": "a"}, **words), handler) == "first"
    assert handler.entries == 2


def test_key_fields_with_other_content_are_refused_before_and_after_the_first_is_settled(ledger: Driver) -> None:
    first = charge(args={"order": 7, "note": "a"}, key=["order"])
    other = charge(args={"order": 7, "note": "b"}, key=["order"])
    claim = ledger.begin(first).claim
    with pytest.raises(KeyReused) as conflict:
        ledger.run(other, Count())
    assert conflict.value.effect.id == claim.effect.id
    assert conflict.value.outcome is None
    ledger.commit(claim, Succeeded("first"))
    handler = Count()
    with pytest.raises(KeyReused) as reused:
        ledger.run(other, handler)
    assert (reused.value.effect.id, handler.entries) == (claim.effect.id, 0)
    assert reused.value.outcome == Succeeded("first")
    assert reused.value.differing == {"note": ("a", "b")}
    assert ledger.run(replace(other, on_reuse="replay"), handler) == "first"


def test_key_fields_with_other_content_are_refused_while_the_first_is_in_doubt(ledger: Driver) -> None:
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(args={"order": 7, "note": "a"}, key=["order"]), Count(MayHaveHappened("x")))
    handler = Count()
    with pytest.raises(KeyReused):
        ledger.run(charge(args={"order": 7, "note": "b"}, key=["order"]), handler)
    assert handler.entries == 0


def test_a_key_field_that_is_missing_is_refused(ledger: Driver) -> None:
    with pytest.raises(BadCall, match="order"):
        ledger.run(charge(args={"amount": 5}, key=["order"]), Count())
    assert ledger.effects() == []


def test_a_resource_identifies_a_call(ledger: Driver) -> None:
    handler = Count("closed")
    one = charge(args={"how": "now"}, resource=ORDER)
    assert ledger.run(one, handler) == ledger.run(one, handler) == "closed"
    assert handler.entries == 1
    ledger.run(charge(args={"how": "now"}, resource=Resource(namespace="shop", type="order", id="8")), handler)
    assert handler.entries == 2


def test_the_same_resource_with_other_arguments_is_a_loud_conflict(ledger: Driver) -> None:
    ledger.run(charge(args={"how": "now"}, resource=ORDER), Count())
    handler = Count()
    with pytest.raises(KeyReused):
        ledger.run(charge(args={"how": "later"}, resource=ORDER), handler)
    assert handler.entries == 0


# ── scope and tenant ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_runs_are_apart_unless_they_share_a_scope(ledger: Driver) -> None:
    handler = Count()
    ledger.run(charge(run_id="a"), handler)
    ledger.run(charge(run_id="b"), handler)
    assert handler.entries == 2
    ledger.run(charge(run_id="a", scope="webhook-1"), handler)
    ledger.run(charge(run_id="b", scope="webhook-1"), handler)
    assert handler.entries == 3


def test_an_effect_of_a_shared_scope_stays_in_the_run_that_opened_it(ledger: Driver) -> None:
    shared: dict[str, Any] = {"scope": "webhook-1"}
    claim = ledger.begin(charge(run_id="a", **shared), on_crash="retry").claim
    with pytest.raises(IndelibleError):
        ledger.commit(claim, Succeeded(object()))
    assert ledger.run(charge(run_id="b", **shared), Count("by b"), on_crash="retry") == "by b"
    assert [event.type for event in ledger.events("a")] == [
        "tool_call_started",
        "tool_call_in_doubt",
        "tool_call_started",
        "tool_call_finished",
    ]
    assert ledger.events("b") == []


def test_tenants_do_not_see_each_other(shell: Shell) -> None:
    acme, other = shell.open(), shell.open(tenant=shell.tenant + "-other")
    handler = Count()
    acme.run(charge(), handler)
    other.run(charge(), handler)
    assert handler.entries == 2
    (mine,) = acme.effects()
    assert other.get_effect(mine.id) is None
    assert other.find_by_key(mine.key) is None
    assert other.find_by_key(mine.key, scope="order-1") is None
    assert {effect.tenant for effect in other.effects()} == {other.tenant}
    assert {event.read()["log"].rpartition("/")[2] for event in other.events("order-1")} == {other.tenant}
    assert len(acme.events("order-1")) == len(other.events("order-1")) == 2
    with pytest.raises(UnknownEffect):
        other.retry(mine.id, by="eve")


def test_tenants_run_the_same_call_at_the_same_time(shell: Shell) -> None:
    acme, other = shell.open(), shell.open(tenant=shell.tenant + "-other")
    assert isinstance(acme.begin(charge()), Claimed)
    assert isinstance(other.begin(charge()), Claimed)
    assert isinstance(acme.begin(charge()), InFlight)


def test_a_tenant_cannot_decide_over_anothers_effect(shell: Shell) -> None:
    acme, other = shell.open(), shell.open(tenant=shell.tenant + "-other")
    question = acme.begin(charge(), approval="required")
    claim = acme.begin(charge(args={"amount": 6})).claim
    for name in (question.approval, question.approval.id, question.effect.id):
        with pytest.raises(UnknownApproval):
            other.approve(name, digest=question.approval.digest, by="eve")
        with pytest.raises(UnknownApproval):
            other.deny(name, by="eve", reason="not theirs")
    assert other.get_approval(question.approval.id) is None
    assert other.approvals() == []
    with pytest.raises(BadCall):
        other.commit(claim, Succeeded("stolen"))
    assert acme.get_approval(question.approval.id) == question.approval


@pytest.mark.parametrize("tenant", ["", "a\0b", "\ud800", "x" * 501])
def test_a_tenant_without_a_proper_name_is_refused(shell: Shell, tenant: str) -> None:
    with pytest.raises(BadCall):
        shell.open(tenant=tenant)


@pytest.mark.parametrize("name", ["ürün 🎁", "a|b", "a/b", "%", "'; DROP TABLE effects; --", "line\nbreak"])
def test_any_proper_name_is_only_a_name(shell: Shell, name: str) -> None:
    ledger = shell.open(tenant=name + shell.tenant)
    call = charge(run_id=name, scope=name, call_id=name, dedupe="call")
    assert ledger.run(call, Count(1)) == ledger.run(call, Count(2)) == 1
    (effect,) = ledger.effects(run_id=name)
    assert (effect.tenant, effect.scope, effect.run_id, effect.call_id) == (
        ledger.tenant,
        name,
        name,
        name,
    )
    assert ledger.find_by_key(effect.key, scope=name) == effect
    assert len(ledger.events(name)) == 2
