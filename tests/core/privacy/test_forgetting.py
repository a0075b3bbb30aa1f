"""Promises of forgetting: what is still needed or on hold stays, what goes is named, and nothing more is told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from indelible import Failed
from indelible.core.approvals.approval import APPROVAL_STATUSES
from indelible.core.approvals.grants import GrantTerms
from indelible.core.changes import Fact
from indelible.core.commands import (
    ArgsErased,
    AwaitingApproval,
    Canceled,
    Decided,
    Denied,
    Illegal,
    Replayed,
    ReplayedFailure,
)
from indelible.core.effects import requests, walk
from indelible.core.effects.effect import ENDED, ERASED_DIGEST, ERASED_TEXT, Status
from indelible.core.effects.identity import Ref
from indelible.core.events import MOST_BODY_BYTES, NO_EVENTS, Event, event_hash, fact_event
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.privacy.forgetting import (
    HOLD_LIFTED,
    HOLD_PLACED,
    HOLDS_RUN,
    MOST_AT_ONCE,
    Erasure,
    Kept,
    erased_facts,
    goes_with_args,
    goes_with_run,
    hold_facts,
    holds_in,
    is_cancelable,
    is_message_over,
    is_needed_to_resume,
    is_policy,
    mark_in,
    portions,
    select,
    why_held,
    why_needed,
    why_resumable,
)
from indelible.core.runs.run import OVER, RUN_STATUSES
from indelible.errors import EffectErased
from tests.core.making import (
    ADA,
    AGENT,
    BY,
    HOUR,
    NOON,
    OTHER_DIGEST,
    CountingMint,
    Shelf,
    amend,
    asks,
    attend,
    cast,
    claim_of,
    effect,
    finish,
    next_step,
    open_command,
    prepared,
    refuses,
    show_to,
    stamp,
    take_back,
)

STATUSES: tuple[Status, ...] = get_args(Status)


@pytest.mark.parametrize("status", STATUSES)
def test_only_what_has_ended_may_go(status: Status) -> None:
    why = why_needed(effect(status))
    assert (why is None) == (status in ENDED)
    if why is not None and status != "processing":
        assert "indelible effects" in why, "the reason names the next step"


def test_what_nobody_entered_can_be_withdrawn() -> None:
    assert {status for status in STATUSES if is_cancelable(effect(status))} == {"requires_approval", "ready"}


def test_a_selection_keeps_what_has_a_reason_and_erases_the_rest() -> None:
    effect_of = {0: "eff_1", 1: "eff_2", 2: None}
    chosen = select("run", [(2, "reason"), (0, "args"), (1, "args"), (1, "key")], effect_of, {"eff_2": "needed"})
    assert chosen.erased == ((0, "args"), (2, "reason"))
    assert chosen.kept == (Kept("run", "eff_2", "needed"),)


@pytest.mark.parametrize(
    ("event_type", "name", "goes"),
    [
        ("tool_call_started", "args", True),
        ("approval_edited", "args", True),
        ("approval_requested", "approval", True),
        ("tool_call_started", "grant", True),
        ("tool_call_started", "charges", True),
        ("policy_checked", "policy", True),
        ("approval_voted", "reason", True),
        ("tool_call_canceled", "reason", False),
        ("tool_call_finished", "result", False),
        ("tool_call_started", "key", False),
    ],
)
def test_what_is_made_of_arguments_goes_with_them(event_type: str, name: str, goes: bool) -> None:
    assert goes_with_args(event_type, name) == goes


def test_a_policy_that_was_put_in_force_is_no_verdict_on_a_call() -> None:
    assert is_policy("policy_applied", "policy")
    assert not is_policy("policy_applied", "reason")
    assert not is_policy("policy_checked", "policy")


def test_an_erasure_tells_where_something_was() -> None:
    facts = json.loads(erased_facts("subject", [(7, "key"), (3, "args"), (7, "args")]))
    assert facts == {
        "basis": "subject",
        "erased": [{"fields": ["args"], "seq": 3}, {"fields": ["args", "key"], "seq": 7}],
    }


def test_however_many_payloads_go_each_event_stays_within_its_limit() -> None:
    payloads = [(2**52 + number // 3, ("args", "key", "subject")[number % 3]) for number in range(2 * MOST_AT_ONCE + 1)]
    pieces = portions(payloads)
    assert [part for piece in pieces for part in piece] == payloads
    assert portions([]) == []
    for piece in pieces:
        body = _fact("\u0001" * 500, "payload_erased", erased_facts("retention", piece))
        assert len(body) <= MOST_BODY_BYTES


def _fact(run_id: str, event_type: str, facts: bytes) -> bytes:
    return fact_event(
        run_id=run_id, head=NO_EVENTS, event_type=event_type, at=NOON, actor=ADA, commits={}, facts=facts, by=BY
    )


def _event(run_id: str, event_type: str, facts: bytes, seq: int = 0) -> Event:
    body = _fact(run_id, event_type, facts)
    return Event(run_id=run_id, seq=seq, effect_id=None, type=event_type, hash=event_hash(body), body=body)


def test_a_hold_stands_until_it_is_lifted_in_its_own_run() -> None:
    mark = b'"' + b"ab" * 32 + b'"'
    events = [
        _event("run-1", HOLD_PLACED, hold_facts("hold_1", None)),
        _event("run-1", HOLD_PLACED, hold_facts("hold_2", None)),
        _event("run-1", HOLD_LIFTED, hold_facts("hold_1", None)),
        _event("run-2", HOLD_LIFTED, hold_facts("hold_2", None)),
        _event(HOLDS_RUN, HOLD_PLACED, hold_facts("hold_3", mark)),
    ]
    second, third = holds_in(events)
    assert (second.id, second.run_id, second.subject, second.by) == ("hold_2", "run-1", None, "ada")
    assert (third.id, third.run_id, third.subject) == ("hold_3", None, mark_in(mark))
    assert "indelible hold remove hold_2" in why_held(second)


def test_an_erasure_counts() -> None:
    assert Erasure({"a": 2, "b": 3}).count == 5
    assert Erasure({}).count == 0


# ── effects whose payloads are gone ──────────────────────────────────────────────────────────────────────────────────


def gone(status: Status, **changes: Any) -> Any:
    return effect(
        status, **{"args_json": None, "detail_json": None, "digest": ERASED_DIGEST, "detail_seq": 1, **changes}
    )


def test_an_erased_result_is_never_none() -> None:
    erased = gone("succeeded")
    for ask in (lambda: erased.args, lambda: erased.detail, lambda: erased.outcome, lambda: Replayed(erased).value):
        with pytest.raises(EffectErased) as refused:
            ask()
        assert refused.value.effect is erased


def test_an_erased_failure_or_refusal_is_still_one() -> None:
    assert gone("failed").outcome == Failed(ERASED_TEXT)
    assert ReplayedFailure(gone("failed")).error == ERASED_TEXT
    assert ReplayedFailure(gone("failed")).error_type == "Error"
    assert Denied(gone("denied")).reason == Canceled(gone("canceled")).reason == ERASED_TEXT


def test_what_was_never_there_is_not_erased() -> None:
    fresh = effect("processing")
    assert fresh.detail is None
    assert fresh.outcome is None
    assert not fresh.is_detail_erased


@pytest.mark.parametrize("status", ["succeeded", "failed", "denied", "canceled"])
def test_an_erased_effect_is_still_the_same_call(status: Status) -> None:
    """Its key stays, so it is not run again; its digest is gone, so nobody can tell whether the call says the same."""
    for digest in (effect(status).digest, OTHER_DIGEST):
        step = next_step(open_command(digest=digest), gone(status), NOON, 5)
        assert type(step.answer).__name__ in ("Replayed", "ReplayedFailure", "Denied", "Canceled")
        assert step.change is None


def test_a_digest_that_somebody_zeroed_opens_nothing() -> None:
    """Only together with the arguments is it gone for good; else a call with other content would pass for this one."""
    step = next_step(open_command(), effect("ready", digest=ERASED_DIGEST), NOON, 5)
    assert type(step.answer).__name__ == "KeyTaken"


@pytest.mark.parametrize("status", ["ready", "in_doubt", "processing"])
def test_without_arguments_there_is_no_attempt(status: Status) -> None:
    lost = gone(status, on_crash="retry", lease_until=NOON if status == "processing" else None)
    step = next_step(open_command(on_crash="retry"), lost, NOON, 5)
    assert type(step.answer).__name__ == ("ArgsErased" if status == "ready" else "InDoubt")
    assert status == "processing" or step.change is None


def test_what_failed_cannot_be_tried_again_without_its_arguments() -> None:
    from indelible.core.commands import Reopen

    lost = gone("failed")
    step = next_step(Reopen(ref=lost.ref, stamp=stamp(), detail_json=b'"again"'), lost, NOON, 5)
    assert "erased" in step.answer.why  # type: ignore[union-attr]


def test_a_report_said_twice_does_not_bring_an_erased_result_back() -> None:
    done = gone("succeeded")
    step = next_step(finish(claim_of(done)), done, NOON, 5)
    assert step.change is None


def test_a_call_about_a_person_commits_to_the_persons_mark() -> None:
    mark = b'"' + b"ab" * 32 + b'"'
    step = next_step(open_command(subject_json=mark), None, NOON, 0)
    assert step.change is not None
    assert dict(step.change.committed)["subject"] == mark
    assert list(step.change.committed) == ["args", "key", "subject"]


def test_a_walk_refuses_what_was_erased_by_its_name() -> None:
    for answer in (ArgsErased(gone("ready")), Replayed(gone("succeeded"))):
        steps = walk.begin(prepared(), CountingMint())
        next(steps)
        steps.send(requests.Judged(ALLOWED))
        with pytest.raises(EffectErased):
            steps.send(answer)


# ── approvals whose payloads are gone ────────────────────────────────────────────────────────────────────────────────


def forgotten(shelf: Shelf, *fields: str) -> None:
    """Erases values behind everybody's back, as at the very moment when somebody else was at work."""
    ref, held = next(iter(shelf.effects.items()))
    if "args" in fields:
        shelf.effects[ref] = replace(held, args_json=None, digest=ERASED_DIGEST)
    for place, sheet in shelf.sheets.items():
        if place.kind in fields:
            shelf.sheets[place] = replace(sheet, body=None)


