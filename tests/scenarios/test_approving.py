"""A call that a person has to approve waits, survives its process, and runs once with what was approved, or never."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import (
    Actor,
    AwaitingApproval,
    Claimed,
    InFlight,
    Ledger,
    MayRun,
    NothingHappened,
    Refused,
    Replayed,
    Retry,
    Succeeded,
)
from indelible.core.approvals.approval import DEFAULT_EXPIRY
from indelible.core.values.differences import MISSING, Difference
from indelible.errors import (
    ApprovalExpired,
    ApprovalPending,
    ApprovalStale,
    BadCall,
    EffectCanceled,
    EffectDenied,
    EffectErased,
    EffectFailed,
    EffectInDoubt,
    VoteRefused,
)
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, approve, asked, charge, somebody_waits, types_of
from tests.scenarios.test_transactions import Table
from tests.waiting import PATIENCE, eventually


def waiting_run(ledger: Driver, handler: Callable[..., Any], **fields: Any) -> Any:
    """Starts a call that waits for a person, longer than the scenario, and gives its future once it does."""
    waiter = ledger.spawn("run", charge(**fields), handler, approval="required", wait=PATIENCE * 5)
    somebody_waits(ledger)
    return waiter


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_waiting_call_runs_when_it_is_approved_and_tells_all_of_it(ledger: Driver) -> None:
    handler = Count("ran")
    waiter = waiting_run(ledger, handler)
    (question,) = ledger.approvals(status="pending")
    assert (question.tool, question.run_id, question.side_effect) == ("charge", "order-1", "external_mutation")
    assert handler.entries == 0
    assert approve(ledger, question, reason="fine").status == "approved"
    assert waiter.result(PATIENCE) == "ran"
    assert ledger.get_approval(question.id).status == "consumed"
    assert types_of(ledger) == ["approval_requested", "approval_received", "tool_call_started", "tool_call_finished"]
    actors = [event.read()["actor"]["id"] for event in ledger.events("order-1")]
    assert actors[:2] == ["agent", "ada"]


def test_a_waiting_call_is_told_that_it_was_denied(ledger: Driver) -> None:
    handler = Count()
    waiter = waiting_run(ledger, handler)
    (question,) = ledger.approvals()
    assert ledger.deny(question.id, by="ada", reason="not today").status == "denied"
    with pytest.raises(EffectDenied, match="not today"):
        waiter.result(PATIENCE)
    assert handler.entries == 0


def test_a_waiting_call_is_told_that_it_was_canceled(ledger: Driver) -> None:
    handler = Count()
    waiter = waiting_run(ledger, handler)
    ledger.cancel(ledger.effects()[0].id, by="ada", reason="not needed")
    with pytest.raises(EffectCanceled, match="not needed"):
        waiter.result(PATIENCE)
    assert (handler.entries, ledger.approvals()[0].status) == (0, "canceled")


def test_a_waiting_call_is_told_when_the_time_to_decide_is_over(ledger: Driver, clock: FakeClock) -> None:
    handler = Count()
    waiter = waiting_run(ledger, handler)
    (question,) = ledger.approvals()
    clock.advance(DEFAULT_EXPIRY)
    with pytest.raises(ApprovalExpired, match="call again") as told:
        waiter.result(PATIENCE)
    assert (told.value.approval.id, told.value.approval.status) == (question.id, "expired")
    assert handler.entries == 0


def test_a_call_that_comes_back_after_the_time_was_over_asks_anew(ledger: Driver, clock: FakeClock) -> None:
    first = asked(ledger)
    clock.advance(DEFAULT_EXPIRY)
    with pytest.raises(VoteRefused, match="expired") as refusal:
        approve(ledger, first)
    assert refusal.value.code == "expired"
    second = asked(ledger)
    assert (second.approval.replaces, second.effect.id) == (first.approval.id, first.effect.id)
    assert ledger.get_approval(first.approval.id).status == "expired"
    assert ledger.view_approval(second.approval.id).changed == [], "it is the same call"
    approve(ledger, second)
    assert ledger.run(charge(), Count("ran")) == "ran"


def test_what_was_approved_in_time_and_not_used_in_time_is_asked_anew(ledger: Driver, clock: FakeClock) -> None:
    approve(ledger, asked(ledger))
    clock.advance(DEFAULT_EXPIRY)
    handler = Count()
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0


def test_it_may_be_decided_and_used_until_the_very_end_of_its_time(ledger: Driver, clock: FakeClock) -> None:
    question = asked(ledger)
    clock.advance(DEFAULT_EXPIRY - timedelta(microseconds=1))
    approve(ledger, question)
    assert ledger.run(charge(), Count("in time")) == "in time"


def test_a_call_that_does_not_wait_gets_the_approval_at_once(ledger: Driver) -> None:
    with pytest.raises(ApprovalPending, match="indelible approvals show") as told:
        ledger.run(charge(), Count(), approval="required", wait=False)
    assert told.value.approval == ledger.approvals()[0]
    assert told.value.effect == ledger.effects()[0]
    with pytest.raises(ApprovalPending) as again:
        ledger.run(charge(), Count(), approval="required", wait=False)
    assert again.value.approval == told.value.approval, "the same question is asked once"
    assert types_of(ledger) == ["approval_requested"]


def test_a_call_whose_wait_is_over_leaves_the_question_open(ledger: Driver) -> None:
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), Count(), approval="required", wait=0.05)
    approve(ledger, ledger.approvals(status="pending")[0])
    assert ledger.run(charge(), Count("later"), approval="required") == "later"


def test_one_of_many_waiting_ledgers_runs_it_and_the_others_get_the_value(ledger: Driver, shell: Shell) -> None:
    ledgers = [ledger, shell.open(), shell.open()]
    handler = Count("once")
    waiters = [each.spawn("run", charge(), handler, approval="required", wait=PATIENCE) for each in ledgers * 3]
    for each in ledgers:
        somebody_waits(each, 3)
    (question,) = ledger.approvals()
    approve(shell.open(), question)
    assert [waiter.result(PATIENCE) for waiter in waiters] == ["once"] * 9
    assert handler.entries == 1


def test_a_handler_that_fails_after_approval_is_not_entered_again(ledger: Driver) -> None:
    approve(ledger, asked(ledger))
    with pytest.raises(Refused, match="declined"):
        ledger.run(charge(), Count(Refused("declined")))
    with pytest.raises(EffectFailed):
        ledger.run(charge(), Count(), approval="required")


def test_a_handler_that_raises_after_approval_leaves_doubt_and_is_not_entered_again(ledger: Driver) -> None:
    approve(ledger, asked(ledger))
    with pytest.raises(ValueError, match="declined"):
        ledger.run(charge(), Count(ValueError("declined")))
    handler = Count()
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), handler, approval="required")
    assert handler.entries == 0


# ── across processes ─────────────────────────────────────────────────────────────────────────────────────────────────


def ask_and_exit(line: Connection, url: str, tenant: str) -> str:
    """Is the first process: it asks, does not wait, and ends."""
    with Ledger.open(url, tenant=tenant) as ledger:
        try:
            ledger.run(charge(), Count(), approval="required", wait=False)
        except ApprovalPending as pending:
            return pending.approval.id
    raise AssertionError("it ran")


def decide_and_exit(line: Connection, url: str, tenant: str, approval_id: str, is_approval: bool) -> str:
    """Is the second process: a person looks and decides, without the agent."""
    with Ledger.open(url, tenant=tenant) as ledger:
        seen = ledger.view_approval(approval_id, by="ada")
        assert seen.args == {"amount": 5}
        if is_approval:
            return ledger.approve(approval_id, digest=seen.approval.digest, by="ada").status
        return ledger.deny(approval_id, by="ada", reason="no").status


def come_back(line: Connection, url: str, tenant: str, world: str) -> Any:
    """Is the third process: the same program makes the same call again."""

    def handler(effect: Any) -> str:
        with Path(world).open("a") as file:
            file.write(f"{effect.args['amount']}\n")
        return "paid"

    with Ledger.open(url, tenant=tenant) as ledger:
        try:
            return ledger.run(charge(), handler, approval="required", wait=False)
        except EffectDenied:
            return "denied"


@pytest.mark.parametrize("is_approval", [True, False])
def test_a_decision_needs_none_of_the_processes_that_asked(
    place: dict[str, Any], tmp_path: Path, is_approval: bool
) -> None:
    world, at = tmp_path / "world", (place["url"], place["tenant"])
    world.touch()
    approval_id = Child(ask_and_exit, *at).result(PATIENCE)
    assert Child(decide_and_exit, *at, approval_id, is_approval).result(PATIENCE) in ("approved", "denied")
    for _ in range(2):
        expected = "paid" if is_approval else "denied"
        assert Child(come_back, *at, str(world)).result(PATIENCE) == expected
    assert world.read_text() == ("5\n" if is_approval else "")


def test_a_caller_waits_while_another_process_decides(ledger: Driver, shell: Shell) -> None:
    waiter = waiting_run(ledger, Count("ran"))
    (question,) = ledger.approvals()
    Child(decide_and_exit, shell.url, shell.tenant, question.id, True).result(PATIENCE)
    assert waiter.result(PATIENCE) == "ran"


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_looks_sees_all_of_it_and_that_they_did_is_on_the_record(ledger: Driver) -> None:
    question = asked(ledger, args={"amount": 5, "to": {"name": "x" * 5000}})
    seen = ledger.view_approval(question.approval.id, by=Actor("ada", "person", "passkey"))
    assert seen.args == {"amount": 5, "to": {"name": "x" * 5000}}
    assert seen.approval == question.approval
    assert (seen.effect, seen.changed, seen.unusual) == (question.effect, None, None)
    told = ledger.events("order-1")[-1].read()
    assert (told["type"], told["actor"]) == ("approval_viewed", {"id": "ada", "kind": "person", "via": "passkey"})
    ledger.view_approval(question.approval.id)
    assert types_of(ledger) == ["approval_requested", "approval_viewed"]


def test_whoever_looks_sees_how_it_differs_from_the_last_approved_call(ledger: Driver) -> None:
    approve(ledger, asked(ledger, args={"amount": 5, "to": "ada", "tags": ["a"]}))
    ledger.run(charge(args={"amount": 5, "to": "ada", "tags": ["a"]}), Count())
    asked(ledger, tool="other", args={"amount": 1})
    asked(ledger, args={"amount": 7, "to": "nobody approved this one"})
    question = asked(ledger, args={"amount": 6, "tags": ["a", "b"], "note": "new"})
    unusual = ledger.view_approval(question.approval.id).unusual
    assert unusual == [
        Difference("args.amount", 5, 6),
        Difference("args.note", MISSING, "new"),
        Difference("args.tags[1]", MISSING, "b"),
        Difference("args.to", "ada", MISSING),
    ]


def test_whoever_looks_sees_how_it_differs_from_the_question_before_of_this_tool_in_this_run(ledger: Driver) -> None:
    """However that one ended; other tools and other runs do not count."""
    first = asked(ledger, args={"amount": 5})
    assert ledger.view_approval(first.approval.id).previous is None
    ledger.deny(first.approval.id, reason="no", by="ada")
    asked(ledger, tool="other", args={"amount": 6})
    asked(ledger, run_id="another", args={"amount": 7})
    second = ledger.view_approval(asked(ledger, args={"amount": 8}).approval.id)
    assert second.previous is not None
    assert (second.previous.id, second.since_previous) == (first.approval.id, [Difference("args.amount", 5, 8)])


def test_approvals_are_listed_newest_first_and_page_by_page(ledger: Driver) -> None:
    questions = [asked(ledger, args={"amount": n}, run_id=f"run-{n % 2}") for n in range(5)]
    ids = [question.approval.id for question in questions]
    approve(ledger, questions[0])
    assert [one.id for one in ledger.approvals()] == ids[::-1]
    assert [one.id for one in ledger.approvals(limit=2)] == ids[:2:-1]
    assert [one.id for one in ledger.approvals(limit=2, before=ids[3])] == [ids[2], ids[1]]
    assert [one.id for one in ledger.approvals(status="approved")] == [ids[0]]
    assert [one.id for one in ledger.approvals(run_id="run-1")] == [ids[3], ids[1]]
    assert ledger.approvals(tool="nothing") == []
    for words in ({"status": "open"}, {"limit": 0}):
        with pytest.raises(BadCall):
            ledger.approvals(**words)


# ── what was approved is no longer what would run ────────────────────────────────────────────────────────────────────

ORDER = {"key": ["order"]}


def test_other_arguments_under_the_same_key_are_asked_about_with_what_changed(ledger: Driver) -> None:
    small, large = {"order": 7, "amount": 5}, {"order": 7, "amount": 500}
    first = asked(ledger, args=small, **ORDER)
    approve(ledger, first)
    handler = Count("ran")
    with pytest.raises(ApprovalPending) as told:
        ledger.run(charge(args=large, **ORDER), handler, approval="required", wait=False)
    second = told.value.approval
    assert handler.entries == 0
    assert second.replaces == first.approval.id
    assert ledger.get_approval(first.approval.id).status == "stale"
    assert ledger.view_approval(second.id).changed == [Difference("args.amount", 5, 500)]
    with pytest.raises(VoteRefused) as refusal:
        ledger.approve(second.id, digest=first.approval.digest, by="ada")
    assert refusal.value.code == "digest"
    with pytest.raises(VoteRefused) as refusal:
        approve(ledger, first)
    assert refusal.value.code == "replaced"
    approve(ledger, second)
    assert ledger.run(charge(args=large, **ORDER), lambda effect: effect.args["amount"], approval="required") == 500


def test_two_callers_with_other_arguments_do_not_ask_in_turns_for_ever(ledger: Driver) -> None:
    """Each would make the other's question stale, and people would get a new one as fast as the machine can."""
    first = waiting_run(ledger, Count("first"), args={"order": 7, "amount": 5}, **ORDER)
    second = ledger.spawn(
        "run", charge(args={"order": 7, "amount": 6}, **ORDER), Count("second"), approval="required", wait=PATIENCE
    )
    with pytest.raises(ApprovalStale):
        first.result(PATIENCE)
    somebody_waits(ledger)
    assert len(ledger.approvals()) == 2
    approve(ledger, ledger.approvals(status="pending")[0])
    assert second.result(PATIENCE) == "second"


