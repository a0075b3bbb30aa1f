"""The rules of runs: who may drive one, what may be told of it, and how it ends. Pure, like those of effects."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, assert_never

from indelible.core.changes import Fact, Step
from indelible.core.effects.effect import hash_of
from indelible.core.effects.stops import stop_in
from indelible.core.events import facts_json, instant
from indelible.core.journal.set_back import is_set_back
from indelible.core.rights import may_end_run
from indelible.core.runs.commands import (
    SET_BACK,
    EndRun,
    NewCheckpoint,
    RunCommand,
    RunMoved,
    RunNotMoved,
    SealCheckpoint,
    StartRun,
    TakeRun,
    Tell,
    Told,
)
from indelible.core.runs.limits import within
from indelible.core.runs.run import (
    HANDED_OVER,
    LIMITED,
    OVER,
    Checkpoint,
    Driver,
    Happening,
    Run,
    RunStatus,
    checkpoint_ref,
    checkpoint_sheet,
    delegated_ref,
    driver_ref,
    driver_sheet,
    fence_ref,
    fenced_to,
    is_limited,
    mark_ref,
    read_checkpoint,
    read_driver,
    read_run,
    run_ref,
    run_sheet,
)
from indelible.core.sheets import Sheet, SheetRef, Sheets, body_of, sheet_at
from indelible.errors import BadCall

_ENDINGS: dict[RunStatus, str] = {
    "completed": "run_completed",
    "failed": "run_failed",
    "canceled": "run_canceled",
    "blocked": "run_blocked",
    "manual_review_required": "run_flagged",
    "handed_over": "run_handed_over",
}
TAKEN_BACK = "run_taken_back"


def sheets_of_run(command: RunCommand) -> tuple[SheetRef, ...]:
    """Names the sheets that a command about a run is decided on."""
    needed = [run_ref(command.run_id), driver_ref(command.run_id)]
    if isinstance(command, Tell):
        needed += [
            mark_ref(command.run_id, happening.side_effect_key)
            for happening in command.happenings
            if happening.side_effect_key is not None
        ]
        needed += [delegated_ref(command.run_id)] if _delegates(command) else []
    elif isinstance(command, TakeRun) and command.checkpoint_id is not None:
        needed.append(checkpoint_ref(command.checkpoint_id))
    elif isinstance(command, SealCheckpoint | EndRun) and command.checkpoint is not None:
        needed.append(checkpoint_ref(command.checkpoint.id))
    elif isinstance(command, StartRun) and command.telling is not None:
        needed += sheets_of_run(command.telling)
    if isinstance(command, StartRun) and command.run.parent is not None:
        needed.append(run_ref(command.run.parent))  # of which only the tools count, and they never change
    if isinstance(command, EndRun) and (command.handover is not None or command.takes_back):
        needed += [fence_ref(command.run_id), delegated_ref(command.run_id)]
    return tuple(dict.fromkeys(needed))


def why_no_call(run_id: str, token: str, sheets: Sheets) -> RunNotMoved | None:
    """Says why whoever drove a run with this token may start no call in it any more; None when they still drive it."""
    driver = _driver(sheet_at(sheets, driver_ref(run_id)))
    if driver is not None and driver.token_hash == hash_of(token):
        return RunNotMoved("over", "has ended, or was let go of; resume it to go on") if driver.is_released else None
    return RunNotMoved("lost", "is driven by somebody else now; stop working on it")


def why_fenced(run_id: str, sheets: Sheets) -> RunNotMoved | None:
    """Say why no call of this run may be entered here; None unless another ledger goes on with it."""
    to = fenced_to(sheet_at(sheets, fence_ref(run_id)))
    return None if to is None else _goes_on_at(to)


def _goes_on_at(to: str, run: Run | None = None) -> RunNotMoved:
    why = (
        f"was handed over to {to}, which goes on with it; work on it there. If it was never imported there: indelible "
        "runs take-back"
    )
    return RunNotMoved("handed_over", why, run)


def about_run(command: RunCommand, now: datetime, seq: int, sheets: Sheets) -> Step:
    """Decides a command about a run."""
    sheet = sheet_at(sheets, run_ref(command.run_id))
    if sheet is not None and sheet.body is None:
        return Step(why_unread(sheet.status))
    run = None if sheet is None else read_run(sheet)
    driver = _driver(sheet_at(sheets, driver_ref(command.run_id)))
    if isinstance(command, StartRun):
        return _start(command, run, driver, now, seq, sheets)
    if isinstance(command, TakeRun):
        return _take(command, run, driver, now, seq, sheets)
    refusal = _why_not_elsewhere(command, run) or _why_not_whole(command, run, sheets) or _why_not(command, run, driver)
    if refusal is not None:
        return Step(refusal)
    match command:
        case Tell():
            return _tell(command, run, driver, seq, sheets)
        case SealCheckpoint():
            return _seal(command, run, driver, seq, sheets)
        case EndRun():
            return _end(command, run, driver, seq, sheets)
        case _:
            assert_never(command)


def why_unread(status: str) -> RunNotMoved:
    """Says that nothing can be decided about a run, for what was recorded of it was erased or altered."""
    if status in OVER:
        return RunNotMoved(
            "over", f"is {status}, and what was recorded of it is erased; there is nothing to go on with"
        )
    return RunNotMoved("review", "is not what was recorded of it; look at it: indelible runs verify")


def _driver(sheet: Sheet | None) -> Driver | None:
    return None if sheet is None or sheet.body is None else read_driver(sheet)


def _start(command: StartRun, run: Run | None, driver: Driver | None, now: datetime, seq: int, sheets: Sheets) -> Step:
    if run is not None:
        if driver is not None and driver.is_held_by(hash_of(command.token)):
            return Step(RunMoved(run, (), driver.fence))  # our own write, whose answer got lost on the way
        is_gone = run.status in OVER or run.status == HANDED_OVER
        advice = "begin one of another name" if is_gone else "resume it instead"
        return Step(RunNotMoved("exists", f"was started before and is {run.status}; {advice}", run))
    told_to_parent = _tell_parent(command, now, sheets)
    if isinstance(told_to_parent.answer, RunNotMoved):
        return told_to_parent
    limited = _limited_by_parent(command.run, sheets)
    if isinstance(limited, RunNotMoved):
        return Step(limited)
    begun = replace(limited, version=1, status="active", created_at=command.stamp.at, updated_at=command.stamp.at)
    seat = _seat(command, driver, now)
    facts = {"fence": seat.fence, "parent": begun.parent, "parent_event": begun.parent_event}
    changed = [run_sheet(begun), driver_sheet(seat)]
    if is_limited(begun):
        changed.append(Sheet(kind="limit", id=begun.id, status=LIMITED, body=b"{}"))
    fact = Fact(begun.id, "run_started", facts_json(facts), {}, (), tuple(changed))
    told = (Told(seq, "run_started", "recorded"),)
    return Step(RunMoved(replace(begun, seq=seq), told, seat.fence), (*told_to_parent.changes, fact))


def _tell_parent(command: StartRun, now: datetime, sheets: Sheets) -> Step:
    """Tell a run's parent that the run begins, or say why it cannot be told; then the run does not begin."""
    telling, parent = command.telling, command.run.parent
    if telling is None:
        if parent is None or command.run.parent_event is not None:
            return Step(RunMoved(None))
        why = f"names the parent {parent}, and tells it nothing; update the client, then start it again"
        return Step(RunNotMoved("parent", why))
    if sheet_at(sheets, run_ref(telling.run_id)) is None:
        return Step(RunNotMoved("unknown", f"cannot begin: its parent {parent} was never started here; start that"))
    told = about_run(telling, now, 0, sheets)
    if isinstance(told.answer, RunNotMoved):
        return Step(replace(told.answer, why=f"cannot begin: its parent {parent} {told.answer.why}"))
    return told


