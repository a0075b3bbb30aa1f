"""Does a run's record hold together? Pure: events in, a verdict out.

This finds every edit, insertion, removal and reordering inside what it is given. It cannot see that the end was cut
off, nor that somebody who could write to the store recomputed everything after an edit: for that a head kept elsewhere
is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from indelible.core.events import NO_EVENTS, Event, Head, Payload, commitment, event_hash
from indelible.core.values.canonical import decode


@dataclass(frozen=True, slots=True)
class Intact:
    """Every event is what its hash says and names the one before; `head` is the end they lead to."""

    checked: int
    head: Head


@dataclass(frozen=True, slots=True)
class Broken:
    """The event at `seq` is the first that is not what it should be."""

    checked: int
    seq: int
    why: str


def check_chain(events: Iterable[Event], run_id: str, *, after: Head = NO_EVENTS) -> Intact | Broken:
    """Follows a run's events in their order from `after` and names the first that does not fit."""
    head, checked = after, 0
    for event in events:
        why = why_bad(event, run_id, head)
        if why is not None:
            return Broken(checked, head.length, why)
        head, checked = Head(head.length + 1, event.hash), checked + 1
    return Intact(checked, head)


def why_bad(event: Event, run_id: str, before: Head) -> str | None:
    """Says why this event cannot follow `before`, or None when it can."""
    if event.seq != before.length:
        return f"event {before.length} is missing" if event.seq > before.length else f"event {event.seq} comes twice"
    if event_hash(event.body) != event.hash:
        return "its content is not what its hash says"
    try:
        content = decode(event.body)
    except ValueError:
        return "its content cannot be read"
    if not isinstance(content, dict):
        return "its content is no record"
    if content.get("prev") != before.hash:
        return "it does not name the hash of the event before"
    columns = {"run": run_id, "seq": event.seq, "type": event.type, "effect": event.effect_id}
    for name, value in columns.items():
        if content.get(name) != value:
            return f"its content has another {name} than the column beside it"
    return None


def altered_payloads(event: Event, payloads: Iterable[Payload]) -> list[str]:
    """Names the fields whose stored value is not the one that the event committed to."""
    committed = event.read().get("commits", {})
    return [
        payload.field
        for payload in payloads
        if payload.seq == event.seq
        and committed.get(payload.field) != commitment(payload.salt, payload.field, payload.value)
    ]
