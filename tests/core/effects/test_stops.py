"""Promises of core.effects.stops: nothing is entered while all effects are stopped, and what is inside may finish."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.commands import AllStopped, Claimed, Moved, OverBudget, Replayed
from indelible.core.effects import walk
from indelible.core.effects.effect import Actor
from indelible.core.effects.stops import (
    STOP_REF,
    Cause,
    Stop,
    let_go,
    read_stop,
    said_by,
    stop_by_person,
    stop_in,
    stop_sheet,
    stop_version,
    stopped_for,
)
from indelible.core.moving import moved_to
from indelible.core.policy.budgets import Exceeded
from indelible.core.policy.policy import Asked, policy_of
from indelible.core.policy.verdicts import Charge, capped
from indelible.core.sheets import Sheet
from indelible.errors import Stopped, TooManyPending
from tests.core.effects.playing import play
from tests.core.making import (
    ADA,
    BY,
    HOUR,
    NOON,
    CountingMint,
    allows,
    asks,
    charge,
    claim_of,
    decide,
    effect,
    finish,
    next_step,
    open_command,
    prepared,
    reopen,
)

STOP = Stop(is_in_force=True, by="ada", at=NOON, reason="wrong accounts")
GOING = let_go(STOP, {"person"}, by=Actor("bo"), at=NOON + HOUR, reason="mended")
LOST = Cause("lost", "indelible", NOON - HOUR, "set back")
STOPPED: Any = {STOP_REF: stop_sheet(STOP)}
LET_GO: Any = {STOP_REF: stop_sheet(GOING)}
CAP = Charge(budget='open approvals {"run":"r"}', limit=Decimal(3), window=timedelta(milliseconds=1), amount=Decimal(1))


def test_a_stop_is_read_as_it_was_written() -> None:
    for stop in (STOP, GOING, stopped_for(STOP, LOST)):
        assert read_stop(stop_sheet(stop)) == stop
    assert (stop_sheet(STOP).status, stop_sheet(GOING).status, GOING.version) == ("stopped", "let_go", 2)


def test_a_stop_that_nobody_can_read_is_in_force() -> None:
    gone = read_stop(replace(stop_sheet(GOING), body=None))
    assert (gone.is_in_force, gone.version) == (True, 2)


def test_each_state_follows_from_the_one_before() -> None:
    first = stop_by_person(None, by=ADA, at=NOON, reason="r" * 5000)
    assert first is not None
    assert (first.version, len(first.reason)) == (1, 2000)
    later = let_go(first, {"person"}, by=Actor("bo"), at=NOON, reason="")
    assert (later.version, later.is_in_force, later.by) == (2, False, "bo")


def test_60_effects_go_on_when_no_cause_is_left() -> None:
    """One stop took the place of another, so what a person said while the ledger's own stop stood was lost."""
    lost = stopped_for(None, LOST)
    both = stop_by_person(lost, by=ADA, at=NOON + HOUR, reason="wait for the bank")
    assert both is not None
    assert [cause.kind for cause in both.causes] == ["lost", "person"], "what has to end first is told first"
    assert stop_by_person(both, by=Actor("bo"), at=NOON, reason="the same") is None
    other = LOST._replace(reason="another loss")
    assert stopped_for(both, other).causes == (other, *both.below)
    left = let_go(both, {"lost"}, by=Actor("bo"), at=NOON, reason="declared")
    assert (left.is_in_force, left.by, left.reason, left.version) == (True, "ada", "wait for the bank", 3)
    assert (let_go(left, {"person"}, by=ADA, at=NOON, reason="").causes, left.cause("lost")) == ((), None)
    unknown = read_stop(replace(stop_sheet(GOING), body=None))
    assert stopped_for(unknown, LOST).causes == (LOST,), "what nobody can read is told by what is known"


def test_43_a_stop_by_way_of_a_server_is_said_by_whom_the_token_names() -> None:
    later = NOON + HOUR
    for mine in (STOP, GOING):
        assert said_by(mine, mine.at, by="eve", at=later) == replace(mine, by="eve", at=later)
    below = stopped_for(STOP, LOST)
    assert said_by(below, STOP.at, by="eve", at=later).causes == (LOST, STOP.causes[0]._replace(by="eve", at=later))
    assert said_by(below, later, by="eve", at=later) == below


def test_what_is_in_force_is_told_with_its_version() -> None:
    assert (stop_in(STOPPED), stop_in(LET_GO), stop_in({STOP_REF: None})) == (STOP, None, None)
    assert (stop_version(STOPPED), stop_version(LET_GO), stop_version({STOP_REF: None})) == (-1, 2, 0)


