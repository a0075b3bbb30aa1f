"""Promises of indelible.core.steps: every command on every status, as one table, and what a move writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.commands import (
    AwaitingApproval,
    Cancel,
    Claimed,
    Command,
    Decide,
    Expire,
    Illegal,
    Late,
    Moved,
    NoSuchEffect,
    Open,
    Record,
    Reopen,
    Settle,
)
from indelible.core.effects import Effect, hash_of
from indelible.core.steps import Step, next_step
from tests.core.making import (
    ADA,
    DIGEST,
    EVENT_TYPES,
    KEY,
    LEASE,
    NOON,
    OTHER_DIGEST,
    REF,
    SECOND,
    claim_of,
    effect,
    finish,
    open_command,
    relinquish,
    stamp,
)

SEQ = 17

STATES: dict[str, Effect | None] = {
    "none": None,
    "requires_approval": effect("requires_approval", call_id="c1"),
    "ready": effect("ready", call_id="c1"),
    "processing": effect("processing", call_id="c1"),
    "abandoned": effect("processing", call_id="c1", lease_until=NOON),
    "abandoned, may retry": effect("processing", call_id="c1", lease_until=NOON, on_crash="retry"),
    "in_doubt": effect("in_doubt", call_id="c1"),
    "in_doubt, may retry": effect("in_doubt", call_id="c1", on_crash="retry"),
    "succeeded": effect("succeeded", call_id="c1"),
    "failed": effect("failed", call_id="c1"),
    "denied": effect("denied", call_id="c1"),
    "canceled": effect("canceled", call_id="c1"),
}
HOLDER = claim_of(effect(attempt=1))
ELDER = claim_of(effect(attempt=0, token="ee" * 16))  # had an earlier attempt
STRANGER = claim_of(effect(attempt=1, token="ee" * 16))  # knows the number, not the secret
SETTLING: Any = {"stamp": stamp(actor=ADA), "ref": REF, "detail_json": b'"so"'}

COMMANDS: dict[str, Command] = {
    "open": open_command(),
    "open for approval": open_command(needs_approval=True),
    "open again, answer lost": open_command(token="bb" * 16),
    "open other content": open_command(digest=OTHER_DIGEST),
    "open other content by key fields": open_command(digest=OTHER_DIGEST, has_key_fields=True),
    "ask, same call id": open_command(dedupe="ask", call_id="c1"),
    "ask, new call id": open_command(dedupe="ask", call_id="c2"),
    "ask, no call id": open_command(dedupe="ask", call_id=None),
    "finish well": finish(HOLDER),
    "finish badly": finish(HOLDER, "failed", b'{"message":"no","type":"E"}'),
    "finish by elder": finish(ELDER),
    "finish by stranger": finish(STRANGER),
    "give back": relinquish(HOLDER, "ready"),
    "leave in doubt": relinquish(HOLDER, "in_doubt"),
    "give back by elder": relinquish(ELDER, "ready"),
    "expire": Expire(ref=REF, stamp=stamp()),
    "settle well": Settle(status="succeeded", evidence_json=b'"seen"', **SETTLING),
    "settle badly": Settle(status="failed", evidence_json=b'"seen"', **SETTLING),
    "reopen": Reopen(**SETTLING),
    "cancel": Cancel(**SETTLING),
    "approve": Decide(digest=DIGEST, is_approval=True, **SETTLING),
    "approve other content": Decide(digest=OTHER_DIGEST, is_approval=True, **SETTLING),
    "deny": Decide(digest=DIGEST, is_approval=False, **SETTLING),
}

# One row per command, one column per state, in the order of STATES. A cell is the answer by the word that WORDS has for
# it; an exclamation mark says that something is written, and WRITTEN says what.
TABLE = """
open:                            claim! wait   claim! busy   doubt! claim! doubt  claim! value  error  denied gone
open for approval:               wait!  wait   claim! busy   doubt! claim! doubt  claim! value  error  denied gone
open again, answer lost:         claim! wait   claim! claim  claim  claim  doubt  claim! value  error  denied gone
open other content:              claim! taken  taken  taken  taken  taken  taken  taken  taken  taken  taken  taken
open other content by key fields:claim! taken  taken  taken  taken  taken  taken  taken  value  error  taken  taken
ask, same call id:               claim! wait   claim! busy   doubt! claim! doubt  claim! value  error  denied gone
ask, new call id:                claim! again  again  again  again  again  again  again  again  again  again  again
ask, no call id:                 claim! wait   claim! busy   doubt! claim! doubt  claim! value  error  denied gone
finish well:                     none   late   late!  moved! moved! moved! late!  late!  late!  late!  late!  late!
finish badly:                    none   late   late!  moved! moved! moved! late!  late!  late!  late!  late!  late!
finish by elder:                 none   late   late!  late!  late!  late!  late!  late!  late!  late!  late!  late!
finish by stranger:              none   late   late   late   late   late   late   late   late   late   late   late
give back:                       none   late   late   moved! moved! moved! late   late   late   late   late   late
leave in doubt:                  none   late   late   moved! moved! moved! late   late   late   late   late   late
give back by elder:              none   late   late   late   late   late   late   late   late   late   late   late
expire:                          none   moved  moved  moved  moved! moved! moved  moved  moved  moved  moved  moved
settle well:                     none   no     no     no     moved! moved! moved! moved! no     no     no     no
settle badly:                    none   no     no     no     moved! moved! moved! moved! no     no     no     no
reopen:                          none   no     no     no     moved! moved! moved! moved! no     moved! no     no
cancel:                          none   moved! moved! no     no     no     no     no     no     no     no     no
approve:                         none   moved! no     no     no     no     no     no     no     no     no     no
approve other content:           none   no     no     no     no     no     no     no     no     no     no     no
deny:                            none   moved! no     no     no     no     no     no     no     no     no     no
"""
WORDS = {
    "Claimed": "claim",
    "AwaitingApproval": "wait",
    "InFlight": "busy",
    "InDoubt": "doubt",
    "Replayed": "value",
    "ReplayedFailure": "error",
    "Denied": "denied",
    "Canceled": "gone",
    "KeyTaken": "taken",
    "LooksRepeated": "again",
    "Moved": "moved",
    "Late": "late",
    "Illegal": "no",
    "NoSuchEffect": "none",
}
# What is written with an answer: the event, the status the effect then has (None: it stays), what the event commits to.
WRITTEN: dict[tuple[str, str], tuple[str, str | None, set[str]]] = {
    ("*", "claim"): ("tool_call_started", "processing", set()),
    ("*", "doubt"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("open for approval", "wait"): ("approval_requested", "requires_approval", {"args", "key"}),
    ("finish well", "moved"): ("tool_call_finished", "succeeded", {"result"}),
    ("finish badly", "moved"): ("tool_call_finished", "failed", {"error"}),
    ("finish badly", "late"): ("tool_call_late", None, {"late_error"}),
    ("*", "late"): ("tool_call_late", None, {"late_result"}),
    ("give back", "moved"): ("tool_call_released", "ready", {"reason"}),
    ("leave in doubt", "moved"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("expire", "moved"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("settle well", "moved"): ("tool_call_finished", "succeeded", {"result", "evidence"}),
    ("settle badly", "moved"): ("tool_call_finished", "failed", {"error", "evidence"}),
    ("reopen", "moved"): ("tool_call_released", "ready", {"reason"}),
    ("cancel", "moved"): ("tool_call_canceled", "canceled", {"reason"}),
    ("approve", "moved"): ("approval_received", "ready", {"reason"}),
    ("deny", "moved"): ("approval_denied", "denied", {"reason"}),
}


def cells() -> list[Any]:
    found = []
    for line in filter(None, TABLE.splitlines()):
        command, _, row = line.partition(":")
        words = row.split()
        assert len(words) == len(STATES), command
        found += [
            pytest.param(command, state, word, id=f"{command} on {state}")
            for state, word in zip(STATES, words, strict=True)
        ]
    return found


def test_the_table_has_a_row_for_every_command() -> None:
    rows = [line.partition(":")[0] for line in filter(None, TABLE.splitlines())]
    assert rows == list(COMMANDS)
    assert {type(command) for command in COMMANDS.values()} == set(Command.__args__) - {Record}
    assert {event_type for event_type, _, _ in WRITTEN.values()} == EVENT_TYPES


@pytest.mark.parametrize(("command", "state", "word"), cells())
def test_every_command_on_every_status(command: str, state: str, word: str) -> None:
    before = STATES[state]
    step = next_step(COMMANDS[command], before, NOON, SEQ)
    assert WORDS[type(step.answer).__name__] == word.rstrip("!")
    assert (step.change is not None) == word.endswith("!")
    if step.change is None:
        if not isinstance(step.answer, NoSuchEffect):
            assert subject_of(step) is before, "without a write the answer is about the effect as it is"
        return
    name = word.rstrip("!")
    event_type, status, committed = WRITTEN.get((command, name)) or WRITTEN["*", name]
    if before is None:
        committed = {"args", "key"}
    assert (step.change.event_type, set(step.change.committed)) == (event_type, committed)
    assert subject_of(step) == step.change.effect, "what is answered is what is written"
    if status is None:
        assert step.change.effect is before
    else:
        assert step.change.effect.status == status
        assert step.change.effect.version == (1 if before is None else before.version + 1)


def subject_of(step: Step) -> Effect:
    answer: Any = step.answer
    return answer.claim.effect if isinstance(answer, Claimed) else answer.effect


# ── what a move writes ───────────────────────────────────────────────────────────────────────────────────────────────


def changed(command: Command, before: Effect | None = None) -> Effect:
    step = next_step(command, before, NOON, SEQ)
    assert step.change is not None
    return step.change.effect


def test_a_fresh_call_becomes_its_first_attempt() -> None:
    command = open_command(call_id="c9", stamp=stamp(NOON - SECOND))
    opened = changed(command)
    assert opened == effect(
        "processing",
        id="eff_new",
        call_id="c9",
        version=1,
        token=command.token,
        opened_seq=SEQ,
        lease_until=NOON + LEASE,
    )
    assert opened.created_at == opened.updated_at == NOON - SECOND, "events carry the caller's time"


def test_a_fresh_call_that_needs_approval_has_never_been_attempted() -> None:
    step = next_step(open_command(needs_approval=True), None, NOON, SEQ)
    assert step.change is not None
    assert isinstance(step.answer, AwaitingApproval)
    opened = step.change.effect
    assert (opened.status, opened.attempt, opened.lease_until) == ("requires_approval", 0, None)


def test_the_opening_event_commits_to_arguments_and_key() -> None:
    step = next_step(open_command(), None, NOON, SEQ)
    assert step.change is not None
    assert step.change.committed == {"args": b'{"amount":5}', "key": bytes.fromhex(KEY)}


def test_the_next_attempt_keeps_everything_but_who_holds_it() -> None:
    before = effect("ready", attempt=4, version=9, opened_seq=2)
    command = open_command(args_json=b'{"amount":6}', run_id="run-2", effect_id="eff_other", on_crash="retry")
    assert changed(command, before) == replace(
        before,
        status="processing",
        attempt=5,
        version=10,
        token_hash=hash_of(command.token),
        lease_until=NOON + LEASE,
        updated_at=NOON,
        detail_json=None,
        detail_seq=None,
    )


def test_a_lease_is_measured_by_the_stores_clock_and_not_by_the_callers() -> None:
    wrong_clock = open_command(stamp=stamp(NOON - timedelta(days=400)))
    assert changed(wrong_clock).lease_until == NOON + LEASE
    assert changed(wrong_clock, effect("ready")).lease_until == NOON + LEASE


def test_a_move_ends_the_lease_and_says_where_its_detail_is_kept() -> None:
    moved = changed(finish(HOLDER, detail=b"[1]", at=NOON + SECOND), effect("processing"))
    assert (moved.lease_until, moved.detail_seq, moved.detail_json) == (None, SEQ, b"[1]")
    assert moved.updated_at == NOON + SECOND


def test_the_detail_of_a_settled_effect_is_the_outcome_and_not_the_evidence() -> None:
    assert changed(COMMANDS["settle well"], effect("in_doubt")).detail_json == b'"so"'


def test_the_arguments_stay_those_that_were_recorded() -> None:
    by_key_fields = open_command(digest=DIGEST, has_key_fields=True, args_json=b'{"amount":99}')
    assert changed(by_key_fields, effect("ready")).args_json == b'{"amount":5}'


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (finish(HOLDER, "succeeded", b'"done"'), "succeeded"),
        (finish(HOLDER, "failed", b'"done"'), "failed"),
        (relinquish(HOLDER, "ready", b'"done"'), "ready"),
        (relinquish(HOLDER, "in_doubt", b'"done"'), "in_doubt"),
    ],
)
def test_a_report_said_twice_is_answered_as_the_first_time(command: Command, status: str) -> None:
    after = effect(status, detail_json=b'"done"')
    step = next_step(command, after, NOON, SEQ)
    assert step == Step(Moved(after))


def test_a_report_said_twice_with_another_outcome_is_kept_beside_the_first() -> None:
    after = effect("succeeded", detail_json=b'"done"')
    step = next_step(finish(HOLDER, "succeeded", b'"other"'), after, NOON, SEQ)
    assert isinstance(step.answer, Late)
    assert step.change is not None
    assert step.change.committed == {"late_result": b'"other"'}


def test_knowing_the_token_of_an_older_attempt_does_not_settle_the_newer_one() -> None:
    stale = claim_of(effect(attempt=1))
    step = next_step(finish(stale), effect("processing", attempt=2, token="ff" * 16), NOON, SEQ)
    assert isinstance(step.answer, Late)
    same_token = next_step(finish(stale), effect("processing", attempt=2), NOON, SEQ)
    assert isinstance(same_token.answer, Late)


@pytest.mark.parametrize(
    ("command", "before", "why"),
    [
        ("settle well", effect("succeeded"), "cannot be settled: it is succeeded"),
        ("reopen", effect("denied"), "cannot be tried again: it is denied"),
        ("cancel", effect("processing"), "cannot be canceled while its handler may be running; its lease ends at"),
        ("approve", effect("canceled"), "cannot be decided: it is canceled"),
        ("approve other content", effect("requires_approval"), f"asks about {DIGEST}"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(command: str, before: Effect, why: str) -> None:
    answer = next_step(COMMANDS[command], before, NOON, SEQ).answer
    assert isinstance(answer, Illegal)
    assert why in answer.why


def test_a_command_about_nothing_names_the_place() -> None:
    assert next_step(COMMANDS["cancel"], None, NOON, SEQ).answer == NoSuchEffect(REF)


def test_an_effect_in_doubt_keeps_its_first_reason_when_it_is_found_again() -> None:
    found = effect("in_doubt", detail_json=b'"cancelled"')
    assert next_step(open_command(), found, NOON + timedelta(days=9), SEQ).change is None


def test_an_open_never_touches_an_effect_of_other_content() -> None:
    other = open_command(digest=OTHER_DIGEST, has_key_fields=True)
    assert isinstance(other, Open)
    for before in STATES.values():
        if before is not None:
            assert next_step(other, before, NOON, SEQ).change is None
