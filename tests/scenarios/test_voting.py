"""Who may decide, and when that is enough: quorums with roles, separation of duties, delegation, signatures."""

from __future__ import annotations

import threading
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible import Actor, Claimed
from indelible.core.approvals.approval import vote_message
from indelible.errors import ApprovalPending, BadCall, EffectDenied, VoteRefused
from indelible.testing.clock import FakeClock
from tests.scenarios.policies import PEOPLE, asking
from tests.scenarios.shells import Count, Driver, Shell, approve, charge, somebody_waits, types_of
from tests.waiting import PATIENCE

TOMORROW = timedelta(days=1)


def under(shell: Shell, clock: FakeClock | None = None, **approvals: Any) -> Driver:
    """Opens a ledger that asks about charges on these terms."""
    return shell.open(policy=asking(**approvals), clock=clock)


def question_of(ledger: Driver, **fields: Any) -> Any:
    return ledger.begin(charge(**fields)).approval


def refusal_of(ledger: Driver, approval: Any, by: Any, **words: Any) -> str:
    """Gives the code with which a vote is refused; nothing changes by it."""
    before = ledger.get_approval(approval.id), types_of(ledger)
    with pytest.raises(VoteRefused) as refusal:
        approve(ledger, approval, by=by, **words)
    assert (ledger.get_approval(approval.id), types_of(ledger)) == before
    code: str = refusal.value.code
    return code


# ── quorum ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_quorum_of_two_needs_two_people(shell: Shell) -> None:
    ledger = under(shell, quorum=2)
    handler = Count("ran")
    waiter = ledger.spawn("run", charge(), handler, wait=PATIENCE)
    somebody_waits(ledger)
    (question,) = ledger.approvals()
    first = approve(ledger, question, by="ana")
    assert (first.status, first.lacking, handler.entries) == ("pending", 1, 0)
    assert refusal_of(ledger, question, "ana") == "voted_already"
    assert approve(ledger, question, by="dan").status == "approved"
    assert waiter.result(PATIENCE) == "ran"
    assert types_of(ledger)[:3] == ["approval_requested", "approval_voted", "approval_received"]
    assert [vote.by for vote in ledger.get_approval(question.id).votes] == ["ana", "dan"]


def test_one_no_is_enough_however_many_have_said_yes(shell: Shell) -> None:
    ledger = under(shell, quorum=3)
    question = question_of(ledger)
    approve(ledger, question, by="ana")
    approve(ledger, question, by="bob")
    assert ledger.deny(question.id, by="cleo", reason="no").status == "denied"
    with pytest.raises(EffectDenied):
        ledger.run(charge(), Count())


def test_each_role_has_to_agree_and_nobody_stands_for_two(shell: Shell) -> None:
    ledger = under(shell, needs=[{"role": "finance"}, {"role": "legal"}])
    question = question_of(ledger)
    assert refusal_of(ledger, question, "dan") == "not_entitled"
    assert refusal_of(ledger, question, "mallory") == "not_entitled"
    assert approve(ledger, question, by="bob").status == "pending", "he has both roles and is one person"
    assert approve(ledger, question, by="ana").status == "approved", "then he was there for the other"
    assert ledger.run(charge(), Count("ran")) == "ran"


def test_the_same_role_twice_does_not_fill_another(shell: Shell) -> None:
    ledger = under(shell, needs=[{"role": "finance", "count": 2}, {"role": "legal"}])
    question = question_of(ledger)
    assert [approve(ledger, question, by=name).lacking for name in ("ana", "bob", "cleo")] == [2, 1, 0]


def test_a_vote_that_is_taken_back_is_lacking_again(shell: Shell) -> None:
    ledger = under(shell, quorum=2)
    question = question_of(ledger)
    approve(ledger, question, by="ana")
    approve(ledger, question, by="bob")
    assert ledger.revoke_approval(question.id, by="ana").lacking == 1
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), Count(), wait=False)
    approve(ledger, question, by="ana")
    assert isinstance(ledger.begin(charge()), Claimed)