def _limited_by_parent(run: Run, sheets: Sheets) -> Run | RunNotMoved:
    """Return a run with no tool that its parent may not use, and of a fork a fork that is as dry."""
    sheet = None if run.parent is None else sheet_at(sheets, run_ref(run.parent))
    if sheet is None:
        return run
    if sheet.body is None:
        return RunNotMoved("parent", f"cannot begin: what its parent {run.parent} may use was erased or altered", run)
    parent = read_run(sheet)
    try:
        tools = within(run.allowed_tools, parent.allowed_tools)
    except BadCall as problem:
        return RunNotMoved("tools", f"cannot begin: its parent {run.parent} does not let it: {problem}", run)
    fork = run.fork or parent.fork
    if fork is not None and parent.fork is not None:
        fork = replace(fork, is_dry=fork.is_dry or parent.fork.is_dry)
    return replace(run, allowed_tools=None if tools is None else tuple(tools), fork=fork)


def _seat(command: StartRun | TakeRun, before: Driver | None, now: datetime) -> Driver:
    """Gives the right to drive to whoever asks; each holder has a higher number than the one before."""
    assert command.token is not None, "who drives has a token"
    return Driver(
        run_id=command.run_id,
        version=1 if before is None else before.version + 1,
        fence=1 if before is None else before.fence + 1,
        token_hash=hash_of(command.token),
        holder=command.stamp.actor.id,
        until=now + command.lease,
    )


