"""What one call of `apply` may assume, and what it has to find out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indelible.core.batch import Batch
from indelible.core.commands import Command, Finish, Open, Record, Relinquish
from indelible.core.effects import Effect
from indelible.core.events import Head, Provenance
from indelible.core.identity import Ref
from indelible.stores.postgres.trouble import Patience

# No move leads on from these, so what was once seen stays true.
_FINAL = frozenset({"succeeded", "denied", "canceled"})
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
    sent: list[Batch] = field(default_factory=list)
    is_guessable: bool = True

    def assume(self, known: Sequence[Effect | None]) -> None:
        """Notes what may be decided on unseen: an unknown key is free, and a claim's holder knows its effect."""
        for command, seen in zip(self.commands, known, strict=True):
            if isinstance(command, Record):
                self.runs.add(command.run_id)
                continue  # it rests on no effect; the head of its run guards it
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
            self.assumed.setdefault(command.ref, seen)

    @property
    def is_erasing(self) -> bool:
        """May payloads have to go? Then there is more to write than one statement does."""
        return any(isinstance(command, Record) and command.erased for command in self.commands)

    def is_guarded(self, batch: Batch) -> bool:
        """Will the write of this batch fail if any of its answers rests on a state that has changed?"""
        opened, moved = batch.opened, batch.moved
        return all(
            ref in opened or ref in moved or (state is not None and state.status in _FINAL)
            for ref, state in self.assumed.items()
        )

    def needs_lock(self, batch: Batch) -> bool:
        """Does a batch hold what its guards do not cover: an event without a move, or a lease that may be renewed?"""
        records = sum(isinstance(command, Record) for command in self.commands)
        if len(batch.events) != len(batch.opened) + len(batch.moved) + records:
            return True
        taken = [ref for ref, (was, _) in batch.moved.items() if was.status == "processing"]
        if not taken:
            return False
        reported = {command.ref for command in self.commands if isinstance(command, Finish | Relinquish)}
        return any(ref not in reported for ref in taken)
