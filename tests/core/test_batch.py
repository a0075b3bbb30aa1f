"""Promises of core.batch: commands of one batch build on each other, and their rows come out once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from indelible.core.approvals.approval import Need
from indelible.core.approvals.grants import Delegation, delegation_sheet
from indelible.core.approvals.sheets import approval_ref, approval_sheet
from indelible.core.batch import Batch
from indelible.core.commands import (
    Adopt,
    AwaitingApproval,
    Claimed,
    Decided,
    Expire,
    InFlight,
    Keep,
    Kept,
    Late,
    Moved,
    NoSuchEffect,
    Outrun,
    Record,
    RefusedByPolicy,
    Replayed,
)
from indelible.core.effects.identity import Ref
from indelible.core.events import NO_EVENTS, Head, Payload, commitment
from indelible.core.policy.budgets import budget_ref
from indelible.core.sheets import Sheet
from indelible.core.stamps import MOST_VALUES
from tests.core.making import (
    BY,
    CY,
    HOUR,
    LEASE,
    NOON,
    REF,
    Shelf,
    amend,
    asked,
    asks,
    attend,
    cancel,
    cast,
    charge,
    charging,
    claim_of,
    decide,
    effect,
    finish,
    on_shelf,
    open_command,
    refuses,
    relinquish,
    show_to,
    stamp,
    take_back,
    vote,
)

SALT = bytes(range(224))
OTHER_REF = Ref("default", "run-1", "12" * 32)


def test_nothing_to_do_writes_nothing() -> None:
    batch = decide([], {}, {}, NOON, BY)
    assert batch == Batch()
    assert batch.is_empty


def test_a_pure_answer_writes_nothing() -> None:
    settled = effect("succeeded")
    batch = decide([open_command()], {REF: settled}, {"run-1": Head(2, "ab" * 32)}, NOON, BY)
    assert batch.answers == [Replayed(settled)]
    assert batch.is_empty
    assert (batch.opened, batch.moved, batch.heads, batch.payloads, batch.changed()) == ({}, {}, {}, [], [])


def test_the_second_of_two_equal_calls_in_a_batch_finds_the_first_at_work() -> None:
    batch = decide([open_command(), open_command(token="cc" * 16, effect_id="eff_2")], {}, {}, NOON, BY)
    first, second = batch.answers
    assert isinstance(first, Claimed)
    assert isinstance(second, InFlight)
    assert second.effect == first.claim.effect
    assert list(batch.opened) == [REF]
    assert len(batch.events) == 1


def test_an_effect_opened_and_finished_in_one_batch_is_written_once_as_it_is_at_the_end() -> None:
    opening = open_command()
    claim = claim_of(effect("processing", token=opening.token, attempt=1))
    batch = decide([opening, finish(claim), open_command(token="cc" * 16)], {}, {}, NOON, BY)
    assert [type(answer) for answer in batch.answers] == [Claimed, Moved, Replayed]
    assert batch.moved == {}
    (written,) = batch.opened.values()
    assert batch.changed() == [written]
    assert (written.status, written.version, written.opened_seq, written.detail_seq) == ("succeeded", 2, 0, 1)
    assert [event.type for event in batch.events] == ["tool_call_started", "tool_call_finished"]


def test_an_effect_moved_twice_is_paired_with_the_state_the_store_has() -> None:
    before, approval = asked(effect("requires_approval"))
    known: Any = ({REF: before}, {"run-1": Head(5, "ab" * 32)}, NOON, BY, on_shelf(approval))
    batch = decide([cast(approval), open_command(verdict=asks())], *known)
    assert [type(answer) for answer in batch.answers] == [Decided, Claimed]
    was, now = batch.moved[REF]
    assert was is before
    assert (now.status, now.version) == ("processing", before.version + 2)
    assert batch.opened == {}
    assert batch.heads["run-1"][0] == Head(5, "ab" * 32)
    assert batch.heads["run-1"][1].length == 7
    (was_asked, now_used) = batch.sheets[approval_ref(approval.id)]
    assert was_asked == approval_sheet(approval), "a sheet too is paired with the state the store has"
    assert (now_used.version, now_used.status) == (3, "consumed")
    assert (now_used.run_id, now_used.seq) == ("run-1", 6), "its last state is told by the last event"


def test_a_late_result_moves_the_chain_and_not_the_effect() -> None:
    taken_over = effect("processing", attempt=2, token="ff" * 16)
    late = finish(claim_of(effect(attempt=1)), detail=b'"late"')
    batch = decide([late], {REF: taken_over}, {"run-1": Head(3, "ab" * 32)}, NOON, BY)
    assert batch.answers == [Late(taken_over)]
    assert (batch.moved, batch.opened) == ({}, {})
    (event,) = batch.events
    assert (event.type, event.seq, event.effect_id) == ("tool_call_late", 3, "eff_1")
    assert not batch.is_empty


def test_a_late_result_about_an_effect_opened_in_the_same_batch_keeps_what_was_opened() -> None:
    opening = open_command(token="ff" * 16)
    claim = claim_of(effect("processing", token="ff" * 16, attempt=1))
    batch = decide([opening, relinquish(claim), finish(claim)], {}, {}, NOON, BY)
    assert [type(answer) for answer in batch.answers] == [Claimed, Moved, Late]
    assert batch.opened[REF].status == "ready"
    assert len(batch.events) == 3


def test_events_of_one_run_are_chained_within_the_batch() -> None:
    batch = decide([open_command(), open_command(ref=OTHER_REF, token="cc" * 16)], {}, {}, NOON, BY)
    first, second = (event.read() for event in batch.events)
    assert (first["seq"], first["prev"]) == (0, "0" * 64)
    assert (second["seq"], second["prev"]) == (1, batch.events[0].hash)
    assert batch.heads == {"run-1": (NO_EVENTS, Head(2, batch.events[1].hash))}


def test_runs_have_chains_of_their_own() -> None:
    heads = {"run-1": Head(8, "ab" * 32)}
    batch = decide([open_command(), open_command(ref=OTHER_REF, run_id="run-2")], {}, heads, NOON, BY)
    assert [(event.run_id, event.seq) for event in batch.events] == [("run-1", 8), ("run-2", 0)]
    assert batch.heads["run-1"][0] == heads["run-1"]
    assert batch.heads["run-2"][0] == NO_EVENTS


def test_an_effect_stays_in_the_chain_of_the_run_that_opened_it() -> None:
    shared = effect("ready")
    batch = decide([open_command(run_id="run-2")], {REF: shared}, {"run-1": Head(2, "ab" * 32)}, NOON, BY)
    assert [(event.run_id, event.seq) for event in batch.events] == [("run-1", 2)]
    assert set(batch.heads) == {"run-1"}


def test_a_command_about_nothing_is_answered_and_writes_nothing() -> None:
    batch = decide([Expire(ref=REF, stamp=stamp())], {REF: None}, {}, NOON, BY)
    assert batch.answers == [NoSuchEffect(REF)]
    assert batch.is_empty


def test_answers_keep_the_order_of_the_commands() -> None:
    settled = replace(effect("succeeded"), key=OTHER_REF.key)
    commands = [
        open_command(ref=OTHER_REF),
        open_command(verdict=asks()),
        cancel(),
        open_command(ref=OTHER_REF),
    ]
    answers = decide(commands, {OTHER_REF: settled}, {}, NOON, BY).answers
    assert [type(answer) for answer in answers] == [Replayed, AwaitingApproval, Moved, Replayed]


@pytest.mark.parametrize("acts", [cast, amend, take_back, attend, show_to])
def test_what_a_batch_asks_about_it_can_decide(acts: Any) -> None:
    """The store cannot have read what belongs to a question that is not asked yet."""
    asking = open_command(verdict=asks(notify=("chat",)))
    approval = decide([asking], {}, {}, NOON, BY).answers[0].approval
    more = replace(attend(approval), channels=("mail",))
    batch = decide([asking, more, acts(approval), cancel()], {}, {}, NOON, BY)
    assert [type(answer) for answer in batch.answers[:1]] == [AwaitingApproval]
    assert batch.changed()[0].status == "canceled"
    assert all(before is None for before, _ in batch.sheets.values())


def test_a_delegation_and_a_vote_by_it_may_come_in_one_batch() -> None:
    shelf = Shelf()
    approval = shelf.do(open_command(verdict=asks())).approval
    given = Delegation(id="dlg_1", giver="cy", to="ada", until=NOON + HOUR)
    giving = Record(
        tenant="default", run_id="r", stamp=stamp(), event_type="delegation_given", facts=b"{}",
        sheet=delegation_sheet(given),
    )  # fmt: skip
    answers = shelf.apply(giving, cast(approval, delegation_id="dlg_1")).answers
    assert answers[1].approval.votes[0].on_behalf_of == "cy"


def test_every_committed_value_has_a_salt_of_its_own_and_its_payload() -> None:
    batch = decide([open_command()], {}, {"run-1": Head(4, "ab" * 32)}, NOON, BY)
    assert batch.payloads == [
        Payload("run-1", 4, "args", SALT[:32], b'{"amount":5}'),
        Payload("run-1", 4, "key", SALT[32:64], bytes.fromhex(REF.key)),
    ]
    assert batch.events[0].read()["commits"] == {
        payload.field: commitment(payload.salt, payload.field, payload.value) for payload in batch.payloads
    }


def test_an_event_is_about_the_state_it_leads_to() -> None:
    batch = decide([finish(claim_of(effect()))], {REF: effect()}, {}, NOON, BY)
    body = batch.events[0].read()
    assert (body["status"], body["attempt"], body["effect"], body["tool"]) == ("succeeded", 1, "eff_1", "pay")
    assert (body["log"], body["writer"]) == (BY.log, BY.writer)


def test_the_clock_of_the_store_decides_over_leases_and_the_stamp_dates_events() -> None:
    shelf = Shelf()
    shelf.do(open_command(stamp=stamp(NOON - LEASE * 5)))
    assert isinstance(shelf.do(open_command(token="cc" * 16)), InFlight)
    shelf.now += LEASE
    assert type(shelf.do(open_command(token="cc" * 16, stamp=stamp(NOON - LEASE)))).__name__ == "InDoubt"
    assert shelf.events["run-1"][1].read()["at"] == "2030-01-02T11:59:30.000000Z"


# ── sheets ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_written_with_the_effect_it_is_about_and_on_the_same_event() -> None:
    batch = decide([open_command(verdict=asks(notify=("mail",)))], {}, {}, NOON, BY)
    answer = batch.answers[0]
    assert isinstance(answer, AwaitingApproval)
    before, sheet = batch.sheets[approval_ref(answer.approval.id)]
    assert before is None
    assert sheet == approval_sheet(answer.approval).told_by("run-1", 0)
    assert [payload.field for payload in batch.payloads] == ["args", "key", "policy", "approval"]
    assert batch.payloads[-1] == Payload("run-1", 0, "approval", SALT[96:128], sheet.body)
    assert batch.events[0].read()["commits"]["approval"] == commitment(SALT[96:128], "approval", sheet.body or b"")
    aside = [ref for ref in batch.sheets if ref.kind == "delivery"]
    assert len(aside) == 1
    told = batch.sheets[aside[0]][1]
    assert (told.run_id, told.seq) == (None, None), "no event tells of a message"


def test_two_changes_of_one_command_get_an_event_each_and_salts_of_their_own() -> None:
    before, approval = asked(effect("requires_approval"), expires_at=NOON)
    known: Any = ({REF: before}, {"run-1": Head(5, "ab" * 32)}, NOON, BY, on_shelf(approval))
    batch = decide([open_command(verdict=asks())], *known)
    assert [(event.type, event.seq) for event in batch.events] == [("approval_expired", 5), ("approval_requested", 6)]
    assert [(one.seq, one.field) for one in batch.payloads] == [
        (5, "reason"), (5, "approval"), (6, "policy"), (6, "approval"),
    ]  # fmt: skip
    assert [one.salt for one in batch.payloads] == [SALT[at : at + 32] for at in range(0, 128, 32)]
    assert batch.events[1].read()["prev"] == batch.events[0].hash
    assert {ref.id: (was is None, sheet.seq) for ref, (was, sheet) in batch.sheets.items()} == {
        "apr_1": (False, 5),
        "apr_new": (True, 6),
    }


def test_a_command_without_enough_salts_writes_nothing_unhidden() -> None:
    before, approval = asked(effect("requires_approval"), expires_at=NOON)
    bare = replace(stamp(), salts=SALT[:96])
    with pytest.raises(AssertionError, match="a salt of its own"):
        decide([open_command(verdict=asks(), stamp=bare)], {REF: before}, {}, NOON, BY, on_shelf(approval))


def test_the_most_that_a_command_commits_to_is_hidden_by_its_salts() -> None:
    """The mint gives 224 bytes: an approval goes stale, and other arguments are asked about with their charges."""
    priced = asks(charges=(charge(),))
    before, approval = asked(effect("requires_approval"), priced)
    spent = Sheet(kind="budget", id="spend", status="open", topic="spend", body=b'{"reserved":"2","spent":[]}')
    other = open_command(digest="12" * 32, args_json=b"{}", has_key_fields=True, verdict=priced, subject_json=b"1")
    batch = decide([other], {REF: before}, {}, NOON, BY, {**on_shelf(approval), spent.ref: spent})
    assert len(batch.payloads) == MOST_VALUES == 7
    fresh = decide([open_command(verdict=priced, subject_json=b"1")], {}, {}, NOON, BY)
    assert len(fresh.payloads) == 6


def test_a_budget_that_several_calls_of_a_batch_take_from_is_written_once() -> None:
    shelf = Shelf()
    refs = [Ref("default", "run-1", f"{number:02x}" * 32) for number in range(3)]
    calls = [
        open_command(ref=ref, token=ref.key[:32], effect_id=f"eff_{ref.key[:2]}", verdict=charging(charge(2)))
        for ref in refs
    ]
    batch = shelf.apply(*calls)
    assert [type(answer).__name__ for answer in batch.answers] == ["Claimed", "Claimed", "OverBudget"]
    (was, now) = batch.sheets[budget_ref("spend")]
    assert (was, now.version) == (None, 2)
    assert shelf.budget().reserved == 4


def test_a_message_is_kept_without_any_event() -> None:
    message = Sheet(kind="delivery", id="d", status="due", body=b"{}", due_at=NOON + HOUR)
    batch = decide([Keep(tenant="default", stamp=stamp(), sheet=message)], {}, {}, NOON, BY, {message.ref: None})
    assert batch.answers == [Kept(message)]
    assert (batch.events, batch.heads, batch.sheets) == ([], {}, {message.ref: (None, message)})
    assert not batch.is_empty


def test_of_two_who_change_one_sheet_in_a_batch_the_second_is_outrun() -> None:
    message = Sheet(kind="delivery", id="d", status="due", body=b"{}")
    other = replace(message, body=b"[]")
    keep = [Keep(tenant="default", stamp=stamp(), sheet=sheet) for sheet in (message, other)]
    batch = decide(keep, {}, {}, NOON, BY)
    assert batch.answers == [Kept(message), Outrun(message)]
    assert batch.sheets == {message.ref: (None, message)}


def test_what_is_on_the_record_is_never_changed_aside() -> None:
    policy = Sheet(kind="policy", id="current", status="active", body=b"{}")
    with pytest.raises(AssertionError, match="told by an event"):
        decide([Keep(tenant="default", stamp=stamp(), sheet=policy)], {}, {}, NOON, BY)


def test_a_fact_commits_to_the_sheet_it_changes() -> None:
    policy = Sheet(kind="policy", id="current", status="active", body=b'{"content":{}}')
    words: Any = {"tenant": "default", "run_id": "indelible:journal", "stamp": stamp(), "facts": b"{}"}
    shelf = Shelf()
    batch = shelf.apply(Record(event_type="policy_applied", sheet=policy, **words))
    assert batch.sheets == {policy.ref: (None, policy.told_by("indelible:journal", 0))}
    assert shelf.last_commits("indelible:journal") == {"policy": policy.body}


def test_two_values_of_one_name_are_not_told_by_one_event() -> None:
    policy = Sheet(kind="policy", id="current", status="active", body=b"{}")
    words: Any = {"tenant": "default", "run_id": "r", "stamp": stamp(), "facts": b"{}", "event_type": "policy_applied"}
    with pytest.raises(AssertionError, match="a name of its own"):
        decide([Record(sheet=policy, committed={"policy": b"1"}, **words)], {}, {}, NOON, BY)


def test_a_sheet_that_is_written_has_a_body() -> None:
    erased = Sheet(kind="policy", id="current", status="active", body=None)
    words: Any = {"tenant": "default", "run_id": "r", "stamp": stamp(), "facts": b"{}", "event_type": "policy_applied"}
    with pytest.raises(AssertionError, match="has a body"):
        decide([Record(sheet=erased, **words)], {}, {}, NOON, BY)


def test_a_refused_call_is_told_and_leaves_no_effect() -> None:
    batch = decide([open_command(verdict=refuses())], {}, {"run-1": Head(3, "ab" * 32)}, NOON, BY)
    assert batch.answers == [RefusedByPolicy(refuses())]
    assert (batch.opened, batch.moved) == ({}, {})
    (event,) = batch.events
    assert (event.type, event.seq, event.effect_id) == ("policy_checked", 3, None)
    facts = {"decision": "refuse", "policy": "policy-1", "rule": "never", "side_effect": "payment", "tool": "pay"}
    assert event.read()["facts"] == facts
    assert set(event.read()["commits"]) == {"args", "policy"}


def test_what_leaves_the_effect_as_it_is_moves_only_the_chain() -> None:
    before, approval = asked(effect("requires_approval"), asks(Need(2)), votes=(vote("bo"),))
    known: Any = ({REF: before}, {}, NOON, BY, on_shelf(approval))
    for command in (open_command(verdict=refuses()), replace(cast(approval, CY), digest=None, is_approval=True)):
        batch = decide([command], *known)
        assert (batch.moved, batch.opened) == ({}, {})
    batch = decide(
        [cast(replace(approval, votes=()), CY)], {REF: before}, {}, NOON, BY, on_shelf(replace(approval, votes=()))
    )
    assert (batch.moved, [event.type for event in batch.events]) == ({}, ["approval_voted"])
    assert decide([attend(approval)], *known).is_empty


@pytest.mark.parametrize(("permission_id", "is_so"), [(None, False), ("apr_1", True)])
def test_94_an_effect_with_a_permission_of_another_ledger_is_written_as_those_with_sheets_are(
    permission_id: Any, is_so: bool
) -> None:
    taken = effect("in_doubt", permission_id=permission_id)
    batch = decide([Adopt(effect=taken, stamp=open_command().stamp, origin_json=b"{}")], {}, {}, NOON, BY, {})
    assert (list(batch.opened), batch.sheets, batch.has_sheets) == ([taken.ref], {}, is_so)
