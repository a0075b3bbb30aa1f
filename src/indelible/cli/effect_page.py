"""Everything about one effect on a page: the record, its history, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from indelible import Effect, Event, Ledger
from indelible.cli.behind import store_behind
from indelible.cli.events import read_run
from indelible.cli.opening import Where
from indelible.cli.show import (
    age,
    detail_name,
    effect_json,
    fields,
    one_line_json,
    pretty_json,
    recorded_json,
    say_json,
    table,
    timestamp,
    visible,
)
from indelible.core.chain import altered_payloads
from indelible.core.events import Payload

# Shown above the history already, or of no use to a reader.
_SHOWN_ELSEWHERE = frozenset({"args", "key", "subject"})


@dataclass(frozen=True, slots=True)
class Entry:
    """Is one event of an effect, with what it commits to and what of that was altered or erased."""

    event: Event
    payloads: list[Payload]
    altered: list[str]
    erased: list[str]


def read_history(ledger: Ledger, effect: Effect) -> list[Entry]:
    """Reads an effect's events and what they commit to."""
    events = [e for e in read_run(ledger, effect.run_id, effect.opened_seq - 1) if e.effect_id == effect.id]
    payloads = store_behind(ledger).payloads(effect.tenant, effect.run_id, [event.seq for event in events])
    return [_entry(ledger, effect, event, [p for p in payloads if p.seq == event.seq]) for event in events]


def _entry(ledger: Ledger, effect: Effect, event: Event, payloads: list[Payload]) -> Entry:
    """Compares what is recorded with the event, and shows it in clear; what has lost its key counts as erased."""
    opened = [clear for payload in payloads if (clear := ledger._opened_payload(effect, payload)) is not None]
    kept = {payload.field for payload in opened}
    erased = [name for name in event.read().get("commits", {}) if name not in kept]
    return Entry(event, opened, altered_payloads(event, payloads), erased)


def say_effect_json(effect: Effect, history: list[Entry]) -> int:
    """Prints the page for programs."""
    events = []
    for entry in history:
        values = {p.field: recorded_json(p.value) for p in entry.payloads if p.field not in _SHOWN_ELSEWHERE}
        events.append({**entry.event.read(), "values": values, "altered": entry.altered, "erased": entry.erased})
    say_json({"effect": effect_json(effect), "events": events})
    return 1 if any(entry.altered for entry in history) else 0


def say_effect(effect: Effect, history: list[Entry], place: Where) -> int:
    """Prints the page for people; gives 1 when something on it is not what was recorded."""
    now = datetime.now(UTC)
    print(f"{effect.id}  {effect.tool}  {effect.status}")
    fields(_record(effect, now))
    _say_payload("args", effect.args_json, was_erased=any("args" in entry.erased for entry in history))
    if effect.detail_seq is not None:
        _say_payload(detail_name(effect), effect.detail_json, was_erased=effect.detail_json is None)
    _say_history(effect, history)
    for line in next_steps(effect, now, place):
        print(line)
    return _say_altered(history)


def _record(effect: Effect, now: datetime) -> list[tuple[str, str | None]]:
    lease = effect.lease_until
    return [
        ("run", visible(effect.run_id)),
        ("tenant", visible(effect.tenant)),
        ("scope", None if effect.scope == effect.run_id else visible(effect.scope)),
        ("call id", None if effect.call_id is None else visible(effect.call_id)),
        ("side effect", effect.side_effect),
        ("on crash", effect.on_crash),
        ("attempt", str(effect.attempt)),
        ("lease", None if lease is None else f"{'ran out' if lease <= now else 'until'} {timestamp(lease)}"),
        ("created", f"{timestamp(effect.created_at)} ({age(effect.created_at, now)} ago)"),
        ("updated", f"{timestamp(effect.updated_at)} ({age(effect.updated_at, now)} ago)"),
        ("key", effect.key),
        ("digest", effect.digest),
    ]


def _say_payload(name: str, recorded: bytes | None, *, was_erased: bool) -> None:
    print(f"\n{name}")
    if recorded is None:
        print("  (erased)" if was_erased else "  (none)")
    else:
        print(pretty_json(recorded, "  "))


def _say_history(effect: Effect, history: list[Entry]) -> None:
    print("\nevents")
    contents = [entry.event.read() for entry in history]
    rows = [
        (
            str(c["seq"]),
            _time(c["at"]),
            c["type"],
            str(c["attempt"]),
            c["status"],
            f"{c['actor']['id']} ({c['actor']['kind']})",
        )
        for c in contents
    ]
    table(("seq", "time", "type", "attempt", "status", "actor"), rows)
    said = [line for entry in history for line in _values(entry, (effect.detail_seq, detail_name(effect)))]
    if said:
        print("\nsaid with them")
        print("\n".join(said))


def _values(entry: Entry, shown_above: tuple[int | None, str]) -> Iterator[str]:
    """Gives a line for each reason, piece of evidence, late result and outcome that was undone later."""
    for payload in entry.payloads:
        if payload.field not in _SHOWN_ELSEWHERE and (payload.seq, payload.field) != shown_above:
            name = payload.field.replace("_", " ")
            late = " (came too late, changed nothing)" if name.startswith("late") else ""
            yield f"  {entry.event.seq}  {name}{late}: {one_line_json(payload.value)}"
    for field in entry.erased:
        yield f"  {entry.event.seq}  {field}: (erased)"


def _time(text: str) -> str:
    return timestamp(datetime.fromisoformat(text))


def _say_altered(history: list[Entry]) -> int:
    altered = [(entry.event.seq, field) for entry in history for field in entry.altered]
    for seq, field in altered:
        print(f"\nALTERED: the stored {field} is not what event {seq} committed to. Do not trust it; compare a backup.")
    return 1 if altered else 0


def next_steps(effect: Effect, now: datetime, place: Where) -> Iterator[str]:
    """Says what a person can do about the effect, as commands to copy."""
    if effect.status == "in_doubt" or effect.is_abandoned(now):
        yield "\nnext"
        if effect.status != "in_doubt":
            yield "  Its worker never reported and its lease is over: the next call of it finds it in doubt."
        yield "  It may have happened. Ask the provider (by the key above, if the tool passes it on)."
        yield "  Then one of:"
        yield f"    {place.command(f'effects settle {effect.id} --as succeeded --value JSON --evidence TEXT')}"
        yield f"    {place.command(f'effects settle {effect.id} --as failed --error TEXT --evidence TEXT')}"
        yield f"    {place.command(f'effects retry {effect.id}')}   # it did not happen, or repeating is safe"
    elif effect.status == "requires_approval":
        yield "\nnext"
        yield "  It waits for a person. If the arguments above are right:"
        yield f"    {place.command(f'effects approve {effect.id} --digest {effect.digest}')}"
        yield "  If not:"
        yield f"    {place.command(f'effects deny {effect.id} --digest {effect.digest} --reason TEXT')}"
    elif effect.status == "ready":
        yield "\nnext"
        yield "  The next call of it enters the handler. To withdraw it:"
        yield f"    {place.command(f'effects cancel {effect.id}')}"
    elif effect.status == "failed":
        yield "\nnext"
        yield "  Every call of it gets this error. To allow another attempt:"
        yield f"    {place.command(f'effects retry {effect.id}')}"
