"""The lives of runs are followed: whoever breaks a rule of theirs, and signs it, is still caught and named."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible.core.commands import Keep
from indelible.core.events import NO_EVENTS, event_hash
from indelible.core.journal.merkle import leaf_hash
from indelible.core.journal.notes import TreeHead
from indelible.core.runs.commands import NewCheckpoint
from indelible.core.runs.run import (
    OVER,
    RUN_STATUSES,
    CheckpointRule,
    Fork,
    Happening,
    driver_ref,
    driver_sheet,
    read_driver,
)
from indelible.core.values.canonical import encode
from indelible.core.verifying.examination import Examination, Scope
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.payloads import Disclosed, PayloadTally
from indelible.core.verifying.run_moves import FORMS, INTERRUPTED, MAY_BE_TOLD, RUN_MOVES, UNKNOWN
from tests.core.explored import examine
from tests.core.forged import Journal, changed, leaves
from tests.core.making import LEASE, open_command
from tests.core.run_world import TENANT, World
from tests.core.told import HASH, LOG, Teller

PLAN = Happening(type="plan_locked", payload_json=b'{"goal":"paid"}', step="plan")
SENT = Happening(type="acme.sent", side_effect="notification", side_effect_key="k1", said_by="worker-7")
SEEN = Happening(type="policy_checked", payload_json=b"1")
STOPPED = Happening(type="interruption_detected")
SAVED = NewCheckpoint(id="ckpt_9", reason="failure", state_json=b'{"at":9}')
Command = Callable[[World], Any]
WHOLE: Any = {
    "intent": "pay",
    "allowed_tools": ("pay",),
    "permissions": {"most": 7},
    "parent": "p",
    "parent_event": "evt_1",
    "checkpointing": CheckpointRule(every_progress=2, every=LEASE),
    "fork": Fork(run_id="q", at=3),
}


def path_of(world: World) -> Any:
    """Gives what a world tells in the words of a journal that can be told otherwise."""
    shown: dict[tuple[str, int], dict[str, Disclosed]] = {}
    for one in world.payloads:
        shown.setdefault((one.run_id, one.seq), {})[one.field] = Disclosed(0, one.field, one.salt, one.value)
    return SimpleNamespace(
        events=[event for run in world.events.values() for event in run],
        shown=lambda: shown,
    )


# The tables are what the rules make


def ended_and_saved(world: World, status: str) -> Any:
    """Ends a run with a checkpoint that has a name of its own."""
    name = f"ckpt_end_{len(world.types())}"
    return world.end(status, checkpoint=NewCheckpoint(id=name, reason="failure", state_json=b'{"at":9}'))


def commands() -> Iterator[Command]:
    """Gives everything that can be said about a run, in every variant that matters for what is told of it."""
    yield lambda world: world.start("r", "t1")
    yield lambda world: world.take(f"t{len(world.events)}", is_forced=True)
    yield lambda world: world.tell(PLAN, SENT, SENT, SEEN, STOPPED)
    for state in (None, b"1"):
        yield partial(World.seal, name="ckpt_1", state_json=state)
    for status in RUN_STATUSES[1:]:
        yield partial(World.end, status=status)
        yield partial(ended_and_saved, status=status)
    yield partial(World.end, status="blocked", takes_back=True, is_forced=True)


def ways() -> Iterator[tuple[str, World]]:
    """Gives a world for every way a run can stand, driven, left alone and let go of."""
    for status in ("", *RUN_STATUSES):
        for is_left in (False, True):
            world = World()
            if status:
                world.start("r", "t0")
            if status not in ("", "active"):
                world.end(status)
            if is_left:
                world.pass_time(2 * LEASE)
            yield status, world


@cache
def told() -> set[tuple[str, str, str, tuple[str, ...], tuple[str, ...]]]:
    """Gives every event there can be: how its run stood, its type, how it stands after; its facts and commitments."""
    found = set()
    for status, world in ways():
        for command in commands():
            tried = deepcopy(world)
            known = len(tried.types())
            command(tried)
            before = status
            for event in tried.events.get("r", [])[known:]:
                body = event.read()
                moved = [one.value for one in tried.payloads if (one.seq, one.field) == (event.seq, "run")]
                after = json.loads(moved[0])["status"] if moved else before
                found.add((before, event.type, after, tuple(sorted(body["facts"])), tuple(sorted(body["commits"]))))
                before = after
    return found


def test_the_table_of_moves_of_runs_is_what_the_rules_make() -> None:
    by_ledger = {(before, kind, after) for before, kind, after, facts, _ in told() if "side_effect" not in facts}
    assert by_ledger == {(before, kind, after) for (before, kind), after in RUN_MOVES.items()}
    by_hand = {before for before, _, _, facts, _ in told() if "side_effect" in facts}
    assert by_hand == MAY_BE_TOLD - {UNKNOWN} == {"", *RUN_STATUSES} - OVER - {"handed_over"}


def test_what_is_told_of_runs_has_the_form_that_the_rules_give_it() -> None:
    made: dict[str, set[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for _, kind, _, facts, commits in told():
        if "side_effect" not in facts:
            made.setdefault(kind, set()).add((facts, commits))
    assert made == {
        kind: {(tuple(sorted(form.facts)), names) for names in form.commits} for kind, form in FORMS.items()
    }


def test_whatever_the_rules_make_is_followed_with_its_values_and_without() -> None:
    count = 0
    for _, world in ways():
        for command in commands():
            tried = deepcopy(world)
            command(tried)
            journal = Journal(path_of(tried))
            examine(journal.events)
            examine(journal.events, journal.shown)
            count += len(journal.events)
    assert count > 200


def released(world: World) -> None:
    """Lets go of the run, as its driver does, without an event."""
    sheet = world.sheets.get(driver_ref("r"))
    if sheet is not None and sheet.status == "driving":
        world.one(Keep(tenant=TENANT, stamp=world.stamp(), sheet=driver_sheet(read_driver(sheet).released())))


MORE: list[Command] = [
    released,
    lambda world: world.pass_time(LEASE),
    lambda world: world.seal(f"ckpt_{world.heads.get('r', NO_EVENTS).length}", at=0),
    lambda world: world.take(f"t{world.heads.get('r', NO_EVENTS).length}"),
    lambda world: world.take("t9", checkpoint_id="ckpt_1", is_forced=True),
    lambda world: world.start("other", "t1"),
    lambda world: world.tell(PLAN, run_id="other"),
    lambda world: world.end("canceled", "other"),
    lambda world: world.one(open_command(run_id="r", effect_id=f"eff_{len(world.effects)}", stamp=world.stamp())),
]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*commands(), *MORE, *MORE]), max_size=25), st.data())
def test_no_run_that_kept_to_the_rules_is_accused(said: list[Command], data: st.DataObject) -> None:
    world = World()
    for command in said:
        command(world)
    journal = Journal(path_of(world))
    examine(journal.events)
    examine(journal.events, journal.shown)
    kept = data.draw(st.lists(st.booleans(), min_size=len(journal.events), max_size=len(journal.events)))
    part = Examination(
        TreeHead(LOG, len(kept), b"r" * 32), PayloadTally(keeps_absent=False), Scope(), is_whole=False, has_values=False
    )
    for index, (event, is_kept) in enumerate(zip(journal.events, kept, strict=True)):
        if is_kept:
            shown = journal.shown.get((event.run_id, event.seq))
            part.take(index, event.body, event.hash, shown, None)


def whole_story() -> World:
    """A run with everything: started, told, saved, lost, resumed, failed, resumed, flagged, resumed, completed."""
    world = World()
    world.tell(PLAN)
    world.start("r", "t1", **WHOLE)
    world.tell(PLAN, SENT, SENT)
    world.seal("ckpt_1", state_json=b'{"n":1}', suggested="mail")
    world.pass_time(2 * LEASE)
    world.take("t2", checkpoint_id="ckpt_1")
    world.end("failed", checkpoint=SAVED)
    world.take("t3", checkpoint_id="ckpt_9")
    world.end("manual_review_required")
    world.take("t4", is_forced=True)
    world.end("completed")
    return world


@pytest.fixture
def journal() -> Journal:
    return Journal(path_of(whole_story()))


def caught(events: Any, shown: Any = None) -> Caught:
    with pytest.raises(Caught) as found:
        examine(events, shown)
    return found.value


# Who breaks a rule


@pytest.mark.parametrize(
    ("kind", "number", "facts", "why"),
    [
        ("run_resumed", 0, {"fence": 1}, "not higher"),
        ("run_resumed", 2, {"fence": 3}, "not higher"),
        ("interruption_detected", 0, {"fence": 2}, "another driver"),
        ("checkpoint_sealed", 0, {"at": 5}, "no earlier event"),
        ("checkpoint_sealed", 0, {"at": -1}, "no earlier event"),
        ("checkpoint_sealed", 1, {"checkpoint": "ckpt_1"}, "sealed before"),
        ("checkpoint_sealed", 0, {"reason": "because"}, "in clear"),
        ("run_resumed", 0, {"checkpoint": "ckpt_9"}, "no checkpoint of this run"),
        ("run_resumed", 1, {"checkpoint": "ckpt_of_another"}, "no checkpoint of this run"),
        ("run_resumed", 1, {"fence": True}, "in clear"),
        ("run_completed", 0, {"more": 1}, "in clear"),
        ("acme.sent", 0, {"status": "skipped", "step": 1}, "in clear"),
        ("acme.sent", 1, {"status": "maybe"}, "in clear"),
        ("plan_locked", 0, {"status": "skipped"}, "names no side effect"),
    ],
)
def test_a_word_that_the_rules_do_not_allow_is_named(
    journal: Journal, kind: str, number: int, facts: dict[str, Any], why: str
) -> None:
    index = journal.index(kind, number, "r")
    events, _ = journal.retold(index, facts=journal.events[index].read()["facts"] | facts)
    found = caught(events)
    assert why in found.flaw.what
    assert (found.flaw.index, found.flaw.run, found.flaw.seq) == (index, "r", index)


def run_fact(teller: Teller, kind: str, *commits: str, **facts: Any) -> None:
    teller.fact(kind, facts, "r", commits=dict.fromkeys(commits, HASH))


def started() -> Teller:
    teller = Teller()
    run_fact(teller, "run_started", "run", fence=1, parent=None, parent_event=None)
    return teller


def examined(bodies: list[bytes], *, is_whole: bool = True, first: int = 0) -> None:
    examination = Examination(
        TreeHead(LOG, len(bodies), b"r" * 32),
        PayloadTally(keeps_absent=False),
        Scope(),
        is_whole=is_whole,
        has_values=False,
    )
    for index, body in list(enumerate(bodies))[first:]:
        examination.take(index, body, leaf_hash(body).hex(), None, None)


HAND = {"side_effect": "none", "status": "recorded", "step": None}
AFTER_THE_END: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [
    ("run_resumed", ("run",), {"checkpoint": None, "fence": 2}),
    ("run_started", ("run",), {"fence": 2, "parent": None, "parent_event": None}),
    ("run_failed", ("reason", "run"), {}),
    ("run_completed", ("reason", "run"), {}),
    ("checkpoint_sealed", ("checkpoint",), {"at": 0, "checkpoint": "ckpt_1", "reason": "manual"}),
    ("interruption_detected", (), {"fence": 1}),
    ("interruption_detected", (), HAND),
    ("plan_locked", ("payload",), HAND),
    ("policy_checked", (), HAND),
    ("acme.sent", (), HAND),
]


@pytest.mark.parametrize("ending", ["run_completed", "run_canceled"])
@pytest.mark.parametrize(("kind", "commits", "facts"), AFTER_THE_END)
def test_nothing_is_added_to_a_run_that_is_over(
    ending: str, kind: str, commits: tuple[str, ...], facts: dict[str, Any]
) -> None:
    teller = started()
    run_fact(teller, ending, "reason", "run")
    run_fact(teller, kind, *commits, **facts)
    with pytest.raises(Caught, match=r"run that is|is told of a run") as found:
        examined(teller.bodies)
    assert (found.value.flaw.index, found.value.flaw.run) == (2, "r")


def test_effects_erasures_holds_and_refusals_may_follow_the_end_of_a_run() -> None:
    teller = started()
    run_fact(teller, "run_completed", "reason", "run")
    teller.started(run="r")
    teller.finished(run="r")
    run_fact(teller, "payload_erased", "reason", basis="retention", erased=[])
    run_fact(teller, "hold_placed", "reason", hold="hold_1")
    run_fact(teller, "packet_exported", packet=HASH)
    refusal = {"decision": "refuse", "policy": "", "rule": "never", "side_effect": "none", "tool": "drop"}
    run_fact(teller, "policy_checked", "args", "policy", **refusal)
    run_fact(teller, "some_day_told", word="of a later version")
    examined(teller.bodies)


@pytest.mark.parametrize(
    ("kind", "commits", "facts"),
    [one for one in AFTER_THE_END if one[0] != "run_started" and "side_effect" not in one[2]],
)
def test_a_run_that_was_never_started_is_neither_driven_nor_ended(
    kind: str, commits: tuple[str, ...], facts: dict[str, Any]
) -> None:
    teller = Teller()
    run_fact(teller, "acme.sent", **HAND)
    run_fact(teller, kind, *commits, **facts)
    with pytest.raises(Caught, match="not started"):
        examined(teller.bodies)


def test_a_run_is_started_once() -> None:
    teller = started()
    run_fact(teller, "run_started", "run", fence=2, parent=None, parent_event=None)
    with pytest.raises(Caught, match="no run_started follows in a run that is active"):
        examined(teller.bodies)


def test_a_run_that_lost_its_driver_is_taken_over_at_once() -> None:
    for kind, facts in (("acme.sent", HAND), ("run_blocked", {})):
        teller = started()
        run_fact(teller, INTERRUPTED, fence=1)
        run_fact(teller, kind, *(("reason", "run") if kind == "run_blocked" else ()), **facts)
        with pytest.raises(Caught, match="lost its driver"):
            examined(teller.bodies)
    teller = started()
    run_fact(teller, INTERRUPTED, fence=1)
    teller.started(run="r")
    run_fact(teller, "run_resumed", "run", checkpoint=None, fence=2)
    with pytest.raises(Caught, match="lost its driver"):
        examined(teller.bodies)


@pytest.mark.parametrize(
    ("kind", "commits"),
    [
        ("run_completed", ("run",)),
        ("run_completed", ("reason", "run", "state")),
        ("checkpoint_sealed", ("state",)),
        ("acme.sent", ("run",)),
        ("payload_erased", ("reason", "run")),
        ("some_day_told", ("checkpoint",)),
    ],
)
def test_only_what_tells_of_a_run_commits_to_it(kind: str, commits: tuple[str, ...]) -> None:
    known: dict[str, dict[str, Any]] = {
        "checkpoint_sealed": {"at": 0, "checkpoint": "ckpt_1", "reason": "manual"},
        "acme.sent": HAND,
        "payload_erased": {"basis": "request", "erased": []},
    }
    teller = started()
    run_fact(teller, kind, *commits, **known.get(kind, {}))
    with pytest.raises(Caught, match="commit"):
        examined(teller.bodies)


# Who changes a value, and signs that


def test_every_change_of_a_run_or_a_checkpoint_that_is_shown_is_named(journal: Journal) -> None:
    free = named = 0
    for index, event in enumerate(journal.events):
        for name in {"run", "checkpoint"} & event.read()["commits"].keys():
            value = journal.value(index, name)
            for path in leaves(value):
                events, shown = journal.retold(index, name, partial(changed, path=path))
                if (event.type, path[:1]) in FREE:
                    free += 1
                    continue
                found = caught(events, shown)
                # What a run begins with is compared with what it is later.
                assert found.flaw.run == "r", path
                assert (found.flaw.index or 0) >= index, path
                named += 1
    assert (free, named > 50) == (2, True)


FREE = {("checkpoint_sealed", ("suggested",))}
"""Is what an event says nowhere else: what to do next is the writer's word alone."""


