"""One process drives a run: who died is found out, who lost it can do nothing, and nobody leaves what it may do."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from indelible import AsyncLedger
from indelible.errors import (
    ApprovalPending,
    EffectFailed,
    IndelibleError,
    PolicyRefused,
    RunDriven,
    RunLost,
    RunOver,
)
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child, ask
from tests.scenarios.hands import begun, inside, resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, charge
from tests.waiting import PATIENCE, eventually

SHORT = timedelta(seconds=1)


def opened(kind: str, url: str, tenant: str, **options: Any) -> Driver:
    """Opens a ledger in a process of its own."""
    return Shell(kind, url).open(tenant=tenant, **options)


def taken_over(driver: Driver, run_id: str = "r1") -> Any:
    """Resumes a run as soon as nobody drives it."""

    def tried() -> Any:
        try:
            return resumed(driver, run_id)
        except RunDriven:
            return None

    return eventually(tried)


# Leases


def test_a_run_that_is_driven_is_refused_to_everybody_else(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    for driver in (shell.open(), ledger):
        with pytest.raises(RunDriven, match="wait for it") as refusal:
            resumed(driver)
        assert refusal.value.run.status == "active"
    run.record("plan_locked")
    assert told(ledger) == ["run_started", "plan_locked"]


def test_whoever_lost_a_run_can_do_nothing_with_it(ledger: Driver, shell: Shell, clock: FakeClock) -> None:
    run = started(ledger)
    clock.advance(timedelta(seconds=31))
    other = shell.open(clock=clock)
    again = resumed(other)
    assert (again.fence, told(ledger)) == (2, ["run_started", "interruption_detected", "run_resumed"])
    handler = Count()
    for late in (
        lambda: run.record("plan_locked"),
        lambda: run.record_all([{"event_type": "plan_locked"}]),
        run.checkpoint,
        run.complete,
        lambda: run.fail("late"),
        lambda: run.hand_off("late"),
        lambda: run.artifact("late"),
        lambda: run.delegate("late"),
        lambda: run.model_turn("m", {}, lambda request: handler(None)),  # type: ignore[arg-type]
        lambda: ledger.run(charge(run_id="r1"), handler),
    ):
        with pytest.raises(RunLost):
            late()
    assert handler.entries == 0
    assert told(ledger) == ["run_started", "interruption_detected", "run_resumed"]
    again.record("plan_locked")
    assert other.run(charge(run_id="r1"), handler) == "done"


def test_a_lease_never_ends_later_for_its_holder_than_for_others(
    ledger: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted from after the write, a zombie had as long as the write took to call a tool in somebody else's run."""
    keeping = ledger.ledger._run_desk().keeping
    write, written_from = keeping._moved, []

    def noting(command: Any) -> Any:
        written_from.append(time.monotonic())
        return write(command)

    monkeypatch.setattr(keeping, "_moved", noting)
    run = started(ledger)
    run.release()
    for one in (run, resumed(ledger)):
        holder = getattr(getattr(one, "active", one), "_inner", one)
        assert holder._good_until - 30 <= written_from.pop(0)


def test_heartbeats_keep_the_seat(shell: Shell) -> None:
    ledger = shell.open()
    started(ledger, lease=timedelta(seconds=3))
    keeping = ledger.ledger._run_desk().keeping
    first = keeping.driver("r1")
    eventually(lambda: keeping.driver("r1").version >= first.version + 4)
    assert keeping.driver("r1").until > first.until + timedelta(seconds=2), "it outlived its first lease"
    assert told(ledger) == ["run_started"], "heartbeats are no events"


def test_a_ledger_that_is_closed_lets_its_runs_be_taken_over(shell: Shell) -> None:
    first = shell.open()
    started(first, lease=timedelta(milliseconds=200))
    first.end()
    other = shell.open()
    assert taken_over(other).fence == 2
    assert told(other) == ["run_started", "interruption_detected", "run_resumed"]


