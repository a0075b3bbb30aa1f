"""Runs are started, told of, saved and ended, by hand and as blocks, on every store through both shells."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from typing import Any

import pytest

from indelible import AsyncLedger, CheckpointRule, Ledger
from indelible.core.runs.run import BY_THE_LEDGER, EVENT_TYPES, PROGRESS, side_effect_key
from indelible.errors import ApprovalPending, BadCall, NotRecordable, RunOver, RunRefused, UnknownCheckpoint, UnknownRun
from tests.scenarios.hands import inside, reasons, resumed, started, told
from tests.scenarios.shells import Count, Driver, Shell, approve, charge, in_thread
from tests.waiting import PATIENCE

PAID = side_effect_key("charge", "stripe", hashlib.sha256(b"{}").hexdigest())


# Starting


def test_a_run_has_what_it_was_started_with(ledger: Driver) -> None:
    run = started(
        ledger,
        intent="Enrich leads",
        runtime="langgraph",
        permissions={"allowed_tools": ["fetch", "enrich"], "region": "eu"},
        checkpointing=CheckpointRule(every_progress=5),
    )
    found = ledger.get_run(run.id)
    assert (found.agent, found.intent, found.runtime, found.status) == ("scout", "Enrich leads", "langgraph", "active")
    assert found.allowed_tools == ("fetch", "enrich")
    assert found.permissions == {"region": "eu"}
    assert found.checkpointing == CheckpointRule(every_progress=5)
    assert (run.fence, run.context, told(ledger)) == (1, None, ["run_started"])


def test_a_run_without_a_name_gets_one_of_its_own(ledger: Driver) -> None:
    first, second = started(ledger, None), started(ledger, None)
    assert first.id != second.id
    assert first.id.startswith("run_")


def test_a_run_is_started_once(ledger: Driver) -> None:
    started(ledger)
    with pytest.raises(RunRefused, match="resume it instead") as refusal:
        started(ledger)
    assert refusal.value.code == "exists"


def test_what_nobody_started_is_no_run(ledger: Driver) -> None:
    assert ledger.get_run("r9") is None
    for verb, words in (("verify_run", {}), ("run_story", {}), ("checkpoint", {}), ("export_packet", {})):
        with pytest.raises(UnknownRun):
            getattr(ledger, verb)("r9", **words)
    with pytest.raises(UnknownRun):
        resumed(ledger, "r9")
    with pytest.raises(UnknownRun):
        started(ledger, parent="r9")


@pytest.mark.parametrize("words", [{"agent": ""}, {"allowed_tools": "fetch"}, {"permissions": {"allowed_tools": [1]}}])
def test_a_run_that_makes_no_sense_is_refused_and_not_begun(ledger: Driver, words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        started(ledger, **words)
    assert ledger.get_run("r1") is None


# Telling


def test_every_documented_type_can_be_recorded_but_those_that_the_ledger_tells_itself(ledger: Driver) -> None:
    run = started(ledger)
    for event_type in sorted(EVENT_TYPES - BY_THE_LEDGER):
        assert run.record(event_type).type == event_type
    assert run.record("acme.lead_scored", {"score": 7}).status == "recorded"
    for event_type in (*sorted(BY_THE_LEDGER), "lead_scored", "Acme.Lead", ""):
        with pytest.raises(BadCall):
            run.record(event_type)
    assert len(told(ledger)) == 1 + len(EVENT_TYPES - BY_THE_LEDGER) + 1


def test_only_progress_moves_the_last_safe_event(ledger: Driver) -> None:
    run = started(ledger)
    for event_type in sorted(EVENT_TYPES - BY_THE_LEDGER):
        before = ledger.run_story("r1").last_safe
        seq = run.record(event_type).seq
        after = ledger.run_story("r1").last_safe
        assert (after.length == seq) if event_type in PROGRESS else (after == before), event_type


def test_the_step_is_the_one_named_last(ledger: Driver) -> None:
    run = started(ledger)
    run.record("plan_locked", step="plan")
    run.record("tool_call_started", step="fetch")
    run.record("tool_call_finished")
    assert ledger.run_story("r1").step == "fetch"


def test_an_actor_is_named_beside_who_recorded(ledger: Driver) -> None:
    run = started(ledger)
    run.record("execution_succeeded", {"n": 847}, actor="salesforce-worker", side_effect="external_mutation")
    seen: list[Any] = []
    ledger.run_story("r1", each=seen.append)
    assert (seen[-1].actor, seen[-1].payload, seen[-1].side_effect) == (
        "salesforce-worker",
        {"n": 847},
        "external_mutation",
    )
    assert ledger.events("r1")[-1].read()["actor"]["id"] == "agent", "who really wrote it stays on the record"


def test_a_side_effect_that_was_recorded_before_is_told_as_skipped(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    words = {"side_effect": "payment", "side_effect_key": PAID}
    assert run.record("execution_succeeded", {"n": 1}, **words).status == "recorded"
    assert run.record("execution_succeeded", {"n": 2}, **words).status == "skipped"
    assert shell.open().record("r1", "execution_succeeded", {"n": 3}, **words).status == "skipped"
    assert ledger.record("r2", "execution_succeeded", **words).status == "recorded", "another run is another matter"
    story = ledger.run_story("r1")
    assert (story.progress, story.blocked_keys) == (1, [PAID])


def test_a_batch_is_recorded_whole(ledger: Driver) -> None:
    run = started(ledger)
    events = [{"event_type": "tool_call_finished", "payload": {"n": n}, "step": f"s{n}"} for n in range(50)]
    assert [one.seq for one in run.record_all(events)] == list(range(1, 51))
    assert ledger.run_story("r1").step == "s49"


def test_a_batch_knows_its_own_duplicates(ledger: Driver) -> None:
    run = started(ledger)
    paid = {"event_type": "execution_succeeded", "side_effect": "payment", "side_effect_key": PAID}
    assert [one.status for one in run.record_all([paid, paid])] == ["recorded", "skipped"]


@pytest.mark.parametrize(
    "bad",
    [
        {"event_type": "no_such_type"},
        {"event_type": "run_completed"},
        {"event_type": "plan_locked", "payload": object()},
        {"event_type": "plan_locked", "side_effect": "explosion"},
        {"event_type": "plan_locked", "stepp": "a"},
        {"payload": 1},
    ],
)
def test_a_batch_with_one_bad_event_is_not_recorded_at_all(ledger: Driver, bad: dict[str, Any]) -> None:
    run = started(ledger)
    good = {"event_type": "tool_call_finished"}
    for record in (run.record_all, lambda events: ledger.record_all("r1", events)):
        with pytest.raises((BadCall, NotRecordable)):
            record([good, good, bad])
        with pytest.raises(BadCall):
            record([])
    assert told(ledger) == ["run_started"]


def test_an_artifact_is_kept_by_its_hash(ledger: Driver) -> None:
    run = started(ledger)
    run.artifact("s3://leads.csv", content=b"a,b", metadata={"rows": 847})
    run.artifact("s3://logo.png", content_hash="sha256:00")
    first, second = ledger.run_story("r1").artifacts
    assert (first.uri, first.metadata) == ("s3://leads.csv", {"rows": 847})
    assert first.content_hash == f"sha256:{hashlib.sha256(b'a,b').hexdigest()}"
    assert second.content_hash == "sha256:00"


# Saving


def test_a_checkpoint_is_of_the_latest_event_and_holds_the_agents_state(ledger: Driver) -> None:
    run = started(ledger)
    seq = run.record("plan_locked").seq
    saved = run.checkpoint({"cursor": 40}, suggested="go_on")
    assert (saved.at, saved.reason, saved.suggested, saved.has_state) == (seq, "manual", "go_on", True)
    assert ledger.checkpoints("r1") == [saved]


def test_a_checkpoint_can_be_of_an_earlier_event_and_of_no_other(ledger: Driver) -> None:
    run = started(ledger)
    run.record("plan_locked")
    assert run.checkpoint(at=0).at == 0
    for nowhere in (-1, 3, 99):
        with pytest.raises(UnknownCheckpoint):
            run.checkpoint(at=nowhere)
    assert reasons(ledger) == ["manual"]


def test_a_state_that_cannot_be_recorded_is_refused_and_nothing_is_sealed(ledger: Driver) -> None:
    run = started(ledger)
    with pytest.raises(NotRecordable):
        run.checkpoint({"socket": object()})
    with pytest.raises(BadCall):
        run.checkpoint(reason="because")
    assert told(ledger) == ["run_started"]


def test_somebody_else_can_save_a_run_that_is_driven(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    shell.open().checkpoint("r1", {"by": "operator"})
    run.record("plan_locked")
    assert reasons(ledger) == ["manual"]


def test_a_run_is_saved_after_so_much_progress(ledger: Driver) -> None:
    saved: list[int] = []

    def state() -> Any:
        saved.append(1)
        return {"saved": len(saved)}

    run = started(ledger, checkpointing=CheckpointRule(every_progress=3), state=state)
    for _ in range(4):
        run.record("plan_locked")
    run.record("tool_call_started")  # no progress
    assert reasons(ledger) == ["periodic_safety"]
    for number in range(2):
        ledger.run(charge(run_id="r1", args={"n": number}), Count())
    assert reasons(ledger) == ["periodic_safety"] * 2, "what tools do is progress too"
    run.hand_off("b")
    assert resumed(ledger).context.state == {"saved": 3}


def test_a_run_is_saved_every_so_often_while_it_makes_progress(ledger: Driver) -> None:
    run = started(ledger, checkpointing=CheckpointRule(every=timedelta(microseconds=1)))
    run.record("tool_call_started")
    assert reasons(ledger) == [], "there is nothing new to save"
    run.record("tool_call_finished")
    ledger.run(charge(run_id="r1"), Count())
    assert reasons(ledger) == ["periodic_safety"] * 2


def test_a_run_is_saved_before_what_cannot_be_repeated(ledger: Driver) -> None:
    started(ledger, checkpointing=CheckpointRule(before_risky=True))
    seen: list[list[str]] = []
    for side_effect in ("read", "write", "payment", "notification", "external_mutation"):
        call = charge(run_id="r1", args={"what": side_effect})
        ledger.run(call, lambda effect: seen.append(reasons(ledger)), side_effect=side_effect)
    assert [len(one) for one in seen] == [0, 0, 1, 2, 3], "sealed before the handler is entered"
    assert reasons(ledger) == ["risky_boundary"] * 3
    ledger.run(charge(run_id="r1", args={"what": "payment"}), Count(), side_effect="payment")
    assert reasons(ledger) == ["risky_boundary"] * 3, "what replays is no risk"


def test_what_replays_is_no_progress(ledger: Driver) -> None:
    """A resumed run goes through everything it has done, and must not save it anew at every step."""
    started(ledger, checkpointing=CheckpointRule(every_progress=2))
    for _ in range(6):
        ledger.run(charge(run_id="r1"), Count())
    assert reasons(ledger) == []
    ledger.run(charge(run_id="r1", args={"amount": 6}), Count())
    assert reasons(ledger) == ["periodic_safety"]


def test_what_was_done_is_not_missed_because_it_could_not_be_saved(
    ledger: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    problems = [ZeroDivisionError("no state"), None]

    def state() -> dict[str, int]:
        problem = problems.pop(0)
        if problem is not None:
            raise problem
        return {"cursor": 1}

    run = started(ledger, checkpointing=CheckpointRule(every_progress=1), state=state)
    assert ledger.run(charge(run_id="r1"), Count("paid")) == "paid"
    assert "run r1 could not be saved on the way: ZeroDivisionError('no state')" in caplog.text
    assert run.record("plan_locked").status == "recorded"
    assert reasons(ledger) == ["periodic_safety"], "it is tried again with the next progress"
    problems[:] = [ValueError("still none")]
    assert run.record("plan_locked").status == "recorded"
    assert "still none" in caplog.text


def test_a_call_that_was_made_gives_its_value_although_the_run_was_lost_meanwhile(ledger: Driver, shell: Shell) -> None:
    started(ledger, checkpointing=CheckpointRule(every_progress=1))
    other = shell.open()

    def pay(effect: Any) -> str:
        in_thread(lambda: other.end_run("r1", "canceled", by="ops", reason="late")).result(PATIENCE)
        return "paid"

    assert ledger.run(charge(run_id="r1"), pay) == "paid"
    with pytest.raises(RunOver):
        ledger.run(charge(run_id="r1", tool="next"), Count())


def test_a_block_of_a_run_that_is_over_cannot_be_entered(ledger: Driver) -> None:
    run = started(ledger)
    run.complete()
    run = getattr(run, "active", run)

    async def enter() -> None:
        async with run:
            raise AssertionError("nobody gets here")

    with pytest.raises(RunOver, match="resume it"):
        asyncio.run(enter()) if ledger.kind == "async" else run.__enter__()


@pytest.mark.parametrize("words", [{"every_progress": 0}, {"every": timedelta(0)}])
def test_a_rule_that_would_save_all_the_time_is_refused(words: dict[str, Any]) -> None:
    with pytest.raises(BadCall):
        CheckpointRule(**words)


# Ending


@pytest.mark.parametrize(
    ("verb", "args", "status", "tail"),
    [
        ("complete", (), "completed", ["run_completed"]),
        ("fail", ("no leads",), "failed", ["checkpoint_sealed", "run_failed"]),
        ("cancel", (), "canceled", ["run_canceled"]),
        ("hand_off", ("ben",), "blocked", ["checkpoint_sealed", "run_blocked"]),
    ],
)
def test_a_run_that_was_ended_is_let_go_of(
    ledger: Driver, verb: str, args: tuple[Any, ...], status: str, tail: list[str]
) -> None:
    run = started(ledger)
    assert getattr(run, verb)(*args).status == status
    assert ledger.get_run("r1").status == status
    assert told(ledger)[1:] == tail
    assert run.is_over
    for after in (lambda: run.record("plan_locked"), run.checkpoint, run.complete, lambda: run.hand_off("c")):
        with pytest.raises(RunOver):
            after()
    assert told(ledger)[1:] == tail
    assert ledger.verify_run("r1").is_valid


@pytest.mark.parametrize("verb", ["complete", "cancel"])
def test_what_is_over_is_over_for_everybody(ledger: Driver, shell: Shell, verb: str) -> None:
    getattr(started(ledger), verb)()
    other = shell.open()
    for after in (
        lambda: resumed(other),
        lambda: resumed(other, force=True),
        lambda: other.record("r1", "plan_locked"),
        lambda: other.checkpoint("r1"),
        lambda: other.end_run("r1", "failed", by="ada", reason="late"),
    ):
        with pytest.raises(RunOver):
            after()


@pytest.mark.parametrize("verb", ["fail", "hand_off"])
def test_what_failed_or_was_handed_off_can_be_resumed_at_once(ledger: Driver, shell: Shell, verb: str) -> None:
    getattr(started(ledger), verb)("ben", state={"cursor": 7})
    again = resumed(shell.open())
    assert again.context.state == {"cursor": 7}
    assert again.fence == 2
    assert ledger.get_run("r1").status == "active"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("approval", "approval_requested"), ("delegation", "explicit_handoff"), ("manual", "explicit_handoff")],
)
def test_a_hand_off_says_of_what_kind_it_is(ledger: Driver, kind: str, reason: str) -> None:
    run = started(ledger)
    with pytest.raises(BadCall):
        run.hand_off("ben", kind="mail")
    run.hand_off("ben", kind=kind, suggested="call_ben")
    assert reasons(ledger) == [reason]
    assert resumed(ledger).context.suggested_next_action == "call_ben"


def test_a_person_can_end_a_run_that_somebody_drives(ledger: Driver, shell: Shell) -> None:
    run = started(ledger)
    ended = shell.open().end_run("r1", "canceled", by="ada", reason="wrong customer")
    assert ended.status == "canceled"
    with pytest.raises(RunOver):
        run.record("plan_locked")
    assert ledger.events("r1")[-1].read()["actor"]["id"] == "ada"
    with pytest.raises(BadCall):
        ledger.end_run("r1", "active", by="ada", reason="no")


# As a block


def test_calls_inside_a_block_belong_to_its_run_and_leaving_it_completes_it(ledger: Driver) -> None:
    @ledger.tool(side_effect="payment")
    def pay(amount: int) -> int:
        return amount

    assert inside(ledger, lambda run: ledger.call(pay, 5)) == 5
    assert [effect.tool for effect in ledger.effects(run_id="r1")] == ["pay"]
    assert ledger.get_run("r1").status == "completed"
    assert told(ledger) == ["run_started", "tool_call_started", "tool_call_finished", "run_completed"]


def test_a_block_that_was_ended_inside_stays_as_it_was_ended(ledger: Driver) -> None:
    inside(ledger, lambda run: run.hand_off("ben"))
    assert ledger.get_run("r1").status == "blocked"


def test_an_exception_saves_the_run_and_calls_it_failed(ledger: Driver) -> None:
    def body(run: Any) -> None:
        run.record("plan_locked", step="plan")
        raise ZeroDivisionError("a lead has no employees")

    with pytest.raises(ZeroDivisionError):
        inside(ledger, body, state=lambda: {"cursor": 3})
    assert ledger.get_run("r1").status == "failed"
    assert reasons(ledger) == ["failure"]
    assert told(ledger)[-2:] == ["checkpoint_sealed", "run_failed"]
    assert resumed(ledger).context.state == {"cursor": 3}


class Stop(BaseException):
    """Ends a thread or a task, as KeyboardInterrupt and CancelledError do."""


def test_an_interruption_saves_the_run_and_lets_it_be_resumed(ledger: Driver, shell: Shell) -> None:
    def body(run: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        inside(ledger, body, state=lambda: {"cursor": 3})
    assert ledger.get_run("r1").status == "blocked"
    assert told(ledger)[1:] == ["interruption_detected", "checkpoint_sealed", "run_blocked"]
    assert reasons(ledger) == ["interruption"]
    assert resumed(shell.open()).context.state == {"cursor": 3}


def test_ctrl_c_saves_the_run(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        with pytest.raises(KeyboardInterrupt), ledger.start_run("r1", agent="scout"):
            raise KeyboardInterrupt
        assert ledger.get_run("r1").status == "blocked"  # type: ignore[union-attr]
        assert ledger.checkpoints("r1")[0].reason == "interruption"


@pytest.mark.anyio
async def test_a_cancelled_task_saves_its_run(place: dict[str, Any]) -> None:
    async with AsyncLedger.open(**place) as ledger:
        is_inside = asyncio.Event()

        async def work() -> None:
            async with ledger.start_run("r1", agent="scout"):
                is_inside.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await asyncio.wait_for(is_inside.wait(), PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ledger.get_run("r1")).status == "blocked"  # type: ignore[union-attr]
        assert (await ledger.checkpoints("r1"))[0].reason == "interruption"


@pytest.mark.parametrize(("beside", "status"), [([], "blocked"), ([OSError("no route")], "failed")])
def test_calls_of_a_group_that_wait_for_a_person_leave_the_run_blocked_if_nothing_else_failed(
    ledger: Driver, beside: list[Exception], status: str
) -> None:
    """A task group raises what its tasks raised as one exception."""

    def body(run: Any) -> Any:
        with pytest.raises(ApprovalPending) as pending:
            ledger.run(charge(run_id="r1"), Count({}), approval="required", wait=False)
        raise ExceptionGroup("tasks", [pending.value, ExceptionGroup("more tasks", [pending.value, *beside])])

    with pytest.raises(ExceptionGroup):
        inside(ledger, body)
    assert ledger.get_run("r1").status == status


def test_a_call_that_waits_for_a_person_leaves_the_run_blocked_and_what_they_approved_runs_once(
    ledger: Driver, shell: Shell
) -> None:
    paid = Count({"id": "ch_1"})

    def body(run: Any) -> Any:
        return ledger.run(charge(run_id="r1"), paid, approval="required", wait=False)

    with pytest.raises(ApprovalPending) as told_so:
        inside(ledger, body)
    assert ledger.get_run("r1").status == "blocked"
    assert reasons(ledger) == ["approval_requested"]
    other = shell.open()
    again = resumed(other)
    assert [one.id for one in again.context.unresolved_approvals] == [told_so.value.approval.id]
    assert again.context.suggested_next_action == "await_approval_then_execute"
    again.hand_off("whoever approves", kind="approval")
    approve(ledger, told_so.value)

    def once_more(run: Any) -> Any:
        return other.run(charge(run_id="r1"), paid, approval="required", wait=False)

    assert inside(other, once_more, "resume_run") == {"id": "ch_1"}
    assert ledger.run(charge(run_id="r1"), paid, approval="required") == {"id": "ch_1"}
    assert paid.entries == 1


def test_a_state_that_cannot_be_given_does_not_hide_what_went_wrong(ledger: Driver) -> None:
    """The agent's own function may raise too, when the agent is in trouble."""

    def state() -> Any:
        raise LookupError("no state")

    def body(run: Any) -> None:
        run.checkpoint({"cursor": 1})
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        inside(ledger, body, state=state)
    assert any("no state" in note for note in raised.value.__notes__)
    assert ledger.get_run("r1").status == "failed"
    assert resumed(ledger).context.state == {"cursor": 1}, "what was saved last is kept"


