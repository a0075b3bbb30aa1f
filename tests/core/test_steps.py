"""Promises of core.steps: every command on every status, as one table, and what a move writes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from indelible.core.approvals.approval import Approval, Need, ended
from indelible.core.approvals.deliveries import told_ref
from indelible.core.approvals.grants import Delegation, delegation_ref, delegation_sheet, grant_ref
from indelible.core.approvals.sheets import approval_ref, approval_sheet
from indelible.core.changes import Aside, Change, Fact, Step
from indelible.core.commands import (
    Adopt,
    ArgsErased,
    AwaitingApproval,
    Claimed,
    Command,
    Expire,
    Illegal,
    InDoubt,
    Keep,
    Kept,
    KeyTaken,
    Late,
    Moved,
    NoSuchEffect,
    Outrun,
    Record,
    Recorded,
    Replayed,
)
from indelible.core.effects.effect import Effect, hash_of
from indelible.core.effects.identity import Ref
from indelible.core.people.standing import place_of
from indelible.core.policy.budgets import budget_ref, charges_json
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.runs.commands import RunCommand
from indelible.core.sheets import NO_SHEETS, Sheet, Sheets
from indelible.core.steps import needed_sheets
from indelible.core.values.canonical import decode
from indelible.core.verifying.moves import JOINED
from tests.core.making import (
    ADA,
    ARGS,
    BO,
    EVENT_TYPES,
    HOUR,
    KEY,
    LEASE,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    REF,
    SECOND,
    allows,
    amend,
    asked,
    asks,
    attend,
    cancel,
    cast,
    charge,
    charging,
    claim_of,
    effect,
    finish,
    next_step,
    on_shelf,
    open_command,
    refuses,
    relinquish,
    reopen,
    settle,
    show_to,
    stamp,
    take_back,
    vote,
)

SEQ = 17
WAITING, PENDING = asked(effect("requires_approval", call_id="c1", turn="t1"))
APPROVED = replace(PENDING, version=2, status="approved", votes=(vote("bo"),))
CONSUMED = replace(APPROVED, version=3, status="consumed", attempt=1)
FIRST_OF_TWO = replace(PENDING, votes=(vote("bo"),), question=replace(PENDING.question, needs=(Need(2),)))


def made(status: str, **changes: Any) -> Effect:
    return effect(status, **{"call_id": "c1", "turn": "t1", **changes})


def asked_about(status: str, **changes: Any) -> Effect:
    return made(status, permission_id=PENDING.id, **changes)


# What is known of an effect that nobody was asked about.
UNASKED: dict[str, Effect | None] = {
    "none": None,
    "ready": made("ready"),
    "processing": made("processing"),
    "abandoned": made("processing", lease_until=NOON),
    "abandoned, may retry": made("processing", lease_until=NOON, on_crash="retry"),
    "in_doubt": made("in_doubt"),
    "in_doubt, may retry": made("in_doubt", on_crash="retry"),
    "succeeded": made("succeeded"),
    "failed": made("failed"),
}
# What is known of an effect that somebody was asked about, and how the question stands.
ASKED: dict[str, tuple[Effect, Approval]] = {
    "asked": (WAITING, PENDING),
    "first of two": (WAITING, FIRST_OF_TWO),
    "overdue": (WAITING, replace(PENDING, expires_at=NOON)),
    "expired": (WAITING, ended(PENDING, "expired")),
    "approved": (asked_about("ready", attempt=0), APPROVED),
    "processing": (asked_about("processing"), CONSUMED),
    "crashed": (asked_about("processing", lease_until=NOON, on_crash="retry"), CONSUMED),
    "in_doubt": (asked_about("in_doubt"), CONSUMED),
    "reopened": (asked_about("ready"), CONSUMED),
    "denied": (asked_about("denied", attempt=0), ended(PENDING, "denied")),
    "canceled": (asked_about("canceled", attempt=0), ended(PENDING, "canceled")),
    "succeeded": (asked_about("succeeded"), CONSUMED),
}
HOLDER = claim_of(effect(attempt=1))
ELDER = claim_of(effect(attempt=0, token="ee" * 16))  # had an earlier attempt
STRANGER = claim_of(effect(attempt=1, token="ee" * 16))  # knows the number, not the secret
OTHER: Any = {"digest": OTHER_DIGEST, "args_json": OTHER_ARGS, "verdict": allows()}

COMMANDS: dict[str, Command] = {
    "open": open_command(on_crash="retry", verdict=allows()),
    "open, asked": open_command(on_crash="retry", verdict=asks()),
    "open, refused": open_command(on_crash="retry", verdict=refuses()),
    "open, too dear": open_command(on_crash="retry", verdict=charging(charge(6))),
    "open, after waiting": open_command(on_crash="retry", verdict=allows(), awaited_approval=PENDING.id),
    "open, answer lost": open_command(on_crash="retry", verdict=allows(), token="bb" * 16),
    "open other content": open_command(on_crash="retry", **OTHER),
    "open other by key": open_command(on_crash="retry", **OTHER, has_key_fields=True),
    "open other, replays": open_command(on_crash="retry", **OTHER, has_key_fields=True, on_reuse="replay"),
    "ask, same call id": open_command(on_crash="retry", verdict=allows(), dedupe="ask", call_id="c1"),
    "ask, new call id": open_command(on_crash="retry", verdict=allows(), dedupe="ask", call_id="c2"),
    "ask, no call id": open_command(on_crash="retry", verdict=allows(), dedupe="ask", call_id=None),
    "open in a new turn": open_command(on_crash="retry", verdict=allows(), dedupe="turn", turn="t2"),
    "finish well": finish(HOLDER),
    "finish badly": finish(HOLDER, "failed", b'{"message":"no","type":"E"}'),
    "finish by elder": finish(ELDER),
    "finish by stranger": finish(STRANGER),
    "give back": relinquish(HOLDER, "ready"),
    "leave in doubt": relinquish(HOLDER, "in_doubt"),
    "give back by elder": relinquish(ELDER, "ready"),
    "expire": Expire(ref=REF, stamp=stamp()),
    "settle well": settle("succeeded"),
    "settle badly": settle("failed"),
    "reopen": reopen(),
    "cancel": cancel(),
    "approve": cast(PENDING, ADA),
    "approve other": cast(PENDING, ADA, digest=OTHER_DIGEST),
    "deny": cast(PENDING, ADA, is_approval=False),
    "take back": take_back(PENDING, BO),
    "edit": amend(PENDING, ADA),
    "view": show_to(PENDING),
    "attend": attend(PENDING),
    "vote on an old one": cast(replace(PENDING, id="apr_0"), ADA),
}

# One row per command, one column per state, in the order of UNASKED and ASKED. A cell is the answer by the word that
# WORDS has for it; each exclamation mark is an event that is written, and WRITTEN says which. A plus is the event that
# notes a turn.
TABLE_OF_UNASKED = """
open:                claim!  claim!  busy    doubt!  claim!  doubt   claim!  value   error
open, asked:         wait!   wait!   busy    doubt!  doubt!  doubt   doubt   value   error
open, refused:       refuse! refuse! busy    doubt!  doubt!  doubt   doubt   value   error
open, too dear:      dear!   dear!   busy    doubt!  doubt!  doubt   doubt   value   error
open, after waiting: claim!  claim!  busy    doubt!  claim!  doubt   claim!  value   error
open, answer lost:   claim!  claim!  claim   doubt!  claim!  doubt   claim!  value   error
open other content:  claim!  taken   taken   taken   taken   taken   taken   taken   taken
open other by key:   claim!  taken   taken   taken   taken   taken   taken   taken   taken
open other, replays: claim!  taken   taken   taken   taken   taken   taken   value   error
ask, same call id:   claim!  claim!  busy    doubt!  claim!  doubt   claim!  value   error
ask, new call id:    claim!  again   again   again   again   again   again   again   again
ask, no call id:     claim!  claim!  busy    doubt!  claim!  doubt   claim!  value   error
open in a new turn:  claim!  claim!  busy+   doubt!  claim!  doubt+  claim!  again   again
finish well:         none    late!   moved!  moved!  moved!  moved!  moved!  late!   late!
finish badly:        none    late!   moved!  moved!  moved!  moved!  moved!  late!   late!
finish by elder:     none    late!   late!   late!   late!   late!   late!   late!   late!
finish by stranger:  none    late    late    late    late    late    late    late    late
give back:           none    late    moved!  moved!  moved!  moved!  moved!  late    late
leave in doubt:      none    late    moved!  moved!  moved!  late    late    late    late
give back by elder:  none    late    late    late    late    late    late    late    late
expire:              none    moved   moved   moved!  moved!  moved   moved   moved   moved
settle well:         none    no      no      moved!  moved!  moved!  moved!  no      no
settle badly:        none    no      no      moved!  moved!  moved!  moved!  no      no
reopen:              none    no      no      moved!  moved!  moved!  moved!  no      moved!
cancel:              none    moved!  no      no      no      no      no      no      no
approve:             none    no      no      no      no      no      no      no      no
approve other:       none    no      no      no      no      no      no      no      no
deny:                none    no      no      no      no      no      no      no      no
take back:           none    no      no      no      no      no      no      no      no
edit:                none    no      no      no      no      no      no      no      no
view:                none    no      no      no      no      no      no      no      no
attend:              none    no      no      no      no      no      no      no      no
vote on an old one:  none    no      no      no      no      no      no      no      no
"""
TABLE_OF_ASKED = """
open:                wait    wait    wait!!  wait!   claim!  busy    claim!  doubt   wait!   denied  gone    value
open, asked:         wait    wait    wait!!  wait!   claim!  busy    claim!  doubt   wait!   denied  gone    value
open, refused:       refuse! refuse! refuse! refuse! refuse! busy    doubt!  doubt   refuse! denied  gone    value
open, too dear:      wait    wait    dear!   dear!   dear!   busy    doubt!  doubt   dear!   denied  gone    value
open, after waiting: wait    wait    over!   over    claim!  busy    claim!  doubt   wait!   denied  gone    value
open, answer lost:   wait    wait    wait!!  wait!   claim!  claim   claim!  doubt   wait!   denied  gone    value
open other content:  taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken   taken
open other by key:   wait!!  wait!!  wait!!  wait!   wait!!  taken   taken   taken   taken   denied  gone    taken
open other, replays: wait!!  wait!!  wait!!  wait!   wait!!  taken   taken   taken   taken   denied  gone    value
ask, same call id:   wait    wait    wait!!  wait!   claim!  busy    claim!  doubt   wait!   denied  gone    value
ask, new call id:    again   again   again   again   again   again   again   again   again   again   again   again
ask, no call id:     wait    wait    wait!!  wait!   claim!  busy    claim!  doubt   wait!   denied  gone    value
open in a new turn:  wait+   wait+   wait!!  wait!   claim!  busy+   claim!  doubt+  wait!   again   again   again
finish well:         late    late    late    late    late    moved!  moved!  moved!  late!   late    late    late!
finish badly:        late    late    late    late    late    moved!  moved!  moved!  late!   late    late    late!
finish by elder:     late    late    late    late    late    late!   late!   late!   late!   late    late    late!
finish by stranger:  late    late    late    late    late    late    late    late    late    late    late    late
give back:           late    late    late    late    late    moved!  moved!  moved!  late    late    late    late
leave in doubt:      late    late    late    late    late    moved!  moved!  late    late    late    late    late
give back by elder:  late    late    late    late    late    late    late    late    late    late    late    late
expire:              moved   moved   moved   moved   moved   moved   moved!  moved   moved   moved   moved   moved
settle well:         no      no      no      no      no      no      moved!  moved!  no      no      no      no
settle badly:        no      no      no      no      no      no      moved!  moved!  no      no      no      no
reopen:              no      no      no      no      no      no      moved!  moved!  no      no      no      no
cancel:              moved!  moved!  moved!  moved!  moved!  no      no      no      moved!  no      no      no
approve:             done!   done!   not     not     not     not     not     not     not     not     not     not
approve other:       not     not     not     not     not     not     not     not     not     not     not     not
deny:                done!   done!   not     not     not     not     not     not     not     not     not     not
take back:           not     done!   not     not     done!   not     not     not     not     not     not     not
edit:                done!   done!   not     not     done!   not     not     not     not     not     not     not
view:                done!   done!   done!   done!   done!   done!   done!   done!   done!   done!   done!   done!
attend:              done    done    done!   done    done    done    done    done    done    done    done    done
vote on an old one:  not     not     not     not     not     not     not     not     not     not     not     not
"""
WORDS = {
    "ApprovalEnded": "over",
    "AwaitingApproval": "wait",
    "Canceled": "gone",
    "Claimed": "claim",
    "Decided": "done",
    "Denied": "denied",
    "Illegal": "no",
    "InDoubt": "doubt",
    "InFlight": "busy",
    "KeyTaken": "taken",
    "Late": "late",
    "LooksRepeated": "again",
    "Moved": "moved",
    "NoSuchEffect": "none",
    "NotCounted": "not",
    "OverBudget": "dear",
    "RefusedByPolicy": "refuse",
    "Replayed": "value",
    "ReplayedFailure": "error",
}
REQUESTED = ("approval_requested", "requires_approval", {"policy"})
STARTED = ("tool_call_started", "processing", {"policy"})
CHECKED = ("policy_checked", None, {"policy"})
# What is written with an answer: the event, the status the effect then has (None: it stays), what the event commits to
# besides sheets.
WRITTEN: dict[tuple[str, str], tuple[str, str | None, set[str]]] = {
    ("*", "claim!"): STARTED,
    ("*", "doubt!"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("*", "wait!"): REQUESTED,
    ("*", "refuse!"): CHECKED,
    ("*", "dear!"): CHECKED,
    ("open, after waiting", "over!"): ("approval_expired", "requires_approval", {"reason"}),
    ("open other by key", "wait!"): ("approval_requested", "requires_approval", {"policy", "args"}),
    ("open other, replays", "wait!"): ("approval_requested", "requires_approval", {"policy", "args"}),
    ("finish well", "moved!"): ("tool_call_finished", "succeeded", {"result"}),
    ("finish badly", "moved!"): ("tool_call_finished", "failed", {"error"}),
    ("finish badly", "late!"): ("tool_call_late", None, {"late_error"}),
    ("*", "late!"): ("tool_call_late", None, {"late_result"}),
    ("give back", "moved!"): ("tool_call_released", "ready", {"reason"}),
    ("leave in doubt", "moved!"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("expire", "moved!"): ("tool_call_in_doubt", "in_doubt", {"reason"}),
    ("settle well", "moved!"): ("tool_call_finished", "succeeded", {"result", "evidence"}),
    ("settle badly", "moved!"): ("tool_call_finished", "failed", {"error", "evidence"}),
    ("reopen", "moved!"): ("tool_call_released", "ready", {"reason"}),
    ("cancel", "moved!"): ("tool_call_canceled", "canceled", {"reason"}),
    ("approve", "done!"): ("approval_received", "ready", {"reason"}),
    ("deny", "done!"): ("approval_denied", "denied", {"reason"}),
    ("take back", "done!"): ("approval_revoked", "requires_approval", {"reason"}),
    ("edit", "done!"): ("approval_edited", "requires_approval", {"reason", "args", "policy"}),
    ("view", "done!"): ("approval_viewed", None, set()),
    ("attend", "done!"): ("approval_expired", "requires_approval", {"reason"}),
}


def cells(table: str, states: Any) -> list[Any]:
    found = []
    for line in filter(None, table.splitlines()):
        command, _, row = line.partition(":")
        found += [
            pytest.param(command, state, word, id=f"{command} on {state}")
            for state, word in zip(states, row.split(), strict=True)
        ]
    return found


@pytest.mark.parametrize("table", [TABLE_OF_UNASKED, TABLE_OF_ASKED])
def test_the_table_has_a_row_for_every_command(table: str) -> None:
    rows = [line.partition(":")[0] for line in filter(None, table.splitlines())]
    assert rows == list(COMMANDS)
    about_no_call = {Record, Keep, *RunCommand.__args__}
    assert {type(command) for command in COMMANDS.values()} == set(Command.__args__) - about_no_call - {Adopt}


def test_the_table_tells_of_every_event_but_those_of_votes_that_are_not_the_last() -> None:
    told = {event_type for event_type, _, _ in WRITTEN.values()} | {JOINED}
    assert told == EVENT_TYPES - {"approval_stale", "approval_voted", "approval_escalated"}


@pytest.mark.parametrize(("command", "state", "word"), cells(TABLE_OF_UNASKED, UNASKED))
def test_every_command_on_every_status(command: str, state: str, word: str) -> None:
    check(command, UNASKED[state], {}, word)


@pytest.mark.parametrize(("command", "state", "word"), cells(TABLE_OF_ASKED, ASKED))
def test_every_command_on_every_status_that_somebody_was_asked_in(command: str, state: str, word: str) -> None:
    before, approval = ASKED[state]
    check(command, before, on_shelf(approval), word)


def check(command: str, before: Effect | None, sheets: Sheets, word: str) -> None:
    step = next_step(COMMANDS[command], before, NOON, SEQ, sheets)
    marks = ("+" if change.event_type == JOINED else "!" for change in step.changes)
    assert WORDS[type(step.answer).__name__] + "".join(marks) == word
    if not step.changes:
        assert subject_of(step) == before, "without a write the answer is about the effect as it is"
        return
    change = step.changes[-1]
    if isinstance(change, Change) and change.event_type == JOINED:
        assert before is not None
        assert subject_of(step) == change.effect == replace(before, version=before.version + 1, turn='["t1","t2"]')
        return
    name = word.rstrip("!") + "!"
    event_type, status, committed = WRITTEN.get((command, name)) or WRITTEN["*", name]
    if command.startswith("finish") and name == "moved!" and before is not None and before.status == "in_doubt":
        committed = committed | {"evidence"}  # that the report came late
    if before is None:
        committed = {"args", "policy"} if isinstance(change, Fact) else {"args", "key", "policy"}
    assert (change.event_type, set(change.committed)) == (event_type, committed)
    if isinstance(change, Fact):
        return
    assert subject_of(step) == change.effect, "what is answered is what is written"
    for earlier in step.changes[:-1]:
        assert isinstance(earlier, Change)
        assert earlier.event_type in ("approval_expired", "approval_stale"), "a question ends before the next is asked"
        assert earlier.effect.status == "requires_approval"
    if status is None:
        assert change.effect is before
    else:
        assert change.effect.status == status
        assert change.effect.version == (0 if before is None else before.version) + len(step.changes)


def subject_of(step: Step) -> Effect | None:
    answer: Any = step.answer
    if isinstance(answer, NoSuchEffect):
        return None
    return answer.claim.effect if isinstance(answer, Claimed) else answer.effect


# ── what a move writes ───────────────────────────────────────────────────────────────────────────────────────────────


def changed(command: Command, before: Effect | None = None, sheets: Sheets = NO_SHEETS) -> Effect:
    change = next_step(command, before, NOON, SEQ, sheets).change
    assert isinstance(change, Change)
    return change.effect


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
    step = next_step(open_command(verdict=asks()), None, NOON, SEQ)
    assert isinstance(step.change, Change)
    opened = step.change.effect
    assert (opened.status, opened.attempt) == ("requires_approval", 0)
    assert isinstance(step.answer, AwaitingApproval)
    approval = step.answer.approval
    assert (opened.approval_id, opened.lease_until) == (approval.id, approval.expires_at), "waiters wake when it ends"
    assert step.change.sheets == (approval_sheet(approval),)


@pytest.mark.parametrize(
    ("verdict", "subject", "names"),
    [
        (ALLOWED, None, ["args", "key"]),
        (ALLOWED, b'"mark"', ["args", "key", "subject"]),
        (allows(), None, ["args", "key", "policy"]),
        (charging(charge()), b'"mark"', ["args", "key", "subject", "policy", "charges"]),
        (asks(charges=(charge(),)), None, ["args", "key", "policy", "charges"]),
    ],
)
def test_the_opening_event_commits_to_what_was_asked_and_said_of_it(verdict: Any, subject: Any, names: Any) -> None:
    change = next_step(open_command(verdict=verdict, subject_json=subject), None, NOON, SEQ).change
    assert isinstance(change, Change)
    assert list(change.committed) == names
    values = {"args": ARGS, "key": bytes.fromhex(KEY), "subject": subject, "charges": change.effect.charges_json}
    assert {name: value for name, value in change.committed.items() if name != "policy"} == {
        name: values[name] for name in names if name != "policy"
    }
    assert decode(change.committed.get("policy", b"null")) == (
        {"decision": verdict.decision, "policy": "policy-1", "rule": verdict.rule, "why": ""}
        if "policy" in names
        else None
    )


def test_the_next_attempt_keeps_everything_but_who_holds_it() -> None:
    before = effect("ready", attempt=4, version=9, opened_seq=2)
    command = open_command(run_id="run-2", effect_id="eff_other", on_crash="retry")
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


@pytest.mark.parametrize("status", ["ready", "in_doubt"])
def test_arguments_that_are_not_those_of_the_call_do_not_run(status: str) -> None:
    """Somebody has edited the store: a person is asked about what the call says."""
    edited = effect(status, args_json=b'{"amount":99}', on_crash="retry", side_effect="read")
    waiting = changed(open_command(on_crash="retry", verdict=allows()), edited)
    assert (waiting.status, waiting.args_json, waiting.opened_seq) == ("requires_approval", ARGS, SEQ)


@pytest.mark.parametrize("status", ["ready", "in_doubt", "requires_approval"])
def test_without_its_arguments_an_effect_cannot_be_attempted(status: str) -> None:
    erased = effect(status, args_json=None, on_crash="retry")
    answer = InDoubt(erased) if status == "in_doubt" else ArgsErased(erased)
    assert next_step(open_command(on_crash="retry", verdict=refuses()), erased, NOON, SEQ) == Step(answer)
    assert isinstance(next_step(reopen(), effect("failed", args_json=None), NOON, SEQ).answer, Illegal)


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
    assert isinstance(step.change, Change)
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
        ("approve", effect("canceled"), "was never asked about, or what was asked is erased"),
        ("edit", replace(WAITING, args_json=None), "what was asked is erased"),
    ],
)
def test_a_refusal_says_why_and_what_to_do(command: str, before: Effect, why: str) -> None:
    answer = next_step(COMMANDS[command], before, NOON, SEQ, on_shelf(PENDING)).answer
    assert isinstance(answer, Illegal)
    assert why in answer.why


def test_a_command_about_nothing_names_the_place() -> None:
    assert next_step(COMMANDS["cancel"], None, NOON, SEQ).answer == NoSuchEffect(REF)


def test_an_effect_in_doubt_keeps_its_first_reason_when_it_is_found_again() -> None:
    found = effect("in_doubt", detail_json=b'"cancelled"')
    assert next_step(open_command(), found, NOON + timedelta(days=9), SEQ).change is None


def test_what_is_known_of_one_attempt_says_nothing_of_the_next() -> None:
    for command in (replace(settle(), attempt=1), reopen(attempt=1)):
        answer = next_step(command, effect("in_doubt", attempt=2), NOON, SEQ).answer
        assert isinstance(answer, Illegal)
        assert "is at attempt 2 now, not 1" in answer.why


def test_an_open_of_other_content_touches_nothing_that_nobody_is_asked_about() -> None:
    other = open_command(**OTHER, has_key_fields=True)
    for before in UNASKED.values():
        if before is not None:
            assert next_step(other, before, NOON, SEQ).change is None


def test_a_key_that_was_taken_over_replays_nothing_of_another_tool() -> None:
    """Keys of ours name their tool, and those of other ledgers need not."""
    words: Any = {**OTHER, "has_key_fields": True, "on_reuse": "replay"}
    mine, others = (open_command(**words, tool=tool) for tool in ("pay", "ship"))
    assert isinstance(next_step(mine, effect("succeeded"), NOON, SEQ).answer, Replayed)
    assert isinstance(next_step(others, effect("succeeded"), NOON, SEQ).answer, KeyTaken)


def test_the_report_of_whoever_held_it_before_it_was_asked_about_is_kept() -> None:
    """A tool that may be repeated was abandoned, and by now the policy asks: the first worker's result still counts."""
    left = effect("processing", lease_until=NOON, on_crash="retry", side_effect="read")
    waiting = changed(open_command(on_crash="retry", verdict=asks()), left)
    late = next_step(finish(claim_of(left), detail=b'"did it"'), waiting, NOON, SEQ)
    assert isinstance(late.answer, Late)
    assert isinstance(late.change, Change)
    assert late.change.committed == {"late_result": b'"did it"'}


