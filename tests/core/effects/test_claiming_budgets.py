"""Budgets and claims: a call reserves before anybody is asked, and spends when it is done."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import AwaitingApproval, OverBudget
from indelible.core.values.canonical import decode
from tests.core.effects.claiming import ELSEWHERE, OTHER, PRICED, approved, claim_on, opening
from tests.core.making import HOUR, REF, Shelf, asks, charge, charging, finish, relinquish, reopen, settle


def test_a_call_reserves_before_anybody_is_asked_and_spends_when_it_is_done() -> None:
    shelf, _ = approved(PRICED)
    assert shelf.budget().reserved == 2
    assert shelf.effects[REF].charges_json is not None
    claim = claim_on(shelf, opening(2, verdict=PRICED))
    assert shelf.budget().reserved == 2, "once"
    assert "charges" not in shelf.last_commits()
    shelf.do(finish(claim))
    assert (shelf.budget().reserved, sum(shelf.budget().spent.values())) == (0, 2)
    assert shelf.effects[REF].charges_json is None


def test_a_call_that_a_budget_does_not_have_is_refused_and_told() -> None:
    shelf = Shelf()
    answer = shelf.do(opening(verdict=charging(charge(6))))
    assert isinstance(answer, OverBudget)
    assert (answer.exceeded.used, answer.effect) == (0, None)
    assert shelf.effects == {}
    assert shelf.types() == ["policy_checked"]
    said: Any = decode(shelf.last_commits()["policy"])
    assert (said["decision"], said["rule"], said["policy"]) == ("refuse", "spend", "policy-1")
    assert said["why"] == "0 of 5 are taken, and this call takes 6"
    assert shelf.sheets == {}


def test_an_effect_that_a_budget_does_not_have_by_now_stays_as_it_is() -> None:
    shelf = Shelf()
    claim = claim_on(shelf, opening(verdict=charging(charge(4))))
    shelf.do(relinquish(claim))
    assert shelf.budget().reserved == 0
    claim_on(shelf, opening(2, ref=ELSEWHERE, verdict=charging(charge(4))))
    before = shelf.effects[REF]
    answer = shelf.do(opening(3, verdict=charging(charge(4))))
    assert isinstance(answer, OverBudget)
    assert answer.effect == before == shelf.effects[REF]
    assert isinstance(shelf.do(opening(4, verdict=asks(charges=(charge(4),)))), OverBudget), "nor is anybody asked"
    assert shelf.effects[REF] == before


@pytest.mark.parametrize("drift", [OTHER, {"schema": "f00d"}])
def test_asking_anew_reserves_anew_instead_of_what_was_reserved(drift: Any) -> None:
    shelf, _ = approved(PRICED)
    dearer = asks(charges=(charge(5),))
    assert isinstance(shelf.do(opening(2, **{**drift, "verdict": dearer})), AwaitingApproval)
    assert shelf.budget().reserved == 5
    assert shelf.last_commits()["charges"] == shelf.effects[REF].charges_json


def test_asking_anew_about_what_costs_nothing_gives_back_what_was_reserved() -> None:
    shelf, _ = approved(PRICED)
    shelf.do(opening(2, **OTHER))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)


@pytest.mark.parametrize("drift", [OTHER, {"schema": "f00d"}, {}])
def test_what_cannot_be_asked_anew_for_want_of_budget_leaves_the_old_question(drift: Any) -> None:
    shelf, approval = approved(asks(expires=HOUR, charges=(charge(2),)))
    claim_on(shelf, opening(2, ref=ELSEWHERE, verdict=charging(charge(3))))
    shelf.now += timedelta(0) if drift else HOUR
    before = shelf.effects[REF]
    answer = shelf.do(opening(3, **{**drift, "verdict": asks(charges=(charge(3),))}))
    assert isinstance(answer, OverBudget)
    assert (answer.exceeded.used, answer.effect) == (3, before)
    assert (shelf.effects[REF], shelf.approval(), shelf.budget().reserved) == (before, approval, 5)
    assert shelf.types()[-1] == "policy_checked"


def test_whoever_is_told_that_an_approval_ended_holds_no_budget() -> None:
    shelf, old = approved(PRICED)
    shelf.do(opening(2, verdict=asks(policy="policy-2", charges=(charge(2),)), awaited_approval=old.id))
    assert (shelf.budget().reserved, shelf.effects[REF].charges_json) == (0, None)
    shelf.do(opening(3, verdict=PRICED))
    assert shelf.budget().reserved == 2


def test_what_is_in_doubt_stays_reserved_until_somebody_knows() -> None:
    shelf, _ = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED)), "in_doubt"))
    assert shelf.budget().reserved == 2
    shelf.do(settle("failed"))
    assert (shelf.budget().reserved, shelf.budget().spent) == (0, {})
    shelf, _ = approved(PRICED)
    shelf.do(relinquish(claim_on(shelf, opening(2, verdict=PRICED)), "in_doubt"))
    shelf.do(settle("succeeded"))
    assert sum(shelf.budget().spent.values()) == 2


def test_what_is_tried_again_after_doubt_reserves_once() -> None:
    shelf = Shelf()
    shelf.do(relinquish(claim_on(shelf, opening(verdict=charging(charge(2)))), "in_doubt"))
    shelf.do(reopen())
    claim_on(shelf, opening(2, verdict=charging(charge(2))))
    assert shelf.budget().reserved == 2
