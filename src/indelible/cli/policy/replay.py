"""Replays recorded calls under another policy, and shows every decision that would change."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from indelible import Event, Ledger
from indelible.cli.policy.words import verdict_json
from indelible.cli.show import count, table, timestamp
from indelible.core.effects.calls import OWN_RUNS
from indelible.core.events import instant
from indelible.core.paging import every_run
from indelible.core.policy.policy import Policy
from indelible.core.policy.replaying import JUDGED_TYPES, Overturned, RecordedCall, changed, recorded_call
from indelible.core.ports import Store
from indelible.errors import IndelibleError

_PAGE = 1000
Tick = Callable[[int], None]


@dataclass(slots=True)
class Replay:
    """Is what came of replaying: how many calls were judged, and what would change."""

    since: datetime
    judged: int = 0
    erased: int = 0
    over_budget: int = 0
    changes_by_kind: Counter[tuple[str, str]] = field(default_factory=Counter)
    changes: list[Overturned] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """Counts the decisions that would change."""
        return sum(self.changes_by_kind.values())


def replay(ledger: Ledger, policy: Policy, since: datetime, environment: str, most_shown: int) -> Replay:
    """Judges every call that was recorded since a moment; keeps the changes, as many as are to be shown."""
    found = Replay(since)
    store = ledger._engine.store
    with _progress() as tick:
        for call in _calls(ledger, store, since, tick):
            if call.was_over_budget:
                found.over_budget += 1
                continue
            if not call.can_be_judged:
                found.erased += 1
                continue
            found.judged += 1
            change = changed(call, policy, ledger.tenant, environment)
            if change is not None:
                found.changes_by_kind[str(call.decision), change.verdict.decision] += 1
                if len(found.changes) < most_shown:
                    found.changes.append(change)
    return found


def _calls(ledger: Ledger, store: Store, since: datetime, tick: Tick) -> Iterator[RecordedCall]:
    """Gives the calls of all runs, run by run; what the ledger tells of itself holds none."""
    for run_id, length, _ in every_run(store, ledger.tenant):
        if run_id.startswith(OWN_RUNS) or not _is_newer(store, ledger.tenant, run_id, length, since):
            tick(length)
            continue
        after = -1
        while page := store.events(ledger.tenant, run_id, after, _PAGE):
            yield from _calls_in(ledger, store, page, since)
            tick(len(page))
            after = page[-1].seq


def _is_newer(store: Store, tenant: str, run_id: str, length: int, since: datetime) -> bool:
    """Did anything happen in a run since then? Its last event tells, and spares reading the others."""
    last = store.events(tenant, run_id, length - 2, 1)
    return not last or last[0].at >= since


def _calls_in(ledger: Ledger, store: Store, page: list[Event], since: datetime) -> Iterator[RecordedCall]:
    judged = [event for event in page if event.type in JUDGED_TYPES and event.at >= since]
    if not judged:
        return
    values: dict[int, dict[str, bytes]] = {}
    for payload in store.payloads(ledger.tenant, judged[0].run_id, [event.seq for event in judged]):
        values.setdefault(payload.seq, {})[payload.field] = payload.value
    for event in judged:
        call = recorded_call(event, values.get(event.seq, {}))
        if call is not None:
            yield _with_args(ledger, call)


def _with_args(ledger: Ledger, call: RecordedCall) -> RecordedCall:
    """Adds the arguments to a refusal of an effect that was there already: they are told where it was opened."""
    if call.args is not None or call.effect_id is None:
        return call
    effect = ledger.get_effect(call.effect_id)
    try:
        return call if effect is None or effect.args_json is None else replace(call, args=effect.args)
    except IndelibleError:  # encrypted, and the key is not here
        return call


@contextmanager
def _progress() -> Iterator[Tick]:
    """Shows how many events were read, where somebody looks."""
    if not sys.stderr.isatty():
        yield lambda more: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading events", total=None)
        yield lambda more: bar.advance(task, more)


def replay_json(found: Replay, version: str) -> dict[str, Any]:
    """Gives what came of replaying for programs."""
    return {
        "policy": version,
        "since": instant(found.since),
        "judged": found.judged,
        "changed": found.changed,
        "cannot_tell": found.erased,
        "over_budget_then": found.over_budget,
        "changes_by_kind": [
            {"from": was, "to": now, "calls": number} for (was, now), number in found.changes_by_kind.items()
        ],
        "has_more": found.changed > len(found.changes),
        "changes": [_change_json(change) for change in found.changes],
    }


def _change_json(change: Overturned) -> dict[str, Any]:
    call = change.call
    return {
        "run": call.run_id,
        "seq": call.seq,
        "at": instant(call.at),
        "effect": call.effect_id,
        "tool": call.tool,
        "agent": call.agent,
        "was": {"decision": call.decision, "rule": call.rule, "policy": call.policy},
        "now": verdict_json(change.verdict),
    }


def say_replay(found: Replay, version: str) -> None:
    """Prints what came of replaying for people."""
    if found.changes:
        rows = [_row(change) for change in found.changes]
        table(("time", "run", "seq", "tool", "was", "by", "now", "by rule", "why"), rows)
        print()
    if found.changed > len(found.changes):
        print(f"{found.changed - len(found.changes)} more are not shown; see them with --limit.")
    for (was, now), number in sorted(found.changes_by_kind.items()):
        print(f"{was} → {now}: {count(number, 'call')}")
    total = f"{count(found.judged, 'recorded call')} since {timestamp(found.since)}"
    print(f"{found.changed or 'No'} {'decision' if found.changed == 1 else 'decisions'} of {total} would change.")
    if found.erased:
        print(
            f"Of {count(found.erased, 'more call')} nobody can tell: what was said is erased, or cannot be opened here."
        )
    if found.over_budget:
        print(f"{count(found.over_budget, 'call')} went over a budget then; budgets are not replayed.")
    print(f"Judged by policy {version}.")


def _row(change: Overturned) -> tuple[str, ...]:
    call, verdict = change.call, change.verdict
    was = call.rule or ("no policy" if not call.policy else "")
    decisions = (str(call.decision), was, verdict.decision, verdict.rule, verdict.why)
    return (timestamp(call.at), call.run_id, str(call.seq), call.tool, *decisions)
