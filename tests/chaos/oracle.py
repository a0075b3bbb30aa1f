"""The one judge of every chaos job: what the world saw, what callers were told, and what the store says must agree.

Calls are compared by the name the caller gave them, not by the ledger's key: a ledger that computed two keys for one
call would otherwise pass.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from tests.chaos.world import Seen

Kind = Literal[
    "duplicate effect",
    "effect without claim",
    "two records of one call",
    "lost ack",
    "changed result",
    "success without effect",
    "forgotten effect",
    "stuck effect",
    "broken chain",
    "head differs",
    "wrong answer",
    "handler entered without claim",
    "store not usable",
    "store corrupt",
    "late result not kept",
    "executed unapproved",
    "asked twice",
    "two outcomes",
    "approval disagrees",
    "late decision",
    "lost decision",
    "lost vote",
    "counted twice",
    "lost notification",
    "over budget",
    "leaked reservation",
    "not verified",
    "lost event",
    "told twice",
    "half told",
    "lost checkpoint",
    "half a checkpoint",
    "lost ending",
    "half an ending",
    "run disagrees",
    "run not valid",
    "two drivers",
    "fence taken twice",
    "told by a lost driver",
]
# What may stand in the store for a call that touched the world and whose caller never heard back.
SETTLED = frozenset({"succeeded", "failed"})
MAY_HAVE_HAPPENED = SETTLED | {"in_doubt", "processing"}
NO_EVENT = "0" * 64


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise: which, of what, and what was seen."""

    kind: Kind
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject} {self.detail}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEffect:
    """One effect as the store has it; `call` is the caller's name for it, out of the recorded arguments."""

    call: str
    key: str
    status: str
    attempt: int
    result: bytes | None = None
    has_live_lease: bool = False
    is_repeatable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One event of a run: its number and the bytes of its record."""

    seq: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDump:
    """What the store says: effects, the events of each run, and each run's head as (count, hash of the last)."""

    effects: Sequence[StoredEffect] = ()
    events: Mapping[str, Sequence[StoredEvent]] = field(default_factory=dict)
    heads: Mapping[str, tuple[int, str]] = field(default_factory=dict)


def examine(seen: Seen, store: StoreDump, *, leases_may_live: bool = False) -> list[Violation]:
    """Gives every violation, an empty list when all promises hold.

    `leases_may_live` is for images taken in the middle of things, where a handler may rightly be at work still.
    """
    by_call: dict[str, list[StoredEffect]] = defaultdict(list)
    for effect in store.effects:
        by_call[effect.call].append(effect)
    only = {call: effects[0] for call, effects in by_call.items()}
    return [
        *_two_records(by_call),
        *_duplicates(seen, only),
        *_effects_without_claim(seen, by_call),
        *_acks_not_kept(seen, only),
        *_phantom_successes(seen, store.effects),
        *_forgotten(seen, only, leases_may_live=leases_may_live),
        *check_chains(store),
    ]


def _two_records(by_call: Mapping[str, list[StoredEffect]]) -> Iterator[Violation]:
    for call, effects in by_call.items():
        if len(effects) > 1:
            yield Violation("two records of one call", call, f"keys {sorted(effect.key for effect in effects)}")


def _duplicates(seen: Seen, stored: Mapping[str, StoredEffect]) -> Iterator[Violation]:
    for call, count in Counter(touch.call for touch in seen.touches).items():
        is_repeatable = call in stored and stored[call].is_repeatable
        if count > 1 and not is_repeatable:
            yield Violation("duplicate effect", call, f"happened {count} times")


def _effects_without_claim(seen: Seen, by_call: Mapping[str, list[StoredEffect]]) -> Iterator[Violation]:
    for touch in dict.fromkeys(seen.touches):
        claims = [effect for effect in by_call.get(touch.call, []) if effect.key == touch.key]
        # An attempt's number is written by its claim, so a lower one in the store means that claim is not there.
        if not any(effect.attempt >= touch.attempt for effect in claims):
            yield Violation(
                "effect without claim", touch.call, f"attempt {touch.attempt}, store has {claims or 'nothing'}"
            )


def _acks_not_kept(seen: Seen, stored: Mapping[str, StoredEffect]) -> Iterator[Violation]:
    for ack in dict.fromkeys(seen.acks):
        effect = stored.get(ack.call)
        if effect is None or effect.status != "succeeded":
            status = "no record" if effect is None else effect.status
            yield Violation("lost ack", ack.call, f"store has {status}")
        elif effect.result != ack.result:
            yield Violation("changed result", ack.call, f"caller got {ack.result!r}, store has {effect.result!r}")


def _phantom_successes(seen: Seen, effects: Iterable[StoredEffect]) -> Iterator[Violation]:
    happened = {touch.call for touch in seen.touches}
    for effect in effects:
        if effect.status == "succeeded" and effect.call not in happened:
            yield Violation("success without effect", effect.call, "recorded, but it never happened")


def _forgotten(seen: Seen, stored: Mapping[str, StoredEffect], *, leases_may_live: bool) -> Iterator[Violation]:
    acked = {ack.call for ack in seen.acks}
    for call in dict.fromkeys(touch.call for touch in seen.touches if touch.call not in acked):
        effect = stored.get(call)
        if effect is None:
            continue  # reported as an effect without claim
        if effect.status not in MAY_HAVE_HAPPENED:
            yield Violation("forgotten effect", call, f"it happened, the store says {effect.status}")
        elif effect.status == "processing" and effect.has_live_lease and not leases_may_live:
            yield Violation("stuck effect", call, "its worker is gone and its lease still lives")


def check_chains(store: StoreDump) -> Iterator[Violation]:
    """Walks each run's events: dense from 0, each naming the hash of the one before, the head naming the last."""
    for run_id in dict.fromkeys([*store.events, *store.heads]):
        events = store.events.get(run_id, ())
        last = NO_EVENT
        for place, event in enumerate(events):
            if event.seq != place:
                yield Violation("broken chain", run_id, f"event {event.seq} stands at place {place}")
            prev = json.loads(event.body).get("prev")
            if prev != last:
                yield Violation("broken chain", run_id, f"event {event.seq} follows {prev}, not {last}")
            last = sha256(b"\0" + event.body).hexdigest()
        if store.heads.get(run_id) != (len(events), last):
            yield Violation("head differs", run_id, f"{store.heads.get(run_id)} is not {(len(events), last)}")