def schema_of(version: str) -> str:
    return version * 64


def test_a_tool_that_changed_since_it_was_approved_is_asked_about_anew(ledger: Driver) -> None:
    approve(ledger, asked(ledger, schema=schema_of("a")))
    handler = Count()
    with pytest.raises(ApprovalPending) as told:
        ledger.run(charge(schema=schema_of("b")), handler, approval="required", wait=False)
    assert handler.entries == 0
    changed = ledger.view_approval(told.value.approval.id).changed
    assert changed == [Difference("schema", schema_of("a"), schema_of("b"))]
    approve(ledger, told.value)
    assert ledger.run(charge(schema=schema_of("b")), Count("ran"), approval="required") == "ran"


def test_a_waiting_call_is_told_that_its_question_is_stale_and_asks_no_second_time(
    ledger: Driver, shell: Shell
) -> None:
    waiter = waiting_run(ledger, Count(), schema=schema_of("a"))
    other = shell.open()
    with pytest.raises(ApprovalPending):
        other.run(charge(schema=schema_of("b")), Count(), approval="required", wait=False)
    with pytest.raises(ApprovalStale, match="call again"):
        waiter.result(PATIENCE)
    assert [one.status for one in ledger.approvals()] == ["pending", "stale"]


@pytest.mark.parametrize("is_elsewhere", [True, False])
def test_a_waiting_call_hears_of_a_new_question_without_looking(
    ledger: Driver, shell: Shell, monkeypatch: pytest.MonkeyPatch, is_elsewhere: bool
) -> None:
    for name in ("LOOK_AT_LEAST_EVERY", "LOOK_EVERY_CHEAPLY", "LOOK_EVERY_REMOTELY"):
        monkeypatch.setattr(f"indelible.engine.waiting.{name}", timedelta(hours=1))
    waiter = waiting_run(ledger, Count(), schema=schema_of("a"))
    eventually(lambda: not ledger.engine.waiting._unseen)
    other = shell.open() if is_elsewhere else ledger
    asked(other, schema=schema_of("b"))
    with pytest.raises(ApprovalStale):
        waiter.result(PATIENCE)


