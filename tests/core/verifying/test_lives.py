"""The verifier allows exactly the moves that the rules make."""

from __future__ import annotations

import os
from itertools import product
from typing import Any, get_args

import pytest

from indelible.core.commands import Adopt, Record
from indelible.core.effects.effect import Status
from indelible.core.events import event_hash
from indelible.core.runs.run import EVENT_TYPES as TOLD_BY_HAND
from indelible.core.steps import Change
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.lives import Lives, commitments
from indelible.core.verifying.moves import (
    ADOPTED,
    AGAIN,
    EFFECT_TYPES,
    LATE,
    LATE_NAMES,
    MOVES,
    QUESTIONS,
    STATUSES,
    STILL,
)
from tests.core.explored import examine, explore
from tests.core.making import EVENT_TYPES, NOON, effect, next_step, stamp
from tests.core.told import LOG, Teller


def test_the_table_of_moves_is_what_the_rules_make() -> None:
    made = {
        (move.before, move.type, move.after, move.names, move.adds, move.on_crash)
        for move in explore().moves
        if move.type != LATE and "subject" not in move.names  # recorded only for calls that name one
    }
    allowed = {
        (before, kind, after, names, move.adds, on_crash)
        for (before, kind, after), move in MOVES.items()
        for names in move.commits
        if "subject" not in names and kind != ADOPTED
        for on_crash in (
            [""] if before == "" else ["retry"] if move.only_retry and AGAIN not in names else ["hold", "retry"]
        )
    }
    assert made == allowed
    assert EVENT_TYPES | {ADOPTED} == EFFECT_TYPES
    assert set(get_args(Status)) == STATUSES
    assert {move.type for move in explore().moves if move.is_still} == STILL
    assert QUESTIONS.keys() == {move.type for move in explore().moves if "approval" in move.names}


ENDS = ("succeeded", "failed", "in_doubt", "denied", "canceled")


def test_an_effect_is_taken_over_as_the_rules_make_it() -> None:
    made = set()
    for status, args, detail, subject in product((*ENDS, "requires_approval"), (0, 1), (0, 1), (None, b'"x"')):
        kept = {"args_json": b"{}" if args else None, "detail_json": b'"x"' if detail else None}
        taken = effect(status, attempt=3, **kept)
        command = Adopt(effect=taken, stamp=stamp(), origin_json=b"{}", subject_json=subject)
        (change,) = next_step(command, None, NOON, 0).changes
        assert isinstance(change, Change)
        made.add((change.event_type, change.effect.status, tuple(sorted(change.committed))))
    allowed = {
        (kind, status, names) for (_, kind, status), move in MOVES.items() if kind == ADOPTED for names in move.commits
    }
    assert made == allowed
    teller = Teller()
    teller.effect(ADOPTED, "in_doubt", 3, "key", "origin", "reason")
    teller.effect("tool_call_finished", "succeeded", 3, "evidence", "result")
    follow(*teller.bodies)


@pytest.mark.parametrize("kind", sorted(EFFECT_TYPES))
def test_what_may_be_told_by_hand_names_no_effect(kind: str) -> None:
    teller = Teller()
    teller.fact(kind, {"side_effect": "none"})
    if kind in TOLD_BY_HAND:
        follow(*teller.bodies)
    else:
        with pytest.raises(Caught, match="names its effect"):
            follow(*teller.bodies)


def test_a_late_report_is_what_the_rules_make() -> None:
    late = [move for move in explore().moves if move.type == LATE]
    assert {move.names for move in late} == LATE_NAMES
    for move in late:
        assert (move.before, move.adds) == (move.after, 0)


def test_every_journal_that_the_rules_make_is_followed_with_its_values_and_without() -> None:
    """Whatever was asked, voted, edited, used, handed back, refused: nobody is accused."""
    every = 1 if "INDELIBLE_FUZZ" in os.environ else 5
    for path in explore().paths[::every]:
        examine(path.events, path.shown())
    for path in explore().paths[:: every * 5]:
        examine(path.events)


def follow(*bodies: bytes, is_whole: bool = True) -> Lives:
    lives = Lives(LOG, is_whole=is_whole)
    for index, body in enumerate(bodies):
        lives.follow(index, body, event_hash(body))
    return lives


