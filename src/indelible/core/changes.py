"""What a decision leads to: an answer, and the changes to write before the answer may go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from indelible.core.commands import Answer, Command, Moved
from indelible.core.effects.effect import Effect, Status
from indelible.core.sheets import Sheet


@dataclass(frozen=True, slots=True)
class Change:
    """Is one legal move: the state after it, and the event that tells of it with the values it commits to.

    Sheets change with it; the event commits to those that are on the record, each under the name of its kind.
    """

    effect: Effect
    event_type: str
    committed: Mapping[str, bytes]
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """Is an event that moves no effect: what it says in clear, the values it commits to, and payloads that go."""

    run_id: str
    event_type: str
    facts: bytes
    committed: Mapping[str, bytes]
    erased: tuple[tuple[int, str], ...] = ()
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True, slots=True)
class Aside:
    """Is a change of a sheet that no event tells of."""

    sheets: tuple[Sheet, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """Is what a command leads to: an answer, and the changes that make it true, in their order."""

    answer: Answer
    changes: tuple[Change | Fact | Aside, ...] = ()

    @property
    def change(self) -> Change | Fact | Aside | None:
        """Is the only change, if there is one."""
        assert len(self.changes) < 2, "ask for all of them"
        return self.changes[0] if self.changes else None


def moved_to(
    command: Command,
    effect: Effect,
    seq: int,
    status: Status,
    event_type: str,
    sheets: tuple[Sheet, ...] = (),
    **committed: bytes,
) -> Change:
    """Gives the move to `status`; the first committed value becomes the effect's detail."""
    moved = effect.moved(
        status=status,
        at=command.stamp.at,
        attempt=effect.attempt,
        token_hash=effect.token_hash,
        lease_until=None,
        detail_seq=seq,
        detail_json=next(iter(committed.values())),
    )
    return Change(moved, event_type, committed, sheets)


def step_to(change: Change) -> Step:
    """Gives the step whose answer is the state after a move."""
    return Step(Moved(change.effect), (change,))