def _take(command: TakeRun, run: Run | None, driver: Driver | None, now: datetime, seq: int, sheets: Sheets) -> Step:
    refusal = _why_not_take(command, run, driver, now, sheets)
    if refusal is not None:
        return Step(refusal)
    assert run is not None
    assert command.token is not None
    if driver is not None and driver.is_live(now) and driver.is_held_by(hash_of(command.token)):
        return Step(RunMoved(run, (), driver.fence))  # our own write, whose answer got lost on the way
    seat = _seat(command, driver, now)
    told, facts = [], []
    if driver is not None and not driver.is_released:
        lost = facts_json({"fence": driver.fence})
        facts.append(Fact(run.id, "interruption_detected", lost, {}))
        told.append(Told(seq, "interruption_detected", "recorded"))
    resumed = run.moved("active", command.stamp.at)
    clear = facts_json({"checkpoint": command.checkpoint_id, "fence": seat.fence})
    facts.append(Fact(run.id, "run_resumed", clear, {}, (), (run_sheet(resumed), driver_sheet(seat))))
    told.append(Told(seq + len(told), "run_resumed", "recorded"))
    return Step(RunMoved(replace(resumed, seq=told[-1].seq), tuple(told), seat.fence), tuple(facts))


def _why_not_take(
    command: TakeRun, run: Run | None, driver: Driver | None, now: datetime, sheets: Sheets
) -> RunNotMoved | None:
    if run is None:
        return RunNotMoved("unknown", "was never started here; start it")
    if run.status in OVER:
        return RunNotMoved("over", f"is {run.status}; there is nothing to go on with", run)
    if run.status == HANDED_OVER:
        return _goes_on_at(_whither(run), run)
    stop = stop_in(sheets)
    if stop is not None and is_set_back(stop):
        return RunNotMoved(SET_BACK, f"may have gone on since this database was copied. It was {stop.reason}", run)
    if run.status == "manual_review_required" and not command.is_forced:
        return RunNotMoved("review", "waits for somebody to look at it; then resume it with force", run)
    if driver is not None and driver.is_live(now) and not driver.is_held_by(hash_of(command.token or "")):
        return RunNotMoved(
            "driven", f"is driven by {driver.holder} until {driver.until:%H:%M:%S} UTC; wait for it", run
        )
    if command.checkpoint_id is not None:
        sheet = sheet_at(sheets, checkpoint_ref(command.checkpoint_id))
        if sheet is None or sheet.body is None or read_checkpoint(sheet).run_id != run.id:
            return RunNotMoved("checkpoint", f"has no checkpoint {command.checkpoint_id}; see its own", run)
    return None


def _whither(run: Run) -> str:
    assert run.handover is not None, "a run that was handed over says where to"
    return run.handover.to


def _why_not_elsewhere(command: Tell | SealCheckpoint | EndRun, run: Run | None) -> RunNotMoved | None:
    """Say why nothing may be told of a run because another ledger has it, or because none has.

    A run that was handed over is handed over again to the same ledger, taken back, or given up by a person.
    """
    ends = command if isinstance(command, EndRun) else None
    if ends is not None and (
        (ends.handover is None) == (ends.status == HANDED_OVER) or (ends.takes_back and ends.status != "blocked")
    ):
        return RunNotMoved("handover", "is handed over only to a ledger that is named, and taken back as blocked", run)
    if run is None or run.status != HANDED_OVER:
        if ends is not None and ends.takes_back and run is not None:
            return RunNotMoved("not_handed_over", f"is {run.status} and was not handed over; it is here", run)
        return None
    to, is_person = _whither(run), command.stamp.actor.kind != "agent"
    if ends is None or (ends.handover is not None and ends.handover.to != to):
        return _goes_on_at(to, run)
    if ends.handover is not None or (ends.status == "canceled" and is_person and ends.checkpoint is None):
        return None
    if not ends.takes_back or ends.checkpoint is not None:
        return _goes_on_at(to, run)
    if not is_person:
        return RunNotMoved("forbidden", "is taken back by a person, not by an agent", run)
    assert run.handover is not None
    if not ends.is_forced:  # no clock here proves what a clock there still allows
        why = (
            f"may have been imported by {to}, until {run.handover.until:%Y-%m-%d %H:%M} UTC by the clock there. Look "
            "there that it was not, destroy the packet, then take it back with force"
        )
        return RunNotMoved("may_be_imported", why, run)
    return None