# ── what a command is decided on ─────────────────────────────────────────────────────────────────────────────────────

CHARGED = effect("processing", charges_json=charges_json([charge(budget="was")]))
APPROVAL = approval_ref(PENDING.id)
TOLD = told_ref(PENDING.id)
COSTLY = charging(charge(budget="is"))


@pytest.mark.parametrize(
    ("command", "before", "needed"),
    [
        (open_command(), None, []),
        (open_command(), made("ready"), []),
        (open_command(verdict=COSTLY, grants={"g1": "aa", "g2": "bb"}), None, ["is", "g1", "g2"]),
        (open_command(verdict=COSTLY), CHARGED, ["is", "was"]),
        (open_command(verdict=charging(charge(budget="was"))), CHARGED, ["was"]),
        (open_command(verdict=COSTLY), WAITING, ["is", APPROVAL, TOLD]),
        (open_command(verdict=COSTLY), asked_about("succeeded"), []),
        (finish(HOLDER), CHARGED, ["was"]),
        (finish(HOLDER), asked_about("processing"), []),
        (settle(), CHARGED, ["was"]),
        (reopen(), asked_about("in_doubt"), []),
        (relinquish(HOLDER), asked_about("processing"), [APPROVAL]),
        (cancel(), WAITING, [APPROVAL, TOLD]),
        (cast(PENDING), WAITING, [place_of("ada"), APPROVAL, TOLD]),
        (cast(PENDING, delegation_id="dlg_1"), WAITING, [delegation_ref("dlg_1"), place_of("ada"), APPROVAL, TOLD]),
        (amend(PENDING, verdict=COSTLY), WAITING, ["is", place_of("ada"), APPROVAL, TOLD]),
        (attend(PENDING), WAITING, [APPROVAL, TOLD]),
    ],
)
def test_a_command_names_the_sheets_it_is_decided_on(command: Command, before: Effect | None, needed: Any) -> None:
    kinds = {"is": budget_ref, "was": budget_ref, "g1": grant_ref, "g2": grant_ref}
    expected = [kinds[one](one) if isinstance(one, str) else one for one in needed]
    assert list(needed_sheets(command, before)) == expected