def test_lives_that_the_rules_make_are_followed() -> None:
    teller = Teller()
    teller.effect("approval_requested", "requires_approval", 0, "approval", "args", "key")
    teller.effect("approval_received", "ready", 0, "approval", "reason")
    teller.effect("tool_call_started", "processing", 1, "approval")
    teller.fact("noted", {"a": 1}, run="run-1")
    teller.effect("tool_call_in_doubt", "in_doubt", 1, "reason")
    teller.effect("tool_call_late", "in_doubt", 1, "late_result")
    teller.effect("tool_call_finished", "succeeded", 1, "evidence", "result")
    teller.effect("tool_call_late", "succeeded", 1, "late_error")
    teller.started(effect="eff_2", on_crash="retry", run="run-2")
    teller.effect("tool_call_started", "processing", 2, effect="eff_2", on_crash="retry", run="run-2")
    teller.effect("tool_call_late", "processing", 2, "late_error", effect="eff_2", on_crash="retry", run="run-2")
    teller.effect("approval_viewed", "succeeded", 1)
    lives = follow(*teller.bodies)
    assert {run: end[0] for run, end in lives.runs.items()} == {"run-1": 9, "run-2": 3}
    assert commitments(
        lives.follow(12, teller.finished(effect="eff_2", on_crash="retry", run="run-2", attempt=2), "x")
    ) == {"result": "ab" * 32}
    assert commitments(lives.follow(13, teller.fact("noted", {}, run="run-3"), "x")) == {}


@pytest.mark.parametrize("status", ["processing", "in_doubt"])
def test_51_nobody_is_asked_about_what_may_have_happened_unless_it_only_reads(status: str) -> None:
    def told(side_effect: str) -> list[bytes]:
        teller, words = Teller(), {"on_crash": "retry", "side_effect": side_effect}
        teller.started(**words)
        if status == "in_doubt":
            teller.effect("tool_call_in_doubt", "in_doubt", 1, "reason", **words)
        teller.effect("approval_requested", "requires_approval", 1, "approval", **words)
        return teller.bodies

    follow(*told("read"))
    for side_effect in ("payment", "write"):
        with pytest.raises(Caught, match="may have happened"):
            follow(*told(side_effect))


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
        follow(Teller().fact("tool_call_in_doubt", {}))
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


# ── the question about an effect ─────────────────────────────────────────────────────────────────────────────────────

Told = tuple[str, str, int, tuple[str, ...]]
ASKED: Told = ("approval_requested", "requires_approval", 0, ("approval", "args", "key"))
APPROVED: Told = ("approval_received", "ready", 0, ("approval", "reason"))
EXPIRED: Told = ("approval_expired", "requires_approval", 0, ("approval", "reason"))
BEGUN: Told = ("tool_call_started", "processing", 1, ("args", "key"))
USED: Told = ("tool_call_started", "processing", 1, ("approval",))
GRANTED: Told = ("tool_call_started", "processing", 1, ("grant",))
BORN_GRANTED: Told = ("tool_call_started", "processing", 1, ("args", "grant", "key"))
ENTERED: Told = ("tool_call_started", "processing", 1, ())
FREED: Told = ("tool_call_released", "ready", 1, ("approval", "reason"))
RETRIED: Told = ("tool_call_released", "ready", 1, ("reason",))
CANCELED: Told = ("tool_call_canceled", "canceled", 0, ("reason",))
VIEWED: Told = ("approval_viewed", "processing", 1, ())
SUCCEEDED: Told = ("tool_call_finished", "succeeded", 1, ("result",))


def later(told: Told, attempt: int) -> Told:
    return (told[0], told[1], attempt, told[3])


def tell(*steps: Told, **changes: Any) -> list[bytes]:
    teller = Teller()
    for type_, status, attempt, names in steps:
        teller.effect(type_, status, attempt, *names, **changes)
    return teller.bodies


def asked_anew(attempt: int) -> list[Told]:
    return [("approval_requested", "requires_approval", attempt, ("approval",)), later(APPROVED, attempt)]


def test_whoever_was_asked_about_is_entered_on_an_approval_or_a_grant() -> None:
    for steps in (
        [ASKED, APPROVED, USED, FREED, later(USED, 2)],
        [ASKED, APPROVED, USED, RETRIED, *asked_anew(1), later(USED, 2)],
        [ASKED, EXPIRED, GRANTED, RETRIED, later(GRANTED, 2), later(VIEWED, 2)],
        [ASKED, APPROVED, USED, RETRIED, later(GRANTED, 2), later(RETRIED, 2), *asked_anew(2), later(USED, 3)],
        [ASKED, EXPIRED, *asked_anew(0), USED, SUCCEEDED],
        [BEGUN, RETRIED, later(ENTERED, 2), later(RETRIED, 2), later(GRANTED, 3), later(RETRIED, 3), *asked_anew(3)],
        [ASKED, EXPIRED, CANCELED],
    ):
        follow(*tell(*steps))


