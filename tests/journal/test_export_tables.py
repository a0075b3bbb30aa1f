"""Tables: one row per event, with nothing a spreadsheet would run."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from indelible import Ledger
from indelible.core.filtering.reading import parse
from indelible.errors import BadCall
from indelible.journal.exports.exporting import export
from indelible.journal.exports.flat import COLUMNS, NUMBERS, harmless
from indelible.journal.exports.selecting import Disclosure, OfRun
from tests.journal.exported import SLY, call, store_of, work
from tests.stores.database import open_file


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, sign_events=True) as ledger:
        work(ledger)
        ledger.run(call("calc", "=HYPERLINK(0)", x=1), lambda effect: "@SUM(1)", side_effect="none")
        ledger.seal()
        yield ledger


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_one_flat_line_per_event(ledger: Ledger, tmp_path: Path) -> None:
    done = export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv")
    found = rows(tmp_path / "out.csv")
    assert [int(row["index"]) for row in found] == list(range(done.size))
    assert tuple(found[0]) == COLUMNS
    begun, ended = [row for row in found if row["tool"] == "crm.lookup"]
    assert json.loads(begun["args"]) == {"name": SLY}
    assert json.loads(ended["result"]) == {"n": 1.5, "note": SLY}
    assert (begun["type"], ended["status"], begun["not_shown"]) == ("tool_call_started", "succeeded", "")
    (settled,) = [row for row in found if row["evidence"]]
    assert (settled["actor_id"], settled["actor_kind"], settled["actor_via"]) == ("ana", "person", "process")
    assert min(len(row["signature"]) for row in found if row["run"] == "order-1") > 0
    (registered,) = [row for row in found if row["type"] == "writer_registered"]
    assert set(json.loads(registered["facts"])) == {"key", "writer"}


def test_no_cell_is_a_formula(ledger: Ledger, tmp_path: Path) -> None:
    export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv")
    found = rows(tmp_path / "out.csv")
    cells = [value for row in found for name, value in row.items() if name not in NUMBERS]
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n"))]
    assert {row["run"] for row in found if row["tool"] == "calc"} == {"'=HYPERLINK(0)"}
    assert "'-5" in {row["result"] for row in found}


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "＝1", "＋1", "－1", "＠a", "'=1", "'"]
)
def test_an_apostrophe_makes_a_formula_harmless_and_can_be_taken_away(text: str) -> None:
    assert harmless(text) == "'" + text


def test_other_cells_stay_as_they_are() -> None:
    assert [harmless(value) for value in ("a=1", "", None, 7, '"=1"', "{}")] == ["a=1", "", None, 7, '"=1"', "{}"]


def test_withheld_values_are_named_and_empty(ledger: Ledger, tmp_path: Path) -> None:
    hide = Disclosure(frozenset({"args"}))
    export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv", disclosure=hide)
    begun = [row for row in rows(tmp_path / "out.csv") if row["not_shown"]]
    assert {row["not_shown"] for row in begun} == {"args key", "approval args key", "approval"}
    assert {row["args"] + row["key"] for row in begun} == {""}


def test_a_filter_keeps_only_events_that_it_asks_for(ledger: Ledger, tmp_path: Path) -> None:
    query = parse("type:approval_denied,tool_call_in_doubt", "events")
    done = export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv", query=query)
    assert {row["type"] for row in rows(tmp_path / "out.csv")} == {"approval_denied", "tool_call_in_doubt"}
    assert done.events == 3
    nothing = parse("type:typo", "events")
    with pytest.raises(BadCall, match="no event was selected"):
        export(store_of(ledger), ledger.tenant, tmp_path / "none.csv", form="csv", query=nothing)


def test_an_unreadable_event_is_a_row_that_says_so(sqlite_url: str, tmp_path: Path) -> None:

    with Ledger.open(sqlite_url) as ledger:
        work(ledger)
        ledger.seal()
        connection = open_file(sqlite_url)
        connection.execute("UPDATE indelible_events SET body = x'ff00' WHERE run_id = 'order-1' AND seq = 3")
        connection.close()
        export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv", selection=OfRun("order-1"))
    assert rows(tmp_path / "out.csv")[3]["type"] == "unreadable"


def test_parquet_holds_the_same_rows_unquoted(ledger: Ledger, tmp_path: Path) -> None:
    from arro3.io import read_parquet

    export(store_of(ledger), ledger.tenant, tmp_path / "out.parquet", form="parquet")
    export(store_of(ledger), ledger.tenant, tmp_path / "out.csv", form="csv")
    table = read_parquet(tmp_path / "out.parquet").read_all()
    assert tuple(table.column_names) == COLUMNS
    columns = {name: [value.as_py() for value in table.column(name)] for name in COLUMNS}
    told = list(rows(tmp_path / "out.csv"))
    assert len(told) == table.num_rows > 0
    for number, row in enumerate(told):
        for name, cell in row.items():
            value = columns[name][number]
            if name not in NUMBERS:
                value = harmless(value)
            assert cell == ("" if value is None else str(value))


def test_parquet_tells_what_went_wrong_and_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(BadCall, match="has no run 'nope'"):
        export(store_of(ledger), ledger.tenant, tmp_path / "x.parquet", form="parquet", selection=OfRun("nope"))
    assert not list(tmp_path.glob("*.parquet*"))
    assert not list(tmp_path.glob(".*.part"))


def test_parquet_without_its_extra_names_the_extra(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "arro3", None)
    with pytest.raises(BadCall, match=r"pip install 'indelible\[export\]'"):
        export(store_of(ledger), ledger.tenant, tmp_path / "x.parquet", form="parquet")
