"""What one call of `apply` may assume, and what it has to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indelible.core.batch import Batch
from indelible.core.commands import (
    Command,
    Finish,
    Open,
    OverBudget,
    Record,
    RefusedByPolicy,
    Relinquish,
    is_about_effect,
    run_named_by,
    runs_named_by,
)
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Head, Provenance
from indelible.core.runs.commands import RunNotMoved, TakeRun, Tell
from indelible.core.runs.run import driver_ref, run_ref
from indelible.core.sheets import NO_SHEETS, Sheet, SheetRef, Sheets
from indelible.core.steps import brakes_of, needed_sheets, sheets_led_by_run
from indelible.stores.assumptions import sheets_for
from indelible.stores.postgres.trouble import Patience

_MOST_HEADS = 20_000
_MOST_LED = 1_000


class Heads:
    """Remembers where the chains of runs ended when this process wrote to them last. Being wrong is only slow.

    With the end of a run that was started it remembers the run and its driver as they were there: they do not change
    while the chain ends there.
    """

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], Head] = {}
        self._led: dict[tuple[str, str], dict[SheetRef, Sheet | None]] = {}

    def of(self, tenant: str, runs: set[str]) -> dict[str, Head]:
        """Gives the heads it remembers of these runs."""
        known = self._heads
        return {run: head for run in runs if (head := known.get((tenant, run))) is not None}

    def sheets_of(self, tenant: str, run: str) -> Mapping[SheetRef, Sheet | None]:
        """Gives what it remembers of a run and its driver."""
        return self._led.get((tenant, run), NO_SHEETS)

    def remember(self, tenant: str, batch: Batch, seen: Sheets = NO_SHEETS) -> None:
        """Notes the heads that a committed batch left; `seen` are the sheets it was decided on."""
        heads = self._heads
        if seen or batch.sheets or self._led:
            self._remember_sheets(tenant, batch, seen)
        for run, (_, head) in batch.heads.items():
            heads.pop((tenant, run), None)  # so that it counts as the newest
            heads[tenant, run] = head
        self._forget_oldest()

    def _remember_sheets(self, tenant: str, batch: Batch, seen: Sheets) -> None:
        written = {ref: after for ref, (_, after) in batch.sheets.items()}
        for run in {*batch.heads, *(ref.id for ref in written if ref.kind == "driver")}:
            was = batch.heads[run][0] if run in batch.heads else None
            known = self._led.pop((tenant, run), {})
            if was is not None and was != self._heads.get((tenant, run)):
                known = {}  # somebody else has written there
            for ref in (run_ref(run), driver_ref(run)):
                for found in (seen, written):
                    known |= {ref: found[ref]} if ref in found else {}
            if known:
                self._led[tenant, run] = known
        while len(self._led) > _MOST_LED:
            del self._led[next(iter(self._led))]

    def correct(self, tenant: str, runs: set[str], found: Mapping[str, Head]) -> None:
        """Notes what was found to be true of these runs, and forgets those of which nothing was."""
        heads = self._heads
        for run in runs:
            heads.pop((tenant, run), None)
            self._led.pop((tenant, run), None)
            if run in found:
                heads[tenant, run] = found[run]
        self._forget_oldest()

    def _forget_oldest(self) -> None:
        while len(self._heads) > _MOST_HEADS:
            del self._heads[next(iter(self._heads))]


@dataclass(slots=True)
class Work:
    """Is one call of `apply`: what is asked, and what was sent for it without learning its fate."""

    tenant: str
    commands: Sequence[Command]
    patience: Patience
    by: Provenance
    assumed: dict[Ref, Effect | None] = field(default_factory=dict)
    runs: set[str] = field(default_factory=set)
    sheets: list[SheetRef] = field(default_factory=list)
    """Are those that the commands need, as far as is known; in the order in which they are locked."""
    seen: Sheets = field(default_factory=lambda: NO_SHEETS)
    """Are those that the last decision was made on."""
    sent: list[Batch] = field(default_factory=list)
    is_guessable: bool = True
    compared: int | None = None
    """Is the session that the tenant's record was compared on for this call."""
    needs_comparing: bool = True
    signed: int = 0
    """Is how many entries of the tenant's journal were signed when this call began, as far as is known here."""

    def assume(self, known: Sequence[Effect | None], heads: Heads) -> None:
        """Notes what may be decided on unseen: an unknown key is free, and a claim's holder knows its effect."""
        for command, seen in zip(self.commands, known, strict=True):
            if not is_about_effect(command):
                # It rests on no effect; the head of its run guards it, or the sheet does.
                self.is_guessable = self.is_guessable and self._is_at_hand(command, None, heads)
                self.runs.update(runs_named_by(command))
                continue
            if isinstance(command, Open):
                # Whether a lease ran out, or a window to send again, only the database's clock can say.
                is_timed = command.resend_within is not None or (seen is not None and seen.status == "processing")
                self.is_guessable &= not is_timed and command.edit is None
                self.runs.add(command.run_id if seen is None else seen.run_id)
            elif isinstance(command, Finish | Relinquish):
                seen = seen or command.claim.effect
                self.runs.add(seen.run_id)
            elif seen is None or seen.status == "processing":
                self.is_guessable = False
            else:
                self.runs.add(seen.run_id)
            # What people said of an effect holds for the effect as it is recorded, so nothing is guessed there.
            self.is_guessable = self.is_guessable and self._is_at_hand(command, seen, heads)
            self.assumed.setdefault(command.ref, seen)
        if self.seen or not self.is_guessable:
            self.sheets = sheets_for(self.commands, self.assumed)

    def _is_at_hand(self, command: Command, seen: Effect | None, heads: Heads) -> bool:
        """Are the sheets of a command remembered, and guarded by the end of the chain that it will write to?"""
        needed = needed_sheets(command, seen)
        if not needed:
            return True
        run_id = run_named_by(command)
        if not isinstance(command, Open | Tell) or run_id is None or (seen is not None and seen.run_id != run_id):
            return False  # whoever takes a run over looks at its driver's time, which moves without an event
        led = heads.sheets_of(self.tenant, run_id)
        if not all(ref in led for ref in needed):
            return False
        self.seen = {**self.seen, **{ref: led[ref] for ref in needed}}
        return True

    def is_denied(self, batch: Batch) -> bool:
        """Was something refused on sheets that are only remembered? Whoever refuses has looked."""
        return bool(self.seen) and any(isinstance(answer, RunNotMoved) for answer in batch.answers)

    @property
    def is_erasing(self) -> bool:
        """May payloads have to go? Then there is more to write than one statement does."""
        return any(isinstance(command, Record) and command.erased for command in self.commands)

    @property
    def brakes(self) -> list[SheetRef]:
        """Name what may stand against the commands, and hardly ever is there."""
        return sorted({ref for command in self.commands for ref in brakes_of(command)})

    @property
    def needs_signed(self) -> bool:
        """Is something claimed, so that the journal must have every entry that was signed?"""
        return any(isinstance(command, Open | TakeRun) for command in self.commands)

    def needs_lock(self, batch: Batch, sheets: Sheets) -> bool:
        """Does a batch rest on what its guards do not cover?

        That is an event without a move, a call that is refused because it is new, a sheet that was read and is not
        written (unless the end of a run's chain guards it, or it is a person's and sheets are written, which see to
        it), or a lease that may be renewed.
        """
        about_effects = sum(event.effect_id is not None for event in batch.events)
        if about_effects != len(batch.opened) + len(batch.moved):
            return True
        if any(isinstance(answer, RefusedByPolicy | OverBudget) for answer in batch.answers):
            return True
        people = batch.standing.keys() if batch.sheets else set()
        if not sheets.keys() <= batch.sheets.keys() | people | self._guarded_by_heads(batch):
            return True
        taken = [ref for ref, (was, _) in batch.moved.items() if was.status == "processing"]
        if not taken:
            return False
        reported = {command.ref for command in self.commands if isinstance(command, Finish | Relinquish)}
        return any(ref not in reported for ref in taken)

    def _guarded_by_heads(self, batch: Batch) -> set[SheetRef]:
        written = [command for command in self.commands if batch.heads.keys() >= set(runs_named_by(command))]
        return {ref for command in written for ref in sheets_led_by_run(command)}
