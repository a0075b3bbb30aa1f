"""The blocking ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

from indelible.core import walk
from indelible.core.calls import OptionWords, SideEffect, ToolCall
from indelible.core.commands import Begun
from indelible.core.effects import Actor, Claim, Effect, Outcome, Status
from indelible.core.events import Event
from indelible.core.forgetting import Erasure, Hold
from indelible.core.notes import Note, TreeHead
from indelible.core.receipts import Receipt
from indelible.desk import Desk, _person
from indelible.engine import Handler
from indelible.errors import BadCall, EffectInDoubt, LeaseLost

if TYPE_CHECKING:
    from indelible.journal.exporting import Exported, Form


class Ledger(Desk):
    """Makes every tool call happen at most once, on a record that keeps what became of it."""

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Finishes what is under way and closes the store."""
        self._engine.close()

    def run(self, call: ToolCall, handler: Handler, **options: Unpack[OptionWords]) -> Any:
        """Runs a call at most once and gives its recorded value; a repeat gets the same value without the handler."""
        return self._engine.drive(self._running(call, handler, options), handler)

    def begin(self, call: ToolCall, **options: Unpack[OptionWords]) -> Begun:
        """Asks to execute a call by hand; only `Claimed` gives the right to, and obliges to `commit`."""
        answer: Begun = self._engine.drive(walk.begin(self._prepare(call, options), self._mint))
        return answer

    def commit(self, claim: Claim, outcome: Outcome) -> Any:
        """Settles a claim with `Succeeded(value)` or `Failed(error)` and gives the recorded value."""
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

    def retry(self, effect: str | Effect, *, by: Actor | str, reason: str = "retry") -> Effect:
        """Allows another attempt of an effect that failed or is in doubt; the next call makes it."""
        moved: Effect = self._engine.drive(self._reopen(self._find(effect), by, reason))
        return moved

    def cancel(self, effect: str | Effect, *, by: Actor | str, reason: str = "canceled") -> Effect:
        """Withdraws an effect that has not been entered."""
        moved: Effect = self._engine.drive(self._cancel(self._find(effect), by, reason))
        return moved

    def approve(self, effect: str | Effect, *, digest: str, by: Actor | str, reason: str = "approved") -> Effect:
        """Lets an effect run that asks for it, if its digest is the one that was seen."""
        moved: Effect = self._engine.drive(self._decide(self._find(effect), digest, by, reason, is_approval=True))
        return moved

    def deny(self, effect: str | Effect, *, digest: str, by: Actor | str, reason: str) -> Effect:
        """Refuses an effect that asks to run."""
        moved: Effect = self._engine.drive(self._decide(self._find(effect), digest, by, reason, is_approval=False))
        return moved

    def reconcile(self, *, limit: int = 1000) -> list[Effect]:
        """Sees to effects whose worker never reported: calls them in doubt and asks their tools' probes."""
        seen = []
        for effect in self._engine.store.abandoned(self.tenant, limit):
            try:
                seen.append(self._engine.drive(self._reconcile_one(effect)))
            except (BadCall, EffectInDoubt):  # its probe raised or talked nonsense; the others still get theirs
                seen.append(self._find(effect.id))
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
        rewrite: bool | None = None,
    ) -> Erasure:
        """Erases payloads of a run, of one of its events, or of a person; the record still verifies and tells of it.

        Effects that still need their payloads keep them, and the answer says which; when that is all there is, it
        raises. `force` withdraws those effects of a subject that have not been entered. `rewrite` says whether the
        store writes its files anew, so that no copy stays in their free space; writers wait meanwhile. Left away, a
        SQLite file is rewritten and a PostgreSQL table is not.
        """
        return self._forgetting.erase(run_id, seq, fields, subject, _person(by), reason, force, rewrite)

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
        """Lists effects, newest first; pass the last one's id as `before` for the next page."""
        return self._engine.store.effects(self.tenant, self._filter(status, tool, run_id, side_effect, before, limit))

    def events(self, run_id: str, *, after: int = -1, limit: int = 1000) -> list[Event]:
        """Lists a run's events in their order; pass the last one's number as `after` for the next page."""
        return self._events(run_id, after, limit)

    def seal(self) -> Note | None:
        """Takes everything written so far into the journal and gives its signed head; None while there is nothing."""
        return self._seal()

    def tree_head(self) -> TreeHead | None:
        """Gives the newest signed head of the journal, whoever signed it."""
        return self._tree_head()

    def receipt(self, event: Event) -> Receipt:
        """Gives the proof that an event is in the journal: one file that verifies offline."""
        return self._receipt(event.run_id, event.seq)

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
        return self._export(path, form, run_id, withhold, payloads, force, progress)

    def continue_journal(self) -> TreeHead:
        """Goes on from the database as it is although more was signed, and says so on the record; gives what is lost.

        Only for a database that was set back, as by restoring an old backup, when no newer one can be had.
        """
        return self._continue_journal()

    def rotate_keys(self) -> None:
        """Puts a new key in the place of the one that signs, on the record of every tenant's journal."""
        self._engine.notary.rotate_keys()

    def revoke_key(self, name: str) -> None:
        """Declares a retired key worthless beyond what is signed now, on the record of every tenant's journal."""
        self._engine.notary.revoke_key(name)