# Listing


def test_runs_are_listed_by_status_and_agent_in_pages(ledger: Driver) -> None:
    for number, name in enumerate("mzayxkb"):
        run = started(ledger, name, agent="scout" if number % 2 else "clerk")
        if number < 3:
            run.complete()
    names = [run.id for run in ledger.runs()]
    assert names == list("bkxyazm"), "the one begun last first, whatever it is called"
    assert [run.id for run in ledger.runs(status="completed")] == ["a", "z", "m"]
    assert [run.id for run in ledger.runs(agent="scout")] == ["k", "y", "z"]
    assert [run.id for run in ledger.runs(agent="scout", status="active")] == ["k", "y"]
    pages: list[str] = []
    before = None
    while page := ledger.runs(before=before, limit=3):
        pages += [run.id for run in page]
        before = page[-1].id
    assert pages == names
    with pytest.raises(BadCall):
        ledger.runs(status="asleep")
    with pytest.raises(BadCall):
        ledger.runs(limit=0)
    with pytest.raises(UnknownRun, match="first page"):
        ledger.runs(before="nobody")


def test_tenants_do_not_see_each_others_runs(ledger: Driver, shell: Shell) -> None:
    started(ledger)
    other = shell.open(tenant=f"{shell.tenant}-b")
    assert other.get_run("r1") is None
    assert other.runs() == []
    with pytest.raises(UnknownRun):
        resumed(other)


def test_a_run_in_a_process_that_has_none_is_no_burden(ledger: Driver) -> None:
    ledger.run(charge(), Count())
    assert ledger.ledger._runs is None, "the desk of runs is made by whoever first speaks of one"
