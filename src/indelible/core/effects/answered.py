"""Who got an effect's recorded answer instead of running it again. Pure.

To read an answer is no event and writes nothing, so nobody waits for this: servers note whom they answered and write it
down behind, on a sheet that no event commits to. Whoever reads the database by themselves is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from indelible.core.sheets import Sheet, SheetRef, body_of

MOST_CALLERS = 100
"""Is how many callers of one effect are told apart: those who were here last."""
KEPT_FOR = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Says who was given the recorded answer, in which run, how often, and when last."""

    actor: str
    kind: Literal["agent", "person", "system"]
    run_id: str
    count: int
    last_at: datetime

    @property
    def caller(self) -> tuple[str, str, str]:
        """Tells callers apart."""
        return (self.kind, self.actor, self.run_id)


def answered_ref(effect_id: str) -> SheetRef:
    """Locates who got an effect's answer."""
    return SheetRef("answered", effect_id)


def answered_also(sheet: Sheet | None, effect_id: str, more: Iterable[Answered]) -> Sheet:
    """Gives an effect's sheet with more answers noted on it."""
    callers = {one.caller: one for one in read_answered(sheet)}
    for one in more:
        before = callers.get(one.caller)
        callers[one.caller] = one if before is None else _together(before, one)
    newest = sorted(callers.values(), key=lambda one: one.last_at, reverse=True)[:MOST_CALLERS]
    until = newest[0].last_at + KEPT_FOR
    body = body_of(
        {
            "callers": [
                {
                    "actor": one.actor,
                    "count": one.count,
                    "kind": one.kind,
                    "last_at": one.last_at.isoformat(),
                    "run": one.run_id,
                }
                for one in newest
            ]
        }
    )
    if sheet is not None:
        return sheet.after(status="counted", body=body, due_at=until)
    ref = answered_ref(effect_id)
    return Sheet(kind=ref.kind, id=ref.id, status="counted", due_at=until, body=body)


def _together(one: Answered, other: Answered) -> Answered:
    return replace(other, count=one.count + other.count, last_at=max(one.last_at, other.last_at))


def read_answered(sheet: Sheet | None) -> list[Answered]:
    """Reads who got an effect's answer, the last one first."""
    if sheet is None or sheet.body is None:
        return []
    return [
        Answered(
            actor=each["actor"],
            kind=each["kind"],
            run_id=each["run"],
            count=each["count"],
            last_at=datetime.fromisoformat(each["last_at"]),
        )
        for each in sheet.read()["callers"]
    ]
