"""Promises of core.stats and indelible.core.effects.replays: figures say what was, and counts add up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from indelible.core.approvals.approval import Question, ask
from indelible.core.effects.replays import (
    KEPT_FOR,
    MOST_TOOLS,
    OTHERS,
    added,
    by_hour,
    hours_between,
    minute_of,
    read_replays,
)
from indelible.core.filtering.matching import fits, outline_subject
from indelible.core.filtering.reading import parse
from indelible.core.policy.budgets import Budget
from indelible.core.policy.verdicts import Charge
from indelible.core.ports import Outline
from indelible.core.stats import (
    Figure,
    approvals_counted,
    budget_figure,
    decisions,
    doubts,
    effects_counted,
    latency,
    quantile,
    stretch_of,
)
from tests.core.making import AGENT, DIGEST, HOUR, NOON, SECOND, effect, vote

MINUTE = timedelta(minutes=1)


def outline(at: datetime = NOON, took: timedelta = SECOND, **changes: Any) -> Outline:
    words = {"id": "eff_1", "run_id": "run-1", "tool": "pay", "side_effect": "payment", "status": "succeeded",
             "attempt": 1, "permission_id": None, "created_at": at, "updated_at": at + took, "digest": DIGEST,
             **changes}  # fmt: skip
    return Outline(**words)


def test_effects_are_counted_by_when_they_were_opened() -> None:
    found = [outline(NOON + n * 20 * SECOND, status="failed" if n == 4 else "succeeded") for n in range(5)]
    assert effects_counted(found, "status", MINUTE) == [
        Figure(at=NOON, group="succeeded", count=3),
        Figure(at=NOON + MINUTE, group="failed", count=1),
        Figure(at=NOON + MINUTE, group="succeeded", count=1),
    ]
    assert effects_counted(found, "tool", None) == [Figure(group="pay", count=5)]


def test_stretches_begin_alike_wherever_one_starts_to_count() -> None:
    assert {stretch_of(NOON + n * SECOND, MINUTE) for n in range(60)} == {NOON}
    assert stretch_of(NOON, None) is None


def test_latency_is_of_calls_that_nobody_was_asked_about_and_that_ran_once() -> None:
    counted = [outline(took=n * SECOND) for n in range(1, 21)]
    others = [outline(took=HOUR, **words) for words in
              ({"attempt": 2}, {"permission_id": "apr_1"}, {"status": "processing"}, {"status": "denied"})]  # fmt: skip
    assert latency([*counted, *others], "tool", None) == [Figure(group="pay", count=20, p50_s=10.0, p95_s=19.0)]
    assert latency([outline(took=-SECOND)], "tool", None)[0].p50_s == 0.0, "a clock was set back"


@given(st.lists(st.floats(0, 100), min_size=1), st.integers(1, 100))
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_exceed(values: list[float], percent: int) -> None:
    found = quantile(sorted(values), percent)
    assert sum(value <= found for value in values) * 100 >= percent * len(values)
    assert sum(value < found for value in values) * 100 < percent * len(values)


def test_approvals_and_decisions_are_counted() -> None:
    def asked(name: str, at: datetime, *votes: Any) -> Any:
        words = {"schema": "", "policy": "p", "requester": AGENT, "principal": None, "now": at}
        return replace(ask(name, effect(), Question(rule="r"), **words), votes=votes)

    first = asked("apr_1", NOON, vote("ada", at=NOON + MINUTE), vote("bo", at=NOON + HOUR, is_approval=False))
    second = asked("apr_2", NOON + HOUR, vote("ada", at=NOON + HOUR + MINUTE))
    assert approvals_counted([second, first], "status", None) == [
        Figure(group="pending", count=2, oldest_id="apr_1", oldest_at=NOON)
    ]
    assert [one.at for one in approvals_counted([second, first], "tool", HOUR)] == [NOON, NOON + HOUR]
    assert decisions([first, second], "person", NOON, None) == [
        Figure(group="ada", count=2, p50_s=60.0, p95_s=60.0),
        Figure(group="bo", count=1, p50_s=3600.0, p95_s=3600.0),
    ]
    assert [(one.group, one.count) for one in decisions([first], "decision", NOON, None)] == [
        ("approve", 1),
        ("deny", 1),
    ]
    assert [(one.at, one.group) for one in decisions([first, second], "tool", NOON + HOUR, HOUR)] == [
        (NOON + HOUR, "pay")
    ]


def test_doubts_are_counted_by_tool_with_the_oldest() -> None:
    found = [outline(NOON + HOUR, id="eff_2"), outline(NOON, id="eff_3"), outline(tool="mail", id="eff_4")]
    assert doubts(found) == [
        Figure(group="mail", count=1, oldest_id="eff_4", oldest_at=NOON + SECOND),
        Figure(group="pay", count=2, oldest_id="eff_3", oldest_at=NOON + SECOND),
    ]


def test_a_budget_is_told_with_its_limit_where_a_policy_names_it() -> None:
    end = int((NOON + MINUTE).timestamp()) * 1_000_000
    budget = Budget(Decimal(2), {end: Decimal(3), 1: Decimal(100)})
    charge = Charge(budget="spend", limit=Decimal(10), window=HOUR, amount=Decimal(0))
    assert budget_figure("spend", budget, charge, NOON) == Figure(group="spend", used=Decimal(5), limit=Decimal(10))
    assert budget_figure("spend", budget, None, NOON) == Figure(group="spend", used=Decimal(105))


def test_effects_can_be_filtered_without_what_they_recorded() -> None:
    for text, is_found in [
        ("tool:p* status:succeeded run:run-1 attempt:1 id:eff_1 since:1h", True), ("approval:*", False),
        ("agent:billing", True), ("agent:other", False), ("x", False), ("args.a:1", False),
    ]:  # fmt: skip
        subject = outline_subject(outline(), lambda run: "billing")
        assert fits(parse(text, "effects"), subject, NOON) is is_found, text


# Replays

TIMES = st.datetimes(datetime(2030, 1, 1), datetime(2030, 1, 1, 3), timezones=st.just(UTC)).map(minute_of)  # noqa: DTZ001
COUNTS = st.dictionaries(st.tuples(st.sampled_from("abc"), TIMES), st.integers(1, 9))


@given(st.lists(COUNTS, max_size=4))
def test_counts_add_up_whoever_writes_them_down(parts: list[dict[tuple[str, datetime], int]]) -> None:
    sheets: dict[datetime, Any] = {}
    for part in parts:
        for hour, more in by_hour(part).items():
            before = sheets.get(hour)
            sheets[hour] = added(before, hour, more)
            assert sheets[hour].version == (1 if before is None else before.version + 1)
            assert (sheets[hour].is_recorded, sheets[hour].due_at) == (False, hour + KEPT_FOR)
    told = [pair for hour, sheet in sheets.items() for pair in read_replays(sheet, hour).items()]
    expected: dict[tuple[str, datetime], int] = {}
    for part in parts:
        for place, count in part.items():
            expected[place] = expected.get(place, 0) + count
    assert dict(told) == expected


def test_the_tools_of_an_hour_are_bounded() -> None:
    sheet = added(None, NOON, {(f"tool-{n:03}", NOON): 1 for n in range(MOST_TOOLS + 5)})
    found = read_replays(sheet, NOON)
    assert len(found) == MOST_TOOLS + 1
    assert found[OTHERS, NOON] == 5


def test_the_hours_of_a_period_are_those_it_touches() -> None:
    assert list(hours_between(NOON + MINUTE, NOON + HOUR + MINUTE)) == [NOON, NOON + HOUR]
    assert read_replays(None, NOON) == read_replays(replace(added(None, NOON, {}), body=None), NOON) == {}
