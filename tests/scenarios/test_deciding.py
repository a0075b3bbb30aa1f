"""What people decide: settle, retry, cancel, approve, deny; and what they may not decide."""

from __future__ import annotations

from typing import Any

import pytest

from indelible import Actor, Claim, Claimed, Failed, InFlight, MayHaveHappened, Succeeded
from indelible.errors import (
    ApprovalPending,
    BadCall,
    EffectCanceled,
    EffectDenied,
    EffectFailed,
    IllegalMove,
    LeaseLost,
    NotRecordable,
    UnknownApproval,
    UnknownEffect,
    VoteRefused,
)
from indelible.testing.clock import FakeClock
from tests.scenarios.shells import LEASE, Count, Driver, Shell, approve, asked, charge, types_of


def doubtful(ledger: Driver, **fields: Any) -> Any:
    with pytest.raises(MayHaveHappened):
        ledger.run(charge(**fields), Count(MayHaveHappened("cut")))
    return ledger.effects(status="in_doubt")[0]


# ── settle ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_person_settles_what_was_in_doubt_and_says_how_they_know(ledger: Driver) -> None:
    effect = doubtful(ledger)
    settled = ledger.settle(effect.id, Succeeded({"id": "ch_1"}), by="ada", evidence="receipt 7")
    assert (settled.status, settled.outcome) == ("succeeded", Succeeded({"id": "ch_1"}))
    handler = Count()
    assert ledger.run(charge(), handler) == {"id": "ch_1"}
    assert handler.entries == 0
    told = ledger.events("order-1")[-1].read()
    assert told["actor"] == {"id": "ada", "kind": "person", "via": "process"}
    kept = {p.field: p.value for p in ledger.engine.store.payloads(ledger.tenant, "order-1", [told["seq"]])}
    assert kept == {"result": b'{"id":"ch_1"}', "evidence": b'"receipt 7"'}


def test_a_person_settles_as_failed(ledger: Driver) -> None:
    ledger.settle(doubtful(ledger).id, Failed("never arrived", "Lost"), by="ada", evidence="bank statement")
    with pytest.raises(EffectFailed, match="never arrived") as failure:
        ledger.run(charge(), Count())
    assert failure.value.error_type == "Lost"


def test_an_effect_may_be_named_by_id_beginning_key_or_itself(ledger: Driver) -> None:
    for amount, name in enumerate([lambda e: e.id, lambda e: e.id[:-2], lambda e: e.key, lambda e: e], start=10):
        effect = doubtful(ledger, args={"amount": amount})
        assert ledger.settle(name(effect), Succeeded(1), by="ada", evidence="seen").id == effect.id


def test_an_abandoned_effect_can_be_settled_before_anybody_called_it_in_doubt(ledger: Driver, clock: FakeClock) -> None:
    claim = ledger.begin(charge()).claim
    with pytest.raises(IllegalMove, match="may be running"):
        ledger.settle(claim.effect.id, Succeeded(1), by="ada", evidence="seen")
    clock.advance(LEASE)
    assert ledger.settle(claim.effect.id, Succeeded(1), by="ada", evidence="seen").status == "succeeded"
    with pytest.raises(LeaseLost):
        ledger.commit(claim, Succeeded(2))


def test_an_actor_may_say_more_about_who_they_are(ledger: Driver) -> None:
    ledger.settle(doubtful(ledger).id, Succeeded(1), by=Actor("ada", "person", "passkey"), evidence="seen")
    assert ledger.events("order-1")[-1].read()["actor"]["via"] == "passkey"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"evidence": ""}, "evidence"),
        ({"by": ""}, "actor"),
        ({"by": "\ud800"}, "actor"),
        ({"by": "x" * 501}, "actor"),
        ({"outcome": "done"}, "Succeeded"),
        ({"outcome": None}, "Succeeded"),
    ],
)
def test_a_settlement_without_outcome_person_or_evidence_is_refused(
    ledger: Driver, words: dict[str, Any], why: str
) -> None:
    effect = doubtful(ledger)
    told = {"outcome": Succeeded(1), "by": "ada", "evidence": "seen", **words}
    with pytest.raises(BadCall, match=why):
        ledger.settle(effect.id, told["outcome"], by=told["by"], evidence=told["evidence"])
    assert ledger.get_effect(effect.id).status == "in_doubt"


@pytest.mark.parametrize("words", [("ada", 'x","v":2'), ("ada", "person", "hearsay"), ("",), ("x" * 501,), (None,)])
def test_an_actor_of_an_unknown_kind_is_refused(words: tuple[Any, ...]) -> None:
    with pytest.raises(BadCall):
        Actor(*words)


def test_a_settlement_that_cannot_be_recorded_changes_nothing(ledger: Driver) -> None:
    effect = doubtful(ledger)
    with pytest.raises(NotRecordable):
        ledger.settle(effect.id, Succeeded(object()), by="ada", evidence="seen")
    assert ledger.get_effect(effect.id).status == "in_doubt"


