"""The rules of runs: one drives, a side effect is told once, what is over is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indelible.core.commands import Claimed, Keep, Kept, Outrun, Replayed, ReplayedFailure
from indelible.core.effects.effect import SYSTEM, hash_of
from indelible.core.effects.stops import STOP_REF, Stop, stop_sheet
from indelible.core.journal.set_back import stop_of_set_back
from indelible.core.runs.commands import SET_BACK, NewCheckpoint, RunMoved, RunNotMoved, StartRun, TakeRun, Tell
from indelible.core.runs.run import (
    OVER,
    RUN_STATUSES,
    Fork,
    Happening,
    Run,
    RunStatus,
    checkpoint_ref,
    driver_ref,
    driver_sheet,
    mark_ref,
    read_checkpoint,
    read_driver,
    read_run,
    run_ref,
)
from indelible.core.sheets import SheetRef
from indelible.core.steps import needed_sheets, sheets_led_by_run
from tests.core.making import LEASE, NOON, REF, SECOND, cancel, effect, finish, open_command, relinquish
from tests.core.run_world import TENANT, World

PLAN = Happening(type="plan_locked", step="plan")
SENT = Happening(
    type="execution_succeeded", payload_json=b'{"to":"ana"}', side_effect="notification", side_effect_key="k1"
)
TOOL = Happening(type="tool_call_finished", payload_json=b"1", said_by="worker-7", side_effect="read")


def refused(answer: Any) -> str:
    assert isinstance(answer, RunNotMoved), answer
    return answer.code


def test_a_run_begins_with_its_event_and_its_driver() -> None:
    world = World()
    answer = world.start(intent="pay", allowed_tools=("pay",))
    assert isinstance(answer, RunMoved)
    assert (answer.fence, [one.type for one in answer.told]) == (1, ["run_started"])
    run = read_run(world.sheets[run_ref("r")])
    assert (run.status, run.intent, run.seq) == ("active", "pay", 0)
    assert answer.run == run
    driver = read_driver(world.sheets[driver_ref("r")])
    assert (driver.token_hash, driver.until, driver.fence) == (hash_of("t1"), NOON + LEASE, 1)
    assert SheetRef("limit", "r") in world.sheets


def test_only_runs_with_limits_leave_a_note_of_them() -> None:
    world = World()
    world.start("free")
    world.start("forked", fork=Fork(run_id="free", at=0))
    assert [ref.id for ref in world.sheets if ref.kind == "limit"] == ["forked"]


CHILD = {"parent": "r", "to_parent_json": b'{"agent":"billing","run":"child"}'}


def test_71_a_parent_is_told_of_its_child_in_the_same_write() -> None:
    world = World()
    world.start()
    for _ in range(2):  # an answer that got lost
        assert isinstance(world.start("child", token="t2", **CHILD), RunMoved)
    assert (world.types(), world.types("child")) == (["run_started", "delegation_started"], ["run_started"])
    assert world.story()[0].open_delegations == ["child"]
    assert isinstance(world.start("other", token="t3", parent="r", to_parent_json=b'{"run":"other"}'), RunMoved)
    assert world.story()[0].open_delegations == ["child", "other"]


def test_71_a_parent_that_has_told_of_its_child_before_is_told_nothing_more() -> None:
    world = World()
    world.start()
    told = Happening(type="delegation_started", payload_json=b'{"run":"child"}', side_effect="delegation")
    assert isinstance(world.tell(told), RunMoved)
    event = f"evt_{world.events['r'][1].hash}"
    assert isinstance(world.start("child", parent="r", parent_event=event), RunMoved)
    assert world.types() == ["run_started", "delegation_started"]


@pytest.mark.parametrize("ending", ["completed", "canceled", "handed_over"])
def test_71_a_run_does_not_begin_unless_its_parent_is_told(ending: Any) -> None:
    world = World()
    assert refused(world.start("child", **CHILD)) == "unknown"
    world.start()
    assert refused(world.start("child", parent="r")) == "parent"
    world.end(ending)
    assert refused(world.start("child", **CHILD)) == ("handed_over" if ending == "handed_over" else "over")
    assert world.types("child") == []
    assert "delegation_started" not in world.types()


@pytest.mark.parametrize(
    ("limit", "wanted", "tools"),
    [
        (None, ("wire",), ("wire",)),
        (None, None, None),
        (("pay",), None, ("pay",)),
        (("crm.*", "pay"), ("crm.read",), ("crm.read",)),
        (("pay",), ("pay", "wire"), "tools"),
        ((), ("pay",), "tools"),
    ],
)
def test_39_a_run_may_use_no_tool_that_its_parent_may_not_use(limit: Any, wanted: Any, tools: Any) -> None:
    world = World()
    world.start(allowed_tools=limit)
    answer = world.start("kid", parent="r", parent_event="evt_1", allowed_tools=wanted)
    if tools == "tools":
        assert refused(answer) == tools
        assert run_ref("kid") not in world.sheets
    else:
        assert answer.run.allowed_tools == read_run(world.sheets[run_ref("kid")]).allowed_tools == tools
        assert (SheetRef("limit", "kid") in world.sheets) == (tools is not None)


@pytest.mark.parametrize(
    ("of_parent", "own", "fork"),
    [
        (None, None, None),
        (None, Fork(run_id="a", at=1, is_dry=False), Fork(run_id="a", at=1, is_dry=False)),
        (Fork(run_id="a", at=1), None, Fork(run_id="a", at=1)),
        (Fork(run_id="a", at=1), Fork(run_id="b", at=2, is_dry=False), Fork(run_id="b", at=2)),
        (Fork(run_id="a", at=1, is_dry=False), Fork(run_id="b", at=2), Fork(run_id="b", at=2)),
    ],
)
def test_39_a_run_is_a_fork_as_dry_as_its_parent(of_parent: Any, own: Any, fork: Any) -> None:
    world = World()
    world.start(fork=of_parent)
    answer = world.start("kid", parent="r", parent_event="evt_1", fork=own)
    assert answer.run.fork == fork


def test_39_a_run_does_not_begin_if_what_its_parent_may_use_cannot_be_read() -> None:
    world = World()
    world.start(allowed_tools=("pay",))
    world.sheets[run_ref("r")] = replace(world.sheets[run_ref("r")], body=None)
    assert refused(world.start("kid", parent="r", parent_event="evt_1")) == "parent"
    assert isinstance(world.start("other", parent="elsewhere", parent_event="evt_1"), RunMoved)


def test_a_run_is_started_once_and_its_starter_may_ask_twice() -> None:
    world = World()
    first = world.start()
    assert world.start() == RunMoved(first.run, (), 1), "an answer that got lost"
    assert refused(world.start(token="t2")) == "exists"
    assert world.types() == ["run_started"]


def test_a_run_that_had_calls_before_it_was_started_can_be_started() -> None:
    world = World()
    assert isinstance(world.tell(PLAN), RunMoved)
    assert world.start().told[0].seq == 1


def test_what_happened_is_told_in_order_and_all_at_once() -> None:
    world = World()
    world.start()
    answer = world.tell(PLAN, TOOL, SENT, token="t1")
    assert [(one.seq, one.type, one.status) for one in answer.told] == [
        (1, "plan_locked", "recorded"), (2, "tool_call_finished", "recorded"), (3, "execution_succeeded", "recorded"),
    ]  # fmt: skip
    _, events = world.story()
    assert [(event.step, event.actor, event.side_effect) for event in events[1:]] == [
        ("plan", "indelible", "none"), (None, "worker-7", "read"), (None, "indelible", "notification"),
    ]  # fmt: skip
    assert events[3].payload == {"to": "ana"}


def test_a_side_effect_is_told_once_and_then_as_skipped() -> None:
    world = World()
    world.start()
    assert [one.status for one in world.tell(SENT, SENT).told] == ["recorded", "skipped"]
    assert [one.status for one in world.tell(SENT).told] == ["skipped"]
    world.pass_time(LEASE)
    world.take()
    assert [one.status for one in world.tell(SENT, token="t2").told] == ["skipped"], "also after the run was resumed"
    assert [one.status for one in world.tell(SENT, run_id="other").told] == ["recorded"], "each run has its own"
    assert world.sheets[mark_ref("r", "k1")].read() == {"seq": 1}


def test_a_checkpoint_is_of_the_latest_event_and_sealed_by_the_next() -> None:
    world = World()
    world.start()
    world.tell(PLAN)
    answer = world.seal(state_json=b'{"step":2}', suggested="go on", reason="risky_boundary")
    checkpoint = answer.checkpoint
    assert (checkpoint.at, checkpoint.seq, checkpoint.has_state) == (1, 2, True)
    assert read_checkpoint(world.sheets[checkpoint_ref("ckpt_1")]) == checkpoint
    assert {payload.field for payload in world.payloads if payload.seq == 2} == {"state", "checkpoint"}
    assert world.seal(state_json=b'{"step":2}').checkpoint == checkpoint, "an answer that got lost"
    assert world.types() == ["run_started", "plan_locked", "checkpoint_sealed"]


@pytest.mark.parametrize("at", [-1, 1, 99])
def test_a_checkpoint_is_of_an_event_that_is_there(at: int) -> None:
    world = World()
    world.start()
    assert refused(world.seal(at=at)) == "event"
    assert world.seal(at=0).checkpoint.at == 0


def test_a_run_that_was_never_started_can_be_told_of_and_nothing_else() -> None:
    world = World()
    assert world.tell(PLAN).run is None
    assert refused(world.seal()) == "unknown"
    assert refused(world.end("completed")) == "unknown"
    assert refused(world.take()) == "unknown"


@pytest.mark.parametrize("status", RUN_STATUSES[1:])
def test_a_run_ends_with_its_event_and_its_driver_lets_go(status: RunStatus) -> None:
    world = World()
    world.start()
    answer = world.end(status, token="t1")
    assert answer.run.status == status
    assert read_driver(world.sheets[driver_ref("r")]).is_released
    code = {"handed_over": "handed_over"}.get(status, "over" if status in OVER else "lost")
    assert refused(world.tell(PLAN, token="t1")) == code
    again = world.end(status)
    assert isinstance(again, RunMoved)
    assert len(world.types()) == (2 if status in OVER or status == "handed_over" else 3), "said twice"


def test_a_run_is_saved_and_ended_in_one_go() -> None:
    world = World()
    world.start()
    answer = world.end("failed", checkpoint=NewCheckpoint(id="ckpt_1", reason="failure", state_json=b"7"))
    assert [one.type for one in answer.told] == ["checkpoint_sealed", "run_failed"]
    assert (answer.checkpoint.at, answer.checkpoint.seq) == (0, 1)


@pytest.mark.parametrize("status", sorted(OVER))
def test_nothing_is_added_to_what_is_over(status: RunStatus) -> None:
    world = World()
    world.start()
    world.end(status)
    other: RunStatus = "canceled" if status == "completed" else "completed"
    assert [refused(world.tell(PLAN)), refused(world.seal()), refused(world.take()), refused(world.end(other))] == [
        "over"
    ] * 4


def test_only_who_drives_may_speak_for_the_run() -> None:
    world = World()
    world.start()
    assert refused(world.tell(PLAN, token="stranger")) == "lost"
    assert refused(world.seal(token="stranger")) == "lost"
    assert refused(world.end("completed", token="stranger")) == "lost"
    assert isinstance(world.tell(PLAN), RunMoved), "whoever claims nothing may tell"


def test_a_run_that_is_driven_is_not_taken() -> None:
    world = World()
    world.start()
    world.pass_time(LEASE - timedelta(microseconds=1))
    assert refused(world.take()) == "driven"
    world.pass_time(timedelta(microseconds=1))
    answer = world.take()
    assert (answer.fence, [one.type for one in answer.told]) == (2, ["interruption_detected", "run_resumed"])
    assert answer.run.seq == 2
    assert refused(world.tell(PLAN, token="t1")) == "lost", "the one before is fenced out"
    assert world.take(token="t2") == RunMoved(answer.run, (), 2), "an answer that got lost"
    assert refused(world.take(token="t3")) == "driven"


def test_a_run_that_was_let_go_is_taken_without_an_interruption() -> None:
    world = World()
    world.start()
    world.end("blocked", token="t1")
    assert [one.type for one in world.take().told] == ["run_resumed"]


def test_a_run_whose_driver_is_unknown_can_be_taken() -> None:
    world = World()
    world.start()
    del world.sheets[driver_ref("r")]
    assert refused(world.tell(PLAN, token="t1")) == "lost"
    assert isinstance(world.end("blocked"), RunMoved)
    assert world.take().fence == 1


def test_a_run_that_waits_for_review_is_taken_by_force_only() -> None:
    world = World()
    world.start()
    world.end("manual_review_required")
    assert refused(world.take()) == "review"
    assert world.take(is_forced=True).run.status == "active"


def test_60_a_run_is_not_taken_while_the_database_is_known_to_be_set_back() -> None:
    world = World()
    world.start()
    world.end("blocked")
    stop = stop_of_set_back(None, 7, world.now)
    assert stop is not None
    world.sheets[STOP_REF] = stop_sheet(stop)
    assert refused(world.take()) == SET_BACK
    assert refused(world.take(is_forced=True)) == SET_BACK
    assert world.batch.is_stopped
    world.sheets[STOP_REF] = stop_sheet(Stop(is_in_force=True, by=SYSTEM.id, at=world.now, reason="lunch"))
    assert world.take().run.status == "active"
    assert not world.batch.needs_signed
    del world.sheets[STOP_REF]
    world.end("blocked")
    assert world.take().run.status == "active"
    assert (world.batch.needs_signed, world.batch.is_stopped) == (True, False)


def test_a_checkpoint_has_a_name_of_its_own() -> None:
    """The name of another run's, or of one that was erased, saves nothing and gives nothing away."""
    world = World()
    world.start("r")
    world.start("other")
    sealed = world.seal("ckpt_1", state_json=b"1")
    assert world.seal("ckpt_1", state_json=b"1") == replace(sealed, told=(), fence=0), "told twice"
    assert world.seal("ckpt_1", run_id="other").code == "checkpoint"
    sheet = world.sheets[checkpoint_ref("ckpt_1")]
    world.sheets[checkpoint_ref("ckpt_1")] = replace(sheet, body=None)
    assert world.seal("ckpt_1").code == "checkpoint"
    assert len(world.events["r"]) == 2