def _why_not_whole(command: Tell | SealCheckpoint | EndRun, run: Run | None, sheets: Sheets) -> RunNotMoved | None:
    """Say why a run is not handed over because no packet carries all that its calls replay from; None if one does."""
    if not isinstance(command, EndRun) or command.handover is None or run is None or run.status == HANDED_OVER:
        return None
    if run.fork is not None:
        why = f"is a fork of {run.fork.run_id}, and what it replays from there is in no packet. Hand that run over"
        return RunNotMoved("fork", why, run)
    if sheet_at(sheets, delegated_ref(run.id)) is not None:
        why = "has delegated, and no packet carries the runs that work for it: their calls would run again. End it here"
        return RunNotMoved("delegated", why, run)
    return None


def _delegates(command: Tell) -> bool:
    return any(happening.type == "delegation_started" for happening in command.happenings)


def _why_not(command: Tell | SealCheckpoint | EndRun, run: Run | None, driver: Driver | None) -> RunNotMoved | None:
    """Says why nothing may be told of this run now; one that was never started may be told of by anybody."""
    if run is None:
        return None if isinstance(command, Tell) else RunNotMoved("unknown", "was never started here; start it")
    if run.status in OVER and not _is_said_twice(command, run):
        return RunNotMoved("over", f"is {run.status}; nothing can be added to it", run)
    if command.token is None:
        driven_by = None if driver is None else driver.holder
        if isinstance(command, EndRun) and not may_end_run(command.stamp.actor, driven_by):
            return RunNotMoved("forbidden", "is not this agent's to end; its driver ends it, or a person", run)
        return None
    if driver is None or not driver.is_held_by(hash_of(command.token)):
        return RunNotMoved("lost", "is driven by somebody else now; stop working on it", run)
    return None


def _is_said_twice(command: Tell | SealCheckpoint | EndRun, run: Run) -> bool:
    return isinstance(command, EndRun) and command.status == run.status


def _tell(command: Tell, run: Run | None, driver: Driver | None, seq: int, sheets: Sheets) -> Step:
    facts: list[Fact] = []
    told: list[Told] = []
    seen: set[SheetRef] = set()
    for number, happening in enumerate(command.happenings):
        marks: tuple[Sheet, ...] = ()
        status = "recorded"
        if happening.side_effect_key is not None:
            ref = mark_ref(command.run_id, happening.side_effect_key)
            if sheet_at(sheets, ref) is not None or ref in seen:
                status = "skipped"
            else:
                seen.add(ref)
                body = body_of({"seq": seq + number})
                marks = (Sheet(kind=ref.kind, id=ref.id, status="told", topic=command.run_id, body=body),)
        ref = delegated_ref(command.run_id)
        if happening.type == "delegation_started" and sheet_at(sheets, ref) is None and ref not in seen:
            seen.add(ref)
            marks += (Sheet(kind=ref.kind, id=ref.id, status="delegated", body=b"{}"),)
        facts.append(_fact(command.run_id, happening, status, marks))
        told.append(Told(seq + number, happening.type, status))
    return Step(RunMoved(run, tuple(told), 0 if driver is None else driver.fence), tuple(facts))


def _fact(run_id: str, happening: Happening, status: str, marks: tuple[Sheet, ...]) -> Fact:
    clear: dict[str, Any] = {"side_effect": happening.side_effect, "status": status, "step": happening.step}
    if happening.said_by is not None:
        clear["said_by"] = happening.said_by
    committed = {}
    if happening.payload_json is not None:
        committed["payload"] = happening.payload_json
    if happening.side_effect_key is not None:
        committed["side_effect_key"] = happening.side_effect_key.encode()
    return Fact(run_id, happening.type, facts_json(clear), committed, (), marks)


