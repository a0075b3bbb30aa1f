"""Everything about one effect on a page: the record, its history, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from indelible import Approval, Effect, Event, Ledger
from indelible.cli.approvals.words import quorum, standing, time_left
from indelible.cli.behind import store_behind
from indelible.cli.events import read_run
from indelible.cli.opening import Where
from indelible.cli.show import (
    age,
    count,
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
from indelible.core.effects.compensations import how_undone
from indelible.core.effects.effect import ERASED_DIGEST
from indelible.core.events import Payload
from indelible.core.journal.chain import altered_payloads
from indelible.core.policy.budgets import read_charges
from indelible.core.policy.verdicts import Charge

# Shown above the history already, or of no use to a reader.
_SHOWN_ELSEWHERE = frozenset({"key", "subject"})


@dataclass(frozen=True, slots=True)
class Entry:
    """Is one event of an effect, with what it commits to and what of that was altered or erased."""

    event: Event
    payloads: list[Payload]
    altered: list[str]
    erased: list[str]


def read_history(ledger: Ledger, effect: Effect) -> list[Entry]:
    """Reads an effect's events and what they commit to."""
    # Whoever was asked about may have been asked before, with other arguments: then its opening is not its beginning.
    before = effect.opened_seq - 1 if effect.approval_id is None else -1
    events = [e for e in read_run(ledger, effect.run_id, before) if e.effect_id == effect.id]
    payloads = store_behind(ledger).payloads(effect.tenant, effect.run_id, [event.seq for event in events])
    return [_entry(ledger, effect, event, [p for p in payloads if p.seq == event.seq]) for event in events]


def _entry(ledger: Ledger, effect: Effect, event: Event, payloads: list[Payload]) -> Entry:
    """Compares what is recorded with the event, and shows it in clear; what has lost its key counts as erased."""
    opened = [clear for payload in payloads if (clear := ledger._opened_payload(effect, payload)) is not None]
    kept = {payload.field for payload in opened}
    erased = [name for name in event.read().get("commits", {}) if name not in kept]
    return Entry(event, opened, altered_payloads(event, payloads), erased)


def say_effect_json(effect: Effect, approval: Approval | None, history: list[Entry], undone: Effect | None) -> int:
    """Prints the page for programs."""
    shown = effect_json(effect, undone) | {
        "approval_id": effect.approval_id,
        "approval_status": None if approval is None else approval.status,
        "verdict": verdict_of(history),
        "reserved": [_charge_json(charge) for charge in read_charges(effect.charges_json)],
    }
    say_json({"effect": shown, "events": history_json(history)})
    return 1 if any(entry.altered for entry in history) else 0


def history_json(history: Iterable[Entry]) -> list[dict[str, Any]]:
    """Gives events for programs, with what was said with them."""
    events = []
    for entry in history:
        values = {p.field: recorded_json(p.value) for p in entry.payloads if p.field not in _SHOWN_ELSEWHERE}
        events.append({**entry.event.read(), "values": values, "altered": entry.altered, "erased": entry.erased})
    return events


def _charge_json(charge: Charge) -> dict[str, Any]:
    seconds = charge.window / timedelta(seconds=1)
    return {"budget": charge.budget, "amount": str(charge.amount), "limit": str(charge.limit), "window": seconds}


def say_effect(
    effect: Effect, approval: Approval | None, history: list[Entry], place: Where, undone: Effect | None
) -> int:
    """Prints the page for people; gives 1 when something on it is not what was recorded."""
    now = datetime.now(UTC)
    print(f"{effect.id}  {effect.tool}  {effect.status}{'' if undone is None else ', compensated'}")
    undone_by = None if undone is None else f"it {how_undone(undone)}"
    fields(
        [
            ("compensated", undone_by),
            *_record(effect, now),
            *_permission(effect, approval, history, now),
            *_identity(effect),
        ]
    )
    _say_payload("args", effect.args_json, was_erased=any("args" in entry.erased for entry in history))
    if effect.detail_seq is not None:
        _say_payload(effect.detail_field, effect.detail_json, was_erased=effect.detail_json is None)
    _say_history(effect, history)
    for line in next_steps(effect, now, place):
        print(line)
    if undone is not None:
        print("\nnext\n  It no longer stands, and repeats of the call are refused. What undid it:")
        print(f"    {place.command(f'effects show {undone.id}')}")
    for line in altered_lines(history):
        print(line)
    return 1 if any(entry.altered for entry in history) else 0


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
    ]


