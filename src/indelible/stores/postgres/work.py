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
)
from indelible.core.effects import Effect
from indelible.core.events import Head, Provenance
from indelible.core.identity import Ref
from indelible.core.sheets import SheetRef, Sheets
from indelible.core.steps import needed_sheets
from indelible.stores.assumptions import sheets_for
from indelible.stores.postgres.trouble import Patience

_MOST_HEADS = 20_000


class Heads:
    """Remembers where the chains of runs ended when this process wrote to them last. Being wrong is only slow."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str], Head] = {}

    def of(self, tenant: str, runs: set[str]) -> dict[str, Head]:
        """Gives the heads it remembers of these runs."""
        known = self._heads
        return {run: head for run in runs if (head := known.get((tenant, run))) is not None}

    def remember(self, tenant: str, batch: Batch) -> None:
        """Notes the heads that a committed batch left."""
        heads = self._heads
        for run, (_, head) in batch.heads.items():
            heads.pop((tenant, run), None)  # so that it counts as the newest
            heads[tenant, run] = head
        self._forget_oldest()

    def correct(self, tenant: str, runs: set[str], found: Mapping[str, Head]) -> None:
        """Notes what was found to be true of these runs, and forgets those of which nothing was."""
        heads = self._heads
        for run in runs:
            heads.pop((tenant, run), None)
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
    sent: list[Batch] = field(default_factory=list)
    is_guessable: bool = True

    def assume(self, known: Sequence[Effect | None]) -> None:
        """Notes what may be decided on unseen: an unknown key is free, and a claim's holder knows its effect."""
        for command, seen in zip(self.commands, known, strict=True):
            if not is_about_effect(command):
                # It rests on no effect; the head of its run guards it, or the sheet does.
                self.is_guessable = self.is_guessable and not needed_sheets(command, None)
                run_id = run_named_by(command)
                if run_id is not None:
                    self.runs.add(run_id)
                continue
            if isinstance(command, Open):
                # Whether a lease ran out only the database's clock can say.
                self.is_guessable &= seen is None or seen.status != "processing"
                self.runs.add(command.run_id if seen is None else seen.run_id)
            elif isinstance(command, Finish | Relinquish):
                seen = seen or command.claim.effect
                self.runs.add(seen.run_id)
            elif seen is None or seen.status == "processing":
                self.is_guessable = False
            else:
                self.runs.add(seen.run_id)
            # What people said of an effect holds for the effect as it is recorded, so nothing is guessed there.
            self.is_guessable = self.is_guessable and not needed_sheets(command, seen)
            self.assumed.setdefault(command.ref, seen)
        if not self.is_guessable:
            self.sheets = sheets_for(self.commands, self.assumed)

    @property
    def is_erasing(self) -> bool:
        """May payloads have to go? Then there is more to write than one statement does."""
        return any(isinstance(command, Record) and command.erased for command in self.commands)

    def needs_lock(self, batch: Batch, sheets: Sheets) -> bool:
        """Does a batch rest on what its guards do not cover?

        That is an event without a move, a call that is refused because it is new, a sheet that was read and is not
        written, or a lease that may be renewed.
        """
        about_effects = sum(event.effect_id is not None for event in batch.events)
        if about_effects != len(batch.opened) + len(batch.moved):
            return True
        if any(isinstance(answer, RefusedByPolicy | OverBudget) for answer in batch.answers):
            return True
        if not batch.sheets.keys() >= sheets.keys():
            return True
        taken = [ref for ref, (was, _) in batch.moved.items() if was.status == "processing"]
        if not taken:
            return False
        reported = {command.ref for command in self.commands if isinstance(command, Finish | Relinquish)}
        return any(ref not in reported for ref in taken)