THEN = "2031-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("kind", "name", "other"),
    [
        ("checkpoint_sealed", "checkpoint", {"reason": "periodic_safety"}),
        ("checkpoint_sealed", "checkpoint", {"created_at": THEN}),
        ("checkpoint_sealed", "checkpoint", {"run": "another"}),
        ("run_failed", "run", {"status": "completed"}),
        ("run_failed", "run", {"updated_at": THEN}),
        ("run_resumed", "run", {"created_at": THEN}),
        ("run_resumed", "run", {"allowed_tools": None}),
        ("run_started", "run", {"created_at": THEN}),
        ("run_started", "run", {"parent": None}),
        ("run_started", "run", {"parent_event": "evt_2"}),
    ],
)
def test_a_run_or_a_checkpoint_that_is_another_than_its_event_tells_is_named_there(
    journal: Journal, kind: str, name: str, other: dict[str, Any]
) -> None:
    index = journal.index(kind, 0, "r")
    events, shown = journal.retold(index, name, lambda value: {**value, **other})
    assert caught(events, shown).flaw.index == index


def _instead(other: bytes, _: Any) -> bytes:
    return other


def test_a_value_that_is_no_run_is_named(journal: Journal) -> None:
    index = journal.index("run_started", run="r")
    for value in (b"[]", b"{", encode({**journal.value(index, "run"), "more": 1}), b'{"v":1}'):
        events, shown = journal.retold(index, "run", partial(_instead, value))
        assert caught(events, shown).flaw.index == index


