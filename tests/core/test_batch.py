"""Promises of indelible.core.batch: commands of one batch build on each other, and their rows come out once."""

from __future__ import annotations

from dataclasses import replace

from indelible.core.batch import Batch, decide
from indelible.core.commands import (
    AwaitingApproval,
    Cancel,
    Claimed,
    Decide,
    Expire,
    InFlight,
    Late,
    Moved,
    NoSuchEffect,
    Replayed,
)
from indelible.core.events import NO_EVENTS, Head, Payload, commitment
from indelible.core.identity import Ref
from tests.core.making import (
    ADA,
    BY,
    DIGEST,
    LEASE,
    NOON,
    REF,
    Shelf,
    claim_of,
    effect,
    finish,
    open_command,
    relinquish,
    stamp,
)

SALT = bytes(range(96))
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
    before = effect("requires_approval")
    approve = Decide(ref=REF, stamp=stamp(actor=ADA), digest=DIGEST, is_approval=True, detail_json=b'"ok"')
    batch = decide([approve, open_command()], {REF: before}, {"run-1": Head(5, "ab" * 32)}, NOON, BY)
    assert [type(answer) for answer in batch.answers] == [Moved, Claimed]
    was, now = batch.moved[REF]
    assert was is before
    assert (now.status, now.version) == ("processing", before.version + 2)
    assert batch.opened == {}
    assert batch.heads["run-1"][0] == Head(5, "ab" * 32)
    assert batch.heads["run-1"][1].length == 7


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
        open_command(needs_approval=True),
        Cancel(ref=REF, stamp=stamp(actor=ADA), detail_json=b'"no"'),
        open_command(ref=OTHER_REF),
    ]
    answers = decide(commands, {OTHER_REF: settled}, {}, NOON, BY).answers
    assert [type(answer) for answer in answers] == [Replayed, AwaitingApproval, Moved, Replayed]


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
