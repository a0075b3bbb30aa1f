"""Permissions after an attempt: handed back, covering the next one after a crash, or asked for anew."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.grants import GrantTerms, grant_of, grant_ref, grant_sheet
from indelible.core.approvals.sheets import approval_sheet
from indelible.core.commands import AwaitingApproval, Illegal
from indelible.core.effects.effect import Claim
from tests.core.effects.claiming import PRICED, approved, claim_on, edited, opening
from tests.core.explored import pinned
from tests.core.making import (
    ADA,
    ARGS,
    BO,
    HOUR,
    LEASE,
    OTHER_ARGS,
    REF,
    Shelf,
    allows,
    amend,
    asks,
    attend,
    cancel,
    cast,
    charge,
    charging,
    finish,
    relinquish,
    reopen,
    vote,
)


def test_an_attempt_in_which_nothing_happened_hands_its_approval_back() -> None:
    shelf, approval = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED))))
    free = shelf.approval()
    assert (free.status, free.attempt, free.votes, free.version) == ("approved", None, approval.votes, 4)
    assert shelf.budget().reserved == 2, "as while it waited"
    claim = claim_on(shelf, opening(3, verdict=PRICED))
    assert (claim.attempt, shelf.approval().status, shelf.approval().attempt) == (2, "consumed", 2)
    assert shelf.budget().reserved == 2


def test_an_approval_that_was_handed_back_can_still_lapse_or_be_taken_back() -> None:
    shelf, approval = approved(asks(expires=HOUR, charges=(charge(2),)))
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED))))
    shelf.now += HOUR
    shelf.do(attend(approval))
    assert (shelf.approval().status, shelf.budget().reserved) == ("expired", 0)
    assert isinstance(shelf.do(opening(3, verdict=PRICED)), AwaitingApproval)


def test_an_attempt_that_needed_no_approval_hands_its_budget_back() -> None:
    shelf = Shelf()
    shelf.do(relinquish(claim_on(shelf, opening(verdict=charging(charge(2))))))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)
    claim_on(shelf, opening(2, verdict=charging(charge(2))))
    assert shelf.budget().reserved == 2
    assert shelf.last_commits()["charges"] == shelf.effects[REF].charges_json


def test_an_attempt_after_a_crash_is_covered_by_the_approval_that_was_used() -> None:
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2, on_crash="retry"))
    shelf.now += LEASE
    second = claim_on(shelf, opening(3, on_crash="retry"))
    assert second.attempt == 2
    shelf.do(relinquish(second, "in_doubt"))
    third = claim_on(shelf, opening(4, on_crash="retry"))
    assert third.attempt == 3
    used = shelf.approval()
    assert (used.status, used.attempt, used.votes) == ("consumed", 3, (vote("ada"),)), "each takes it over"
    assert shelf.last_commits()["approval"] == approval_sheet(used).body, "and says so on the record"
    shelf.now += timedelta(days=9)
    assert claim_on(shelf, opening(5, on_crash="retry")).attempt == 4, "also when its time is over: it was used in time"


@pytest.mark.parametrize("drift", [{"verdict": asks(policy="policy-2")}, {"schema": "f00d"}])
def test_after_a_crash_it_covers_nothing_else(drift: Any) -> None:
    shelf, _ = approved(on_crash="retry", side_effect="read")
    claim_on(shelf, opening(2, on_crash="retry"))
    shelf.now += LEASE
    answer = shelf.do(opening(3, on_crash="retry", **drift))
    assert isinstance(answer, AwaitingApproval)
    assert (answer.effect.attempt, answer.approval.replaces) == (1, "apr_1")
    shelf.do(cast(answer.approval, BO))
    assert claim_on(shelf, opening(4, on_crash="retry", **drift)).attempt == 2


@pytest.mark.parametrize("is_abandoned", [False, True])
@pytest.mark.parametrize("drift", [{"verdict": asks(policy="policy-2")}, {"schema": "f00d"}])
def test_51_what_may_have_happened_stays_in_doubt_where_a_person_would_be_asked(drift: Any, is_abandoned: bool) -> None:
    """A denial would end as not done what may have happened, and give its budget back."""
    shelf, _ = approved(PRICED, on_crash="retry")
    claim = claim_on(shelf, opening(2, on_crash="retry", verdict=PRICED))
    if is_abandoned:
        shelf.now += LEASE
    else:
        shelf.do(relinquish(claim, "in_doubt"))
    answer = shelf.do(opening(3, on_crash="retry", **drift))
    assert (type(answer).__name__, answer.effect.status) == ("InDoubt", "in_doubt")
    assert (shelf.approval().status, shelf.budget().reserved) == ("consumed", 2)
    assert isinstance(shelf.do(cancel()), Illegal)


def test_after_a_crash_its_votes_are_counted_again() -> None:
    shelf, _ = approved(on_crash="retry", side_effect="read")
    claim_on(shelf, opening(2, on_crash="retry"))
    edited(shelf, shelf.approval(), votes=())
    shelf.now += LEASE
    assert isinstance(shelf.do(opening(3, on_crash="retry")), AwaitingApproval)


def test_after_a_crash_edited_arguments_run_again_as_they_were_approved() -> None:
    shelf = Shelf()
    verdict = asks(charges=(charge(2),))
    first = shelf.do(opening(on_crash="retry", verdict=verdict)).approval
    changed = shelf.do(amend(first, ADA, verdict=asks(charges=(charge(3),)))).approval
    shelf.do(cast(changed, BO))
    claim_on(shelf, opening(2, on_crash="retry", verdict=verdict))
    shelf.now += LEASE
    claim = claim_on(shelf, opening(3, on_crash="retry", verdict=verdict))
    assert (claim.attempt, claim.effect.args_json, shelf.budget().reserved) == (2, OTHER_ARGS, 3)


def test_a_tool_that_may_not_be_repeated_is_held_after_a_crash_though_it_was_approved() -> None:
    shelf, _ = approved()
    claim_on(shelf, opening(2))
    shelf.now += LEASE
    assert type(shelf.do(opening(3))).__name__ == "InDoubt"


@pytest.mark.parametrize("status", ["failed", "in_doubt"])
def test_a_persons_retry_is_not_covered_by_what_was_used(status: Any) -> None:
    shelf, _ = approved(PRICED)
    claim = claim_on(shelf, opening(2, verdict=PRICED))
    shelf.do(finish(claim, "failed") if status == "failed" else relinquish(claim, "in_doubt"))
    shelf.do(reopen())
    asked = shelf.do(opening(3, verdict=PRICED))
    assert isinstance(asked, AwaitingApproval)
    assert (asked.approval.replaces, asked.effect.attempt) == ("apr_1", 1)
    assert shelf.budget().reserved == 2
    shelf.do(cast(asked.approval, ADA))
    assert claim_on(shelf, opening(4, verdict=PRICED)).attempt == 2


def granted_again(**words: Any) -> tuple[Shelf, Claim]:
    """The first attempt used the approval up; a person allowed a second, which ran on a standing grant."""
    shelf, _ = approved(**words)
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    terms = GrantTerms(count=1, until=shelf.now + timedelta(days=1))
    grant = grant_of("grt_1", shelf.approval(), terms, pinned(), vote("ada"))
    shelf.sheets[grant_ref("grt_1")] = grant_sheet(grant)
    return shelf, claim_on(shelf, opening(3, grants={"grt_1": pinned()}))


def test_a_retry_is_asked_about_though_the_policy_lets_it_pass_by_then() -> None:
    shelf, _ = approved()
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    assert isinstance(shelf.do(opening(3, verdict=allows())), AwaitingApproval)


def test_an_attempt_that_ran_on_a_grant_hands_no_approval_back() -> None:
    shelf, claim = granted_again()
    shelf.do(relinquish(claim))
    assert shelf.approval().status == "consumed"
    assert isinstance(shelf.do(opening(4)), AwaitingApproval)


def test_an_attempt_after_the_crash_of_one_that_ran_on_a_grant_is_not_covered_by_an_older_approval() -> None:
    shelf, _ = granted_again(on_crash="retry", side_effect="read")
    shelf.now += LEASE
    answer = shelf.do(opening(4, on_crash="retry"))
    assert isinstance(answer, AwaitingApproval)
    assert answer.effect.attempt == 2


def test_an_attempt_after_a_crash_in_which_nothing_happened_leaves_the_doubt_and_its_approval() -> None:
    """The first attempt may have happened, so the effect stays in doubt, and the approval covers the next attempt."""
    shelf, _ = approved(on_crash="retry")
    claim_on(shelf, opening(2, on_crash="retry"))
    shelf.now += LEASE
    given_up = shelf.do(relinquish(claim_on(shelf, opening(3, on_crash="retry"))))
    assert given_up.effect.status == "in_doubt"
    assert (shelf.approval().status, shelf.approval().attempt) == ("consumed", 2)
    assert claim_on(shelf, opening(4, on_crash="retry")).attempt == 3


def test_a_retry_of_an_edited_call_that_failed_is_asked_about() -> None:
    shelf = Shelf()
    changed = shelf.do(amend(shelf.do(opening()).approval, ADA)).approval
    shelf.do(cast(changed, BO))
    shelf.do(finish(claim_on(shelf, opening(2)), "failed"))
    shelf.do(reopen())
    asked = shelf.do(opening(3, verdict=allows()))
    assert isinstance(asked, AwaitingApproval)
    assert asked.effect.args_json == ARGS, "as it was called, for that is what the policy has judged"