def test_a_run_ends_with_a_checkpoint_that_has_a_name_of_its_own() -> None:
    world = World()
    world.start("r")
    world.seal("ckpt_1")
    own = NewCheckpoint(id="ckpt_1", reason="failure")
    assert world.end("failed", checkpoint=own).code == "checkpoint"
    other = NewCheckpoint(id="ckpt_2", reason="failure")
    ended = world.end("failed", checkpoint=other)
    assert (ended.run.status, ended.checkpoint.id) == ("failed", "ckpt_2")
    again = world.end("failed", checkpoint=other)
    assert (again.run.status, again.checkpoint.id, again.told) == ("failed", "ckpt_2", ()), "told twice"


def test_a_run_goes_on_from_a_checkpoint_of_its_own() -> None:
    world = World()
    world.start("other", token="t9")
    world.seal("ckpt_other", run_id="other")
    world.start()
    world.seal("ckpt_1")
    world.end("blocked")
    assert refused(world.take(checkpoint_id="ckpt_other")) == "checkpoint"
    assert refused(world.take(checkpoint_id="ckpt_none")) == "checkpoint"
    ref = checkpoint_ref("ckpt_1")
    world.sheets[ref] = replace(world.sheets[ref], body=None)
    assert refused(world.take(checkpoint_id="ckpt_1")) == "checkpoint", "it was erased"
    world.seal("ckpt_2")
    assert isinstance(world.take(checkpoint_id="ckpt_2"), RunMoved)


