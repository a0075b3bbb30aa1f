"""Many commands, one write: decides a batch on what is known and gives the rows that make it true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from indelible.core.commands import (
    Answer,
    AwaitingApproval,
    Claimed,
    Command,
    InDoubt,
    Late,
    Moved,
)
from indelible.core.effects import Claim, Effect
from indelible.core.events import (
    NO_EVENTS,
    SALT_BYTES,
    Event,
    Head,
    Payload,
    Provenance,
    commitment,
    effect_event,
    event_hash,
)
from indelible.core.identity import Ref
from indelible.core.steps import Change, next_step


@dataclass(slots=True)
class Batch:
    """Collects what one transaction writes: effects opened and moved, heads advanced, events, payloads, answers.

    `moved` and `heads` pair the state decided on with the state to write, so that a store can guard the write.
    """

    answers: list[Answer] = field(default_factory=list)
    opened: dict[Ref, Effect] = field(default_factory=dict)
    moved: dict[Ref, tuple[Effect, Effect]] = field(default_factory=dict)
    heads: dict[str, tuple[Head, Head]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Is there nothing to write?"""
        return not self.events

    def changed(self) -> list[Effect]:
        """Lists the effects as they are after the write."""
        return [*self.opened.values(), *(after for _, after in self.moved.values())]


def decide(
    commands: Sequence[Command],
    effects: Mapping[Ref, Effect | None],
    heads: Mapping[str, Head],
    now: datetime,
    by: Provenance,
) -> Batch:
    """Decides commands in their order, each on the state its predecessors leave; an unknown run has no events."""
    batch = Batch()
    for command in commands:
        ref = command.ref
        state = _latest(batch, effects, ref)
        step = next_step(command, state, now)
        if step.change is None:
            batch.answers.append(step.answer)
        else:
            batch.answers.append(_with_effect(step.answer, _record(batch, command, state, step.change, heads, by)))
    return batch


def _latest(batch: Batch, effects: Mapping[Ref, Effect | None], ref: Ref) -> Effect | None:
    if ref in batch.moved:
        return batch.moved[ref][1]
    return batch.opened.get(ref) or effects.get(ref)


def _record(
    batch: Batch,
    command: Command,
    before: Effect | None,
    change: Change,
    heads: Mapping[str, Head],
    by: Provenance,
) -> Effect:
    """Appends the change's event to its run's chain and notes the rows to write; gives the effect as written."""
    run_id = change.effect.run_id
    was, head = batch.heads.get(run_id) or (heads.get(run_id, NO_EVENTS),) * 2
    after = _numbered(change, before, head.length)
    salts = command.stamp.salts
    commits = {}
    for number, (name, value) in enumerate(change.committed.items()):
        salt = salts[number * SALT_BYTES : (number + 1) * SALT_BYTES]
        commits[name] = commitment(salt, name, value)
        batch.payloads.append(Payload(run_id, head.length, name, salt, value))
    body = effect_event(
        effect=after,
        head=head,
        event_type=change.event_type,
        at=command.stamp.at,
        actor=command.stamp.actor,
        commits=commits,
        by=by,
    )
    digest = event_hash(body)
    batch.events.append(
        Event(run_id=run_id, seq=head.length, effect_id=after.id, type=change.event_type, hash=digest, body=body)
    )
    batch.heads[run_id] = (was, Head(head.length + 1, digest))
    _note(batch, before, after)
    return after


def _numbered(change: Change, before: Effect | None, seq: int) -> Effect:
    """Tells the effect in which event its arguments, or its newest detail, are committed."""
    if before is None:
        return replace(change.effect, opened_seq=seq)
    if change.effect is before or change.effect.detail_json is None:
        return change.effect
    return replace(change.effect, detail_seq=seq)


def _note(batch: Batch, before: Effect | None, after: Effect) -> None:
    """Keeps the first state and the last one, when one batch moves an effect more than once."""
    ref = after.ref
    if before is None or ref in batch.opened:
        batch.opened[ref] = after
    elif after is not before:
        first = batch.moved[ref][0] if ref in batch.moved else before
        batch.moved[ref] = (first, after)


def _with_effect(answer: Answer, effect: Effect) -> Answer:
    """Gives the answer about the effect as it was written."""
    match answer:
        case Claimed():
            return Claimed(Claim(effect))
        case AwaitingApproval() | InDoubt() | Moved() | Late():
            return type(answer)(effect)
        case _:
            raise AssertionError(f"{type(answer).__name__} never comes with a change")