def test_a_run_that_changes_while_its_start_is_not_shown_is_compared_from_then_on(journal: Journal) -> None:
    events, shown = journal.retold(
        journal.index("run_completed", run="r"), "run", lambda run: {**run, "agent": "somebody else"}
    )
    del shown["r", journal.index("run_started", run="r")]["run"]
    assert "another one than before" in caught(events, shown).flaw.what


# What is not shown


def test_a_part_of_a_journal_is_followed_as_far_as_it_is_shown() -> None:
    events = [event.body for event in whole_story().events["r"]]
    for first in range(len(events)):
        examined(events, is_whole=False, first=first)
    for gap in range(1, len(events) - 1):
        examination = Examination(
            TreeHead(LOG, len(events), b"r" * 32),
            PayloadTally(keeps_absent=False),
            Scope(),
            is_whole=False,
            has_values=False,
        )
        for index, body in enumerate(events):
            if index != gap:
                examination.take(index, body, event_hash(body), None, None)


def test_drivers_numbers_grow_across_what_is_not_shown() -> None:
    teller = started()
    for fence in (2, 3, 4):
        run_fact(teller, "run_resumed", "run", checkpoint=None, fence=fence if fence < 4 else 2)
    bodies = [teller.bodies[index] for index in (0, 2, 3)]
    examination = Examination(
        TreeHead(LOG, 3, b"r" * 32), PayloadTally(keeps_absent=False), Scope(), is_whole=False, has_values=False
    )
    for index, body in enumerate(bodies[:2]):
        examination.take(index, body, event_hash(body), None, None)
    with pytest.raises(Caught, match="not higher"):
        examination.take(2, bodies[2], event_hash(bodies[2]), None, None)


def test_runs_do_not_know_each_other_s_checkpoints() -> None:
    world = World()
    world.start("r", "t1")
    world.start("other", "t2")
    world.seal("ckpt_o", "other")
    world.end("blocked", "r")
    world.take("t3", "r")
    journal = Journal(path_of(world))
    index = journal.index("run_resumed", run="r")
    events, _ = journal.retold(index, facts={"checkpoint": "ckpt_o", "fence": 2})
    assert "no checkpoint of this run" in caught(events).flaw.what


@pytest.mark.parametrize("told", [{"to": "ledger-3/default"}, {"until": "2031-01-01T00:00:00.000000Z"}])
def test_94_a_run_that_was_handed_to_another_ledger_than_it_tells_is_named(told: dict[str, str]) -> None:
    world = World()
    world.start("r", "t1")
    world.end("handed_over")
    journal = Journal(path_of(world))
    examine(journal.events, journal.shown)
    index = journal.index("run_handed_over", 0, "r")
    events, shown = journal.retold(index, facts=journal.events[index].read()["facts"] | told)
    assert caught(events, shown).flaw.index == index