# ── sheets of their own ──────────────────────────────────────────────────────────────────────────────────────────────


def given(version: int = 1, *, is_ended: bool = False) -> Sheet:
    words: Any = {"id": "one", "giver": "ada", "to": "bo", "until": NOON + HOUR}
    return delegation_sheet(Delegation(version=version, is_ended=is_ended, **words))


def message(version: int = 1, body: bytes = b'{"a":1}') -> Sheet:
    return Sheet(kind="delivery", id="one", version=version, status="active", body=body)


def writing(sheet: Sheet | None) -> Record:
    return Record(tenant="default", run_id="r", stamp=stamp(), event_type="delegation_given", facts=b"{}", sheet=sheet)


def keeping(sheet: Sheet) -> Keep:
    return Keep(tenant="default", stamp=stamp(), sheet=sheet)


def test_a_fact_may_change_a_sheet() -> None:
    command = writing(given())
    assert needed_sheets(command, None) == (given().ref, place_of("ada"))
    assert needed_sheets(writing(None), None) == ()
    step = next_step(command, None, NOON, SEQ)
    assert step.answer == Recorded("r", SEQ)
    assert isinstance(step.change, Fact)
    assert step.change.sheets == (given(),)
    later = next_step(writing(given(2, is_ended=True)), None, NOON, SEQ, {given().ref: given()})
    assert later.answer == Recorded("r", SEQ)