UNASKED: dict[str, tuple[list[Told], str]] = {
    "ran though nobody approved": ([ASKED, ENTERED], "tool_call_started does not commit to"),
    "ran without using its approval": ([ASKED, APPROVED, ENTERED], "without the approval .* it is approved"),
    "ran on an approval that nobody gave": ([BEGUN, RETRIED, later(USED, 2)], "nobody was asked"),
    "ran twice on one approval": ([ASKED, APPROVED, USED, RETRIED, later(USED, 2)], "it was used up"),
    "retried and not asked about again": ([ASKED, APPROVED, USED, RETRIED, later(ENTERED, 2)], "it was used up"),
    "ran on a grant from the first, and then on nothing": ([BORN_GRANTED, RETRIED, later(ENTERED, 2)], "it ended"),
    "ran on a grant once, and then on nothing": ([ASKED, EXPIRED, GRANTED, RETRIED, later(ENTERED, 2)], "it ended"),
    "ran on a grant after its approval, and then on nothing": (
        [ASKED, APPROVED, USED, RETRIED, later(GRANTED, 2), later(RETRIED, 2), later(ENTERED, 3)],
        "it ended",
    ),
    "ran on a grant though an approval waits": ([ASKED, APPROVED, GRANTED], "without the approval"),
    "ran on an approval that ended": ([ASKED, EXPIRED, GRANTED, RETRIED, later(USED, 2)], "it ended"),
    "an approval came back that was not used": ([BEGUN, FREED], "nobody was asked"),
    "asked anew while it is asked": (
        [ASKED, ("approval_requested", "requires_approval", 0, ("approval",))],
        "it is pending",
    ),
    "expired twice": ([ASKED, EXPIRED, EXPIRED], "it ended"),
    "withdrawn, and the question stays": ([ASKED, CANCELED], "it is pending"),
    "looked at without a question": ([BEGUN, VIEWED], "nobody was asked"),
    "looked at after the end without a question": (
        [BEGUN, SUCCEEDED, ("approval_viewed", "succeeded", 1, ())],
        "nobody was asked",
    ),
    "an approval with a late report": (
        [ASKED, APPROVED, USED, SUCCEEDED, (LATE, "succeeded", 1, ("approval", "late_error"))],
        "changes nothing",
    ),
}


@pytest.mark.parametrize(("steps", "why"), UNASKED.values(), ids=UNASKED)
def test_an_event_that_does_not_fit_the_question_is_named(steps: list[Told], why: str) -> None:
    bodies = tell(*steps)
    with pytest.raises(Caught, match=why) as caught:
        follow(*bodies)
    assert (caught.value.flaw.index, caught.value.flaw.run) == (len(bodies) - 1, "run-1")


def test_after_a_gap_nobody_knows_how_the_question_stands() -> None:
    steps = [ASKED, APPROVED, USED, FREED, later(USED, 2), later(RETRIED, 2), *asked_anew(2), later(USED, 3)]
    bodies = tell(*steps, later(VIEWED, 3))
    for gap in range(1, len(bodies)):
        follow(*bodies[:gap], *bodies[gap + 1 :], is_whole=False)
        follow(*bodies[gap:], is_whole=False)
    follow(*tell(ASKED, APPROVED, USED, RETRIED, later(ENTERED, 2))[3:], is_whole=False)
    for entered in (USED, ENTERED):
        with pytest.raises(Caught, match="it was used up"):
            follow(*tell(ASKED, APPROVED, USED, RETRIED, later(entered, 2))[2:], is_whole=False)
    with pytest.raises(Caught, match="none that commits to"):
        follow(tell(BEGUN, later(("tool_call_in_doubt", "in_doubt", 1, ("approval",)), 1))[1], is_whole=False)


def test_a_fact_commits_to_no_approval() -> None:
    with pytest.raises(Caught, match="names its effect"):
        follow(Teller().fact("noted", {}, commits={"approval": "ab" * 32}))
    follow(Teller().fact("policy_checked", {"rule": "never"}))
