"""Bugs planted in approvals and budgets, for the jobs that must find them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from indelible import Effect
from indelible.core import steps
from indelible.core.approvals import approval as approvals
from indelible.core.approvals import asking
from indelible.core.approvals.approval import Approval, Refusal, Vote, voted
from indelible.core.approvals.deliveries import deliveries_of, read_delivery
from indelible.core.changes import Step
from indelible.core.commands import Answer, CastVote, Command, InFlight, Keep
from indelible.core.effects import claiming
from indelible.core.effects.claiming import approval_of
from indelible.core.effects.identity import Ref
from indelible.core.policy import budgets
from indelible.core.policy.budgets import Budget
from indelible.core.policy.verdicts import Charge
from indelible.core.sheets import Sheet, SheetFilter, SheetRef
from indelible.core.steps import next_step
from indelible.engine.approving import Approving
from indelible.engine.writer import Writer
from indelible.errors import IndelibleError
from indelible.testing.comparing import read_for
from tests.chaos.planting import Mutant, put


def consumed_twice() -> None:
    """A caller who waited for an approval takes it, though another caller has used it up meanwhile."""
    opened = steps._open
    taken: dict[Ref, str] = {}  # by which command: a store may have it decided more than once

    def broken(command: Any, effect: Effect | None, now: Any, seq: int, sheets: Any, *rest: Any) -> Step:
        step = opened(command, effect, now, seq, sheets, *rest)
        if effect is None or not isinstance(step.answer, InFlight) or command.awaited_approval is None:
            return step
        if taken.setdefault(effect.ref, command.token) != command.token:
            return step
        return claiming._attempt(command, effect, now, sheets, ())

    put(steps, "_open", broken)


def expiry_ignored() -> None:
    """An approval never runs out."""
    put(Approval, "is_overdue", lambda self, now: False)


def votes_overwritten() -> None:
    """Each process counts a vote on the votes it knows of itself, whatever others have counted since."""
    known: dict[str, tuple[Vote, ...]] = {}

    def broken(approval: Approval, vote: Vote, *rest: Any) -> Approval | Refusal:
        # Without its own: a store may have a command decided more than once.
        votes = tuple(earlier for earlier in known.setdefault(approval.id, approval.votes) if earlier != vote)
        counted = voted(replace(approval, votes=votes), vote, *rest)
        if isinstance(counted, Approval):
            known[approval.id] = counted.votes
        return counted

    put(asking, "voted", broken)


def spellings_count() -> None:
    """Two spellings of a name are two people."""
    for name in ("folded", "shape_of"):
        put(approvals, name, lambda text: text)


def asked_again() -> None:
    """Whoever calls anew does not find the question that is open, and asks another one."""

    def broken(command: Any, effect: Effect, now: Any, seq: int, sheets: Any, *rest: Any) -> Step:
        approval = approval_of(effect, sheets)
        question = command.verdict.question
        if approval is None or approval.status != "pending" or command.awaited_approval is not None or question is None:
            return claiming.claim(command, effect, now, seq, sheets, *rest)
        return claiming._ask(command, effect, question, now, seq, sheets, approval, ())

    put(steps, "claim", broken)


def told_after_commit() -> None:
    """The messages about an approval are written when the approval is there, and not with it."""
    do = Writer.do
    owed: dict[SheetRef, Sheet] = {}

    def none(*args: Any) -> list[Sheet]:
        owed.update({sheet.ref: sheet for sheet in deliveries_of(*args)})
        return []

    def broken(self: Writer, command: Command, *rest: Any) -> Answer:
        owed.clear()
        answer = do(self, command, *rest)
        # A store may have a command decided in several ways; what is owed is owed about what came of it.
        approval = getattr(answer, "approval", None)
        for sheet in [sheet for sheet in owed.values() if approval and read_delivery(sheet).approval_id == approval.id]:
            do(self, Keep(tenant=command.ref.tenant, stamp=command.stamp, sheet=sheet))
        return answer

    for module in (asking, claiming, steps):
        put(module, "deliveries_of", none)
    put(Writer, "do", broken)


def vote_before_write() -> None:
    """A person is told that their vote counts, and it is written before the next command or at the end."""
    write, do, close = Approving._write, Writer.do, Writer.close
    owed: list[CastVote] = []

    def paid(self: Writer) -> Writer:
        while owed:
            with contextlib.suppress(IndelibleError):
                do(self, owed.pop())
        return self

    def broken(self: Approving, command: Any, effect: Effect | None) -> Answer:
        if not isinstance(command, CastVote):
            return write(self, command, effect)
        paid(self._engine.writer)
        selected = SheetFilter(kind="approval", id=command.approval_id, limit=1)
        sheets = {sheet.ref: sheet for sheet in self._engine.store.sheets(self._tenant, selected)}
        owed.append(command)
        effect = self._engine.store.look([command.ref]).effects[0]
        _, read = read_for([command], {command.ref: effect}, sheets)
        return next_step(command, effect, command.stamp.at, 0, read).answer

    put(Approving, "_write", broken)
    put(Writer, "do", lambda self, command, *rest: do(paid(self), command, *rest))
    put(Writer, "close", lambda self: close(paid(self)))


def reserved_not_counted() -> None:
    """A budget is measured by what was spent, and not by what calls under way may still spend."""

    def broken(self: Budget, charge: Charge, now: Any) -> Any:
        return sum(self._within(charge, now).values(), start=charge.amount * 0)

    put(Budget, "used", broken)


def released_twice() -> None:
    """What a failed call reserved is given back twice, at the expense of others."""
    put(budgets, "release", _twice(budgets.release))


def _twice(release: Callable[..., list[Sheet]]) -> Callable[..., list[Sheet]]:
    def broken(charges: Iterable[Charge], sheets: Any) -> list[Sheet]:
        return release([charge for charge in charges for _ in range(2)], sheets)

    return broken


def reservation_kept() -> None:
    """What a failed call reserved stays reserved."""
    put(budgets, "release", lambda charges, sheets: [])


APPROVAL_MUTANTS: dict[str, Mutant] = {
    "consumed-twice": Mutant(consumed_twice, frozenset({"duplicate effect"})),
    "expiry-ignored": Mutant(expiry_ignored, frozenset({"late decision"})),
    "votes-overwritten": Mutant(votes_overwritten, frozenset({"lost vote"})),
    "spellings-count": Mutant(spellings_count, frozenset({"counted twice"})),
    "asked-again": Mutant(asked_again, frozenset({"asked twice"})),
    "told-after-commit": Mutant(told_after_commit, frozenset({"lost notification"})),
    "vote-before-write": Mutant(vote_before_write, frozenset({"lost decision"})),
    "reserved-not-counted": Mutant(reserved_not_counted, frozenset({"over budget"})),
    "released-twice": Mutant(released_twice, frozenset({"over budget", "leaked reservation"})),
    "reservation-kept": Mutant(reservation_kept, frozenset({"leaked reservation"})),
}
