"""Promises of core.effects.walk: the way of one call, driven by hand, down every branch."""

from __future__ import annotations

from collections.abc import Generator, Iterable
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
    Cancel,
    Canceled,
    Claimed,
    Decided,
    Denied,
    Finish,
    Illegal,
    InDoubt,
    InFlight,
    Kept,
    KeyTaken,
    Late,
    LooksRepeated,
    MayRun,
    Moved,
    NoSuchEffect,
    NotCounted,
    Open,
    Outrun,
    OverBudget,
    Recorded,
    RefusedByPolicy,
    Relinquish,
    Reopen,
    Replayed,
    ReplayedFailure,
    Settle,
)
from indelible.core.effects import outcomes, walk
from indelible.core.effects.calls import Retry, ToolCall
from indelible.core.effects.effect import SYSTEM, Effect, Failed, Succeeded
from indelible.core.effects.identity import identify, repeat_of
from indelible.core.effects.requests import (
    AwaitChange,
    Awaited,
    AwaitSeal,
    CheckSealing,
    Invoke,
    Judge,
    Judged,
    Pause,
    Probe,
    Raised,
    Returned,
    Submit,
)
from indelible.core.policy.budgets import Exceeded
from indelible.core.policy.verdicts import ALLOWED, REPEAT_RULE, Verdict, asked_as_repeat
from indelible.core.runs.commands import RunNotMoved
from indelible.core.values.canonical import decode
from indelible.errors import (
    ApprovalExpired,
    ApprovalPending,
    ApprovalStale,
    BadCall,
    BudgetExceeded,
    EffectCanceled,
    EffectDenied,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    IllegalMove,
    KeyReused,
    LeaseLost,
    MayHaveHappened,
    NothingHappened,
    NotRecordable,
    NotSealed,
    PolicyRefused,
    ResultNotRecorded,
    RunLost,
    RunOver,
    StillRunning,
    StoreUnavailable,
    UnknownEffect,
)
from tests.core.making import (
    ADA,
    REF,
    CountingMint,
    Shelf,
    asked,
    asks,
    charge,
    claim_of,
    effect,
    open_command,
    prepared,
    refuses,
    relinquish,
    stamp,
)

CLAIM = claim_of(effect("processing"))
CLAIMED = Claimed(CLAIM)
RUNNING = effect("processing")
WAITING, PENDING = asked(effect("requires_approval"))
LATER = timedelta(seconds=3)
DOUBTFUL = effect("in_doubt")
MOVED = Moved(effect("succeeded"))


