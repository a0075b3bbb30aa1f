"""A run in the hands of whoever drives it: tells, saves, delegates and ends it, and lets go of it on the way out."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from indelible.carrying import CarriedRun
from indelible.core.effects.calls import ModelTurn, ToolCall, check_name
from indelible.core.effects.effect import Effect, hash_of
from indelible.core.effects.requests import Invoke, Prepared, Recall, Request, Submit, Walk
from indelible.core.runs.commands import NewCheckpoint, SealCheckpoint, Told
from indelible.core.runs.limits import child_id, is_within, within
from indelible.core.runs.resuming import ResumeContext
from indelible.core.runs.run import (
    NOT_REPLAYABLE,
    PROGRESS,
    Checkpoint,
    CheckpointReason,
    Happening,
    Run,
    RunStatus,
)
from indelible.core.runs.turns import Turns
from indelible.engine.watched import watched
from indelible.errors import ApprovalPending, BadCall, IndelibleError, RunLost, RunOver, RunRefused
from indelible.runs.asking import Asking, hash_of_request
from indelible.runs.keeping import RunKeeping, moved_or_raise, new_checkpoint
from indelible.runs.telling import happening_of, happenings_of

if TYPE_CHECKING:
    from indelible.core.effects.calls import SideEffect
    from indelible.runs.desk import RunsDesk

HandoffKind = Literal["approval", "delegation", "manual"]
_LOG = logging.getLogger("indelible.runs")


class ActiveRun(CarriedRun):
    """Is a run that this process drives. Calls inside its `with` block belong to it.

    Leaving the block completes the run; an exception saves it and calls it failed, an interruption saves it and lets it
    be resumed, and an approval that is awaited saves it as blocked. `context` is what a resumed run goes on with.
    """

    def __init__(
        self,
        desk: RunsDesk,
        keeping: RunKeeping,
        run: Run,
        *,
        token: str,
        fence: int,
        lease: timedelta,
        since: float,
        context: ResumeContext | None = None,
        state: Callable[[], Any] | None = None,
        is_replay: bool = False,
    ) -> None:
        super().__init__()
        self._is_replay = is_replay
        self._desk = desk
        self._keeping = keeping
        self._run = run
        self.token = token
        self.fence = fence
        self.context = context
        self._lease = lease
        self._state = state
        self._last_state: Any = None if context is None else context.state
        # From before the lease was written, so that it never ends later here than where others look at it.
        self._good_until = since + lease.total_seconds()
        self._progress = 0
        self._saved_at = time.monotonic()
        self._turns = Turns()
        self._counting = threading.Lock()
        self._delegated: set[str] = set()
        self._is_over = is_replay
        self._is_lost = False
        self._is_parents = False
        self._is_entered = False

    @property
    def id(self) -> str:
        """Names the run."""
        return self._run.id

    @property
    def run(self) -> Run:
        """Is how the run stood when this process last changed it."""
        return self._run

    @property
    def is_over(self) -> bool:
        """Was it ended or let go of here?"""
        return self._is_over

    # Telling

    def record(
        self,
        event_type: str,
        payload: Any = None,
        *,
        step: str | None = None,
        side_effect: SideEffect = "none",
        side_effect_key: str | None = None,
        actor: str | None = None,
    ) -> Told:
        """Records an event, durable when this returns; a side effect whose key was recorded before is skipped."""
        return self._tell([happening_of(event_type, payload, step, side_effect, side_effect_key, actor)])[0]

    def record_all(self, events: Sequence[Mapping[str, Any]]) -> tuple[Told, ...]:
        """Records many events, all of them or none; each is a mapping of the words of `record`."""
        return self._tell(happenings_of(events))

    def _tell(self, happenings: Sequence[Happening]) -> tuple[Told, ...]:
        self._check_own()
        with self._noting_loss():
            told = self._keeping.tell(self.id, self.token, happenings).told
        self._note_progress(sum(one.type in PROGRESS and one.status == "recorded" for one in told))
        return told

    def artifact(
        self,
        uri: str,
        *,
        content: bytes | None = None,
        content_hash: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        step: str | None = None,
    ) -> Told:
        """Records something the run made; give its content, of which only the hash is kept, or the hash itself."""
        check_name("uri", uri)
        if content is not None:
            content_hash = f"sha256:{hashlib.sha256(content).hexdigest()}"
        payload = {"content_hash": content_hash, "metadata": dict(metadata or {}), "uri": uri}
        return self.record("artifact_created", payload, step=step)

    # Saving

    def checkpoint(
        self,
        state: Any = None,
        *,
        reason: CheckpointReason = "manual",
        suggested: str | None = None,
        at: int | None = None,
    ) -> Checkpoint:
        """Seals the run as it is now, with the agent's own state; `at` names an earlier event instead."""
        self._check_own()
        new = self._saving(reason, state, suggested, at)
        with self._noting_loss():
            sealed = self._keeping.seal(self.id, self.token, new)
        self._note_saved()
        return sealed

    def _saving(
        self, reason: CheckpointReason, state: Any = None, suggested: str | None = None, at: int | None = None
    ) -> NewCheckpoint:
        """Gives what to save: what was given, else what the agent's own function gives, else what was saved last."""
        if state is None and self._state is not None:
            state = self._state()
        if state is None:
            state = self._last_state
        new = new_checkpoint(self._desk.checkpoint_id(), reason, state, suggested, at)
        self._last_state = state  # one that cannot be recorded is not kept for later either
        return new

    def _saving_in_trouble(self, reason: CheckpointReason, error: BaseException) -> NewCheckpoint:
        """Gives what to save while an error is on its way: one in the agent's own function must not hide it."""
        try:
            return self._saving(reason)
        except Exception as problem:
            error.add_note(f"Indelible: run {self.id} is saved with an older state, for state() failed: {problem!r}")
            return new_checkpoint(self._desk.checkpoint_id(), reason, self._last_state, None)

    def _note_saved(self) -> None:
        self._progress, self._saved_at = 0, time.monotonic()

    def _note_progress(self, count: int) -> None:
        self._progress += count
        if self._is_save_due():
            with self._spared():
                self._keeping.seal(self.id, self.token, self._saving("periodic_safety"))
                self._note_saved()

    @contextmanager
    def _spared(self) -> Iterator[None]:
        """Lets nobody miss what was done and recorded because it could not be saved as well; it is tried again soon."""
        try:
            with self._noting_loss():
                yield
        except Exception as problem:  # also whatever the agent's own function raises
            _LOG.warning("run %s could not be saved on the way: %r", self.id, problem)

    def _is_save_due(self) -> bool:
        rule = self._run.checkpointing
        is_enough = rule.every_progress is not None and self._progress >= rule.every_progress
        is_late = rule.every is not None and time.monotonic() - self._saved_at >= rule.every.total_seconds()
        return is_enough or (is_late and self._progress > 0)

    def around(self, steps: Walk, prepared: Prepared) -> Walk:
        """Walks a call of this run: saves before what cannot be repeated, and after enough was done.

        Whether the run is still ours is decided together with the claim; what was done before replays anyway.
        """
        with self._noting_loss():
            return (yield from self._saving_around(steps, prepared))

    def _saving_around(self, steps: Walk, prepared: Prepared) -> Walk:
        if self._run.checkpointing.before_risky and prepared.handling.side_effect in NOT_REPLAYABLE:
            known: Effect | None = yield Recall(prepared.identity.ref)
            if known is None or known.status == "ready":  # else it replays, or waits for somebody
                yield from self._sealing("risky_boundary")
        was_entered = False  # what replays is nothing new

        def note(request: Request, _: object) -> None:
            nonlocal was_entered
            was_entered = was_entered or isinstance(request, Invoke)

        value = yield from watched(steps, note)
        self._progress += was_entered
        if was_entered and self._is_save_due():
            with self._spared():
                yield from self._sealing("periodic_safety")
        return value

    def _sealing(self, reason: CheckpointReason) -> Generator[Request, Any, None]:
        command = SealCheckpoint(
            tenant=self._desk.tenant,
            run_id=self.id,
            stamp=self._desk.stamp(2),
            token=self.token,
            checkpoint=self._keeping.to_be_sealed(self._saving(reason)),
        )
        answer = yield Submit(command)
        with self._noting_loss():
            moved_or_raise(command, answer)
        self._note_saved()

    # Driving

    def check(self) -> None:
        """Raises when this process may not work on the run any more, or has not been able to say so for too long."""
        self._check_own()
        if time.monotonic() > self._good_until:
            raise self._lost()

    def _check_enter(self) -> None:
        """Raise if nothing can be done in this run here; in one that had ended before, what was done replays."""
        if not self._is_replay:
            self._check_own()

    def _check_own(self) -> None:
        """Raises when this process is known to have lost the run.

        Whether it has, only the record can say, in the transaction: a process that was held up for long goes on where
        nobody has taken its run over meanwhile.
        """
        if self._is_parents:
            why = "is driven by the process that forked this one: record, save and end it there"
            raise RunLost(f"run {self.id} {why}", code="lost", run=self._run)
        if self._is_over:
            raise RunOver(f"run {self.id} has ended here; resume it to go on", code="over", run=self._run)
        if self._is_lost:
            raise self._lost()

    def _lost(self) -> RunLost:
        why = "the right to drive it ran out; somebody else may have taken it over. Stop, and resume it to go on"
        return RunLost(f"run {self.id}: {why}", code="lost", run=self._run)

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """Remembers that the run is lost when the record says so: no tool is called for it from then on."""
        try:
            yield
        except (RunLost, RunOver):
            self._is_lost = True
            raise

    def _leave_to_parent(self) -> None:
        """Stop driving in a forked child: the process that forked it goes on with the run, and ends it."""
        self._is_parents = not self._is_over
        self._counting = threading.Lock()  # the thread that held it is not here

    def abandon(self) -> None:
        """Stops driving without a word, for nobody holds this run; it can be resumed when its lease is over."""
        self._is_lost = True
        self._desk.let_go(self)

    def beat(self, lease: timedelta) -> bool:
        """Extends the right to drive; says whether it is still ours."""
        since = time.monotonic()
        if self._keeping.keep_driving(self.id, hash_of(self.token), lease):
            self._good_until = since + lease.total_seconds()
            return True
        self._is_lost = not self._is_over
        return False

    # Others

    def delegate(
        self, agent: str, intent: str = "", *, run_id: str | None = None, allowed_tools: Sequence[str] | None = None
    ) -> ActiveRun:
        """Start a run for another agent, whose parent is this one; both name each other on the record.

        If this run is resumed and delegates the same again, it gets its child back: a child that is open is resumed,
        and of one that has ended all calls replay. In a fork, the child is a fork of the other run's child.

        Args:
            agent: The agent that works for this run.
            intent: What it is to do.
            run_id: The child's name. Default: one that follows from this run, `agent` and `intent`.
            allowed_tools: The tools that the child may use. Default: those that this run may use.

        Raises:
            BadCall: `allowed_tools` names a tool that this run may not use itself; or the same was delegated before
                without a name, so this child needs one.
            RunRefused: `run_id` names a run that does not work for this one.
        """
        self._check_own()
        tools = within(allowed_tools, self._run.allowed_tools)
        fork = self._run.fork
        child = run_id if run_id is not None and fork is None else child_id(self.id, agent, intent, run_id)
        if run_id is None and child in self._delegated:
            raise BadCall(
                f"run {self.id} has delegated {intent!r} to {agent!r} before; name each of these children, so that a "
                "resumed run gets the right one back: run.delegate(..., run_id=…)"
            )
        delegated = self._delegate(child, agent, intent, run_id, tools)
        self._delegated.add(child)
        return delegated

    def _delegate(
        self, child: str, agent: str, intent: str, run_id: str | None, tools: Sequence[str] | None
    ) -> ActiveRun:
        there = self._keeping.get(child)
        if there is not None and there.parent == self.id:
            if not is_within(there.allowed_tools, tools):
                may = "all tools" if there.allowed_tools is None else ", ".join(there.allowed_tools)
                why = f"was begun with {may}, which does not change; delegate to a run of another name"
                raise RunRefused(f"run {child} {why}", code="tools", run=there)
            return self._desk.go_on(there)
        if there is not None:  # before anything is told of it
            why = f"works for {there.parent or 'no run'}, so run {self.id} cannot delegate to it; choose another run_id"
            raise RunRefused(f"run {child} {why}", code="exists", run=there)
        fork = self._run.fork
        told = self.record("delegation_started", {"agent": agent, "run": child}, side_effect="delegation")
        words: dict[str, Any] = {"parent": self.id, "parent_event": self._keeping.event_id(self.id, told.seq)}
        if fork is not None:
            origin = run_id or child_id(fork.run_id, agent, intent)
            last = None if self._keeping.get(origin) is None else self._keeping.story(origin).head.length - 1
            words["fork"] = fork if last is None else replace(fork, run_id=origin, at=last)
        try:
            return self._desk.start_run(child, agent=agent, intent=intent, allowed_tools=tools, **words)
        except RunRefused as refused:  # another process began it meanwhile
            self.record("delegation_finished", {"refused": refused.code, "run": child}, side_effect="delegation")
            raise

    def finish_delegation(self, child: ActiveRun | str, result: Any = None) -> Told:
        """Records that a delegated run has ended."""
        name = child if isinstance(child, str) else child.id
        payload = {"result": result, "run": name}
        return self.record("delegation_finished", payload, side_effect="delegation")

    def model_turn(self, model: str, request: Mapping[str, Any], call: Callable[[Mapping[str, Any]], Any]) -> Any:
        """Gives a model's answer, asked for once: a resumed run gets the recorded answer of each turn again.

        Turns count from the first in this process, so a resumed run must begin them in the same order; what it asks,
        and which model, may have changed by then. A model that raises has not answered, and is asked again. While other
        turns are under way, ask it the same again: in other words, it is another turn.
        """
        with self._turn(request) as turn:
            return self._desk.drive_turn(turn, Asking(call, model, request))

    @contextmanager
    def _turn(self, request: Mapping[str, Any]) -> Iterator[ToolCall]:
        """Gives the call of the next turn, which is the same call whatever is asked; see `Turns`."""
        asked = hash_of_request(request)
        with self._counting:
            number = self._turns.begin(asked)
        is_answered = False
        try:
            yield ModelTurn(args={"turn": number}, run_id=self.id)
            is_answered = True
        finally:
            with self._counting:
                self._turns.end(number, asked, is_answered=is_answered)

    # Ending

    def complete(self, reason: str = "completed") -> Run:
        """Ends the run: its work is done."""
        return self._end("completed", reason)

    def fail(self, reason: str, *, state: Any = None) -> Run:
        """Saves the run and calls it failed; it can be resumed."""
        return self._end("failed", reason, self._saving("failure", state))

    def cancel(self, reason: str = "canceled") -> Run:
        """Ends the run before its work is done."""
        return self._end("canceled", reason)

    def hand_off(
        self, to: str, *, kind: HandoffKind = "manual", state: Any = None, suggested: str | None = None
    ) -> Run:
        """Saves the run and lets go of it, for somebody else to resume."""
        if kind not in ("approval", "delegation", "manual"):
            raise BadCall(f"kind={kind!r}: choose approval, delegation or manual")
        reason: CheckpointReason = "approval_requested" if kind == "approval" else "explicit_handoff"
        return self._end("blocked", f"handed to {to} ({kind})", self._saving(reason, state, suggested))

    def release(self) -> None:
        """Lets go of the run as it is: it stays active, and anybody can resume it at once."""
        self._check_own()
        self._give_up()
        self._keeping.let_go(self.id, hash_of(self.token))

    def _end(self, status: RunStatus, reason: str, checkpoint: NewCheckpoint | None = None) -> Run:
        self._check_own()
        with self._noting_loss():
            self._run = self._keeping.end(self.id, self.token, status, reason, checkpoint)
        self._give_up()
        return self._run

    def _give_up(self) -> None:
        """Note that this process drives the run no longer; calls in its block still show its right, and are refused."""
        self._is_over = True
        if self._is_entered:
            self._desk.lose(self)
        else:
            self._desk.let_go(self)

    def __enter__(self) -> ActiveRun:
        self._check_enter()
        self._enter_block()
        self._is_entered = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave_block()
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """Ends the run by how its block was left; when even that cannot be written, the error says so."""
        if self._is_parents:
            return
        self._is_entered = False
        if self._is_over:
            self._desk.let_go(self)
            return
        try:
            if error is None:
                self.complete()
            elif (pending := _pending_in(error)) is not None:
                saved = self._saving_in_trouble("approval_requested", error)
                self._end("blocked", f"waits for {pending.approval.id}", saved)
            elif isinstance(error, Exception):
                self._end("failed", type(error).__qualname__, self._saving_in_trouble("failure", error))
            else:
                self.record("interruption_detected", {"error": type(error).__qualname__})
                self._end("blocked", type(error).__qualname__, self._saving_in_trouble("interruption", error))
        except IndelibleError as problem:
            if error is None:
                raise
            error.add_note(f"Indelible: run {self.id} could not be saved: {problem}")
            self._desk.lose(self)


def _pending_in(error: BaseException) -> ApprovalPending | None:
    """Return the first open approval of an exception, or of a group that holds nothing else."""
    if isinstance(error, BaseExceptionGroup):
        found = [_pending_in(one) for one in error.exceptions]
        return found[0] if all(found) else None
    return error if isinstance(error, ApprovalPending) else None