def test_the_schema_of_a_decorated_tool_is_bound_to_its_approval(shell: Shell) -> None:
    before, after = shell.open(), shell.open()

    @before.tool("refund", approval="required", wait=False)
    def refund(order: str, amount: int = 1) -> str:
        """Pays back."""
        return "old"

    @after.tool("refund", approval="required", wait=False)
    def changed(order: str, amount: int = 1) -> str:
        """Pays back, and closes the customer's account."""
        return "new"

    with pytest.raises(ApprovalPending) as told:
        before.call(refund, "7")
    approve(before, told.value)
    with pytest.raises(ApprovalPending):
        after.call(changed, "7")


# ── edit ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_approver_edited_is_what_runs_and_the_caller_gets_its_result(ledger: Driver) -> None:
    seen: list[Any] = []

    def handler(effect: Any) -> int:
        seen.append(effect.args)
        return effect.args["amount"] * 10

    waiter = waiting_run(ledger, handler, args={"amount": 500, "to": "ada"})
    (question,) = ledger.approvals()
    edited = ledger.edit_approval(
        question.id, {"amount": 50, "to": "ada"}, digest=question.digest, by="bob", reason="less"
    )
    assert (edited.id, edited.status, edited.votes, edited.edited_by) == (question.id, "pending", (), "bob")
    assert edited.digest != question.digest
    assert ledger.view_approval(edited.id).args == {"amount": 50, "to": "ada"}
    with pytest.raises(VoteRefused) as refusal:
        ledger.approve(question.id, digest=question.digest, by="ada")
    assert refusal.value.code == "digest", "nobody approves what is no longer asked"
    approve(ledger, edited, by="ada")
    assert waiter.result(PATIENCE) == 500
    assert seen == [{"amount": 50, "to": "ada"}]
    assert ledger.run(charge(args={"amount": 500, "to": "ada"}), handler, approval="required") == 500, "a replay"
    assert len(seen) == 1
    told = ["approval_requested", "approval_edited", "tool_call_adopted", "approval_received"]
    assert types_of(ledger)[:4] == told, "the edit has taken the place of the call it is now"


