"""The blocking ledger."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from indelible.core.approvals.approval import Approval, ApprovalStatus
from indelible.core.approvals.elsewhere import Elsewhere
from indelible.core.approvals.grants import Delegation, Grant, GrantTerms
from indelible.core.commands import Begun, MayRun
from indelible.core.effects import walk
from indelible.core.effects.calls import OptionWords, SideEffect, ToolCall, check_name
from indelible.core.effects.compensations import by_effect, compensation_ref
from indelible.core.effects.effect import Actor, Claim, Effect, Outcome, Status
from indelible.core.effects.reconciling import Reconciled, Selection
from indelible.core.effects.settlements import SettledAll
from indelible.core.effects.stops import Stop
from indelible.core.events import Event
from indelible.core.journal.notes import Note, TreeHead, parse_head
from indelible.core.journal.receipts import Receipt
from indelible.core.privacy.forgetting import Erasure, Hold
from indelible.core.runs.commands import Told
from indelible.core.runs.following import RunEvent, RunStory
from indelible.core.runs.run import Checkpoint, CheckpointReason, CheckpointRule, Run, RunStatus
from indelible.engine.approving import ApprovalView
from indelible.engine.desk import _person, check_limit
from indelible.engine.entering import Handler, OnReplay
from indelible.engine.opening import OpenedDesk
from indelible.engine.running import Compensated
from indelible.engine.stops import Stops
from indelible.errors import LeaseLost
from indelible.journal.sealing import receipt_of
from indelible.runs.telling import happening_of, happenings_of

if TYPE_CHECKING:
    from indelible.core.runs.diff import RunDifference
    from indelible.journal.exports.exporting import Exported, Form
    from indelible.runs.active import ActiveRun
    from indelible.runs.keeping import RunReport


class Ledger(OpenedDesk):
    """Makes every tool call happen at most once, on a record that keeps what became of it."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Write and seal what was recorded so far, and close the store. Do not wait for handlers.

        End your calls first: a handler that returns later gets `ResultNotRecorded`, and its effect is in doubt.
        While the interpreter shuts down, this does nothing: what was recorded stays, and the next process seals it.
        """
        # When the interpreter shuts down, threads stand still, maybe with a lock. The system closes what is open.
        if sys.is_finalizing():
            return
        if self._runs is not None:
            self._runs.close()
        if self._outbox is not None:
            self._outbox.close()
        self._engine.close()

    def run(
        self,
        call: ToolCall,
        handler: Handler,
        *,
        on_replay: OnReplay | None = None,
        **options: Unpack[OptionWords],
    ) -> Any:
        """Run a call at most once and return its recorded value; a repeat gets the same value without the handler.

        Args:
            call: The tool, its arguments, and what makes two calls the same.
            handler: The tool's body. It gets the running effect, and runs with the recorded arguments.
            on_replay: Called with the recorded effect if the call is answered from the record.
            options: How the call is treated; see `Options`.
        """
        return self._engine.drive(self._running(call, handler, options), handler, on_replay)

    def begin(self, call: ToolCall, **options: Unpack[OptionWords]) -> Begun:
        """Asks to execute a call by hand; only `Claimed` gives the right to, and obliges to `commit`."""
        answer: Begun = self._engine.drive(self._beginning(walk.begin, call, options))
        return answer

    def ask(self, call: ToolCall, **options: Unpack[OptionWords]) -> Begun | MayRun:
        """Asks whoever has to be asked about a call, and claims nothing: `MayRun` when nobody has to be any more."""
        answer: Begun | MayRun = self._engine.drive(self._beginning(walk.ask, call, options))
        return answer

    def commit(self, claim: Claim, outcome: Outcome | Exception) -> Any:
        """Settle a claim with `Succeeded(value)` or `Failed(error)` and return the recorded value.

        An exception of the tool is recorded as what it means for the tool, as it would be if `run` had entered it.
        """
        return self._engine.drive(self._commit(claim, outcome))

    def heartbeat(self, claim: Claim, **options: Unpack[OptionWords]) -> None:
        """Extends a claim's lease; raises `LeaseLost` when it is no longer ours."""
        lease = self._lease(options)
        if not self._engine.store.heartbeat(claim, lease):
            raise LeaseLost(f"{claim.effect.id} is no longer ours to run; stop working on it", effect=claim.effect)

    def settle(self, effect: str | Effect, outcome: Outcome, *, by: Actor | str, evidence: str) -> Effect:
        """Tells what became of an effect in doubt, on the word of a person who looked."""
        moved: Effect = self._engine.drive(self._settle(self._find(effect), outcome, by, evidence))
        return moved

    def settle_all(
        self,
        chosen: str | Path | bytes | Iterable[Mapping[str, Any]],
        outcome: Outcome | None = None,
        *,
        by: Actor | str,
        evidence: str | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        skip_bad: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> SettledAll:
        """Settle many effects in doubt: by a filter, by a file, or by rows.

        Each effect gets its own event with its own evidence. Rows are checked before anything is settled. An effect
        that is settled already with an equal outcome counts as done, so an interrupted call can be repeated.

        Args:
            chosen: A filter as text, a CSV or NDJSON file as a `Path` or as bytes, or rows. A row is a mapping with
                `id` or `key`, `as` (`succeeded` or `failed`), `value` or `error`, `evidence`, and optionally `attempt`.
            outcome: With a filter: what became of all effects that fit.
            by: Who looked.
            evidence: With a filter: how you know.
            limit: With a filter: how many effects at most, newest first. Default: 1000.
            dry_run: Change nothing; report what would be settled. Default: False.
            skip_bad: Settle the good rows even if others are bad. Default: False.
            progress: Is called with how many are done, and of how many, after each batch. Default: None.

        Returns:
            What came of each row, in order.

        Raises:
            BadSettlements: Rows cannot be settled, and `skip_bad` is False. Nothing was settled.
            BadFilter: The filter cannot be read.
        """
        check_limit(limit)
        return self._settling.settle_all(
            chosen,
            outcome,
            by=by,
            evidence=evidence,
            limit=limit,
            dry_run=dry_run,
            skip_bad=skip_bad,
            progress=progress,
        )

    def retry(self, effect: str | Effect, *, by: Actor | str, reason: str = "retry") -> Effect:
        """Allows another attempt of an effect that failed or is in doubt; the next call makes it."""
        moved: Effect = self._engine.drive(self._reopen(self._find(effect), by, reason))
        return moved

    def cancel(self, effect: str | Effect, *, by: Actor | str, reason: str = "canceled") -> Effect:
        """Withdraws an effect that has not been entered."""
        moved: Effect = self._engine.drive(self._cancel(self._find(effect), by, reason))
        return moved

    def approve(
        self,
        approval: str | Approval,
        *,
        digest: str,
        by: Actor | str,
        reason: str = "approved",
        signature: bytes | None = None,
        grant: GrantTerms | None = None,
        version: int | None = None,
    ) -> Approval:
        """Votes that a call may run, if `digest` is what it asks about; with `grant`, more such calls as well.

        With `version`, only while nobody else has voted on it or changed it since it had that version.
        """
        return self._approving.vote(
            approval,
            digest=digest,
            by=_person(by),
            reason=reason,
            is_approval=True,
            signature=signature,
            grant=grant,
            version=version,
        )

    def deny(
        self,
        approval: str | Approval,
        *,
        by: Actor | str,
        reason: str,
        digest: str | None = None,
        signature: bytes | None = None,
        version: int | None = None,
    ) -> Approval:
        """Refuses a call that asks to run; one refusal is enough."""
        return self._approving.vote(
            approval,
            digest=digest,
            by=_person(by),
            reason=reason,
            is_approval=False,
            signature=signature,
            version=version,
        )

    def revoke_approval(
        self, approval: str | Approval, *, by: Actor | str, reason: str = "taken back", version: int | None = None
    ) -> Approval:
        """Takes one's own approval back, as long as nothing runs on it."""
        return self._approving.take_back(approval, by=_person(by), reason=reason, version=version)

    def edit_approval(
        self,
        approval: str | Approval,
        args: Mapping[str, Any],
        *,
        digest: str,
        by: Actor | str,
        reason: str = "edited",
        version: int | None = None,
    ) -> Approval:
        """Changes the arguments that are asked about: a new digest, judged anew, and nobody has voted on it yet."""
        return self._approving.edit(
            approval,
            args,
            digest=digest,
            by=_person(by),
            reason=reason,
            most=self._max_args_bytes,
            version=version,
        )

    def get_approval(self, approval_id: str) -> Approval | None:
        """Gives the approval with this id."""
        return self._approving.get(approval_id)

    def view_approval(self, approval: str | Approval, *, by: Actor | str | None = None) -> ApprovalView:
        """Gives everything to see before deciding; with `by`, that they saw it goes on the record."""
        return self._approving.view(approval, None if by is None else _person(by))

    def elsewhere(self, approval: Approval) -> Sequence[Elsewhere]:
        """Return the calls of the last day with the same tool and arguments, in other runs and under other keys.

        Args:
            approval: The question about the call.
        """
        return self._approving.elsewhere([approval])[approval.id]

    def approvals(
        self,
        *,
        status: ApprovalStatus | None = None,
        tool: str | None = None,
        run_id: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Approval]:
        """List approvals by id, newest first; pass the last one's id as `before` for the next page."""
        check_limit(limit)
        return self._approving.approvals(status, tool, run_id, before, limit)

    def delegate(self, to: str, *, until: datetime, by: Actor | str, reason: str = "delegated") -> Delegation:
        """Lets somebody else decide what `by` may decide, until a moment."""
        return self._approving.delegate(to, until, _person(by), reason)

    def end_delegation(self, delegation_id: str, *, by: Actor | str, reason: str = "ended") -> Delegation:
        """Ends a delegation before its time."""
        return self._approving.end_delegation(delegation_id, _person(by), reason)

    def delegations(self) -> list[Delegation]:
        """Lists the delegations that have not been ended."""
        return self._approving.delegations()

    def grants(self, *, tool: str | None = None) -> list[Grant]:
        """Lists standing grants that have uses left."""
        return self._approving.grants(tool)

    def end_grant(self, grant_id: str, *, by: Actor | str, reason: str = "ended") -> Grant:
        """Withdraws a standing grant."""
        return self._approving.end_grant(grant_id, _person(by), reason)

    def apply_policy(
        self,
        content: Mapping[str, Any] | str | Path,
        *,
        by: Actor | str,
        reason: str = "applied",
        instead_of: str | None = None,
    ) -> str:
        """Puts a policy in force for every process of this tenant, on the record, and gives its version.

        With `instead_of`, only while the policy in force has this version; the empty one stands for none.
        """
        return self._approving.apply_policy(content, _person(by), reason, instead_of)

    def policy(self) -> tuple[Mapping[str, Any], str] | None:
        """Gives the content and the version of the policy kept in the ledger; None when there is none."""
        return self._approving.policy()

    def stop(self, *, by: Actor | str, reason: str) -> Stop:
        """Stops all effects of this tenant: from now on no process enters a handler; those inside may finish."""
        return Stops(self._engine, self.tenant).stop(_person(by), reason)

    def go(self, *, by: Actor | str, reason: str = "") -> Stop | None:
        """Lets effects go that were stopped; None when they never were."""
        return Stops(self._engine, self.tenant).go(_person(by), reason)

    def stopped(self) -> Stop | None:
        """Gives the stop that is in force; None when effects may be entered."""
        return Stops(self._engine, self.tenant).in_force()

    def start_run(
        self,
        run_id: str | None = None,
        *,
        agent: str,
        intent: str = "",
        runtime: str = "indelible",
        parent: str | None = None,
        allowed_tools: Sequence[str] | None = None,
        permissions: Mapping[str, Any] | None = None,
        checkpointing: CheckpointRule | None = None,
        lease: timedelta = timedelta(seconds=30),
        state: Callable[[], Any] | None = None,
    ) -> ActiveRun:
        """Begins a run, which this process drives; as a block, calls inside belong to it and leaving it ends it.

        `allowed_tools` are the only ones it may use. `checkpointing` says when it is saved without being asked for,
        with what `state()` gives. `parent` is the run that it works for, whose record tells of it.
        """
        return self._run_desk().start_run(
            run_id,
            agent=agent,
            intent=intent,
            runtime=runtime,
            parent=parent,
            allowed_tools=allowed_tools,
            permissions=permissions,
            checkpointing=checkpointing,
            lease=lease,
            state=state,
        )

    def resume_run(
        self,
        run_id: str,
        *,
        checkpoint: str | None = None,
        lease: timedelta = timedelta(seconds=30),
        force: bool = False,
        state: Callable[[], Any] | None = None,
    ) -> ActiveRun:
        """Takes over a run that nobody drives; its `context` says what was done, what is open and what is in doubt."""
        return self._run_desk().resume_run(run_id, checkpoint=checkpoint, lease=lease, force=force, state=state)

    def fork_run(
        self, run_id: str, *, at: int | None = None, new_id: str | None = None, dry_run: bool = True
    ) -> ActiveRun:
        """Begins a run in which the effects of another one, up to one of its events, replay from the record.

        A dry run touches nothing outside: what is not on the record is refused, unless it only reads.
        """
        return self._run_desk().fork_run(run_id, at=at, new_id=new_id, dry_run=dry_run)

    def record(
        self,
        run_id: str,
        event_type: str,
        payload: Any = None,
        *,
        step: str | None = None,
        side_effect: SideEffect = "none",
        side_effect_key: str | None = None,
        actor: str | None = None,
    ) -> Told:
        """Records an event of a run by hand, durable when this returns; a known side effect is told as skipped."""
        happening = happening_of(event_type, payload, step, side_effect, side_effect_key, actor)
        return self._run_desk().keeping.tell(run_id, None, [happening]).told[0]

    def record_all(self, run_id: str, events: Sequence[Mapping[str, Any]]) -> tuple[Told, ...]:
        """Records many events of a run by hand, all of them or none; each is a mapping of the words of `record`."""
        return self._run_desk().keeping.tell(run_id, None, happenings_of(events)).told

    def checkpoint(
        self,
        run_id: str,
        state: Any = None,
        *,
        reason: CheckpointReason = "manual",
        suggested: str | None = None,
        at: int | None = None,
    ) -> Checkpoint:
        """Seals a run that somebody else may be driving."""
        return self._run_desk().checkpoint(run_id, state, reason, suggested, at)

    def end_run(self, run_id: str, status: RunStatus, *, by: Actor | str, reason: str) -> Run:
        """Ends a run or sets it aside, on somebody's word; whoever drives it loses it."""
        return self._run_desk().end_run(run_id, status, _person(by), reason)

    def get_run(self, run_id: str) -> Run | None:
        """Return the run with this id, or None when it has no events. One that was never started is `open`."""
        return self._run_desk().keeping.known(run_id)

    def runs(
        self,
        *,
        status: RunStatus | None = None,
        agent: str | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Run]:
        """List every run that has events, the one begun last first; `before` is the last one's id, for the next page.

        A run that was never started, because its id only names calls, has the status `open` and no agent.
        """
        check_limit(limit)
        return self._run_desk().keeping.runs(status, agent, before, limit)

    def run_story(self, run_id: str, *, each: Callable[[RunEvent], None] | None = None) -> RunStory:
        """Gives what a run's events tell, read in one pass; `each` is called with every event."""
        return self._run_desk().keeping.story(run_id, each)

    def follow_run(self, story: RunStory, *, each: Callable[[RunEvent], None] | None = None) -> RunStory:
        """Reads a run's events on from where a story is, and gives it back with what came in since."""
        return self._run_desk().keeping.follow(story, each)

    def checkpoints(self, run_id: str) -> list[Checkpoint]:
        """Lists a run's checkpoints, newest first."""
        return self._run_desk().keeping.checkpoints(run_id)

    def verify_run(self, run_id: str) -> RunReport:
        """Checks a run's chain, the values it commits to, its checkpoints, and its lineage."""
        return self._run_desk().keeping.verify(run_id)

    def diff_runs(self, left: str, right: str) -> list[RunDifference]:
        """Compares the tool calls of two runs, in their order."""
        return self._run_desk().diff(left, right)

    def export_packet(
        self,
        run_id: str,
        path: str | Path | None = None,
        *,
        to: str | None = None,
        valid: timedelta = timedelta(days=7),
    ) -> dict[str, Any]:
        """Return a run as a signed packet, and write it to a file if one is named.

        With `to`, the run is handed over: from then on this ledger refuses its calls with `RunHandedOver`, and only the
        ledger that `to` names can import the packet. Without, the packet is a copy for reading, which no ledger
        imports.

        Args:
            run_id: The run.
            path: The file to write, readable by its owner alone. Default: none.
            to: The `journal_name` of the ledger that goes on with the run, or its public key.
            valid: For how long that ledger may import it. Default: 7 days.

        Raises:
            RunHandedOver: The run was handed over to another ledger before.
        """
        return self._run_desk().export_packet(run_id, path, to, valid)

    def take_back_run(self, run_id: str, *, by: str | Actor, reason: str, force: bool = False) -> Run:
        """Take a run back that was handed over and that the other ledger never imported; it is `blocked` then.

        This ledger cannot know whether the packet was imported, and the other ledger's clock may be slow. So it is
        refused without `force`. With `force` you say that you looked: the other ledger has not imported the run, and
        the packet is destroyed.

        Args:
            run_id: The run.
            by: The person who takes it back. An agent cannot.
            reason: Why, for the record.
            force: Say that you looked, and take it back. Default: False.

        Raises:
            RunRefused: You did not say that you looked, or the run was not handed over.
        """
        return self._run_desk().take_back(run_id, _person(by), reason, force=force)

    def import_packet(
        self, packet: Mapping[str, Any] | str | Path, *, key: str | None = None, trust: bool = False
    ) -> Run:
        """Takes a run over from another ledger, whose `key` proves the packet; nothing of it is done again here."""
        return self._run_desk().import_packet(packet, key, trust=trust)

    def compensate(self, run_id: str) -> list[Compensated]:
        """Undo what a run's tools did, newest first, as they declare; each compensation is an effect of its own.

        The call whose last attempt started last is undone first, by the run's sequence.
        Goes on after one that fails, and says what came of each; called again, it does what is left.
        """
        desk = self._run_desk()
        return [self._engine.drive(desk.compensating(one), one.handler) for one in desk.compensations(run_id)]

    def reconcile(
        self,
        *,
        tool: str | None = None,
        run_id: str | None = None,
        effects: Iterable[str | Effect] | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        each: Callable[[Reconciled], None] | None = None,
    ) -> list[Effect]:
        """Ask the tools' probes about effects in doubt, and settle those that a probe knows about.

        An abandoned effect, whose worker never reported, is called in doubt first. A tool has a probe if it was
        declared with `reconcile=` in this program.

        Args:
            tool: Only effects of this tool. `*` stands for any characters. Default: any.
            run_id: Only effects of this run. Default: any.
            effects: Only these effects, by id, key or object. Default: all in doubt.
            limit: How many effects at most, oldest first. Default: 1000.
            dry_run: Ask nothing and change nothing. Default: False.
            each: Is called with a `Reconciled` for each effect as soon as it is known. Default: None.

        Returns:
            The effects as they stand afterwards.

        Raises:
            UnknownEffect: `effects` names one that is not there.
        """
        check_limit(limit)
        settling, seen = self._settling, []
        selection = Selection(tool=tool, run_id=run_id, limit=limit)
        for effect in settling.to_ask(selection, effects):
            found = settling.would_ask(effect) if dry_run else self._engine.drive(self._reconcile_one(effect))
            if each is not None:
                each(found)
            seen.append(found.effect)
        return seen

    def erase(
        self,
        *,
        run_id: str | None = None,
        seq: int | None = None,
        fields: Sequence[str] | None = None,
        subject: str | None = None,
        by: Actor | str,
        reason: str,
        force: bool = False,
        dry_run: bool = False,
        rewrite: bool | None = None,
    ) -> Erasure:
        """Erases payloads of a run, of one of its events, or of a person; the record still verifies and tells of it.

        Effects that still need their payloads keep them, and the answer says which; when that is all there is, it
        raises. `force` withdraws those effects of a subject that have not been entered. `rewrite` says whether the
        store writes its files anew, so that no copy stays in their free space; writers wait meanwhile. Left away, a
        SQLite file is rewritten and a PostgreSQL table is not. `dry_run` only says what would go, and what would stay.
        """
        return self._forgetting.erase(run_id, seq, fields, subject, _person(by), reason, force, dry_run, rewrite)

    def prune(
        self,
        before: datetime | timedelta,
        *,
        by: Actor | str,
        reason: str = "retention",
        dry_run: bool = False,
        rewrite: bool | None = None,
    ) -> Erasure:
        """Erases the payloads of effects that ended before a moment or are older than an age."""
        return self._forgetting.prune(before, _person(by), reason, dry_run, rewrite)

    def hold(self, *, run_id: str | None = None, subject: str | None = None, by: Actor | str, reason: str) -> Hold:
        """Keeps payloads of a run or of a person from being erased, until the hold is lifted."""
        return self._forgetting.hold(run_id, subject, _person(by), reason)

    def lift_hold(self, hold_id: str, *, by: Actor | str, reason: str) -> Hold:
        """Ends a hold."""
        return self._forgetting.lift_hold(hold_id, _person(by), reason)

    def holds(self) -> list[Hold]:
        """Lists the holds that stand."""
        return self._forgetting.holds()

    def get_effect(self, effect_id: str) -> Effect | None:
        """Gives the effect with this id, or the only one whose id begins so."""
        return self._get_effect(effect_id)

    def find_by_key(self, key: str, *, scope: str | None = None) -> Effect | None:
        """Gives the effect with this key; naming its scope (usually the run) spares reading all effects."""
        return self._find_by_key(key, scope)

    def effects(
        self,
        *,
        status: Status | None = None,
        tool: str | None = None,
        run_id: str | None = None,
        side_effect: SideEffect | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> list[Effect]:
        """List effects by id, newest first; pass the last one's id as `before` for the next page.

        Within a millisecond the order is arbitrary. For the order of calls in a run, read `run_story`.
        """
        return self._engine.store.effects(self.tenant, self._filter(status, tool, run_id, side_effect, before, limit))

    def compensations(self, effects: Sequence[Effect]) -> dict[str, Effect]:
        """Return the compensations of those effects that were compensated, by the id of the effect.

        An effect stays `succeeded` when it is compensated: the compensation is an effect of its own. It is returned
        while it runs, is in doubt or succeeded, and not if it failed or was never started.

        Args:
            effects: The effects to look at, such as a page of `effects()`.
        """
        made = [effect for effect in effects if effect.status == "succeeded"]
        if not made:
            return {}
        return by_effect(made, self._engine.store.look([compensation_ref(effect) for effect in made]).effects)

    def events(self, run_id: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        """Lists a run's events in their order; pass the last one's number as `after` for the next page."""
        check_name("run_id", run_id)
        check_limit(limit)
        return self._engine.store.events(self.tenant, run_id, after, limit)

    def seal(self) -> Note | None:
        """Takes everything written so far into the journal and gives its signed head; None while there is nothing."""
        return self._seal()

    def tree_head(self) -> TreeHead | None:
        """Gives the newest signed head of the journal, whoever signed it."""
        note = self._engine.notary.newest_head()
        return None if note is None else parse_head(note.text)

    def receipt(self, event: Event) -> Receipt:
        """Gives the proof that an event is in the journal: one file that verifies offline."""
        return receipt_of(self._engine.recorded, self.tenant, event.run_id, event.seq)

    def export(
        self,
        path: str | Path,
        *,
        form: Form = "bundle",
        run_id: str | None = None,
        withhold: Iterable[str] = (),
        payloads: bool = True,
        force: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Exported:
        """Seals the journal and writes it, or one run of it, to a file or folder that verifies offline.

        `form` is bundle, ndjson, csv, parquet or html. `withhold` names fields that stay here, such as args; with
        `payloads=False` no value leaves at all.
        """
        # Only whoever exports loads what writes bundles, tables and pages.
        from indelible.journal.exports.exporting import export
        from indelible.journal.exports.selecting import Disclosure, OfRun

        self.seal()
        return export(
            self._engine.recorded,
            self.tenant,
            path,
            form=form,
            selection=None if run_id is None else OfRun(run_id),
            disclosure=Disclosure(frozenset(withhold), is_without_payloads=not payloads),
            force=force,
            progress=progress,
        )

    def continue_journal(self) -> TreeHead:
        """Goes on from the database as it is although more was signed, and says so on the record; gives what is lost.

        Only for a database that was set back, as by restoring an old backup, when no newer one can be had. What ended
        since the backup stays ended, and a newer policy has to be applied again.
        """
        return self._engine.notary.sealer().resume_after_loss().lost

    def rotate_keys(self) -> None:
        """Puts a new key in the place of the one that signs, on the record of every tenant's journal."""
        self._engine.notary.rotate_keys()

    def revoke_key(self, name: str) -> None:
        """Declares a retired key worthless beyond what is signed now, on the record of every tenant's journal."""
        self._engine.notary.revoke_key(name)