@pytest.mark.parametrize("known", [None, effect("ready"), effect("requires_approval")])
def test_nothing_is_opened_or_claimed_while_all_are_stopped(known: Any) -> None:
    step = next_step(open_command(), known, NOON, 0, STOPPED)
    assert (step.answer, step.changes) == (AllStopped(STOP, known), ())
    assert not isinstance(next_step(open_command(), known, NOON, 0, LET_GO).answer, AllStopped)


def test_what_is_inside_may_finish_and_what_was_done_is_told() -> None:
    inside = effect()
    assert isinstance(next_step(finish(claim_of(inside)), inside, NOON, 1, STOPPED).answer, Moved)
    done = effect("succeeded")
    assert next_step(open_command(), done, NOON, 1, STOPPED).answer == Replayed(done)


def test_a_claim_whose_answer_was_lost_is_not_handed_out_again_while_all_are_stopped() -> None:
    command = open_command()
    (claimed,) = decide([command], {}, {}, NOON, BY, LET_GO).answers
    assert isinstance(claimed, Claimed)
    inside = claimed.claim.effect
    stopped, going = (decide([command], {command.ref: inside}, {}, NOON, BY, one) for one in (STOPPED, LET_GO))
    assert (stopped.answers, stopped.is_stopped) == ([AllStopped(STOP, inside)], True)
    assert (going.answers, going.is_stopped, going.is_empty) == ([claimed], True, True)


def test_a_batch_says_which_stop_its_claims_were_decided_on() -> None:
    claimed = decide([open_command()], {}, {}, NOON, BY, LET_GO)
    assert isinstance(claimed.answers[0], Claimed)
    assert claimed.stop_version == 2
    assert decide([open_command()], {}, {}, NOON, BY).stop_version == 0
    assert decide([open_command()], {}, {}, NOON, BY, STOPPED).stop_version is None
    report = finish(claim_of(effect()))
    assert decide([report], {report.ref: effect()}, {}, NOON, BY, LET_GO).stop_version is None


def test_one_more_attempt_rests_on_the_stop_too_and_is_allowed_while_all_are_stopped() -> None:
    again = reopen()
    doubtful = {again.ref: effect("in_doubt")}
    assert [decide([again], doubtful, {}, NOON, BY, one).stop_version for one in (LET_GO, STOPPED)] == [2, -1]
    assert not decide([again], doubtful, {}, NOON, BY, STOPPED).needs_signed


def test_a_write_rests_on_the_row_that_is_there_also_where_it_is_not_believed() -> None:
    taken_away = Sheet(kind=STOP_REF.kind, id=STOP_REF.id, version=3, status="", body=None, row_version=0)
    assert stop_version({STOP_REF: taken_away}) == 0


def test_whoever_is_stopped_is_told_by_whom_and_why() -> None:
    played = play(walk.begin(prepared(), CountingMint()), AllStopped(STOP, None))
    assert isinstance(played.error, Stopped)
    assert "stopped since 2030-01-02 12:00 UTC by ada: wrong accounts" in str(played.error)
    assert str(played.error).endswith("indelible go")


def test_whoever_is_stopped_for_good_is_sent_to_no_command() -> None:
    moved = replace(STOP, kind="moved", reason=moved_to("postgresql://elsewhere/db"))
    played = play(walk.begin(prepared(), CountingMint()), AllStopped(moved, None))
    assert str(played.error).endswith(moved.reason)


# How many questions may be open


def test_only_a_question_takes_of_how_many_may_be_open() -> None:
    assert capped(allows(), (CAP,)) == allows()
    assert capped(asks(), ()) == asks()
    asked = capped(asks(charges=(charge(),)), (CAP,))
    assert asked.charges == (charge(), CAP)
    assert capped(asked, (CAP,)) == asked, "once"


def test_a_policy_says_how_many_questions_may_be_open_of_a_run_and_of_the_tenant() -> None:
    policy = policy_of({"open_approvals": {"run": 3, "tenant": 50}})
    words: Any = {"tenant": "acme", "tool": "pay", "agent": "a", "principal": None, "run_id": "r", "environment": ""}
    asked = Asked(side_effect="payment", args={}, schema="", **words)
    of_run, of_tenant = policy.caps_on(asked)
    assert (of_run.limit, of_tenant.limit, of_run.amount) == (3, 50, 1)
    assert of_run.is_of_questions
    assert of_tenant.is_of_questions
    assert of_run.budget != policy.caps_on(replace(asked, run_id="r2"))[0].budget
    assert of_tenant == policy.caps_on(replace(asked, run_id="r2"))[1]


def test_a_question_too_many_is_no_budget_that_was_spent() -> None:
    assert CAP.is_of_questions
    assert not charge().is_of_questions
    assert not replace(CAP, window=HOUR).is_of_questions, "somebody may call a budget of theirs so"
    played = play(walk.begin(prepared(), CountingMint()), OverBudget(Exceeded(CAP, Decimal(3))))
    assert isinstance(played.error, TooManyPending)