def test_an_edit_starts_the_quorum_over(shell: Shell) -> None:
    ledger = under(shell, quorum=2)
    question = question_of(ledger)
    approve(ledger, question, by="ana")
    edited = ledger.edit_approval(question.id, {"amount": 4}, digest=question.digest, by="dan")
    assert edited.lacking == 2
    assert approve(ledger, edited, by="ana").status == "pending"
    assert approve(ledger, edited, by="bob").status == "approved"
    assert ledger.run(charge(), lambda effect: effect.args["amount"]) == 4


def test_a_question_that_may_not_be_edited_is_not(shell: Shell) -> None:
    ledger = under(shell, editable=False)
    question = question_of(ledger)
    with pytest.raises(VoteRefused) as refusal:
        ledger.edit_approval(question.id, {"amount": 4}, digest=question.digest, by="ana")
    assert refusal.value.code == "no_edit"


def test_votes_that_come_at_once_are_all_counted(shell: Shell) -> None:
    people = {f"person-{n}": {} for n in range(12)}
    ledger = shell.open(policy=asking(people, quorum=12))
    others = [ledger, shell.open(), shell.open()]
    question = question_of(ledger)
    votes = [others[n % 3].spawn("approve", question.id, digest=question.digest, by=f"person-{n}") for n in range(12)]
    assert sum(vote.result(PATIENCE).status == "approved" for vote in votes) == 1
    assert {vote.by for vote in ledger.get_approval(question.id).votes} == set(people)


# ── separation of duties ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("by", "code"),
    [
        ("billing-agent", "self_approval"),
        ("Billing-Agent ", "self_approval"),
        ("ana", "self_approval"),
        ("ANA", "self_approval"),
        (Actor("robot", "agent"), "not_a_person"),
        (Actor("cron", "system"), "not_a_person"),
    ],
)
def test_neither_who_asks_nor_whom_they_ask_for_decides(shell: Shell, by: Any, code: str) -> None:
    people = {**PEOPLE, "billing-agent": {}}
    ledger = shell.open(policy=asking(people), actor="billing-agent", principal="ana")
    question = question_of(ledger)
    assert refusal_of(ledger, question, by) == code
    with pytest.raises(VoteRefused):
        ledger.deny(question.id, by=by, reason="no")
    assert approve(ledger, question, by="bob").status == "approved"


def test_without_named_people_anybody_decides_but_who_asks(ledger: Driver) -> None:
    question = ledger.begin(charge(), approval="required").approval
    assert refusal_of(ledger, question, "agent") == "self_approval"
    assert approve(ledger, question, by="anybody").status == "approved"


def test_a_tool_that_asks_under_a_policy_is_decided_by_the_people_of_the_policy(shell: Shell) -> None:
    ledger = shell.open(policy={"people": PEOPLE, "approvals": {"quorum": 2, "roles": "finance"}})
    question = ledger.begin(charge(), approval="required").approval
    assert (question.question.rule, question.question.needs[0].count) == ("the tool asks", 2)
    assert refusal_of(ledger, question, "mallory") == "not_entitled"
    assert refusal_of(ledger, question, "cleo") == "not_entitled"
    approve(ledger, question, by="ana")
    assert approve(ledger, question, by="bob").status == "approved"
    assert ledger.run(charge(), Count("ran"), approval="required") == "ran"


def test_a_repeat_under_a_policy_is_decided_by_the_people_of_the_policy(shell: Shell) -> None:
    ledger = shell.open(policy={"people": PEOPLE, "approvals": {"roles": "legal"}})
    ledger.run(charge(call_id="c1", dedupe="ask"), Count())
    question = ledger.begin(charge(call_id="c2", dedupe="ask")).approval
    assert refusal_of(ledger, question, "ana") == "not_entitled"
    approve(ledger, question, by="cleo")
    assert ledger.run(charge(call_id="c2", dedupe="ask"), Count("again")) == "again"