@pytest.mark.parametrize(("status", "code"), [("completed", "over"), ("canceled", "over"), ("failed", "review")])
def test_nothing_is_decided_about_a_run_that_cannot_be_read(status: Any, code: str) -> None:
    """What was erased is over; what is not over, and cannot be read, was altered."""
    world = World()
    world.start()
    world.end(status)
    world.sheets[run_ref("r")] = replace(world.sheets[run_ref("r")], body=None)
    known = len(world.types())
    for answer in (world.start(), world.take(is_forced=True), world.tell(PLAN), world.seal(), world.end("failed")):
        assert refused(answer) == code
    assert len(world.types()) == known


def test_two_resumers_at_one_moment_one_wins() -> None:
    world = World()
    world.start()
    world.pass_time(LEASE)
    words = {"tenant": TENANT, "run_id": "r", "lease": LEASE}
    both = [TakeRun(stamp=world.stamp(), token=token, **words) for token in ("a", "b")]  # type: ignore[arg-type]
    answers = world.do(*both)
    assert [type(answer) for answer in answers] == [RunMoved, RunNotMoved]
    assert read_driver(world.sheets[driver_ref("r")]).token_hash == hash_of("a")


def test_a_driver_keeps_its_seat_until_somebody_else_has_it() -> None:
    world = World()
    world.start()
    mine = read_driver(world.sheets[driver_ref("r")])
    kept = driver_sheet(mine.kept(world.now + 2 * LEASE))
    assert isinstance(world.one(Keep(tenant=TENANT, stamp=world.stamp(), sheet=kept)), Kept)
    world.pass_time(3 * LEASE)
    world.take()
    late = driver_sheet(replace(mine, version=3, until=world.now + LEASE))
    assert isinstance(world.one(Keep(tenant=TENANT, stamp=world.stamp(), sheet=late)), Outrun)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["start", "take", "tell", "seal", "end", "wait"]),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 40),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(STEPS)