def test_an_edit_takes_away_the_votes_that_were_cast_on_the_old_arguments(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question)
    assert ledger.get_effect(question.effect.id).status == "ready"
    edited = ledger.edit_approval(question.approval.id, {"amount": 6}, digest=question.approval.digest, by="bob")
    assert (edited.status, edited.votes) == ("pending", ())
    handler = Count()
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    assert handler.entries == 0


@pytest.mark.parametrize(
    ("by", "digest", "code"),
    [
        ("agent", None, "self_approval"),
        (Actor("robot", "agent"), None, "not_a_person"),
        ("ada", "00" * 32, "digest"),
    ],
)
def test_only_who_may_decide_may_edit(ledger: Driver, by: Any, digest: str | None, code: str) -> None:
    question = asked(ledger).approval
    with pytest.raises(VoteRefused) as refusal:
        ledger.edit_approval(question.id, {"amount": 1}, digest=digest or question.digest, by=by)
    assert refusal.value.code == code
    assert ledger.get_approval(question.id) == question


def test_an_edit_that_cannot_be_recorded_changes_nothing(shell: Shell) -> None:
    ledger = shell.open(max_args_bytes=100)
    question = asked(ledger).approval
    for args in ({"amount": object()}, {"amount": "x" * 200}):
        with pytest.raises(BadCall):
            ledger.edit_approval(question.id, args, digest=question.digest, by="ada")
    assert ledger.get_approval(question.id) == question


