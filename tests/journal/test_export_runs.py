"""Exports of runs: what was told, saved and decided in them is readable, verifies, and can be withheld."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import Ledger
from indelible.core.verifying.moves import LATE_NAMES, MOVES
from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from indelible.core.verifying.run_moves import FORMS, form_of
from indelible.errors import BadCall
from indelible.journal.exports.exporting import export
from indelible.journal.exports.flat import COLUMNS
from indelible.journal.exports.selecting import PAYLOAD_FIELDS, Between
from tests.journal.driven import drive
from tests.journal.exported import check_bundle, files_of, key_of, lines_of, store_of

PAGE = Path(__file__).parents[2] / "docs" / "export.md"


@pytest.fixture
def ledger(sqlite_url: str) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, seal=False) as opened:
        drive(opened)
        yield opened


def columns(path: Path) -> dict[str, list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [row[name] for row in rows if row[name]] for name in rows[0]}


@pytest.mark.parametrize("name", ["run.zip", "run"])
def test_a_run_with_checkpoints_is_exported_and_verifies(ledger: Ledger, tmp_path: Path, name: str) -> None:
    done = ledger.export(tmp_path / name, run_id="lead-1")
    report = indelible.verify(tmp_path / name, key=key_of(ledger))
    assert (report.verdict, report.kind, report.counts.events) == ("verified", "run", done.events), report.why
    assert report.counts.payloads is not None
    assert (report.counts.payloads.missing, report.counts.payloads.withheld) == (0, 0)
    events = check_bundle(files_of(tmp_path / name))
    assert [event["type"] for event in events.values()].count("checkpoint_sealed") == 2


def test_what_is_withheld_of_a_run_is_not_in_the_file_and_it_verifies(ledger: Ledger, tmp_path: Path) -> None:
    ledger.export(tmp_path / "run", run_id="lead-1", withhold={"state", "payload", "run"})
    files = files_of(tmp_path / "run")
    fields = {line["field"] for line in lines_of(files["payloads.ndjson"])}
    assert fields == {"args", "key", "result", "policy", "checkpoint", "reason"} - {"policy"}, (
        "nor keys made of payloads"
    )
    report = indelible.verify(tmp_path / "run", key=key_of(ledger))
    assert (report.verdict, report.counts.payloads and report.counts.payloads.withheld) == ("verified", 9), report.why


def test_everything_that_an_event_commits_to_can_be_withheld(ledger: Ledger, tmp_path: Path) -> None:
    told = form_of("acme.told", {"side_effect": "none"})
    names = {name for move in MOVES.values() for forms in move.commits for name in forms}
    names |= {name for form in (*FORMS.values(), told) for forms in form.commits for name in forms}
    names |= {name for forms in LATE_NAMES for name in forms} | set(FACTS_OF_SHEETS.values()) | {"subject"}
    assert names == set(PAYLOAD_FIELDS)
    with pytest.raises(BadCall, match="no event commits to stat;"):
        ledger.export(tmp_path / "run", run_id="lead-1", withhold={"stat"})
    ledger.export(tmp_path / "run", run_id="lead-1", withhold=set(PAYLOAD_FIELDS))
    assert files_of(tmp_path / "run")["payloads.ndjson"] == b""


def test_the_page_names_every_field_and_every_column() -> None:
    page = PAGE.read_text(encoding="utf-8")
    values = page.partition("## Which values")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", values, re.MULTILINE))
    assert {name for line in named for name in re.findall(r"`(\w+)`", line)} == set(PAYLOAD_FIELDS)
    tables = page.partition("One line per event: ")[2].partition(". ")[0]
    assert tuple(re.findall(r"`(\w+)`", tables)) == COLUMNS


def test_tables_show_what_was_told_saved_and_decided(ledger: Ledger, tmp_path: Path) -> None:
    ledger.export(tmp_path / "run.csv", form="csv", run_id="lead-1")
    found = columns(tmp_path / "run.csv")
    assert [json.loads(cell) for cell in found["payload"]][:1] == [{"goal": "enriched"}]
    assert found["side_effect_key"] == ["mail-1", "mail-1"]
    assert [json.loads(cell) for cell in found["state"]] == [{"leads": 1}, {"leads": 1}]
    assert [json.loads(cell)["status"] for cell in found["run_state"]] == ["active", "completed"]
    assert {json.loads(cell)["run"] for cell in found["checkpoint"]} == {"lead-1"}
    assert set(found["run"]) == {"lead-1"}, "which run it is"
    assert {"recorded", "skipped"} <= {json.loads(cell).get("status") for cell in found["facts"]}
    assert found["not_shown"] == []
    ledger.erase(run_id="lead-1", by="ana", reason="x")
    ledger.export(tmp_path / "erased.csv", form="csv", run_id="lead-1")
    left = columns(tmp_path / "erased.csv")
    assert (left["payload"], left["state"], left["run_state"]) == ([], [], [])
    assert "checkpoint state" in left["not_shown"]


def test_an_erased_run_is_exported_and_verifies(ledger: Ledger, tmp_path: Path) -> None:
    ledger.erase(run_id="lead-1", by="ana", reason="x")
    for words in ({"run_id": "lead-1"}, {}):
        path = tmp_path / f"bundle-{len(words)}"
        ledger.export(path, **words)  # type: ignore[arg-type]
        report: Any = indelible.verify(path, key=key_of(ledger))
        assert (report.verdict, report.counts.payloads.missing) == ("verified", 0), report.why
        assert report.counts.payloads.erased > 10


def test_lines_of_a_journal_with_runs_verify(ledger: Ledger, tmp_path: Path) -> None:
    ledger.export(tmp_path / "all.ndjson", form="ndjson")
    report = indelible.verify(tmp_path / "all.ndjson", key=key_of(ledger))
    assert report.verdict == "verified", report.why


def test_any_stretch_of_a_journal_with_runs_verifies(ledger: Ledger, tmp_path: Path) -> None:
    """Also where a run's beginning, or what lies between two of its events, is not shown."""
    ledger.seal()
    size = ledger.tree_head().size
    for first in range(0, size, 3):
        path = tmp_path / f"from-{first}"
        export(store_of(ledger), ledger.tenant, path, selection=Between(first, min(first + 7, size - 1)))
        report = indelible.verify(path, key=key_of(ledger))
        assert (report.verdict, report.kind) == ("verified", "period"), report.why
