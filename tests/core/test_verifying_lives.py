"""The verifier allows exactly the moves that the rules make."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any, get_args

import pytest

from indelible.core.commands import Cancel, Command, Decide, Expire, Record, Settle
from indelible.core.commands import Reopen as Again
from indelible.core.effects import Effect, Status
from indelible.core.events import event_hash
from indelible.core.steps import Change, next_step
from indelible.core.verifying.bodies import EffectBody
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.lives import EFFECT_TYPES, LATE, MOVES, STATUSES, Lives, commitments
from tests.core.making import (
    DIGEST,
    EVENT_TYPES,
    LEASE,
    NOON,
    REF,
    claim_of,
    effect,
    finish,
    open_command,
    relinquish,
    stamp,
)
from tests.core.told import LOG, Teller


def every_command(state: Effect | None) -> list[Command]:
    """Gives every kind of command in every variant that matters for what comes of it."""
    told: Any = {"ref": REF, "stamp": stamp()}
    commands: list[Command] = [open_command(needs_approval=asks) for asks in (False, True)]
    commands += [Expire(**told), Again(**told, detail_json=b"1"), Cancel(**told, detail_json=b"1")]
    commands += [Decide(**told, digest=DIGEST, is_approval=yes, detail_json=b"1") for yes in (False, True)]
    commands += [Settle(**told, status=end, detail_json=b"1", evidence_json=b"2") for end in ("succeeded", "failed")]  # type: ignore[arg-type]
    if state is not None and state.attempt:  # nobody has a claim before the first attempt
        ours, older = claim_of(state), claim_of(effect("processing", attempt=state.attempt - 1))
        for claim in (ours, older):
            commands += [finish(claim, end) for end in ("succeeded", "failed")]
            commands += [relinquish(claim, end) for end in ("ready", "in_doubt")]
    return commands


def every_move() -> set[tuple[str, str, str, tuple[str, ...], int, str]]:
    """Asks the rules for every move there is, from every status, in time and past the lease."""
    found = set()
    for status, on_crash, late, attempt in product([None, *get_args(Status)], ("hold", "retry"), (0, 2), (0, 1, 2)):
        if (attempt == 0) != (status in (None, "requires_approval", "denied")) and not (
            attempt == 0 and status == "ready"
        ):
            continue
        state = None if status is None else effect(status, on_crash=on_crash, attempt=attempt)
        for command in every_command(state):
            step = next_step(command, state, NOON + late * LEASE + timedelta(seconds=late), 7)
            if isinstance(step.change, Change):
                after = step.change.effect
                names = tuple(sorted(step.change.committed))
                before = "" if state is None else state.status
                adds = after.attempt - (0 if state is None else state.attempt)
                found.add(
                    (before, step.change.event_type, after.status, names, adds, "" if state is None else on_crash)
                )
    return found


def test_the_table_of_moves_is_what_the_rules_make() -> None:
    made = {move for move in every_move() if move[1] != LATE}
    allowed = {
        (before, kind, after, names, move.adds, on_crash)
        for (before, kind, after), move in MOVES.items()
        for names in move.commits
        if "subject" not in names  # recorded only for calls that name one
        for on_crash in ([""] if before == "" else ["retry"] if move.only_retry else ["hold", "retry"])
    }
    assert made == allowed
    assert EFFECT_TYPES == EVENT_TYPES
    assert set(get_args(Status)) == STATUSES


def test_a_late_report_is_what_the_rules_make() -> None:
    for before, _, after, names, adds, _ in (move for move in every_move() if move[1] == LATE):
        assert (before, adds) == (after, 0)
        assert names in {("late_error",), ("late_result",)}
        assert before != "requires_approval"


def follow(*bodies: bytes, is_whole: bool = True, watch: Any = None) -> Lives:
    lives = Lives(LOG, is_whole=is_whole, watch=watch)
    for index, body in enumerate(bodies):
        lives.follow(index, body, event_hash(body))
    return lives


def test_lives_that_the_rules_make_are_followed() -> None:
    teller, seen = Teller(), list[EffectBody]()
    teller.effect("approval_requested", "requires_approval", 0, "args", "key")
    teller.effect("approval_received", "ready", 0, "reason")
    teller.effect("tool_call_started", "processing", 1)
    teller.fact("noted", {"a": 1}, run="run-1")
    teller.effect("tool_call_in_doubt", "in_doubt", 1, "reason")
    teller.effect("tool_call_late", "in_doubt", 1, "late_result")
    teller.effect("tool_call_finished", "succeeded", 1, "evidence", "result")
    teller.effect("tool_call_late", "succeeded", 1, "late_error")
    teller.started(effect="eff_2", on_crash="retry", run="run-2")
    teller.effect("tool_call_started", "processing", 2, effect="eff_2", on_crash="retry", run="run-2")
    teller.effect("tool_call_late", "processing", 2, "late_error", effect="eff_2", on_crash="retry", run="run-2")
    lives = follow(*teller.bodies, watch=seen.append)
    assert {run: end[0] for run, end in lives.runs.items()} == {"run-1": 8, "run-2": 3}
    assert [body.type for body in seen][:2] == ["approval_requested", "approval_received"]
    assert commitments(
        lives.follow(11, teller.finished(effect="eff_2", on_crash="retry", run="run-2", attempt=2), "x")
    ) == {"result": "ab" * 32}
    assert commitments(lives.follow(12, teller.fact("noted", {}, run="run-3"), "x")) == {}


STARTED: dict[str, Any] = {"type_": "tool_call_started", "status": "processing"}
ILLEGAL: dict[str, tuple[list[dict[str, Any]], str]] = {
    "entered a second time": ([{"type_": "tool_call_started", "status": "processing", "attempt": 2}], "entered again"),
    "an outcome after the outcome": (
        [{"type_": "tool_call_finished", "status": "succeeded", "attempt": 1, "names": ["result"]}] * 2,
        "no tool_call_finished leads from succeeded to succeeded",
    ),
    "opened twice": (
        [
            {"type_": "tool_call_finished", "status": "succeeded", "attempt": 1, "names": ["result"]},
            {"type_": "tool_call_started", "status": "processing", "attempt": 1, "names": ["args", "key"]},
        ],
        "leads from succeeded",
    ),
    "an attempt that was skipped": (
        [{"type_": "tool_call_finished", "status": "failed", "attempt": 2, "names": ["error"]}],
        "attempt is wrong",
    ),
    "a commitment to something else": (
        [{"type_": "tool_call_finished", "status": "failed", "attempt": 1, "names": ["result"]}],
        "does not commit to",
    ),
    "a status nobody knows": (
        [{"type_": "tool_call_finished", "status": "great", "attempt": 1}],
        "leads from processing",
    ),
    "late while the first attempt runs": (
        [{"type_": LATE, "status": "processing", "attempt": 1, "names": ["late_error"]}],
        "can be late",
    ),
    "late with a result": (
        [{"type_": LATE, "status": "processing", "attempt": 1, "names": ["result"]}],
        "changes nothing",
    ),
    "another tool": (
        [{"type_": "tool_call_finished", "status": "failed", "attempt": 1, "names": ["error"], "tool": "other"}],
        "changed its run",
    ),
    "another run": (
        [{"type_": "tool_call_finished", "status": "failed", "attempt": 1, "names": ["error"], "run": "run-9"}],
        "changed its run",
    ),
    "another journal": ([{**STARTED, "attempt": 2, "log": "other"}], "another journal"),
    "a number left out": ([{**STARTED, "attempt": 2, "seq": 2}], "does not follow"),
    "a number twice": ([{**STARTED, "attempt": 2, "seq": 0}], "does not follow"),
    "another link": ([{**STARTED, "attempt": 2, "prev": "cd" * 32}], "does not name the hash"),
}


@pytest.mark.parametrize(("steps", "why"), ILLEGAL.values(), ids=ILLEGAL)
def test_an_illegal_move_is_named_with_its_place(steps: list[dict[str, Any]], why: str) -> None:
    teller = Teller()
    teller.started()
    for step in steps:
        words = dict(step)
        teller.effect(words.pop("type_"), words.pop("status"), words.pop("attempt"), *words.pop("names", []), **words)
    with pytest.raises(Caught, match=why) as caught:
        follow(*teller.bodies)
    assert caught.value.flaw.index == len(teller.bodies) - 1
    assert caught.value.flaw.run == steps[-1].get("run", "run-1")


def test_an_effect_that_begins_in_the_middle_is_caught() -> None:
    with pytest.raises(Caught, match="from nothing"):
        follow(Teller().finished())


def test_what_is_no_event_is_named() -> None:
    for body, why in ((b"\xff", "UTF-8"), (b"{}", "no event of version 1")):
        with pytest.raises(Caught, match=why):
            follow(body)


def test_a_fact_cannot_pass_for_a_move() -> None:
    with pytest.raises(Caught, match="names its effect"):
        follow(Teller().fact("tool_call_started", {}))
    with pytest.raises(Caught, match="does not follow"):
        follow(Teller().fact("noted", {}, seq=4))


def test_in_a_part_of_a_journal_runs_begin_anywhere_and_have_gaps() -> None:
    teller = Teller()
    teller.started()
    teller.finished(effect="eff_0", tool="other")  # its opening is not shown
    teller.effect("tool_call_in_doubt", "in_doubt", 1, "reason")
    teller.effect("tool_call_released", "ready", 1, "reason")
    teller.effect("tool_call_started", "processing", 2)
    teller.finished(attempt=2)
    one, two, three, four, five, six = teller.bodies
    follow(two, three, four, five, six, is_whole=False)
    follow(one, two, five, six, is_whole=False)
    follow(two, six, is_whole=False)
    with pytest.raises(Caught, match="does not follow"):
        follow(three, two, is_whole=False)
    with pytest.raises(Caught, match="does not commit to"):
        follow(one, two, three, opening_after(three, 3), is_whole=False)
    with pytest.raises(Caught, match="no noted leads to ready"):
        follow(Teller().effect("noted", "ready", 1, seq=5), is_whole=False)


def opening_after(body: bytes, seq: int) -> bytes:
    """Writes an opening of the same effect as the next event."""
    return Teller().started(seq=seq, prev=event_hash(body))


def test_nobody_ends_in_more_attempts_than_can_be_counted() -> None:
    teller = Teller()
    many = 2**40
    teller.effect("tool_call_started", "processing", many, seq=3)
    teller.effect("tool_call_finished", "succeeded", many, "result")
    lives = follow(teller.bodies[0], is_whole=False)
    assert lives.runs["run-1"][0] == 4
    body = Teller().effect("tool_call_finished", "succeeded", many, "result", seq=4, prev=event_hash(teller.bodies[0]))
    lives.follow(1, body, event_hash(body))
    assert lives._open, "so it stays among those that can move"


def test_a_record_command_moves_no_effect() -> None:
    command = Record(tenant="default", run_id="r", stamp=stamp(), event_type="noted", facts=b"{}")
    assert not isinstance(next_step(command, None, NOON, 0).change, Change)