# ── taking back ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_can_be_taken_back_until_it_is_claimed(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question)
    taken_back = ledger.revoke_approval(question.approval.id, by="ada", reason="a mistake")
    assert (taken_back.status, taken_back.votes) == ("pending", ())
    handler = Gate("ran")
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, wait=False)
    approve(ledger, question)
    running = ledger.spawn("run", charge(), handler)
    handler.await_entry()
    with pytest.raises(VoteRefused, match="consumed"):
        ledger.revoke_approval(question.approval.id, by="ada")
    handler.open()
    assert running.result(PATIENCE) == "ran"


def test_only_ones_own_vote_can_be_taken_back(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question, by="ada")
    with pytest.raises(VoteRefused) as refusal:
        ledger.revoke_approval(question.approval.id, by="bob")
    assert refusal.value.code == "no_vote"
    assert ledger.get_approval(question.approval.id).status == "approved"


# ── more than one attempt ────────────────────────────────────────────────────────────────────────────────────────────


def test_an_attempt_in_which_nothing_happened_gives_its_approval_back(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question)
    with pytest.raises(NothingHappened):
        ledger.run(charge(), Count(NothingHappened("no connection")))
    assert ledger.get_approval(question.approval.id).status == "approved"
    assert ledger.run(charge(), Count("ran"), approval="required") == "ran"
    assert ledger.get_approval(question.approval.id).status == "consumed"


def test_a_tool_that_may_be_repeated_needs_no_second_approval_for_its_retries(ledger: Driver) -> None:
    entries: list[int] = []

    def handler(effect: Any) -> str:
        entries.append(effect.attempt)
        if len(entries) < 3:
            raise ConnectionError
        return "ran"

    approve(ledger, asked(ledger))
    retry = Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0))
    assert ledger.run(charge(), handler, approval="required", retry=retry) == "ran"
    assert entries == [1, 2, 3]


