"""Asking, on the way of one call: the opening, every answer to it, and what the policy and the people say."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from indelible.core.approvals.approval import Refusal, ended
from indelible.core.approvals.sheets import approval_sheet
from indelible.core.commands import (
    ApprovalEnded,
    ArgsErased,
    AwaitingApproval,
    Canceled,
    Decided,
    Denied,
    Illegal,
    InDoubt,
    InFlight,
    Kept,
    KeyTaken,
    Late,
    LooksRepeated,
    MayRun,
    NoSuchEffect,
    NotCounted,
    Open,
    Outrun,
    OverBudget,
    Recorded,
    RefusedByPolicy,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects import walk
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import identify, naming_of, repeat_of
from indelible.core.effects.requests import Judge, Judged, Submit
from indelible.core.policy.budgets import Exceeded
from indelible.core.policy.verdicts import ALLOWED, REPEAT_RULE, Verdict, asked_as_repeat
from indelible.core.runs.commands import RunNotMoved
from indelible.errors import (
    ApprovalExpired,
    ApprovalStale,
    BudgetExceeded,
    EffectErased,
    EffectInDoubt,
    KeyReused,
    PolicyRefused,
    RunLost,
    RunOver,
    StoreUnavailable,
)
from tests.core.effects.playing import CLAIMED, DOUBTFUL, MOVED, PENDING, RUNNING, WAITING, play
from tests.core.making import REF, CountingMint, asks, charge, effect, prepared, refuses, stamp


def test_an_opening_carries_all_that_the_decision_needs() -> None:
    call = ToolCall(
        tool="pay",
        args={"amount": 5},
        run_id="run-1",
        scope="s",
        key=["amount"],
        call_id="c1",
        dedupe="call",
        schema="f00d",
    )
    ready = replace(
        prepared(call, side_effect="payment", lease=timedelta(seconds=9)), principal="eve", subject_json=b'"mark"'
    )
    command = walk.opening(ready, CountingMint(), Judged(asks(), {"grt_1": "aa"}), "apr_7")
    identity = identify(call, "default")
    assert command == Open(
        ref=identity.ref,
        stamp=stamp(actor=ready.actor),
        effect_id="eff_0001",
        token=f"{2:032x}",
        run_id="run-1",
        tool="pay",
        side_effect="payment",
        on_crash="hold",
        call_id="c1",
        dedupe="call",
        digest=identity.digest,
        args_json=b'{"amount":5}',
        lease=timedelta(seconds=9),
        verdict=asks(),
        has_key_fields=True,
        subject_json=b'"mark"',
        schema="f00d",
        principal="eve",
        awaited_approval="apr_7",
        grants={"grt_1": "aa"},
        naming=naming_of(call),
    )
    assert not walk.opening(prepared(), CountingMint(), Judged(ALLOWED)).has_key_fields


@pytest.mark.parametrize(
    "answer",
    [
        CLAIMED,
        Replayed(effect("succeeded")),
        ReplayedFailure(effect("failed")),
        AwaitingApproval(PENDING, WAITING),
        InFlight(RUNNING),
        InDoubt(DOUBTFUL),
        Denied(effect("denied")),
        Canceled(effect("canceled")),
    ],
)
def test_beginning_gives_the_typed_answer(answer: Any) -> None:
    assert play(walk.begin(prepared(), CountingMint()), answer).value is answer


def test_asking_takes_nothing_and_gives_the_typed_answer() -> None:
    may = MayRun(effect("ready"))
    played = play(walk.ask(prepared(), CountingMint()), may)
    assert played.value is may
    assert [command.only_asks for command in played.commands] == [True]
    begun = play(walk.begin(prepared(), CountingMint()), Canceled(effect("canceled")))
    assert [command.only_asks for command in begun.commands] == [False]


def test_beginning_asks_once_more_in_its_own_place_when_a_call_looks_repeated() -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", call_id="c2", dedupe="ask")
    waiting = AwaitingApproval(PENDING, WAITING)
    played = play(walk.begin(prepared(call), CountingMint()), LooksRepeated(effect("succeeded")), waiting)
    first, second = played.commands
    assert played.value is waiting
    assert first.verdict == ALLOWED
    asked = replace(first, dedupe="call", verdict=asked_as_repeat(ALLOWED), on_repeat="ask")
    assert second == replace(asked, ref=repeat_of(first.ref, "c2"))
    assert second.verdict.question.rule == REPEAT_RULE


@pytest.mark.parametrize("verdict", [asks(), refuses()])
def test_a_repeat_that_is_asked_about_or_refused_anyway_is_that(verdict: Verdict) -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", call_id="c2", dedupe="ask")
    answers = (LooksRepeated(effect("succeeded")), AwaitingApproval(PENDING, WAITING))
    played = play(walk.begin(prepared(call), CountingMint()), *answers, verdicts=[Judged(verdict)])
    assert played.commands[1].verdict is verdict


def test_a_key_that_belongs_to_another_call_is_refused_loudly() -> None:
    played = play(walk.begin(prepared(), CountingMint()), KeyTaken(effect("succeeded")))
    assert isinstance(played.error, KeyReused)
    assert played.error.effect == effect("succeeded")
    assert "eff_1" in str(played.error)


@pytest.mark.parametrize(
    "answer",
    [
        MOVED,
        Late(RUNNING),
        Illegal(RUNNING, "no"),
        NoSuchEffect(REF),
        LooksRepeated(RUNNING),
        Recorded("run-1", 1),
        Decided(PENDING, WAITING),
        NotCounted(Refusal("code", "why"), PENDING, WAITING),
        Kept(approval_sheet(PENDING)),
        Outrun(None),
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_an_answer_that_no_store_may_give_to_an_opening_stops_the_walk(answer: Any) -> None:
    call = ToolCall(tool="pay", args={"amount": 5}, run_id="run-1", call_id="c2", dedupe="ask")
    answers = (answer, answer) if isinstance(answer, LooksRepeated) else (answer,)
    assert isinstance(play(walk.begin(prepared(call), CountingMint()), *answers).error, AssertionError)


@pytest.mark.parametrize(("code", "raised"), [("lost", RunLost), ("over", RunOver)])
def test_a_call_of_a_run_that_is_lost_says_so(code: str, raised: type[Exception]) -> None:
    asked = replace(prepared(), driver_token="t1")
    played = play(walk.begin(asked, CountingMint()), RunNotMoved(code, "is not yours"))
    assert type(played.error) is raised
    assert "pay: run run-1 is not yours" in str(played.error)
    assert played.commands[0].driver_token == "t1"


def test_what_was_seen_last_is_passed_on_if_it_is_about_this_call() -> None:
    mine = effect("succeeded", scope="run-1", key=identify(prepared().call, "default").ref.key)
    played = play(walk.begin(prepared(), CountingMint(), mine), Replayed(mine))
    assert played.asked[0].known is mine
    other = play(walk.begin(prepared(), CountingMint(), effect("succeeded")), Replayed(mine))
    assert other.asked[0].known is None


@pytest.mark.parametrize("known", [None, WAITING])
def test_what_the_policy_refuses_is_refused_by_the_name_of_the_rule(known: Effect | None) -> None:
    played = play(walk.begin(prepared(), CountingMint()), RefusedByPolicy(refuses("no payments"), known))
    assert isinstance(played.error, PolicyRefused)
    assert (played.error.verdict, played.error.effect) == (refuses("no payments"), known)
    assert "refused by the rule 'no payments' (on principle)" in str(played.error)
    wordless = replace(refuses("no payments"), why="")
    refused = play(walk.begin(prepared(), CountingMint()), RefusedByPolicy(wordless)).error
    assert "'no payments'; see" in str(refused)


def test_what_a_budget_does_not_have_is_refused_with_what_is_left() -> None:
    exceeded = Exceeded(charge(3, limit=5, budget="refunds"), Decimal(4))
    played = play(walk.begin(prepared(), CountingMint()), OverBudget(exceeded))
    assert isinstance(played.error, BudgetExceeded)
    assert (played.error.charge, played.error.effect) == (exceeded.charge, None)
    assert "'refunds' allows 5 in 1:00:00; 4 are taken, and this call takes 3" in str(played.error)


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        ("expired", ApprovalExpired, "nobody decided apr_1 until 2030-01-03 12:00 UTC; call again"),
        ("stale", ApprovalStale, "apr_1 is no longer about what would run now (changed: policy); call again"),
    ],
)
def test_an_approval_that_ended_is_told_to_whoever_waited_for_it(status: Any, kind: type[Exception], said: str) -> None:
    over = replace(WAITING, detail_seq=4, detail_json=b'"changed: policy"')
    answer = ApprovalEnded(ended(PENDING, status), over)
    error: Any = play(walk.begin(prepared(), CountingMint(), None, "apr_1"), answer).error
    assert type(error) is kind
    assert (error.approval, error.effect) == (answer.approval, over)
    assert said in str(error)


def test_a_question_that_took_the_place_of_the_one_waited_for_is_told() -> None:
    error = play(walk.begin(prepared(), CountingMint(), None, "apr_0"), ApprovalEnded(PENDING, WAITING)).error
    assert type(error) is ApprovalStale
    assert "apr_1 has taken the place of what this call waited for" in str(error)


def test_why_an_approval_went_stale_may_be_erased() -> None:
    answer = ApprovalEnded(ended(PENDING, "stale"), replace(WAITING, detail_seq=4, detail_json=None))
    assert "(erased)" in str(play(walk.begin(prepared(), CountingMint()), answer).error)


def test_what_was_erased_is_not_attempted_and_not_replayed() -> None:
    gone = effect("ready", args_json=None)
    error = play(walk.begin(prepared(), CountingMint()), ArgsErased(gone)).error
    assert isinstance(error, EffectErased)
    assert error.effect is gone
    doubtful = effect("in_doubt", args_json=None)
    assert isinstance(play(walk.begin(prepared(), CountingMint()), ArgsErased(doubtful)).error, EffectInDoubt)
    forgotten = Replayed(effect("succeeded", detail_json=None))
    assert isinstance(play(walk.begin(prepared(), CountingMint()), forgotten).error, EffectErased)


def test_the_policy_is_asked_about_the_call_before_anything_is_written() -> None:
    ready = prepared()
    steps = walk.begin(ready, CountingMint())
    assert steps.send(None) == Judge(ready)
    request = steps.send(Judged(refuses(), {"grt_1": "aa"}))
    assert isinstance(request, Submit)
    assert isinstance(request.command, Open)
    assert (request.command.verdict, request.command.grants) == (refuses(), {"grt_1": "aa"})


def test_a_policy_that_cannot_be_asked_lets_nothing_run() -> None:
    steps = walk.run(prepared(), CountingMint())
    assert isinstance(steps.send(None), Judge)
    with pytest.raises(StoreUnavailable, match="gone"):
        steps.throw(StoreUnavailable("gone"))


def test_53_what_holds_of_a_repeat_depends_on_the_word_and_no_grant_answers_it() -> None:
    ruled = Judged(asks(), grants={"gnt_1": "00"})
    assert ruled.repeated("run") is ruled
    asked = ruled.repeated("ask")
    assert (asked.verdict, asked.grants) == (ruled.verdict, {}), "its grant is for the rule"
    allowed = Judged(ALLOWED, grants={"gnt_1": "00"}).repeated("ask")
    assert (allowed.verdict.rule, allowed.grants) == (REPEAT_RULE, {"gnt_1": "00"})
    refused = ruled.repeated("refuse")
    assert (refused.verdict.decision, refused.verdict.question, refused.grants) == ("refuse", None, {})
