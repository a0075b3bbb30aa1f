"""Promises of core.effects.answered: who got a recorded answer is told apart, added up, and bounded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from indelible.core.effects.answered import KEPT_FOR, MOST_CALLERS, Answered, answered_also, read_answered

NOON = datetime(2030, 1, 2, 12, tzinfo=UTC)
BILLING = Answered(actor="billing", kind="agent", run_id="order-1", count=1, last_at=NOON)


def test_answers_of_one_caller_add_up_and_others_are_told_apart() -> None:
    later = replace(BILLING, count=2, last_at=NOON + timedelta(minutes=5))
    elsewhere = replace(BILLING, run_id="order-2")
    first = answered_also(None, "eff_1", [BILLING, elsewhere])
    second = answered_also(first, "eff_1", [later])
    assert read_answered(second) == [replace(later, count=3), elsewhere]
    assert (second.kind, second.id, second.version, second.due_at) == (
        "answered",
        "eff_1",
        first.version + 1,
        later.last_at + KEPT_FOR,
    )


def test_a_count_that_arrives_late_makes_nobody_older() -> None:
    late = replace(BILLING, last_at=NOON - timedelta(hours=1))
    (one,) = read_answered(answered_also(answered_also(None, "eff_1", [BILLING]), "eff_1", [late]))
    assert (one.count, one.last_at) == (2, NOON)


def test_of_very_many_callers_the_last_are_kept() -> None:
    crowd = [replace(BILLING, actor=f"a{n}", last_at=NOON + timedelta(seconds=n)) for n in range(MOST_CALLERS + 5)]
    kept = read_answered(answered_also(None, "eff_1", crowd))
    assert len(kept) == MOST_CALLERS
    assert kept[0].actor == f"a{MOST_CALLERS + 4}"


def test_nobody_was_answered_where_nothing_is_noted_or_it_was_erased() -> None:
    sheet = answered_also(None, "eff_1", [BILLING])
    assert read_answered(None) == read_answered(replace(sheet, body=None)) == []