def test_after_a_crash_a_tool_that_may_be_repeated_goes_on_with_the_approval_it_used(
    ledger: Driver, clock: FakeClock
) -> None:
    question = ledger.begin(charge(), approval="required", on_crash="retry")
    assert isinstance(question, AwaitingApproval)
    approve(ledger, question)
    for attempt in (1, 2):
        begun = ledger.begin(charge(), approval="required", on_crash="retry")
        assert isinstance(begun, Claimed)
        assert begun.claim.attempt == attempt
        clock.advance(LEASE)


def test_another_attempt_on_a_persons_word_needs_another_approval(ledger: Driver) -> None:
    first = asked(ledger)
    approve(ledger, first)
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(), Count(ValueError("no")))
    ledger.retry(first.effect.id, by="ada")
    handler = Count("second")
    with pytest.raises(ApprovalPending) as told:
        ledger.run(charge(), handler, approval="required", wait=False)
    assert told.value.approval.id != first.approval.id
    approve(ledger, told.value)
    assert ledger.run(charge(), handler, approval="required") == "second"
    assert handler.entries == 1


def test_a_probe_settles_an_approved_call_that_is_in_doubt(ledger: Driver, clock: FakeClock) -> None:
    @ledger.tool("charge", reconcile=lambda effect: Succeeded("found"), approval="required")
    def tool(amount: int) -> None: ...

    call = tool.bind(5)
    question = ledger.begin(call)
    approve(ledger, question)
    assert isinstance(ledger.begin(call), Claimed)
    clock.advance(LEASE)
    assert [effect.status for effect in ledger.reconcile()] == ["succeeded"]
    assert ledger.run(call, Count()) == "found"


def test_reconcile_leaves_alone_what_waits_for_a_person(ledger: Driver, clock: FakeClock) -> None:
    asked(ledger)
    clock.advance(LEASE * 2)
    assert ledger.reconcile() == []
    assert ledger.effects()[0].status == "requires_approval"


# ── beside other options ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_that_calls_a_tool_with_approval_waits_for_it(ledger: Driver) -> None:
    inner = Count("inner")

    def outer(effect: Any) -> Any:
        return ledger.run(charge(tool="inner"), inner, approval="required", wait=PATIENCE)

    call = ledger.spawn("run", charge(tool="outer"), outer)
    question = eventually(lambda: ledger.approvals(status="pending"))[0]
    assert (question.tool, inner.entries) == ("inner", 0)
    approve(ledger, question)
    assert call.result(PATIENCE) == "inner"
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"inner": "succeeded", "outer": "succeeded"}


@pytest.mark.parametrize(("options", "status"), [({}, "in_doubt"), ({"failed_on": EffectDenied}, "failed")])
def test_a_denied_inner_call_leaves_the_outer_one_in_doubt_or_fails_it_where_declared(
    ledger: Driver, options: dict[str, Any], status: str
) -> None:
    def outer(effect: Any) -> Any:
        return ledger.run(charge(tool="inner"), Count(), approval="required", wait=PATIENCE)

    call = ledger.spawn("run", charge(tool="outer"), outer, **options)
    question = eventually(lambda: ledger.approvals(status="pending"))[0]
    ledger.deny(question.id, by="ada", reason="no")
    with pytest.raises(EffectDenied):
        call.result(PATIENCE)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"inner": "denied", "outer": status}


def test_a_repeat_that_is_asked_about_is_approved_like_any_call(ledger: Driver) -> None:
    handler = Count("ran")
    ledger.run(charge(call_id="c1", dedupe="ask"), handler)
    waiter = ledger.spawn("run", charge(call_id="c2", dedupe="ask"), handler, wait=PATIENCE)
    somebody_waits(ledger)
    (question,) = ledger.approvals()
    assert question.question.rule == "looks like a repeat"
    approve(ledger, question)
    assert waiter.result(PATIENCE) == "ran"
    assert handler.entries == 2
    assert ledger.get_approval(question.id).status == "consumed"