def asking(**words: Any) -> Any:
    return open_command(verdict=asks(), stamp=stamp(NOON, AGENT), **words)


def test_without_its_arguments_an_approval_allows_nothing() -> None:
    for is_approved in (False, True):
        shelf = Shelf()
        shelf.do(asking())
        about = shelf.approval()
        if is_approved:
            shelf.do(cast(about))
        forgotten(shelf, "args")
        assert isinstance(shelf.do(asking()), ArgsErased)
        assert isinstance(shelf.do(open_command()), ArgsErased)
        if not is_approved:
            assert not isinstance(shelf.do(cast(about)), Decided)
        assert "tool_call_started" not in shelf.types()


def test_an_approval_that_was_erased_is_not_voted_on_and_nothing_runs_on_it() -> None:
    for is_approved in (False, True):
        shelf = Shelf()
        shelf.do(asking())
        about = shelf.approval()
        if is_approved:
            shelf.do(cast(about))
        forgotten(shelf, "approval")
        for command in (cast(about), take_back(about), amend(about), show_to(about), attend(about)):
            answer = shelf.do(command)
            assert isinstance(answer, Illegal)
            assert "erased" in answer.why
        begun = shelf.do(asking(effect_id="eff_other"))
        assert isinstance(begun, AwaitingApproval), "somebody has to be asked anew"
        assert begun.approval.id != about.id
        assert "tool_call_started" not in shelf.types()