@pytest.mark.parametrize(
    ("found", "written"), [(None, 2), (given(), 1), (given(), 3), (given(2, is_ended=True), 2), (given(7), 7)]
)
def test_a_sheet_that_somebody_else_has_changed_is_not_written_over(found: Sheet | None, written: int) -> None:
    assert next_step(writing(given(written)), None, NOON, SEQ, {given().ref: found}) == Step(Outrun(found))


@pytest.mark.parametrize(("after", "is_late"), [(None, False), (SEQ - 1, False), (SEQ - 2, True), (SEQ, True)])
def test_87_what_was_decided_on_a_whole_run_is_written_only_if_nobody_wrote_to_it_since(
    after: int | None, is_late: bool
) -> None:
    step = next_step(replace(writing(given()), after=after), None, NOON, SEQ, {given().ref: None})
    assert step == Step(Outrun(None)) if is_late else step.answer == Recorded("r", SEQ)


def test_a_sheet_that_is_kept_aside_changes_without_an_event() -> None:
    kept = message()
    assert keeping(kept).ref == Ref("default", "", "")
    step = next_step(keeping(kept), None, NOON, SEQ)
    assert step == Step(Kept(kept), (Aside((kept,)),))
    assert next_step(keeping(kept), None, NOON, SEQ, {kept.ref: kept}) == Step(Kept(kept)), "its answer got lost"
    other = replace(kept, body=b"{}")
    assert next_step(keeping(kept), None, NOON, SEQ, {kept.ref: other}) == Step(Outrun(other))
    after = message(2, b"[]")
    assert next_step(keeping(after), None, NOON, SEQ, {kept.ref: kept}).answer == Kept(after)