def test_an_approved_handler_writes_in_the_transaction_that_settles_it(ledger: Driver) -> None:
    table = Table(ledger.url)

    def handler(effect: Any) -> str:
        table.book(effect, effect.args["amount"])
        return "booked"

    question = asked(ledger)
    with pytest.raises(ApprovalPending):
        ledger.run(charge(), handler, approval="required", wait=False)
    assert table.amounts() == []
    approve(ledger, question)
    for _ in range(2):
        assert ledger.run(charge(), handler, approval="required") == "booked"
    assert table.amounts() == [5]
    assert ledger.get_approval(question.approval.id).status == "consumed"


def test_a_transaction_that_is_rolled_back_with_its_attempt_gives_the_approval_back(ledger: Driver) -> None:
    table = Table(ledger.url)

    def handler(effect: Any) -> None:
        table.book(effect, 5)
        raise NothingHappened("it is all undone")

    question = asked(ledger)
    approve(ledger, question)
    with pytest.raises(NothingHappened):
        ledger.run(charge(), handler, approval="required")
    assert (table.amounts(), ledger.get_approval(question.approval.id).status) == ([], "approved")


def test_nobody_decides_inside_a_handlers_transaction(place: dict[str, Any]) -> None:
    """The ledger cannot be called while a handler holds its database: it says so instead of waiting for ever."""
    with Ledger.open(**place) as ledger:
        other: Any = ledger.begin(charge(run_id="order-2"), approval="required")

        def handler(effect: Any) -> None:
            with effect.transaction():
                ledger.approve(other.approval.id, digest=other.approval.digest, by="ada")

        with pytest.raises(BadCall, match="transaction"):
            ledger.run(charge(), handler)
        assert ledger.get_approval(other.approval.id) == other.approval


def test_only_one_claim_comes_of_an_approval_however_many_begin(ledger: Driver, shell: Shell) -> None:
    approve(ledger, asked(ledger))
    others = [ledger, shell.open(), shell.open()]
    answers = [each.spawn("begin", charge(), approval="required") for each in others * 4]
    kinds = [type(answer.result(PATIENCE)) for answer in answers]
    assert sorted(kind.__name__ for kind in kinds) == ["Claimed"] + ["InFlight"] * 11
    assert InFlight in kinds


def test_arguments_that_were_erased_can_be_neither_approved_nor_run(ledger: Driver) -> None:
    question = asked(ledger)
    approve(ledger, question)
    ledger.cancel(question.effect.id, by="ada")
    other = asked(ledger, run_id="order-2")
    ledger.cancel(other.effect.id, by="ada")
    ledger.erase(run_id="order-2", by="ada", reason="asked for")
    with pytest.raises((VoteRefused, EffectErased, BadCall)):
        approve(ledger, other)
    handler = Count()
    with pytest.raises((EffectCanceled, EffectErased)):
        ledger.run(charge(run_id="order-2"), handler, approval="required")
    assert handler.entries == 0


def test_an_approval_taken_from_elsewhere_is_looked_up_and_not_believed(ledger: Driver) -> None:
    """An `Approval` names a question; what a caller holds of it, or has made of it, decides nothing."""
    approval = asked(ledger).approval
    forged = replace(approval, digest="00" * 32, status="approved")
    with pytest.raises(VoteRefused) as refusal:
        ledger.approve(forged, digest=forged.digest, by="ada")
    assert refusal.value.code == "digest"
    assert ledger.deny(forged, by="ada", reason="no").digest == approval.digest


def test_asking_claims_nothing_and_is_answered_by_what_is(ledger: Driver) -> None:
    """A framework that pauses before it calls a tool asks first, and calls when it is resumed."""
    assert ledger.ask(charge()) == MayRun(None)
    assert ledger.effects() == []
    question = ledger.ask(charge(), approval="required")
    assert isinstance(question, AwaitingApproval)
    again = ledger.ask(charge(), approval="required")
    assert isinstance(again, AwaitingApproval)
    assert again.approval == question.approval, "who asks again asks nobody twice"
    approve(ledger, question)
    allowed = ledger.ask(charge(), approval="required")
    assert isinstance(allowed, MayRun)
    assert allowed.effect is not None
    assert allowed.effect.status == "ready"
    handler = Count("paid")
    assert ledger.run(charge(), handler, approval="required") == "paid"
    done = ledger.ask(charge(), approval="required")
    assert isinstance(done, Replayed)
    assert (done.value, handler.entries) == ("paid", 1)
    assert types_of(ledger) == ["approval_requested", "approval_received", "tool_call_started", "tool_call_finished"]