# ── delegation ───────────────────────────────────────────────────────────────────────────────────────────────────────


def until(clock: FakeClock) -> datetime:
    return clock.now() + TOMORROW


def test_whoever_was_given_the_right_decides_in_anothers_place(shell: Shell, clock: FakeClock) -> None:
    ledger = under(shell, clock, roles="finance")
    question = question_of(ledger)
    assert refusal_of(ledger, question, "cleo") == "not_entitled"
    delegation = ledger.delegate("cleo", until=until(clock), by="ana", reason="on holiday")
    assert ledger.delegations() == [delegation]
    approved = approve(ledger, question, by="cleo")
    assert (approved.status, approved.votes[0].by, approved.votes[0].on_behalf_of) == ("approved", "cleo", "ana")
    told = ledger.events("indelible:approvals")[-1].read()
    assert (told["type"], told["actor"]["id"]) == ("delegation_given", "ana")


def test_a_delegation_holds_however_many_others_were_given_since(
    shell: Shell, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.engine.approving._MOST_LISTED", 2)
    ledger = under(shell, clock, roles="finance")
    ledger.delegate("Cleo", until=until(clock), by="ana")
    for name in ("zoe", "yan"):
        ledger.delegate(name, until=until(clock), by="bob")
    assert approve(ledger, question_of(ledger), by="cleo").votes[0].on_behalf_of == "ana"


def test_a_delegation_ends_with_its_date_and_when_somebody_ends_it(shell: Shell, clock: FakeClock) -> None:
    ledger = under(shell, clock, roles="finance")
    question = question_of(ledger)
    ledger.delegate("cleo", until=clock.now() + timedelta(hours=1), by="ana")
    clock.advance(timedelta(hours=1))
    assert refusal_of(ledger, question, "cleo") == "not_entitled"
    second = ledger.delegate("cleo", until=until(clock), by="ana")
    ended = ledger.end_delegation(second.id, by="ana")
    assert ended.is_ended
    assert refusal_of(ledger, question, "cleo") == "not_entitled"
    assert second.id not in {one.id for one in ledger.delegations()}


def test_two_rights_do_not_make_two_people_of_one(shell: Shell, clock: FakeClock) -> None:
    ledger = under(shell, clock, quorum=2)
    question = question_of(ledger)
    ledger.delegate("bob", until=until(clock), by="ana")
    approve(ledger, question, by="bob")
    assert refusal_of(ledger, question, "bob") == "voted_already"
    outsider = question_of(ledger, run_id="order-2")
    for giver in ("ana", "bob"):
        ledger.delegate("zoe", until=until(clock), by=giver)
    assert approve(ledger, outsider, by="zoe").lacking == 1
    assert refusal_of(ledger, outsider, "zoe") == "voted_already"


def test_nobody_gets_round_the_separation_of_duties_by_a_delegation(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(policy=asking(), clock=clock, actor="billing-agent", principal="ana")
    question = question_of(ledger)
    ledger.delegate("zoe", until=until(clock), by="ana")
    assert refusal_of(ledger, question, "zoe") == "self_approval", "the principal's right is none here"
    ledger.delegate("billing-agent", until=until(clock), by="bob")
    assert refusal_of(ledger, question, "billing-agent") == "self_approval"


def test_a_right_that_one_has_by_delegation_cannot_be_handed_on(shell: Shell, clock: FakeClock) -> None:
    ledger = under(shell, clock, roles="finance")
    question = question_of(ledger)
    ledger.delegate("cleo", until=until(clock), by="ana")
    ledger.delegate("zoe", until=until(clock), by="cleo")
    assert refusal_of(ledger, question, "zoe") == "not_entitled"


@pytest.mark.parametrize(
    ("to", "by", "moment"),
    [
        ("ana", "ana", datetime(2100, 1, 1, tzinfo=UTC)),
        ("ANA", "ana", datetime(2100, 1, 1, tzinfo=UTC)),
        ("", "ana", datetime(2100, 1, 1, tzinfo=UTC)),
        ("bob", "ana", datetime(2100, 1, 1)),  # noqa: DTZ001
        ("bob", Actor("robot", "agent"), datetime(2100, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_delegation_that_makes_no_sense_is_refused(ledger: Driver, to: str, by: Any, moment: datetime) -> None:
    with pytest.raises(BadCall):
        ledger.delegate(to, until=moment, by=by)
    assert ledger.delegations() == []


def test_a_delegation_that_does_not_exist_cannot_be_ended(ledger: Driver) -> None:
    with pytest.raises(BadCall, match="dlg_nothing"):
        ledger.end_delegation("dlg_nothing", by="ana")


# ── escalation ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_nobody_answers_goes_to_more_people_and_then_expires(shell: Shell, clock: FakeClock) -> None:
    ledger = under(shell, clock, people=["ana"], expires="3h", escalate=[{"after": "1h", "to": ["cleo"]}])
    question = question_of(ledger)
    assert refusal_of(ledger, question, "cleo") == "not_entitled"
    clock.advance(timedelta(hours=1))
    attend(ledger, question)
    assert types_of(ledger)[-1] == "approval_escalated"
    assert approve(ledger, question, by="cleo").status == "approved"
    clock.advance(timedelta(hours=2))
    attend(ledger, question)
    assert types_of(ledger)[-1] == "approval_expired"
    assert ledger.get_effect(question.effect_id).status == "requires_approval"


def attend(ledger: Driver, approval: Any) -> Any:
    """Does what the worker does about approvals that are due."""
    return ledger.ledger._approving.attend(approval)


# ── signatures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def signers() -> tuple[dict[str, Any], dict[str, Ed25519PrivateKey]]:
    keys = {name: Ed25519PrivateKey.generate() for name in ("ana", "bob")}
    people = {name: {"key": b64encode(key.public_key().public_bytes_raw()).decode()} for name, key in keys.items()}
    return {**people, "cleo": {}}, keys


def test_where_signatures_are_demanded_only_signed_votes_count(shell: Shell) -> None:
    people, keys = signers()
    ledger = shell.open(policy=asking(people, quorum=2, signed=True))
    question = question_of(ledger)
    message = vote_message(question.digest, True)
    assert refusal_of(ledger, question, "ana") == "not_signed"
    assert refusal_of(ledger, question, "cleo", signature=keys["ana"].sign(message)) == "signature"
    assert refusal_of(ledger, question, "bob", signature=keys["ana"].sign(message)) == "signature"
    assert refusal_of(ledger, question, "ana", signature=keys["ana"].sign(vote_message(question.digest, False)))
    assert refusal_of(ledger, question, "ana", signature=b"short") == "signature"
    for name, key in keys.items():
        approve(ledger, question, by=name, signature=key.sign(message))
    assert ledger.run(charge(), Count("ran")) == "ran"
    (ana, bob) = ledger.get_approval(question.id).votes
    keys["ana"].public_key().verify(ana.signature, message)
    keys["bob"].public_key().verify(bob.signature, message)


def test_a_signature_is_checked_also_where_none_is_demanded(shell: Shell) -> None:
    people, keys = signers()
    ledger = shell.open(policy=asking(people))
    question = question_of(ledger)
    assert refusal_of(ledger, question, "ana", signature=bytes(64)) == "signature"
    approve(ledger, question, by="ana", signature=keys["ana"].sign(vote_message(question.digest, True)))


def test_a_signature_for_one_question_is_none_for_another(shell: Shell) -> None:
    people, keys = signers()
    ledger = shell.open(policy=asking(people, signed=True))
    one, other = question_of(ledger), question_of(ledger, run_id="order-2")
    signature = keys["ana"].sign(vote_message(one.digest, True))
    with pytest.raises(VoteRefused) as refusal:
        approve(ledger, other, by="ana", signature=signature)
    assert refusal.value.code == "signature"
    edited = ledger.edit_approval(one.id, {"amount": 4}, digest=one.digest, by="bob")
    assert refusal_of(ledger, edited, "ana", signature=signature) == "signature"


def test_42_a_signature_that_was_taken_back_is_not_cast_again(shell: Shell) -> None:
    """It is on the record, and by= is the word of the caller: only the signature says that it is ana."""
    people, keys = signers()
    ledger = shell.open(policy=asking(people, signed=True))
    question = question_of(ledger)
    signature = keys["ana"].sign(vote_message(question.digest, True))
    approve(ledger, question, by="ana", signature=signature)
    assert ledger.revoke_approval(question.id, by="Ana", reason="wrong order").taken_back == ("ana",)
    for name in ("ana", "ANA"):
        assert refusal_of(ledger, question, name, signature=signature) == "taken_back"
    ran = Count("ran")
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), ran, wait=False)
    assert ran.entries == 0
    edited = ledger.edit_approval(question.id, {"amount": 5}, digest=question.digest, by="cleo")
    assert edited.taken_back == ()
    assert refusal_of(ledger, edited, "ana", signature=signature) == "signature"
    approve(ledger, edited, by="ana", signature=keys["ana"].sign(vote_message(edited.digest, True)))
    assert ledger.run(charge(), ran) == "ran"


def test_42_no_signature_is_good_for_two_questions_however_alike_and_close_they_are(shell: Shell) -> None:
    """What is written in one batch has one time, so equal calls had one digest, and one signature permitted both."""
    people, _ = signers()
    ledger = shell.open(policy=asking(people, signed=True))
    together = threading.Barrier(24)

    def ask(number: int) -> None:
        together.wait()
        ledger.begin(charge(dedupe="call", call_id=f"c{number}"))

    with ThreadPoolExecutor(24) as pool:
        list(pool.map(ask, range(24)))
    digests = [question.digest for question in ledger.approvals(status="pending")]
    assert (len(digests), len(set(digests))) == (24, 24)


def test_42_one_key_has_one_vote_also_where_two_policies_together_give_it_to_two_people(shell: Shell) -> None:
    """Each of them is sound: in one, ana has the key, and in the other, bob."""
    people, keys = signers()
    holds = people["ana"]
    ledger = shell.open(policy=asking({"ana": {}, "bob": holds, "cleo": {}}, quorum=2, signed=True))
    ledger.apply_policy(asking({"ana": holds, "bob": {}, "cleo": {}}, quorum=2, signed=True), by="root")
    question = question_of(ledger)
    signature = keys["ana"].sign(vote_message(question.digest, True))
    approve(ledger, question, by="ana", signature=signature)
    assert refusal_of(ledger, question, "bob", signature=signature) == "voted_already"
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), Count("ran"), wait=False)


def test_42_who_took_a_signed_vote_back_can_still_deny_and_others_can_approve(shell: Shell) -> None:
    people, keys = signers()
    ledger = shell.open(policy=asking(people, signed=True))
    one, other = question_of(ledger), question_of(ledger, run_id="order-2")
    for asked in (one, other):
        approve(ledger, asked, by="ana", signature=keys["ana"].sign(vote_message(asked.digest, True)))
        ledger.revoke_approval(asked.id, by="ana", reason="wrong order")
    approve(ledger, one, by="bob", signature=keys["bob"].sign(vote_message(one.digest, True)))
    no = keys["ana"].sign(vote_message(other.digest, False))
    assert ledger.deny(other.id, by="ana", reason="no", signature=no).status == "denied"


def test_a_denial_is_signed_as_a_denial(shell: Shell) -> None:
    people, keys = signers()
    ledger = shell.open(policy=asking(people, signed=True))
    question = question_of(ledger)
    yes, no = (keys["ana"].sign(vote_message(question.digest, answer)) for answer in (True, False))
    with pytest.raises(VoteRefused):
        ledger.deny(question.id, by="ana", reason="no", signature=yes)
    assert ledger.deny(question.id, by="ana", reason="no", signature=no).status == "denied"
