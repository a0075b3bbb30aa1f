"""Promises of core.effects.walk: the way of one call, driven by hand, down every branch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import ended
from indelible.core.commands import (
    ApprovalEnded,
    AwaitingApproval,
    Canceled,
    Denied,
    InDoubt,
    InFlight,
    Open,
    RefusedByPolicy,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects import walk
from indelible.core.effects.effect import SYSTEM, Effect
from indelible.core.effects.identity import Ref, identify, repeat_of
from indelible.core.effects.requests import (
    AwaitChange,
    Awaited,
    AwaitSeal,
    CheckSealing,
    Invoke,
    Judge,
    Judged,
    Origin,
    Recall,
    Returned,
    Submit,
)
from indelible.core.policy.verdicts import ALLOWED
from indelible.errors import (
    ApprovalExpired,
    ApprovalPending,
    EffectCanceled,
    EffectDenied,
    EffectFailed,
    EffectInDoubt,
    NotSealed,
    PolicyRefused,
    StillRunning,
)
from tests.core.effects.playing import CLAIM, CLAIMED, DOUBTFUL, LATER, MOVED, PENDING, RUNNING, WAITING, play, run
from tests.core.making import CountingMint, asks, effect, prepared, refuses

# ── running ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fresh_call_is_claimed_run_and_settled_in_this_order() -> None:
    played = run(CLAIMED, Returned({"n": (1, 2)}), MOVED)
    submit, invoke, finish = played.asked
    assert isinstance(submit.command, Open)
    assert isinstance(invoke, Invoke)
    assert invoke.claim is CLAIM
    assert finish.known is CLAIM.effect
    assert (finish.command.status, finish.command.detail_json) == ("succeeded", b'{"n":[1,2]}')
    assert finish.command.stamp.actor == SYSTEM
    assert played.value == {"n": [1, 2]}, "the caller gets the recorded form"


def test_the_recorded_value_is_given_without_entering_the_handler() -> None:
    played = run(Replayed(effect("succeeded", detail_json=b"0")))
    assert (played.value, len(played.asked)) == (0, 1)


def test_a_recorded_failure_is_raised_as_one() -> None:
    error = run(ReplayedFailure(effect("failed"))).error
    assert isinstance(error, EffectFailed)
    assert (error.error_type, error.effect) == ("CardError", effect("failed"))
    assert "declined" in str(error)


def test_a_recorded_failure_whose_detail_was_erased_is_raised_as_one() -> None:
    error = run(ReplayedFailure(effect("failed", detail_json=None))).error
    assert isinstance(error, EffectFailed)
    assert error.error_type == "Error"


@pytest.mark.parametrize(
    ("answer", "kind", "next_step"),
    [
        (InFlight(RUNNING), StillRunning, "wait="),
        (AwaitingApproval(PENDING, WAITING), ApprovalPending, "indelible approvals show apr_1"),
        (InDoubt(DOUBTFUL), EffectInDoubt, "settle"),
        (Denied(effect("denied")), EffectDenied, "because"),
        (Canceled(effect("canceled")), EffectCanceled, "because"),
    ],
)
def test_what_may_not_run_is_refused_with_the_effect_and_the_next_step(answer: Any, kind: Any, next_step: str) -> None:
    error = run(answer, wait=False).error
    assert type(error) is kind
    assert error.effect is answer.effect
    assert next_step in str(error)


def test_a_driver_that_answers_nonsense_is_stopped() -> None:
    assert isinstance(run(object()).error, AssertionError)


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_caller_waits_for_the_one_at_work_and_gets_its_result() -> None:
    key = identify(prepared().call, "default").ref.key
    done = effect("succeeded", key=key)
    played = run(InFlight(effect("processing", key=key)), Awaited(done, LATER), Replayed(done), wait=7)
    _, waiting, asking = played.asked
    assert waiting == AwaitChange(effect("processing", key=key), timedelta(seconds=7))
    assert asking.known is done, "what came with the wake-up need not be read again"
    assert played.value == {"ok": True}


def test_whoever_waits_for_an_approval_asks_the_policy_again_and_names_what_it_waited_for() -> None:
    waiting = AwaitingApproval(PENDING, WAITING)
    played = run(waiting, Awaited(WAITING, LATER), waiting, Awaited(None, LATER), CLAIMED, Returned(1), MOVED)
    assert [command.awaited_approval for command in played.commands[:3]] == [None, "apr_1", "apr_1"]
    assert [request.waited for request in played.judged] == [False, True, True], "who waited looks for no grant"
    assert played.value == 1


def test_what_the_policy_says_after_the_wait_holds() -> None:
    waiting = AwaitingApproval(PENDING, WAITING)
    answers = (waiting, Awaited(None, LATER), RefusedByPolicy(refuses(), WAITING))
    steps = walk.run(prepared(), CountingMint())
    played = play(steps, *answers, verdicts=[Judged(asks()), Judged(refuses())])
    assert [command.verdict.decision for command in played.commands] == ["ask", "refuse"]
    assert isinstance(played.error, PolicyRefused)


def test_an_approval_that_was_asked_for_by_somebody_else_meanwhile_is_waited_for_as_well() -> None:
    newer = AwaitingApproval(replace(PENDING, id="apr_2"), WAITING)
    ending = ApprovalEnded(ended(newer.approval, "expired"), WAITING)
    waited = (AwaitingApproval(PENDING, WAITING), Awaited(None, LATER), newer, Awaited(None, LATER), ending)
    played = run(*waited)
    assert [command.awaited_approval for command in played.commands] == [None, "apr_1", "apr_2"]
    assert isinstance(played.error, ApprovalExpired)


def test_a_caller_whose_wait_is_over_looks_once_more_and_then_says_so() -> None:
    played = run(InFlight(RUNNING), Awaited(None, timedelta(0)), InFlight(RUNNING), wait=7)
    assert [type(request) for request in played.asked] == [Submit, AwaitChange, Submit]
    assert isinstance(played.error, StillRunning)


def test_a_result_that_came_in_the_last_moment_is_still_taken() -> None:
    assert run(InFlight(RUNNING), Awaited(None, timedelta(0)), Replayed(effect("succeeded")), wait=7).value == {
        "ok": True
    }


def test_a_wait_is_a_total_however_often_the_caller_is_woken_in_vain() -> None:
    played = run(
        InFlight(RUNNING),
        Awaited(RUNNING, LATER),
        InFlight(RUNNING),
        Awaited(None, timedelta(0)),
        InFlight(RUNNING),
        wait=7,
    )
    waits = [request.left for request in played.asked if isinstance(request, AwaitChange)]
    assert waits == [timedelta(seconds=7), LATER]
    assert isinstance(played.error, StillRunning)


def test_a_caller_waits_for_the_decision_of_a_person_then_runs() -> None:
    waiting = WAITING
    approved = effect("ready")
    played = run(AwaitingApproval(PENDING, waiting), Awaited(approved, LATER), CLAIMED, Returned(1), MOVED)
    assert played.value == 1


def test_a_caller_that_waited_takes_over_what_was_given_back() -> None:
    played = run(InFlight(RUNNING), Awaited(effect("ready"), LATER), CLAIMED, Returned(1), MOVED)
    assert [type(request) for request in played.asked] == [Submit, AwaitChange, Submit, Invoke, Submit]


# ── the signed record ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_payment_asks_whether_the_journal_can_be_sealed_and_waits_until_it_is() -> None:
    played = run(None, CLAIMED, Returned(1), MOVED, None, side_effect="payment")
    assert [type(request) for request in played.asked] == [CheckSealing, Submit, Invoke, Submit, AwaitSeal]
    assert played.asked[-1] == AwaitSeal(CLAIM.effect, wherever=False)
    assert played.value == 1


def test_a_payment_that_cannot_be_sealed_is_refused_before_anything_is_claimed() -> None:
    played = run(NotSealed("no key"), side_effect="payment")
    assert [type(request) for request in played.asked] == [CheckSealing]
    assert isinstance(played.error, NotSealed)


@pytest.mark.parametrize(("side_effect", "asked"), [("read", True), ("payment", True)])
def test_who_asks_for_inclusion_waits_wherever_it_is_signed(side_effect: str, asked: bool) -> None:
    played = run(None, CLAIMED, Returned(1), MOVED, None, side_effect=side_effect, await_inclusion=asked)
    assert played.asked[-1] == AwaitSeal(CLAIM.effect, wherever=True)


def test_a_payment_may_go_without() -> None:
    played = run(CLAIMED, Returned(1), MOVED, side_effect="payment", await_inclusion=False)
    assert [type(request) for request in played.asked] == [Submit, Invoke, Submit]


def test_a_replayed_payment_waits_for_nothing() -> None:
    played = run(None, Replayed(effect("succeeded")), side_effect="payment")
    assert [type(request) for request in played.asked] == [CheckSealing, Submit]


# In a forked run

TURN_1, TURN_2 = (effect("succeeded", turn=turn, id=f"eff_{turn}") for turn in ("t1", "t2"))
ORIGIN = Origin(TURN_1.ref, "run-1", 9)


def forked(effects: dict[Ref, Effect], *origins: Origin, **words: Any) -> tuple[list[Open], Any]:
    """Begins a call in a forked run; gives what it asks, and how it ends if it asks nothing."""
    call = {"dedupe": "turn", "turn": "t3", **words}
    steps, asked = walk.begin(prepared(replace(prepared().call, **call), on_repeat="ask"), CountingMint()), []
    try:
        request = next(steps)
        while True:
            if isinstance(request, Judge):
                request = steps.send(Judged(ALLOWED, origins=origins or (ORIGIN,)))
            elif isinstance(request, Recall):
                request = steps.send(effects.get(request.ref))
            else:
                assert isinstance(request, Submit)
                assert isinstance(request.command, Open)
                asked.append(request.command)
                request = steps.send(RefusedByPolicy(ALLOWED, None))
    except StopIteration as end:
        return asked, end.value
    except PolicyRefused:
        return asked, None


def test_96_a_fork_replays_the_turn_that_it_is_in() -> None:
    places = {ORIGIN.ref: TURN_1, repeat_of(ORIGIN.ref, "turn", "1"): TURN_2}
    for turn, recorded in (("t1", TURN_1), ("t2", TURN_2), (None, TURN_1)):
        assert forked(places, turn=turn) == ([], Replayed(recorded))
    (asked,), _ = forked(places)
    assert asked.ref == prepared().identity.ref, "it is the first of its run"
    failed = replace(TURN_1, status="failed")
    other = Origin(repeat_of(ORIGIN.ref, "elsewhere"), "run-1", 9)
    (asked,), _ = forked({ORIGIN.ref: failed, other.ref: TURN_1}, ORIGIN, other)
    assert asked.verdict.decision == "ask", "whichever of the runs that were forked has made it"
    (asked,), _ = forked({ORIGIN.ref: failed})
    assert asked.verdict == ALLOWED, "what failed is tried anew in a later turn"
    late = replace(TURN_2, opened_seq=10)
    (asked,), _ = forked({ORIGIN.ref: TURN_1, repeat_of(ORIGIN.ref, "turn", "1"): late}, turn="t2")
    assert asked.verdict.decision == "ask", "the event forked from was before that"


def test_96_a_fork_replays_the_call_id_that_it_names() -> None:
    first, second = replace(TURN_1, call_id="c1"), replace(TURN_2, call_id="c2")
    places = {ORIGIN.ref: first, repeat_of(ORIGIN.ref, "c2"): second}
    for call_id, recorded in (("c1", first), ("c2", second)):
        assert forked(places, dedupe="ask", turn=None, call_id=call_id) == ([], Replayed(recorded))
    (asked,), _ = forked(places, dedupe="ask", turn=None, call_id="c3")
    assert asked.ref == repeat_of(prepared().identity.ref, "c3")
    assert asked.verdict.decision == "ask"
