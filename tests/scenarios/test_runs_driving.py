"""One process drives a run: who died is found out, who lost it can do nothing, and nobody leaves what it may do."""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import AsyncLedger
from indelible.errors import IndelibleError, PolicyRefused, RunDriven, RunLost, RunOver
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child, ask
from tests.scenarios.hands import resumed, started, told
from tests.scenarios.shells import PATIENCE, Count, Driver, Shell, charge, eventually

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
    with pytest.raises(RunDriven):
        resumed(shell.open())
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

        async def begin() -> None:
            await ledger.start_run("r1", agent="scout")

        task = asyncio.create_task(begin())
        await asyncio.sleep(0)  # it has begun and waits for its thread
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(eventually, lambda: desk.keeping.get("r1") is not None)
        await asyncio.to_thread(eventually, lambda: desk.driven == {})
        assert desk._seats._kept == {}


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

    if kind == "blocking":
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
        child.signal(signal.SIGSTOP)
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