class Played:
    """Is what a walk asked for, and how it ended. What it asked of the policy stands apart."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.judged: list[Judge] = []
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def commands(self) -> list[Any]:
        return [request.command for request in self.asked if isinstance(request, Submit)]


def play(steps: Generator[Any, Any, Any], *answers: Any, verdicts: Iterable[Judged] = ()) -> Played:
    """Gives the walk one answer after the other; an exception is thrown in, a function is asked with the request.

    The policy gives these verdicts, and then lets everything pass.
    """
    played = Played()
    given_verdicts = iter(verdicts)
    given: list[Any] = [None, *answers]
    try:
        for answer in given:
            if isinstance(answer, BaseException):
                request = steps.throw(answer)
            else:
                request = steps.send(answer(played.asked[-1]) if callable(answer) else answer)
            while isinstance(request, Judge):
                played.judged.append(request)
                request = steps.send(next(given_verdicts, Judged(ALLOWED)))
            played.asked.append(request)
    except StopIteration as end:
        if isinstance(end.value, Raised):
            played.error = end.value.error
        else:
            played.value = end.value
    except BaseException as error:
        played.error = error
    else:
        raise AssertionError(f"the walk went on: it wants {played.asked[-1]}")
    assert len(played.asked) == len(answers), "the walk ended before all answers were given"
    return played


def run(*answers: Any, call: ToolCall | None = None, max_result_bytes: int | None = None, **options: Any) -> Played:
    steps = walk.run(prepared(call, max_result_bytes=max_result_bytes, **options), CountingMint())
    return play(steps, *answers)


def reason_of(command: Relinquish) -> Any:
    return decode(command.detail_json)


# ── asking ───────────────────────────────────────────────────────────────────────────────────────────────────────────


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
    assert second == replace(first, ref=repeat_of(first.ref, "c2"), dedupe="call", verdict=asked_as_repeat(ALLOWED))
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


# ── what the handler did ─────────────────────────────────────────────────────────────────────────────────────────────


def test_an_exception_is_recorded_and_raised_as_itself() -> None:
    error = ValueError("too little")
    played = run(CLAIMED, Raised(error), MOVED)
    finish = played.commands[-1]
    assert isinstance(finish, Finish)
    assert finish.status == "failed"
    assert decode(finish.detail_json) == {"message": "too little", "type": "ValueError"}
    assert played.error is error


def test_the_record_of_an_exception_says_where_it_was_raised() -> None:
    def charge() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x") as raised:
        charge()
    recorded: Any = decode(outcomes.error_json(raised.value))
    assert recorded["at"] == f"charge:{charge.__code__.co_firstlineno + 1}"


def test_nothing_happened_gives_the_claim_back() -> None:
    error = NothingHappened("card service is closed")
    played = run(CLAIMED, Raised(error), MOVED)
    (_, back) = played.commands
    assert (type(back), back.status) == (Relinquish, "ready")
    assert reason_of(back) == "NothingHappened: card service is closed"
    assert played.error is error


@pytest.mark.parametrize(
    ("report", "options"),
    [
        (Raised(MayHaveHappened("line cut")), {}),
        (Raised(MayHaveHappened("line cut")), {"on_crash": "retry"}),
        (Raised(KeyboardInterrupt()), {}),
        (Raised(SystemExit(1)), {}),
        (Raised(TimeoutError("read")), {}),
        (Raised(TimeoutError("limit"), is_interruption=True), {"on_crash": "retry"}),
        (Raised(ValueError("cut off"), is_interruption=True), {}),
    ],
)
def test_what_leaves_open_whether_it_happened_is_in_doubt(report: Raised, options: Any) -> None:
    played = run(CLAIMED, report, MOVED, **options)
    back = played.commands[-1]
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert type(report.error).__name__ in reason_of(back)
    assert played.error is report.error


def test_a_time_out_of_a_tool_that_may_be_repeated_is_a_failure() -> None:
    played = run(CLAIMED, Raised(TimeoutError("read")), MOVED, on_crash="retry")
    assert played.commands[-1].status == "failed"


def test_declared_exceptions_are_tried_again_after_a_pause() -> None:
    retry = Retry(on=(OSError,), attempts=3, backoff=timedelta(seconds=2))
    second = Claimed(claim_of(effect("processing", attempt=2)))
    played = run(
        CLAIMED, Raised(OSError("reset")), MOVED, None, second, Raised(OSError("again")), MOVED, None,
        Claimed(claim_of(effect("processing", attempt=3))), Returned("ok"), MOVED,
        retry=retry,
    )  # fmt: skip
    assert [type(request) for request in played.asked] == [
        Submit, Invoke, Submit, Pause, Submit, Invoke, Submit, Pause, Submit, Invoke, Submit,
    ]  # fmt: skip
    pauses = [request.duration for request in played.asked if isinstance(request, Pause)]
    assert pauses == [timedelta(seconds=2), timedelta(seconds=4)]
    assert [command.status for command in played.commands if isinstance(command, Relinquish)] == ["ready", "ready"]
    assert len({command.token for command in played.commands if isinstance(command, Open)}) == 3
    assert played.value == "ok"


def test_the_last_attempt_is_the_last() -> None:
    error = OSError("reset")
    again = Claimed(claim_of(effect("processing", attempt=2)))
    retry = Retry(on=(OSError,), attempts=2)
    played = run(CLAIMED, Raised(OSError("first")), MOVED, None, again, Raised(error), MOVED, retry=retry)
    assert played.commands[-1].status == "failed"
    assert played.error is error


def test_attempts_of_earlier_calls_do_not_use_up_those_of_this_one() -> None:
    later = Claimed(claim_of(effect("processing", attempt=7)))
    again = Claimed(claim_of(effect("processing", attempt=8)))
    retry = Retry(on=(OSError,), attempts=2)
    assert run(later, Raised(OSError("reset")), MOVED, None, again, Returned("ok"), MOVED, retry=retry).value == "ok"


def test_an_exception_that_was_not_declared_is_not_tried_again() -> None:
    played = run(CLAIMED, Raised(KeyError("k")), MOVED, retry=Retry(on=(OSError,)))
    assert played.commands[-1].status == "failed"


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), "\ud800", {"a": [print]}])
def test_a_result_that_cannot_be_recorded_leaves_doubt_and_hands_the_value_over(value: Any) -> None:
    played = run(CLAIMED, Returned(value), MOVED)
    back = played.commands[-1]
    assert (type(back), back.status) == (Relinquish, "in_doubt")
    assert isinstance(played.error, ResultNotRecorded)
    assert played.error.value is value
    assert isinstance(played.error.__cause__, NotRecordable)
    assert "result" in str(played.error)


def test_a_result_over_the_limit_leaves_doubt() -> None:
    assert run(CLAIMED, Returned("x" * 8), MOVED, max_result_bytes=10).value == "x" * 8
    assert isinstance(run(CLAIMED, Returned("x" * 9), MOVED, max_result_bytes=10).error, ResultNotRecorded)


@pytest.mark.parametrize("report", [Returned({"id": 7}), Raised(ValueError("no"))])
def test_a_store_that_is_gone_when_the_handler_returns_is_told_with_what_it_did(report: Any) -> None:
    gone = StoreUnavailable("the disk is full")
    error = run(CLAIMED, report, gone).error
    assert isinstance(error, ResultNotRecorded)
    assert error.value == ({"id": 7} if isinstance(report, Returned) else "no")
    assert error.__cause__ is (gone if isinstance(report, Returned) else report.error)
    assert "the disk is full" in str(error)


@pytest.mark.parametrize("report", [Returned(1), Raised(ValueError("no"))])
def test_a_lost_lease_is_told_with_the_state_now(report: Any) -> None:
    error = run(CLAIMED, report, Late(DOUBTFUL)).error
    assert isinstance(error, LeaseLost)
    assert error.effect is DOUBTFUL
    assert error.__cause__ is (None if isinstance(report, Returned) else report.error)


@pytest.mark.parametrize("report", [Raised(NothingHappened("x")), Raised(KeyboardInterrupt())])
def test_a_claim_that_cannot_be_given_back_now_does_not_hide_the_handlers_exception(report: Raised) -> None:
    played = run(CLAIMED, report, StoreUnavailable("gone"))
    assert played.error is report.error
    assert any("could not be marked" in note for note in played.error.__notes__)


@pytest.mark.parametrize("text", ["lone \ud800", "x" * 20_000, "nul \0", ""])
def test_any_text_of_an_exception_can_be_recorded(text: str) -> None:
    for report in (Raised(ValueError(text)), Raised(NothingHappened(text))):
        detail = run(CLAIMED, report, MOVED).commands[-1].detail_json
        assert len(detail) < 11_000


@pytest.mark.parametrize("is_interruption", [False, True])
def test_an_exception_that_cannot_even_be_shown_is_recorded(is_interruption: bool) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    error = Mute()
    played = run(CLAIMED, Raised(error, is_interruption), MOVED)
    assert played.error is error
    assert b"Mute" in played.commands[-1].detail_json


def test_even_a_stop_iteration_is_raised_as_itself() -> None:
    error = StopIteration(3)
    played = run(CLAIMED, Raised(error), MOVED)
    assert played.commands[-1].status == "failed"
    assert played.error is error


def test_an_outcome_that_the_handlers_transaction_cannot_take_leaves_doubt() -> None:
    ended = BadCall("the handler ended its transaction")
    played = run(CLAIMED, Returned("booked"), ended, MOVED)
    assert played.error is ended
    assert played.commands[-1].status == "in_doubt"


def test_a_store_that_fails_while_asking_is_told_as_it_is() -> None:
    gone = StoreUnavailable("gone")
    assert run(gone).error is gone


# ── probing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def probe(effect: Effect) -> None:
    raise AssertionError("only the driver enters a probe")


@pytest.mark.parametrize(
    ("outcome", "status", "detail"),
    [(Succeeded({"id": 1}), "succeeded", {"id": 1}), (Failed("no", "E"), "failed", {"message": "no", "type": "E"})],
)
def test_a_probe_that_knows_settles_the_effect_and_the_call_goes_on(outcome: Any, status: str, detail: Any) -> None:
    replay: Any = Replayed(effect("succeeded")) if status == "succeeded" else ReplayedFailure(effect("failed"))
    played = run(InDoubt(DOUBTFUL), Returned(outcome), MOVED, replay, reconcile=probe)
    assert played.asked[1] == Probe(DOUBTFUL, probe)
    settling = played.commands[1]
    assert isinstance(settling, Settle)
    assert (settling.ref, settling.status, decode(settling.detail_json)) == (REF, status, detail)
    assert (settling.stamp.actor.kind, settling.stamp.actor.id) == ("system", "probe of pay")
    assert decode(settling.evidence_json) == "probe"
    assert (played.value == {"ok": True}) == (status == "succeeded")


def test_a_probe_that_does_not_know_is_asked_once() -> None:
    played = run(InDoubt(DOUBTFUL), Returned(None), InDoubt(DOUBTFUL), reconcile=probe)
    assert isinstance(played.error, EffectInDoubt)
    assert sum(isinstance(request, Probe) for request in played.asked) == 1


def test_a_probe_that_raises_leaves_the_doubt() -> None:
    cause = ConnectionError("no route")
    error = run(InDoubt(DOUBTFUL), Raised(cause), reconcile=probe).error
    assert isinstance(error, EffectInDoubt)
    assert error.__cause__ is cause
    assert error.effect is DOUBTFUL


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_of_a_probe_stays_one(interruption: BaseException) -> None:
    played = run(InDoubt(DOUBTFUL), Raised(interruption, is_interruption=True), reconcile=probe)
    assert played.error is interruption


@pytest.mark.parametrize("answer", [True, "succeeded", {"ok": True}, 0])
def test_a_probe_that_answers_anything_else_is_wrong(answer: Any) -> None:
    error = run(InDoubt(DOUBTFUL), Returned(answer), reconcile=probe).error
    assert isinstance(error, BadCall)
    assert "Succeeded(value), Failed(error) or None" in str(error)


def test_a_probe_that_comes_second_takes_what_the_first_has_settled() -> None:
    settled = effect("succeeded")
    answers = (InDoubt(DOUBTFUL), Returned(Succeeded(1)), Illegal(settled, "it is succeeded"), Replayed(settled))
    assert run(*answers, reconcile=probe).value == {"ok": True}


def test_a_probe_that_says_that_nothing_happened_allows_another_attempt() -> None:
    ready = effect("ready")
    played = run(
        InDoubt(DOUBTFUL), Raised(NothingHappened("never arrived")), Moved(ready), CLAIMED, Returned("now"), MOVED,
        reconcile=probe,
    )  # fmt: skip
    reopening = played.commands[1]
    assert isinstance(reopening, Reopen)
    assert "never arrived" in str(decode(reopening.detail_json))
    assert reopening.stamp.actor.id == "probe of pay"
    assert played.value == "now"


@pytest.mark.parametrize("found", [effect("ready"), effect("processing")])
def test_a_probe_that_comes_second_goes_on_with_what_the_first_has_allowed(found: Effect) -> None:
    answers: tuple[Any, ...] = (InDoubt(DOUBTFUL), Raised(NothingHappened("x")), Illegal(found, "it moved on"))
    played = run(*answers, Replayed(effect("succeeded")), reconcile=probe)
    assert played.value == {"ok": True}


@pytest.mark.parametrize(
    "verdict", [Raised(NothingHappened("x")), Returned(Failed("not there")), Returned(Succeeded(1))]
)
def test_what_a_probe_found_of_one_attempt_does_not_settle_the_next(verdict: Any) -> None:
    """A slow probe asked about the first attempt; meanwhile a second one was made, and it is in doubt as well."""
    shelf = Shelf()
    first = shelf.do(open_command()).claim
    shelf.do(relinquish(first, "in_doubt"))
    asked = shelf.effects[REF]
    steps = walk.probe(asked, probe, CountingMint())
    assert isinstance(steps.send(None), Probe)
    shelf.do(Reopen(ref=REF, stamp=stamp(actor=ADA), detail_json=b'"by hand"'))
    second = shelf.do(open_command(token="cc" * 16)).claim
    shelf.do(relinquish(second, "in_doubt"))
    now = shelf.effects[REF]
    request = steps.send(verdict)
    answer = shelf.do(request.command)
    assert not isinstance(answer, Moved)
    assert shelf.effects[REF] == now


# ── commands about a known effect ────────────────────────────────────────────────────────────────────────────────────


def settling() -> Generator[Any, Any, Effect]:
    return walk.settle(DOUBTFUL, Succeeded(1), CountingMint(), actor=ADA, evidence="receipt 7")


def test_settling_says_what_who_and_how_they_know() -> None:
    played = play(settling(), MOVED)
    (command,) = played.commands
    assert (command.status, command.detail_json, command.evidence_json) == ("succeeded", b"1", b'"receipt 7"')
    assert command.stamp.actor == ADA
    assert played.asked[0].known is DOUBTFUL
    assert played.value is MOVED.effect


def test_a_value_that_cannot_be_recorded_is_refused_before_anything_is_written() -> None:
    played = play(walk.settle(DOUBTFUL, Succeeded(object()), CountingMint(), actor=ADA, evidence="e"))
    assert isinstance(played.error, NotRecordable)
    assert not played.asked


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Illegal(effect("succeeded"), "cannot be settled: it is succeeded"), IllegalMove),
        (NoSuchEffect(REF), UnknownEffect),
        (CLAIMED, AssertionError),
    ],
)
def test_a_command_that_is_not_carried_out_says_why(answer: Any, kind: type[Exception]) -> None:
    assert isinstance(play(settling(), answer).error, kind)


def test_an_illegal_move_names_the_effect_and_its_state() -> None:
    cancel = Cancel(ref=REF, stamp=stamp(actor=ADA), detail_json=b'"x"')
    done = effect("succeeded")
    error = play(walk.carry_out(cancel, DOUBTFUL), Illegal(done, "cannot be canceled: it is succeeded")).error
    assert isinstance(error, IllegalMove)
    assert error.effect is done
    assert str(error) == "pay: eff_1 cannot be canceled: it is succeeded"


def test_a_failure_is_recorded_with_message_and_class() -> None:
    assert decode(outcomes.outcome_json(Failed("no \ud800"))) == {"message": "no \\ud800", "type": "Error"}


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