# ── retry ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_person_allows_another_attempt_of_what_was_in_doubt(ledger: Driver) -> None:
    effect = doubtful(ledger)
    assert ledger.retry(effect.id, by="ada", reason="the bank knows nothing").status == "ready"
    fences: list[int] = []
    ledger.run(charge(), lambda running: fences.append(running.fence))
    assert fences == [2]


def test_a_person_allows_another_attempt_of_what_failed(ledger: Driver) -> None:
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(), Count(ValueError("no")))
    ledger.retry(ledger.effects()[0].id, by="ada")
    assert ledger.run(charge(), Count("now")) == "now"


def test_the_late_result_of_the_first_attempt_does_not_settle_the_second(ledger: Driver, clock: FakeClock) -> None:
    first = ledger.begin(charge()).claim
    clock.advance(LEASE)
    ledger.retry(first.effect.id, by="ada")
    with pytest.raises(LeaseLost):
        ledger.commit(first, Succeeded("first"))
    second = ledger.begin(charge()).claim
    with pytest.raises(LeaseLost):
        ledger.commit(first, Succeeded("first"))
    assert ledger.commit(second, Succeeded("second")) == "second"


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_has_not_begun_can_be_withdrawn(ledger: Driver) -> None:
    question = asked(ledger)
    assert ledger.cancel(question.effect.id, by="ada", reason="not needed").status == "canceled"
    handler = Count()
    with pytest.raises(EffectCanceled, match="not needed"):
        ledger.run(charge(), handler)
    with pytest.raises(VoteRefused, match="canceled"):
        approve(ledger, question, by="bob")
    assert handler.entries == 0


def test_what_was_approved_can_still_be_withdrawn(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question)
    assert ledger.cancel(question.effect.id, by="ada").status == "canceled"
    assert ledger.get_approval(question.approval.id).status == "canceled"


# ── approve and deny ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approved_call_runs_once(ledger: Driver) -> None:
    handler = Count("ran")
    question = asked(ledger)
    assert handler.entries == 0
    assert approve(ledger, question, reason="fine").status == "approved"
    assert ledger.get_effect(question.effect.id).status == "ready"
    assert ledger.run(charge(), handler, approval="required") == "ran"
    assert ledger.run(charge(), handler, approval="required") == "ran"
    assert handler.entries == 1
    assert types_of(ledger) == ["approval_requested", "approval_received", "tool_call_started", "tool_call_finished"]


def test_a_denied_call_never_runs(ledger: Driver) -> None:
    handler, question = Count(), asked(ledger)
    ledger.deny(question.approval.id, by="ada", reason="too much")
    for _ in range(2):
        with pytest.raises(EffectDenied, match="too much"):
            ledger.run(charge(), handler, approval="required")
    with pytest.raises(EffectDenied):
        ledger.run(charge(), handler)
    assert handler.entries == 0


def test_an_approval_is_for_the_digest_that_was_seen(ledger: Driver) -> None:
    question = asked(ledger)
    for digest in ("00" * 32, question.effect.digest, ""):
        with pytest.raises(VoteRefused, match="look at it again") as refusal:
            ledger.approve(question.approval.id, digest=digest, by="ada")
        assert refusal.value.code == "digest"
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), Count(), wait=False)


def test_what_was_approved_is_what_runs(ledger: Driver) -> None:
    """Key fields let two calls share an identity; the approval of one never runs the other."""
    small = {"args": {"order": 7, "amount": 5}, "key": ["order"]}
    large = {"args": {"order": 7, "amount": 5000}, "key": ["order"]}
    approve(ledger, asked(ledger, **small))
    handler = Count()
    with pytest.raises(ApprovalPending) as question:
        ledger.run(charge(**large), handler, approval="required", wait=False)
    assert handler.entries == 0
    approve(ledger, question.value)
    with pytest.raises(ApprovalPending) as question:
        ledger.run(charge(**small), handler, approval="required", wait=False)
    assert handler.entries == 0
    approve(ledger, question.value)
    assert ledger.run(charge(**small), lambda running: running.args["amount"], approval="required") == 5


def test_an_approval_is_needed_even_if_the_next_caller_does_not_ask_for_one(ledger: Driver) -> None:
    asked(ledger)
    handler = Count()
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0


def test_one_approval_allows_one_claim(ledger: Driver, shell: Shell) -> None:
    approve(ledger, asked(ledger))
    answers = [ledger.begin(charge(), approval="required"), shell.open().begin(charge(), approval="required")]
    assert [type(answer) for answer in answers] == [Claimed, InFlight]