def test_a_grant_or_delegation_that_was_erased_allows_nothing() -> None:
    shelf = Shelf()
    shelf.do(asking())
    terms = GrantTerms(count=3, until=NOON + HOUR)
    shelf.do(cast(shelf.approval(), grant=terms, grant_id="grt_1", pinned="ab" * 32))
    forgotten(shelf, "grant")
    other = Ref("default", "run-2", "ee" * 32)
    begun = shelf.do(asking(ref=other, run_id="run-2", effect_id="eff_2", grants={"grt_1": "ab" * 32}))
    assert isinstance(begun, AwaitingApproval)


def test_a_refused_call_is_found_by_whom_it_is_about() -> None:
    mark = b'"' + b"ab" * 32 + b'"'
    for words, names in (({"subject_json": mark}, {"args", "policy", "subject"}), ({}, {"args", "policy"})):
        step = next_step(open_command(verdict=refuses(), **words), None, NOON, 0)  # type: ignore[arg-type]
        assert isinstance(step.change, Fact)
        assert step.change.committed.keys() == names


def test_a_run_keeps_what_it_is_gone_on_with_until_it_is_over() -> None:
    assert {status for status in RUN_STATUSES if why_resumable("r", status) is None} == OVER
    assert why_resumable("r", "failed") == (
        "it is failed and needs what it is gone on with; end it first: indelible runs cancel r"
    )
    told = ("run", "checkpoint", "state", "side_effect_key", "payload", "reason", "args", "policy", "subject")
    needed = [name for name in told if is_needed_to_resume(name, is_named=False)]
    assert needed == ["run", "checkpoint", "state", "side_effect_key"]
    assert [name for name in told if is_needed_to_resume(name, is_named=True)] == ["run", "side_effect_key"]


def test_with_a_run_goes_what_is_told_of_it_and_not_why_something_of_it_was_erased() -> None:
    told = ("run", "checkpoint", "state", "side_effect_key", "payload", "reason", "args", "policy", "subject")
    assert [name for name in told if goes_with_run("run_failed", name)] == list(told[:6])
    assert [name for name in told if goes_with_run("payload_erased", name)] == list(told[:5])


def test_a_message_is_needed_while_its_question_is_open() -> None:
    needed = {status for status in APPROVAL_STATUSES if not is_message_over(status)}
    assert needed == {"pending", "approved"}