def test_a_run_that_was_released_stays_as_it_is_and_anybody_goes_on_with_it(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    run.release()
    assert told(ledger) == ["run_started"]
    assert ledger.get_run("r1").status == "active"
    with pytest.raises(RunOver):
        run.record("plan_locked")
    assert resumed(shell.open()).fence == 2
    assert told(ledger) == ["run_started", "run_resumed"], "nobody was interrupted"


def test_a_story_is_followed_on_from_where_it_is(ledger: Driver) -> None:
    run = started(ledger)
    story = ledger.run_story("r1")
    run.record("plan_locked", step="plan")
    seen: list[Any] = []
    assert ledger.follow_run(story, each=seen.append).step == "plan"
    assert [event.type for event in seen] == ["plan_locked"], "what was read before is not read again"


@pytest.mark.anyio
async def test_a_start_that_is_cancelled_half_way_drives_nothing(place: dict[str, Any]) -> None:
    """The thread that starts the run goes on; what nobody holds must not be kept alive by heartbeats."""
    async with AsyncLedger.open(**place) as ledger:
        desk = ledger._run_desk()
        let_go, is_let_go = desk.let_go, threading.Event()
        desk.let_go = lambda run: (let_go(run), is_let_go.set())  # type: ignore[assignment,func-returns-value]

        async def begin() -> None:
            await ledger.start_run("r1", agent="scout")

        task = asyncio.create_task(begin())
        await asyncio.sleep(0)  # it has begun and waits for its thread
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(is_let_go.wait, PATIENCE)
        assert desk.keeping.get("r1") is not None
        assert (desk.driven, desk._seats._kept) == ({}, {})


# Calls of whoever has lost the run


def test_what_was_done_stays_readable_to_whoever_lost_the_run(ledger: Driver, shell: Shell, clock: FakeClock) -> None:
    started(ledger)
    assert ledger.run(charge(run_id="r1"), Count({"id": "ch_1"})) == {"id": "ch_1"}
    with pytest.raises(ZeroDivisionError):
        ledger.run(charge(run_id="r1", tool="halve"), Count(ZeroDivisionError("no")), failed_on=ZeroDivisionError)
    clock.advance(timedelta(seconds=31))
    resumed(shell.open(clock=clock))
    handler = Count()
    assert ledger.run(charge(run_id="r1"), handler) == {"id": "ch_1"}
    with pytest.raises(EffectFailed):
        ledger.run(charge(run_id="r1", tool="halve"), handler)
    with pytest.raises(RunLost, match="driven by somebody else now"):
        ledger.run(charge(run_id="r1", tool="new"), handler)
    with pytest.raises(RunLost):
        ledger.begin(charge(run_id="r1", tool="new"))
    assert handler.entries == 0


def test_a_lease_that_ran_out_costs_nothing_as_long_as_nobody_takes_the_run(ledger: Driver, clock: FakeClock) -> None:
    """A laptop that slept goes on with its work."""
    run = started(ledger)
    clock.advance(timedelta(hours=8))
    holder = getattr(getattr(run, "active", run), "_inner", run)
    holder._good_until = 0.0
    with pytest.raises(RunLost):
        holder.check()
    assert ledger.run(charge(run_id="r1"), Count("done")) == "done"
    run.record("plan_locked")
    assert run.complete().status == "completed"


def test_a_run_that_is_canceled_elsewhere_starts_no_call_any_more(ledger: Driver, shell: Shell) -> None:
    """At once, and not only when the driver's next heartbeat finds out; also after its block was left."""
    handler, other = Count(), shell.open()

    def body(run: Any) -> None:
        assert ledger.run(charge(run_id="r1"), Count("done")) == "done"
        other.end_run("r1", "canceled", by="ops", reason="wrong customer")
        ledger.run(charge(run_id="r1", tool="new"), handler)

    with pytest.raises(RunOver, match="resume it to go on") as refusal:
        inside(ledger, body)
    assert "could not be saved" in refusal.value.__notes__[0]
    with pytest.raises(RunOver):
        ledger.run(charge(run_id="r1", tool="new"), handler)
    assert ledger.run(charge(run_id="r1"), handler) == "done"
    assert handler.entries == 0
    assert ledger.get_run("r1").status == "canceled"


def test_a_call_that_waited_for_an_approval_is_not_made_for_a_lost_run(ledger: Driver, shell: Shell) -> None:
    handler, other = Count(), shell.open()
    started(ledger)
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(charge(run_id="r1"), handler, approval="required", wait=timedelta(0))
    other.approve(pending.value.approval.id, digest=pending.value.approval.digest, by="ben")
    other.end_run("r1", "canceled", by="ops", reason="late")
    with pytest.raises(RunOver):
        ledger.run(charge(run_id="r1"), handler, approval="required", wait=timedelta(0))
    assert handler.entries == 0


def test_calls_of_others_in_the_run_do_not_take_it_from_its_driver(ledger: Driver, shell: Shell) -> None:
    """Whoever only works for a run moves the end of its chain, on which the driver's next call rests."""
    run, other = started(ledger), shell.open()
    for number in range(4):
        assert other.run(charge(run_id="r1", tool="theirs", args={"n": number}), Count(number)) == number
        assert ledger.run(charge(run_id="r1", tool="ours", args={"n": number}), Count(number)) == number
        other.record("r1", "acme.noted")
        run.record("plan_locked")
    assert ledger.verify_run("r1").is_valid


# Deaths


def work_until_killed(line: Connection, kind: str, url: str, tenant: str) -> None:
    """Is a process that pays, and dies before it can say so."""
    driver = opened(kind, url, tenant, lease=SHORT)
    run = started(driver, lease=SHORT)
    run.record("plan_locked", step="plan")
    driver.run(charge(run_id="r1", tool="fetch"), Count({"leads": 3}))
    run.checkpoint({"cursor": 3})

    def pay(effect: Any) -> Any:
        line.send("paying")
        signal.pause()

    if kind != "async":
        driver.run(charge(run_id="r1", tool="pay"), pay, side_effect="payment")
    driver.spawn("run", charge(run_id="r1", tool="pay"), pay, side_effect="payment").result(PATIENCE * 10)


def test_a_run_whose_process_was_killed_is_resumed_when_its_lease_ends(shell: Shell) -> None:
    with Child(work_until_killed, shell.kind, shell.url, shell.tenant) as child:
        assert child.hear() == "paying"
        child.signal(signal.SIGKILL)
        assert child.join() == -signal.SIGKILL
    ledger = shell.open()
    run = taken_over(ledger)
    assert told(ledger)[-2:] == ["interruption_detected", "run_resumed"]
    context = run.context
    assert (context.current_step, context.state) == ("plan", {"cursor": 3})
    assert [line.tool for line in context.in_doubt] == ["pay"], "it may have been paid, and is not paid again"
    assert context.suggested_next_action == "settle_effects_in_doubt"
    (doubtful,) = context.in_doubt
    assert doubtful.key in context.blocked_side_effect_keys
    fetched = Count("again")
    assert ledger.run(charge(run_id="r1", tool="fetch"), fetched) == {"leads": 3}
    assert fetched.entries == 0


def drive_and_freeze(line: Connection, kind: str, url: str, tenant: str) -> dict[str, str]:
    """Is a process that is stopped while it drives a run, and tries everything when it may go on."""
    driver = opened(kind, url, tenant)
    run = started(driver, lease=SHORT)
    line.send("driving")
    line.recv()
    handler = Count()
    verbs = {
        "tool": lambda: driver.run(charge(run_id="r1"), handler),
        "record": lambda: run.record("plan_locked"),
        "checkpoint": run.checkpoint,
        "complete": run.complete,
        "tool again": lambda: driver.run(charge(run_id="r1"), handler),
    }
    answers = {"entries": "0"}
    for name, verb in verbs.items():
        try:
            answers[name] = repr(verb())
        except IndelibleError as error:
            answers[name] = type(error).__name__
    return answers | {"entries": str(handler.entries)}


def test_a_zombie_that_wakes_after_its_lease_can_do_nothing(shell: Shell) -> None:
    with Child(drive_and_freeze, shell.kind, shell.url, shell.tenant) as child:
        assert child.hear() == "driving"
        child.freeze(Path(shell.url.removeprefix("sqlite:///")))
        ledger = shell.open()
        run = taken_over(ledger)
        before = told(ledger)
        child.tell("go on")
        child.signal(signal.SIGCONT)
        answers = child.result()
    assert answers.pop("entries") == "0"
    assert set(answers.values()) == {"RunLost"}, answers
    assert told(ledger) == before
    assert run.complete().status == "completed"


# What a run may do

SIDE_EFFECTS = ("none", "read", "payment")


@pytest.mark.parametrize(
    "words", [{"allowed_tools": ["fetch", "crm.*"]}, {"permissions": {"allowed_tools": ["fetch", "crm.*"]}}]
)
def test_a_run_uses_only_the_tools_it_may(ledger: Driver, shell: Shell, words: dict[str, Any]) -> None:
    started(ledger, **words)
    handler = Count()
    for driver in (ledger, shell.open()):
        assert driver.run(charge(run_id="r1", tool="fetch"), Count("leads")) == "leads"
        assert driver.run(charge(run_id="r1", tool="crm.lookup"), Count("lead")) == "lead"
        for tool in ("pay", "Fetch", "crm", "fetch2"):
            for side_effect in SIDE_EFFECTS:
                with pytest.raises(PolicyRefused, match="allowed tools of the run"):
                    driver.run(charge(run_id="r1", tool=tool), handler, side_effect=side_effect)
        assert driver.run(charge(run_id="r2", tool="pay"), Count("paid")) == "paid", "other runs have their own limits"
    assert handler.entries == 0
    assert [effect.tool for effect in ledger.effects(run_id="r1")] == ["crm.lookup", "fetch"]


def test_a_run_that_may_use_no_tool_uses_none(ledger: Driver) -> None:
    started(ledger, allowed_tools=[])
    with pytest.raises(PolicyRefused, match="no tool"):
        ledger.run(charge(run_id="r1"), Count())


def test_a_resumed_run_may_do_no_more_than_before(ledger: Driver, shell: Shell) -> None:
    other = shell.open()
    other.run(charge(), Count())  # it has just looked, and saw no limits
    started(ledger, allowed_tools=["fetch"], permissions={"region": "eu"}).hand_off("ben")
    again = resumed(other)
    assert again.context.remaining_permissions == {"allowed_tools": ["fetch"], "region": "eu"}
    with pytest.raises(PolicyRefused):
        other.run(charge(run_id="r1"), Count())


def call_from_elsewhere(kind: str, url: str, tenant: str) -> str:
    """Is a process that knows nothing of the run but its name."""
    driver = opened(kind, url, tenant)
    handler = Count()
    try:
        driver.run(charge(run_id="r1", tool="pay"), handler, side_effect="payment")
    except PolicyRefused as refusal:
        return f"{refusal.verdict.rule}, {handler.entries} entries"
    finally:
        driver.end()
    return "it ran"


def test_another_process_is_bound_by_what_the_run_may_use(ledger: Driver, shell: Shell) -> None:
    started(ledger, allowed_tools=["fetch"])
    assert ask(call_from_elsewhere, shell.kind, shell.url, shell.tenant) == "allowed tools of the run, 0 entries"


def test_a_process_that_has_just_looked_is_bound_by_limits_that_were_set_since(shell: Shell) -> None:
    """What it knows of rules is half a second old at most, and that is old enough; the claim itself knows better."""
    starting, other = shell.open(), shell.open()
    assert other.run(charge(run_id="elsewhere"), lambda effect: "done") == "done"
    started(starting, allowed_tools=["fetch"])
    count = Count()
    with pytest.raises(PolicyRefused, match="may use fetch"):
        other.run(charge(run_id="r1"), count)
    assert count.entries == 0
    assert other.run(charge(run_id="r1", tool="fetch"), count) is not None


def test_so_it_is_with_a_fork_that_touches_nothing(shell: Shell) -> None:
    starting, other = shell.open(), shell.open()
    started(starting)
    paid = starting.run(charge(run_id="r1"), lambda effect: "paid", side_effect="payment")
    assert other.run(charge(run_id="elsewhere"), lambda effect: "done") == "done"
    begun(starting, "fork_run", "r1", new_id="f1")
    count = Count()
    assert other.run(charge(run_id="f1"), count, side_effect="payment") == paid, "it replays from the record"
    with pytest.raises(PolicyRefused, match="nothing outside is touched here"):
        other.run(charge(run_id="f1", args={"n": 7}), count, side_effect="payment")
    assert count.entries == 0
