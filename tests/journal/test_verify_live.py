"""A live ledger is verified with every change to its tables caught, or written down as carrying no evidence."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.core.ports import Store
from indelible.core.verifying.findings import Report
from indelible.journal.live_evidence import LiveEvidence
from indelible.journal.verification import verify
from tests.journal.exported import work
from tests.journal.tampering import TABLES, Change, Database, changes

PAGE = Path(__file__).parents[2] / "docs" / "verify.md"


def call(number: int) -> ToolCall:
    return ToolCall(tool="note.write", args={"n": number}, run_id="order-3")


def pinned_key(store: Store) -> str:
    """Gives the key as an auditor would have noted it on the first day."""
    events = store.events("default", "indelible:journal", -1, 10)
    key: str = next(json.loads(event.body)["facts"]["key"] for event in events if event.type == "key_registered")
    return key


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Iterator[Ledger]:
    """A ledger with two signed heads, and events that wait for the tree."""
    migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        work(ledger)
        ledger.seal()
        ledger.run(call(1), lambda effect: 1)
        ledger.seal()
        for number in (2, 3):
            ledger.run(call(number), lambda effect: 2)
        yield ledger


@pytest.fixture
def database(ledger: Ledger, store_url: str) -> Iterator[Database]:
    """The ledger's database in other hands."""
    opened = Database(store_url)
    yield opened
    opened.close()


def look(ledger: Ledger, key: str, **words: Any) -> Report:
    return verify(LiveEvidence(ledger._engine.store, "default"), [key], **words)


def test_a_ledger_that_nobody_touched_is_verified(ledger: Ledger) -> None:
    report = look(ledger, pinned_key(ledger._engine.store), deep=True)
    assert (report.verdict, report.flaw, report.counts.unsealed) == ("verified", None, 4), report.why
    assert report.counts.older_heads == 1
    assert report.counts.payloads is not None
    assert report.counts.payloads.missing == 0
    assert report.remarks == ["what was cut off within the last 1:00:00 cannot be seen"]


def test_every_change_of_every_column_is_caught_or_listed(ledger: Ledger, database: Database, store_url: str) -> None:
    key = pinned_key(ledger._engine.store)
    passed, count = set(), 0
    for change in changes(database):
        with database.changed(change) as has_happened:
            if not has_happened:
                continue
            count += 1
            if not database.rows("ledger"):
                continue  # a ledger without a name cannot be opened
            with Ledger.open(store_url, seal=False) if change.table == "ledger" else nullcontext(ledger) as opened:
                report = look(opened, key, deep=True)
            if report.verdict == "tampered":
                assert report.flaw is not None
                assert report.exit_code == 1
            else:
                passed.add(_listed_as(change))
    assert count > 150
    assert passed == _listed_in_the_page()
    assert look(ledger, key).verdict == "verified", "every change was taken back"


def test_no_table_is_forgotten(database: Database) -> None:
    page = PAGE.read_text(encoding="utf-8")
    others = database.tables() - TABLES.keys()
    assert all(f"`indelible_{name}`" in page for name in others), others


def _listed_as(change: Change) -> str:
    act = "delete row" if change.column == "tenant" else change.act
    return f"{change.table}: {act}" if change.column in ("", "tenant") else f"{change.table}.{change.column}"


def _listed_in_the_page() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").partition("## Columns that carry no evidence")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_a_ledger_that_is_written_to_meanwhile_is_no_suspect(ledger: Ledger) -> None:
    key, stop = pinned_key(ledger._engine.store), threading.Event()

    def keep_writing() -> None:
        number = 100
        while not stop.is_set():
            ledger.run(call(number := number + 1), lambda effect: number)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        verdicts = [look(ledger, key) for _ in range(5)]
        ledger.seal()
        verdicts += [look(ledger, key) for _ in range(3)]
    finally:
        stop.set()
        writer.join()
    assert [(report.verdict, report.flaw) for report in verdicts] == [("verified", None)] * 8


def test_without_a_key_the_ledger_itself_proves_nothing(ledger: Ledger) -> None:
    report = verify(LiveEvidence(ledger._engine.store, "default"))
    assert (report.verdict, report.exit_code) == ("cannot_tell", 2)


def test_a_ledger_without_a_head_cannot_be_told(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(call(1), lambda effect: 1)
        report = verify(LiveEvidence(ledger._engine.store, "default"))
    assert report.verdict == "cannot_tell"
    assert "journal seal" in report.why