# ── what may not be decided ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("verb", ["settle", "retry", "cancel"])
@pytest.mark.parametrize("status", ["succeeded", "processing", "denied", "canceled"])
def test_a_decision_that_comes_too_late_or_too_early_is_refused(ledger: Driver, verb: str, status: str) -> None:
    effect = effect_in(ledger, status)
    words: dict[str, Any] = {"outcome": Succeeded(2), "evidence": "seen"} if verb == "settle" else {}
    with pytest.raises(IllegalMove, match=effect.id) as refusal:
        getattr(ledger, verb)(effect.id, by="ada", **words)
    assert refusal.value.effect.status == status
    assert ledger.get_effect(effect.id) == effect


@pytest.mark.parametrize("verb", ["approve", "deny", "revoke_approval", "edit_approval"])
@pytest.mark.parametrize("end", ["consumed", "denied", "canceled"])
def test_what_is_decided_is_not_decided_again(ledger: Driver, verb: str, end: str) -> None:
    question = asked(ledger)
    if end == "consumed":
        approve(ledger, question)
        ledger.run(charge(), Count())
    elif end == "denied":
        ledger.deny(question.approval.id, by="ada", reason="no")
    else:
        ledger.cancel(question.effect.id, by="ada")
    before = ledger.get_approval(question.approval.id), ledger.get_effect(question.effect.id)
    assert before[0].status == end
    digest = question.approval.digest
    words: dict[str, dict[str, Any]] = {
        "approve": {"digest": digest},
        "deny": {"reason": "no"},
        "edit_approval": {"args": {"amount": 1}, "digest": digest},
    }
    with pytest.raises(VoteRefused, match=end) as refusal:
        getattr(ledger, verb)(question.approval.id, by="bob", **words.get(verb, {}))
    assert refusal.value.approval == before[0]
    assert (ledger.get_approval(question.approval.id), ledger.get_effect(question.effect.id)) == before


def effect_in(ledger: Driver, status: str) -> Any:
    if status == "succeeded":
        ledger.run(charge(), Count())
    elif status == "processing":
        ledger.begin(charge())
    elif status == "denied":
        ledger.deny(asked(ledger).approval.id, by="eve", reason="no")
    else:
        ledger.cancel(asked(ledger).effect.id, by="eve")
    (effect,) = ledger.effects()
    assert effect.status == status
    return effect


@pytest.mark.parametrize("name", ["eff_nothing", "00" * 32, "zz" * 32, "-"])
def test_an_effect_that_does_not_exist_is_said_to_be_unknown(ledger: Driver, name: str) -> None:
    with pytest.raises(UnknownEffect, match=name):
        ledger.retry(name, by="ada")


@pytest.mark.parametrize("name", ["apr_nothing", "eff_nothing", "", "\0", "x" * 600])
def test_an_approval_that_does_not_exist_is_said_to_be_unknown(ledger: Driver, name: str) -> None:
    assert ledger.get_approval(name) is None
    for verb, words in (("approve", {"digest": ""}), ("deny", {"reason": "no"}), ("revoke_approval", {})):
        with pytest.raises(UnknownApproval):
            getattr(ledger, verb)(name, by="ada", **words)


def test_an_effect_that_nobody_was_asked_about_cannot_be_approved(ledger: Driver) -> None:
    ledger.run(charge(), Count())
    with pytest.raises(UnknownApproval):
        ledger.approve(ledger.effects()[0].id, digest=ledger.effects()[0].digest, by="ada")


def test_an_approval_may_be_named_by_its_effect_and_by_itself(ledger: Driver) -> None:
    for amount, name in enumerate([lambda q: q.approval.id, lambda q: q.effect.id, lambda q: q.approval]):
        question = asked(ledger, args={"amount": amount})
        assert ledger.approve(name(question), digest=question.approval.digest, by="ada").status == "approved"


def test_an_ambiguous_beginning_is_refused(ledger: Driver) -> None:
    doubtful(ledger, args={"amount": 1})
    doubtful(ledger, args={"amount": 2})
    with pytest.raises(BadCall, match="more than one"):
        ledger.retry("eff_", by="ada")


def test_whoever_knows_an_id_cannot_settle_somebody_elses_claim(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    seen = ledger.get_effect(claim.effect.id)
    forged = Claim(seen, "00" * 16)
    with pytest.raises(LeaseLost):
        ledger.commit(forged, Succeeded("stolen"))
    with pytest.raises(LeaseLost):
        ledger.heartbeat(forged)
    assert ledger.commit(claim, Succeeded("mine")) == "mine"


def test_reading_an_effect_does_not_give_the_right_to_settle_it(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    for seen in (
        ledger.get_effect(claim.effect.id),
        ledger.effects()[0],
        ledger.find_by_key(claim.effect.key),
        ledger.begin(charge()).effect,
    ):
        with pytest.raises(LeaseLost):
            ledger.commit(Claim(seen, seen.token_hash), Succeeded("stolen"))
    assert ledger.commit(claim, Succeeded("mine")) == "mine"