def _permission(
    effect: Effect, approval: Approval | None, history: list[Entry], now: datetime
) -> list[tuple[str, str | None]]:
    """Says by what leave it runs: the policy's verdict, the approval, and what it takes of budgets."""
    verdict = verdict_of(history)
    why = visible(verdict["why"]) if verdict is not None and verdict["why"] else ""
    said = None if verdict is None else f"{verdict['decision']}, by the rule {visible(verdict['rule'] or '(none)')}"
    charges = [_charge_words(charge) for charge in read_charges(effect.charges_json)]
    return [
        ("verdict", said if said is None or not why else f"{said}: {why}"),
        ("policy", None if verdict is None else str(verdict["policy"])),
        ("approval", _approval_words(effect, approval, now)),
        ("reserved", "; ".join(charges) or None),
    ]


def verdict_of(history: Iterable[Entry]) -> dict[str, Any] | None:
    """Gives what the policy said last of an effect; None when no policy has judged it, or that was erased."""
    said = [recorded_json(p.value) for entry in history for p in entry.payloads if p.field == "policy"]
    return said[-1] if said and isinstance(said[-1], dict) and said[-1].keys() >= _VERDICT_WORDS else None


_VERDICT_WORDS = {"decision", "policy", "rule", "why"}


def _approval_words(effect: Effect, approval: Approval | None, now: datetime) -> str | None:
    if approval is None:
        return None if effect.approval_id is None else f"{effect.approval_id} (erased)"
    left = f", expires {time_left(approval, now)}" if approval.is_open else ""
    return f"{approval.id}, {standing(approval, now)}: {quorum(approval)}{left}"


def _charge_words(charge: Charge) -> str:
    return f"{charge.amount} of {visible(charge.budget)} ({charge.limit} in any {charge.window})"


def _identity(effect: Effect) -> list[tuple[str, str | None]]:
    return [("key", effect.key), ("digest", "(erased)" if effect.digest == ERASED_DIGEST else effect.digest)]


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
    shown_above = {(effect.detail_seq, effect.detail_field), (effect.opened_seq, "args")}
    said = [line for entry in history for line in _values(entry, shown_above)]
    if said:
        print("\nsaid with them")
        print("\n".join(said))


def _values(entry: Entry, shown_above: set[tuple[int | None, str]]) -> Iterator[str]:
    """Gives a line for each reason, piece of evidence, verdict, late result, and what was undone or changed later."""
    for payload in entry.payloads:
        if payload.field not in _SHOWN_ELSEWHERE and (payload.seq, payload.field) not in shown_above:
            name = payload.field.replace("_", " ")
            by = entry.event.read()["actor"]["id"]
            late = f" (came too late, changed nothing; sent by {by})" if name.startswith("late") else ""
            yield f"  {entry.event.seq}  {name}{late}: {_value(payload)}"
    for field in entry.erased:
        yield f"  {entry.event.seq}  {field}: (erased)"


def _value(payload: Payload) -> str:
    """Shows a value on one line; of what has a page of its own, how it stood then."""
    content = recorded_json(payload.value)
    if payload.field == "approval" and isinstance(content, dict) and {"status", "votes"} <= content.keys():
        return f"{visible(str(content['status']))}, {count(len(content['votes']), 'vote')}"
    if payload.field == "grant" and isinstance(content, dict) and "uses_left" in content:
        return f"{content['uses_left']} left"
    return one_line_json(payload.value)


def _time(text: str) -> str:
    return timestamp(datetime.fromisoformat(text))


def altered_lines(history: Iterable[Entry]) -> Iterator[str]:
    """Says which values are not what their events committed to."""
    for entry in history:
        for field in entry.altered:
            what = f"the stored {field} is not what event {entry.event.seq} committed to"
            yield f"\nALTERED: {what}. Do not trust it; compare a backup."


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
        yield "  It waits for a person. What is asked, and how to answer:"
        yield f"    {place.command(f'approvals show {effect.approval_id or effect.id}')}"
    elif effect.status == "ready":
        yield "\nnext"
        yield "  The next call of it enters the handler. To withdraw it:"
        yield f"    {place.command(f'effects cancel {effect.id}')}"
    elif effect.status == "failed":
        yield "\nnext"
        yield "  Every call of it gets this error. To allow another attempt:"
        yield f"    {place.command(f'effects retry {effect.id}')}"
