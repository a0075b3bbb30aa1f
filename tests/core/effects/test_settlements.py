"""Promises of core.effects.settlements: every fault is found, with its line, before anything is settled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from indelible.core.effects.effect import Effect, Failed, Outcome, Succeeded
from indelible.core.effects.settlements import (
    Named,
    Plan,
    ReadRows,
    Row,
    RowResult,
    SettledAll,
    judge,
    plan,
    read_file,
    read_mappings,
    said,
)
from indelible.errors import BadCall
from tests.core.making import NOON, effect

ID = {"id": "eff_1", "as": "failed", "evidence": "looked"}


def lines(read: ReadRows) -> list[tuple[int, str]]:
    return [(fault.line, fault.code) for fault in read.faults]


def planned(rows: list[dict[str, Any]], *effects: Effect) -> Plan:
    named = Named.among((name, one) for one in effects for name in (one.id, one.key))
    return plan(read_mappings(rows), named, NOON, lambda one: None)


def settled(outcome_status: str, detail: bytes | None) -> Effect:
    return effect(outcome_status, id="eff_1", detail_json=detail, lease_until=None)


# Reading


def test_a_table_names_the_effect_the_outcome_and_the_evidence() -> None:
    read = read_file(
        b"id,as,value,error,evidence,attempt\r\n"
        b'eff_1,succeeded,"{""id"": 1}",,in the report,2\r\n'
        b"\r\n"
        b"eff_2,failed,,card closed,in the report,\r\n"
        b"eff_3,failed,,,never seen there,\r\n"
        b"eff_4,succeeded,,,in the report,\r\n"
    )
    assert read.faults == ()
    assert [(row.line, row.name, row.outcome, row.evidence, row.attempt) for row in read.rows] == [
        (2, "eff_1", Succeeded({"id": 1}), "in the report", 2),
        (4, "eff_2", Failed("card closed", "SettledAsFailed"), "in the report", None),
        (5, "eff_3", Failed("never seen there", "SettledAsFailed"), "never seen there", None),
        (6, "eff_4", Succeeded(None), "in the report", None),
    ]
    assert read.names == ("eff_1", "eff_2", "eff_3", "eff_4")


def test_a_cell_over_several_lines_is_known_by_its_first_line() -> None:
    read = read_file(b'key,as,evidence\nk1,failed,"two\nlines"\nk2,lost,x\n')
    assert [(row.line, row.evidence) for row in read.rows] == [(2, "two\nlines")]
    assert lines(read) == [(4, "bad_row")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"\n\n", 1),
        (b"eff_1,failed,looked\n", 1),
        (b"id,as\neff_1,failed\n", 1),
        (b"as,evidence\nfailed,looked\n", 1),
        (b"id,id,as,evidence\n", 1),
        (b"id;as;evidence\neff_1;failed;looked\n", 1),
        (b"id,as,evidence,amount\neff_1,failed,looked,5\n", 1),
        (b"\nid,as,evidence\neff_1,failed\n", 3),
        (b"id,as,evidence\neff_1,failed,looked,more\n", 2),
        (b"id,as,evidence\neff_1,lost,looked\n", 2),
        (b"id,as,evidence\neff_1,failed,\n", 2),
        (b"id,as,evidence\n,failed,looked\n", 2),
        (b"id,key,as,evidence\neff_1,k1,failed,looked\n", 2),
        (b"id,as,value,evidence\neff_1,succeeded,{no json,looked\n", 2),
        (b"id,as,value,evidence\neff_1,failed,1,looked\n", 2),
        (b"id,as,error,evidence\neff_1,succeeded,no,looked\n", 2),
        (b"id,as,evidence,attempt\neff_1,failed,looked,one\n", 2),
        (b"id,as,evidence,attempt\neff_1,failed,looked,0\n", 2),
        (b'id,as,evidence\neff_1,failed,"looked"x\n', 2),
        (b"id,as,evidence\neff_1,failed,l\xe9\n", 2),
        (b'{"id": "eff_1", "as": "failed", "evidence": "x"}\n{"id": 1, "as": "failed", "evidence": "x"}', 2),
        (b'{"id": "eff_1", "id": "eff_2"}\n', 1),
        (b'{"id": "eff_1"}\n[1]\n', 1),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(content: bytes, line: int) -> None:
    read = read_file(content)
    assert lines(read)[0] == (line, "bad_row")
    assert read.faults[0].detail


def test_a_file_that_begins_with_a_brace_has_an_object_on_each_line() -> None:
    read = read_file(
        b'\xef\xbb\xbf{"key": "k1", "as": "succeeded", "value": {"id": 1}, "evidence": "seen"}\n\n'
        b'[1]\n{"id": "eff_2", "as": "failed", "error": "", "evidence": "seen"}\n'
    )
    assert [(row.line, row.name, row.outcome) for row in read.rows] == [(1, "k1", Succeeded({"id": 1}))]
    assert lines(read) == [(3, "bad_row"), (4, "bad_row")]
    assert [fault.name for fault in read.faults] == ["", "eff_2"]


def test_a_row_may_name_the_type_of_the_error() -> None:
    (row,) = read_mappings([{**ID, "error": "no", "error_type": "CardError"}]).rows
    assert row.outcome == Failed("no", "CardError")
    assert lines(read_mappings([{**ID, "as": "succeeded", "error_type": "CardError"}])) == [(1, "bad_row")]


@pytest.mark.parametrize("more", [{"amount": 5}, {"key": "k"}, {"attempt": True}, {"attempt": "1"}, {"evidence": None}])
def test_a_row_with_what_is_not_known_or_not_right_is_a_fault(more: dict[str, Any]) -> None:
    assert lines(read_mappings([ID, {**ID, **more}])) == [(2, "bad_row")]


# Checking


@pytest.mark.parametrize(
    ("one", "outcome", "code"),
    [
        (effect("in_doubt", lease_until=None), Failed("no"), "would_settle"),
        (effect("processing", lease_until=NOON), Failed("no"), "would_settle"),
        (effect("processing", lease_until=NOON + timedelta(seconds=1)), Failed("no"), "still_running"),
        (effect("ready", lease_until=None), Failed("no"), "not_in_doubt"),
        (effect("canceled", lease_until=None), Failed("no"), "not_in_doubt"),
        (settled("succeeded", b'{"id":1}'), Succeeded({"id": 1}), "already_settled"),
        (settled("succeeded", b'{"id":1}'), Succeeded({"id": 2}), "settled_otherwise"),
        (settled("succeeded", None), Succeeded({"id": 1}), "settled_otherwise"),
        (settled("succeeded", b"null"), Failed("no"), "settled_otherwise"),
        (settled("failed", b'{"message":"no","type":"Error"}'), Failed("no"), "already_settled"),
        (settled("failed", b'{"message":"no","type":"Error"}'), Failed("other"), "settled_otherwise"),
    ],
)
def test_a_settlement_is_judged_by_how_its_effect_stands(one: Effect, outcome: Outcome, code: str) -> None:
    assert judge(one, outcome, NOON) == code


def test_an_outcome_that_cannot_be_recorded_is_refused_before_it_is_compared() -> None:
    with pytest.raises(BadCall):
        judge(effect("in_doubt", lease_until=None), Succeeded(object()), NOON)


def test_every_row_is_planned_or_a_fault_in_the_order_of_the_lines() -> None:
    doubtful = [effect("in_doubt", id=f"eff_{n}", key=f"k{n}", lease_until=None, attempt=2) for n in range(1, 6)]
    done = effect("succeeded", id="eff_6", key="k6", detail_json=b"1", lease_until=None)
    found = planned(
        [
            {"id": "eff_9", "as": "failed", "evidence": "x"},
            ID,
            {"key": "k1", "as": "failed", "evidence": "x"},
            {"id": "eff_2", "as": "succeeded", "value": object(), "evidence": "x"},
            {"id": "eff_3", "as": "failed", "evidence": "\ud800"},
            {"id": "eff_4", "as": "failed", "evidence": "x", "attempt": 1},
            {"id": "eff_5", "as": "failed", "evidence": "x", "attempt": 2},
            {"id": "eff_6", "as": "succeeded", "value": 1, "evidence": "x", "attempt": 1},
            {"id": "eff_7"},
        ],
        *doubtful,
        done,
    )
    assert [one.row.line for one in found.to_settle] == [2, 7]
    report = found.report({7: RowResult(line=7, name="eff_5", code="settled")}, has_more=True)
    assert [(one.line, one.code) for one in report.results] == [
        (1, "unknown_effect"),
        (2, "would_settle"),
        (3, "duplicate"),
        (4, "bad_row"),
        (5, "bad_row"),
        (6, "other_attempt"),
        (7, "settled"),
        (8, "already_settled"),
        (9, "bad_row"),
    ]
    assert report.has_more
    assert report.count("settled", "already_settled") == 2
    assert [one.line for one in report.problems] == [1, 3, 4, 5, 6, 9]


def test_40_a_key_of_several_effects_names_none_of_them_and_their_ids_do() -> None:
    two = [effect("in_doubt", id=f"eff_{n}", key="k", lease_until=None) for n in (1, 2)]
    found = planned([{"key": "k", "as": "failed", "evidence": "x"}, ID, {**ID, "id": "eff_2"}], *two, two[0])
    assert [(one.line, one.code, one.effect) for one in found.faults] == [(1, "several_effects", None)]
    assert [one.effect.id for one in found.to_settle] == ["eff_1", "eff_2"]


def test_an_effect_that_cannot_be_settled_is_a_fault_that_shows_how_it_stands() -> None:
    running = effect("processing", id="eff_1", lease_until=NOON + timedelta(hours=1))
    (fault,) = planned([ID], running).faults
    assert (fault.code, fault.effect, fault.is_good) == ("still_running", running, False)


def test_a_result_says_how_the_effect_stands_after_it_moved() -> None:
    before = effect("in_doubt", id="eff_1", lease_until=None)
    after = effect("failed", id="eff_1", lease_until=None)
    (one,) = planned([ID], before).planned
    assert one.came_to("settled", after).effect == after
    assert one.came_to("would_settle").effect == before


def test_a_fault_is_said_with_its_line_its_name_and_its_code() -> None:
    named = RowResult(line=3, name="eff_1", code="bad_row", detail="why")
    assert said(named) == "line 3: eff_1: why (bad_row)"
    assert said(RowResult(line=1, name="", code="bad_row", detail="why")) == "line 1: why (bad_row)"


def test_a_row_that_names_its_attempt_is_a_row() -> None:
    assert Row(line=1, name="eff_1", outcome=Failed("x"), evidence="y").attempt is None
    assert SettledAll(()).problems == ()
