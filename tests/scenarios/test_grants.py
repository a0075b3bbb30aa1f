"""Standing grants: with an approval a person allows more calls like it, for a while, and never more than they named."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import Claimed, GrantTerms, NothingHappened, Retry
from indelible.errors import ApprovalPending, BadCall, PolicyRefused, VoteRefused
from indelible.testing.clock import FakeClock
from tests.scenarios.policies import asking, saying
from tests.scenarios.shells import Count, Driver, Shell, approve, asked, charge, types_of
from tests.waiting import PATIENCE

HOUR = timedelta(hours=1)


def granted(ledger: Driver, clock: FakeClock, count: int = 2, pin: Any = None, **fields: Any) -> Any:
    """Approves and runs a first call, and grants more like it."""
    question = asked(ledger, **fields)
    terms = GrantTerms(count=count, until=clock.now() + HOUR, pin=pin)
    approved = approve(ledger, question, grant=terms)
    ledger.run(charge(**fields), Count(), approval="required")
    return approved


def is_asked(ledger: Driver, **fields: Any) -> bool:
    """Is somebody asked about this call? Otherwise it has run."""
    handler = Count()
    try:
        ledger.run(charge(**fields), handler, approval="required", wait=False)
    except ApprovalPending:
        assert handler.entries == 0
        return True
    assert handler.entries == 1
    return False


def test_a_grant_covers_as_many_more_calls_as_it_names(ledger: Driver, clock: FakeClock) -> None:
    approved = granted(ledger, clock, count=2)
    (grant,) = ledger.grants(tool="charge")
    assert (grant.id, grant.uses_left, grant.given_by, grant.approval_id) == (approved.grant, 2, "ada", approved.id)
    assert ledger.grants(tool="other") == []
    assert not is_asked(ledger, run_id="order-2")
    assert not is_asked(ledger, run_id="order-3")
    assert is_asked(ledger, run_id="order-4")
    assert ledger.grants() == []
    assert types_of(ledger, "order-2") == ["tool_call_started", "tool_call_finished"]
    assert "grant" in ledger.events("order-2")[0].read()["commits"], "the record says by what it was allowed"


def test_a_replay_uses_nothing_of_a_grant(ledger: Driver, clock: FakeClock) -> None:
    granted(ledger, clock, count=1)
    assert not is_asked(ledger, run_id="order-2")
    ledger.run(charge(run_id="order-2"), Count(), approval="required")
    assert ledger.grants() == []
    assert is_asked(ledger, run_id="order-3")


def test_a_grant_pins_all_arguments_unless_it_says_which(ledger: Driver, clock: FakeClock) -> None:
    granted(ledger, clock, args={"to": {"id": "ada"}, "amount": 5})
    assert is_asked(ledger, run_id="order-2", args={"to": {"id": "ada"}, "amount": 6})
    assert is_asked(ledger, run_id="order-2", args={"to": {"id": "ada"}, "amount": 5, "note": ""})
    assert not is_asked(ledger, run_id="order-2", args={"to": {"id": "ada"}, "amount": 5})


def test_what_is_not_pinned_may_differ(ledger: Driver, clock: FakeClock) -> None:
    granted(ledger, clock, count=3, pin=("to.id",), args={"to": {"id": "ada"}, "amount": 5})
    assert not is_asked(ledger, run_id="order-2", args={"to": {"id": "ada"}, "amount": 600})
    assert is_asked(ledger, run_id="order-3", args={"to": {"id": "eve"}, "amount": 5})
    assert is_asked(ledger, run_id="order-4", args={"to": "ada", "amount": 5}), "there is nothing to compare"
    assert is_asked(ledger, run_id="order-5", args={"amount": 5})


@pytest.mark.parametrize("value", [True, 1.5, "5", [5], None])
def test_a_pinned_value_keeps_its_type(ledger: Driver, clock: FakeClock, value: Any) -> None:
    granted(ledger, clock, args={"amount": 1}, pin=("amount",))
    assert is_asked(ledger, run_id="order-2", args={"amount": value})


def test_a_grant_is_for_one_tool_and_one_schema_of_it(ledger: Driver, clock: FakeClock) -> None:
    granted(ledger, clock)
    assert is_asked(ledger, tool="refund", run_id="order-2")
    assert is_asked(ledger, schema="a" * 64, run_id="order-2")


def test_a_grant_ends_with_its_time(ledger: Driver, clock: FakeClock) -> None:
    granted(ledger, clock)
    clock.advance(HOUR)
    assert is_asked(ledger, run_id="order-2")


def test_a_grant_that_is_withdrawn_covers_nothing(ledger: Driver, clock: FakeClock) -> None:
    grant_id = granted(ledger, clock).grant
    assert ledger.end_grant(grant_id, by="bob", reason="enough").is_ended
    assert ledger.grants() == []
    assert is_asked(ledger, run_id="order-2")
    told = ledger.events("indelible:approvals")[-1].read()
    assert (told["type"], told["actor"]["id"]) == ("grant_ended", "bob")
    with pytest.raises(BadCall, match="grt_nothing"):
        ledger.end_grant("grt_nothing", by="bob")


def test_the_end_of_a_grant_is_told_once(ledger: Driver, clock: FakeClock) -> None:
    withdrawn = granted(ledger, clock).grant
    first = ledger.end_grant(withdrawn, by="bob")
    told = ledger.events("indelible:approvals")
    assert ledger.end_grant(withdrawn, by="bob") == first
    used_up = granted(ledger, clock, run_id="order-9", count=1).grant
    assert not is_asked(ledger, run_id="order-10")
    assert not ledger.end_grant(used_up, by="bob").is_ended
    assert [event.type for event in ledger.events("indelible:approvals")] == [event.type for event in told]


def test_whoever_takes_their_approval_back_takes_back_what_they_granted_with_it(
    ledger: Driver, clock: FakeClock
) -> None:
    question = asked(ledger)
    approve(ledger, question, grant=GrantTerms(count=5, until=clock.now() + HOUR))
    ledger.revoke_approval(question.approval.id, by="ada", reason="a mistake")
    assert ledger.grants() == []
    assert is_asked(ledger, run_id="order-2")


def test_a_grant_given_under_one_policy_is_none_under_another(shell: Shell, clock: FakeClock) -> None:
    strict = shell.open(policy=asking(), clock=clock)
    question = strict.begin(charge()).approval
    terms = GrantTerms(count=5, until=clock.now() + HOUR)
    approve(strict, question, by="ana", grant=terms)
    other = shell.open(policy=asking(expires="1h"), clock=clock)
    with pytest.raises(ApprovalPending):
        other.run(charge(run_id="order-2"), Count(), wait=False)
    assert isinstance(strict.begin(charge(run_id="order-3")), Claimed)


def test_nobody_grants_calls_to_an_agent_that_acts_for_them(shell: Shell, clock: FakeClock) -> None:
    """Who may not approve a call may not have approved it ahead either."""
    granted(shell.open(clock=clock), clock)
    for words in ({"principal": "ada"}, {"principal": "ADA "}, {"actor": "ada"}):
        assert is_asked(shell.open(clock=clock, **words), run_id=f"order-{words}")
    assert not is_asked(shell.open(clock=clock, principal="bob"), run_id="order-9")


def test_a_grant_does_not_lift_a_refusal(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(clock=clock)
    granted(ledger, clock)
    ledger.apply_policy(saying("refuse"), by="ana")
    with pytest.raises(PolicyRefused):
        ledger.run(charge(run_id="order-2"), Count(), approval="required")


def test_where_two_have_to_agree_one_of_them_grants_nothing(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(policy=asking(quorum=2), clock=clock)
    question = ledger.begin(charge()).approval
    terms = GrantTerms(count=100, until=clock.now() + HOUR)
    approve(ledger, question, by="ana")
    with pytest.raises(VoteRefused) as refusal:
        approve(ledger, question, by="bob", grant=terms)
    assert refusal.value.code == "no_grant"
    assert ledger.grants() == []


def test_a_grant_never_covers_more_calls_at_once_than_it_names(ledger: Driver, shell: Shell, clock: FakeClock) -> None:
    granted(ledger, clock, count=3)
    others = [ledger, shell.open(clock=clock), shell.open(clock=clock)]
    answers = [others[n % 3].spawn("begin", charge(run_id=f"order-{n}"), approval="required") for n in range(10, 22)]
    kinds = [type(answer.result(PATIENCE)).__name__ for answer in answers]
    assert kinds.count("Claimed") == 3
    assert kinds.count("AwaitingApproval") == 9


def test_attempts_of_a_granted_call_never_use_more_than_the_grant_has(ledger: Driver, clock: FakeClock) -> None:
    """Each attempt counts as a use: what is given ahead is never stretched."""
    granted(ledger, clock, count=2)
    handler = Count(ConnectionError("down"))
    retry = Retry(on=(ConnectionError,), attempts=5, backoff=timedelta(0))
    with pytest.raises(ConnectionError):  # with no use left, no person is asked about what may have happened
        ledger.run(charge(run_id="order-2"), handler, approval="required", retry=retry, wait=False)
    assert [effect.status for effect in ledger.effects(run_id="order-2")] == ["in_doubt"]
    assert handler.entries == 2
    with pytest.raises((NothingHappened, ApprovalPending)):
        ledger.run(charge(run_id="order-3"), Count(NothingHappened("no")), approval="required", wait=False)


@pytest.mark.parametrize(
    "words",
    [{"count": 0}, {"count": -1}, {"until": datetime(2100, 1, 1)}],  # noqa: DTZ001
)
def test_a_grant_for_nothing_is_refused(clock: FakeClock, words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        GrantTerms(**{"count": 1, "until": clock.now() + HOUR, **words})


def test_a_grant_cannot_pin_what_is_not_there(ledger: Driver, clock: FakeClock) -> None:
    question = asked(ledger)
    terms = GrantTerms(count=1, until=clock.now() + HOUR, pin=("customer",))
    with pytest.raises(BadCall, match=r"pin=\['customer'\]"):
        approve(ledger, question, grant=terms)
    assert ledger.get_approval(question.approval.id) == question.approval


def test_a_grant_for_a_call_with_secrets_covers_calls_with_the_same_secrets(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(clock=clock, redact=["args.card"])
    granted(ledger, clock, args={"amount": 5, "card": "4111111111111111"})
    assert is_asked(ledger, run_id="order-2", args={"amount": 5, "card": "4242424242424242"})
    assert not is_asked(ledger, run_id="order-3", args={"amount": 5, "card": "4111111111111111"})


def test_a_grant_holds_on_an_encrypted_ledger(shell: Shell, clock: FakeClock, keys: Path) -> None:
    ledger = shell.open(clock=clock, encrypt=True)
    granted(ledger, clock, count=1)
    assert is_asked(ledger, run_id="order-2", args={"amount": 6})
    assert not is_asked(ledger, run_id="order-3")
    assert is_asked(ledger, run_id="order-4")