def test_one_drives_at_a_time_and_fences_grow(steps: list[tuple[str, str, int]]) -> None:
    """Whatever several drivers do: who was taken over from is heard no more, and the events tell who drove."""
    world, holder, fence = World(), None, 0
    for number, (step, who, amount) in enumerate(steps):
        if step == "wait":
            world.pass_time(amount * SECOND)
        elif step in ("start", "take"):
            answer = world.start(token=who) if step == "start" else world.take(token=who, is_forced=True)
            if isinstance(answer, RunMoved):
                assert answer.fence == fence + 1 or (answer.fence == fence and holder == who)
                holder, fence = who, answer.fence
        elif step == "tell":
            told = isinstance(world.tell(PLAN, token=who), RunMoved)
            assert told == (fence == 0 or holder == who), "only the last who took it is heard"
        elif step == "seal":
            assert isinstance(world.seal(f"ckpt_{number}", token=who), RunMoved) == (holder == who)
        else:
            ended = isinstance(world.end(("blocked", "failed")[amount % 2], token=who), RunMoved)
            assert ended == (holder == who)
            holder = None if ended else holder
    story, events = world.story()
    assert story.broken is None
    assert [event.seq for event in events] == list(range(len(events)))


def test_starting_sets_what_the_caller_may_not() -> None:
    world = World()
    forged = Run(id="r", agent="a", status="completed", version=9, created_at=NOON, updated_at=NOON)
    answer = world.one(StartRun(tenant=TENANT, stamp=world.stamp(), run=forged, token="t", lease=LEASE))
    assert (answer.run.status, answer.run.version) == ("active", 1)