def _seal(command: SealCheckpoint, run: Run | None, driver: Driver | None, seq: int, sheets: Sheets) -> Step:
    taken = sheet_at(sheets, checkpoint_ref(command.checkpoint.id))
    if taken is not None:
        return _named_before(command.run_id, taken, run, may_be_ours=True)
    if command.checkpoint.at is not None and not 0 <= command.checkpoint.at < seq:
        return Step(RunNotMoved("event", f"has no event with seq {command.checkpoint.at}; its last has {seq - 1}", run))
    checkpoint, fact = _sealed(command.run_id, command.checkpoint, command.stamp.at, seq)
    told = (Told(seq, fact.event_type, "recorded"),)
    return Step(RunMoved(run, told, 0 if driver is None else driver.fence, checkpoint), (fact,))


def _named_before(run_id: str, taken: Sheet, run: Run | None, *, may_be_ours: bool) -> Step:
    """Gives the checkpoint that has the name already: our own write, whose answer got lost, or else a refusal."""
    known = None if taken.body is None else read_checkpoint(taken)
    if known is None or known.run_id != run_id or not may_be_ours:
        return Step(RunNotMoved("checkpoint", f"cannot be saved as {taken.id}: another one has that name", run))
    return Step(RunMoved(run, (), 0, known))


def _sealed(run_id: str, new: NewCheckpoint, at: datetime, seq: int) -> tuple[Checkpoint, Fact]:
    """Gives the checkpoint and the event that seals it; its place in the chain binds it to all events before."""
    checkpoint = Checkpoint(
        id=new.id,
        run_id=run_id,
        at=seq - 1 if new.at is None else new.at,
        reason=new.reason,
        suggested=new.suggested,
        has_state=new.state_json is not None,
        created_at=at,
        seq=seq,
    )
    committed = {} if new.state_json is None else {"state": new.state_json}
    clear = facts_json({"at": checkpoint.at, "checkpoint": new.id, "reason": new.reason})
    return checkpoint, Fact(run_id, "checkpoint_sealed", clear, committed, (), (checkpoint_sheet(checkpoint),))


def _end(command: EndRun, run: Run | None, driver: Driver | None, seq: int, sheets: Sheets) -> Step:
    assert run is not None, "a run that was never started was refused before"
    if run.status == command.status and (run.status in OVER or run.status == HANDED_OVER):
        return Step(RunMoved(run))  # said twice
    facts: list[Fact] = []
    told: list[Told] = []
    checkpoint = None
    if command.checkpoint is not None:
        taken = sheet_at(sheets, checkpoint_ref(command.checkpoint.id))
        if taken is not None:
            return _named_before(run.id, taken, run, may_be_ours=run.status == command.status)
        checkpoint, fact = _sealed(run.id, command.checkpoint, command.stamp.at, seq)
        facts.append(fact)
        told.append(Told(seq, fact.event_type, "recorded"))
    ended = run.moved(command.status, command.stamp.at)
    event_type, clear = _ENDINGS[command.status], b"{}"
    if command.handover is not None:
        ended = replace(ended, handover=command.handover)
        clear = facts_json({"to": command.handover.to, "until": instant(command.handover.until)})
    elif command.takes_back:
        ended, event_type = replace(ended, handover=None), TAKEN_BACK
    changed = [run_sheet(ended), *_fence(command, sheets)]
    if driver is not None and not driver.is_released:
        changed.append(driver_sheet(driver.released()))
    facts.append(Fact(run.id, event_type, clear, {"reason": command.reason_json}, (), tuple(changed)))
    told.append(Told(seq + len(told), event_type, "recorded"))
    return Step(RunMoved(replace(ended, seq=told[-1].seq), tuple(told), 0, checkpoint), tuple(facts))


def _fence(command: EndRun, sheets: Sheets) -> tuple[Sheet, ...]:
    """Return the fence that goes up or down with this, or nothing."""
    if command.handover is None and not command.takes_back:
        return ()
    ref = fence_ref(command.run_id)
    status = "taken_back" if command.handover is None else HANDED_OVER
    body = b"{}" if command.handover is None else body_of({"to": command.handover.to})
    before = sheet_at(sheets, ref)
    if before is None:
        return (Sheet(kind=ref.kind, id=ref.id, status=status, body=body),)
    return (before.after(status=status, body=body),)