# Calls of a driven run


def called(world: World, driver: str | None = "t1", **changes: Any) -> Any:
    """Asks to run a call as the driver with this token."""
    words = {"run_id": "r", "driver_token": driver, "stamp": world.stamp(), "token": f"c{world._salt}", **changes}
    return world.one(open_command(**words))


def test_a_call_of_whoever_drives_the_run_is_made() -> None:
    world = World()
    world.start()
    assert isinstance(called(world), Claimed)
    world.pass_time(LEASE * 2)
    again = called(world, ref=REF._replace(key="cd" * 32), effect_id="eff_2")
    assert isinstance(again, Claimed), "a lease that nobody took over is as good as new"


@pytest.mark.parametrize(("by", "code"), [("take", "lost"), ("end", "over")])
def test_a_call_of_whoever_lost_the_run_is_not_made(by: str, code: str) -> None:
    world = World()
    world.start()
    world.pass_time(LEASE)
    assert isinstance(world.take() if by == "take" else world.end("canceled"), RunMoved)
    before = world.types()
    assert refused(called(world)) == code
    assert (world.effects, world.types()) == ({}, before)
    assert isinstance(called(world, driver=None), Claimed), "others may work for a run that they do not drive"


def test_who_never_drove_a_run_makes_no_call_as_its_driver() -> None:
    world = World()
    assert refused(called(world)) == "lost"
    world.start()
    assert refused(called(world, driver="never")) == "lost"


def test_a_lost_run_takes_no_further_attempt_and_replays_what_is_done() -> None:
    for status, answers in (("ready", RunNotMoved), ("succeeded", Replayed), ("failed", ReplayedFailure)):
        world = World()
        world.start()
        claimed = called(world).claim
        if status == "ready":
            world.one(relinquish(claimed))
        else:
            world.one(finish(claimed, status))
        world.end("canceled")
        assert isinstance(called(world), answers), status


def test_an_attempt_that_crashed_is_not_taken_over_for_a_lost_run() -> None:
    world = World()
    world.start()
    called(world, on_crash="retry", lease=SECOND)
    world.end("canceled")
    world.pass_time(LEASE)
    assert type(called(world, on_crash="retry", effect_id="eff_9")).__name__ == "InDoubt"


def test_only_calls_of_driven_runs_are_decided_on_their_driver() -> None:
    assert needed_sheets(open_command(), None) == ()
    driven = open_command(driver_token="t1")
    assert needed_sheets(driven, None) == sheets_led_by_run(driven) == (driver_ref("run-1"),)
    assert needed_sheets(driven, effect("succeeded")) == ()
    assert sheets_led_by_run(open_command()) == sheets_led_by_run(cancel()) == ()
    telling = Tell(tenant=TENANT, run_id="r", stamp=World().stamp(), happenings=(SENT,))
    assert set(sheets_led_by_run(telling)) == {run_ref("r"), driver_ref("r"), mark_ref("r", "k1")}
