"""What a sheet shows is what its event commits to, and is kept nowhere else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import apsw
import pytest

import indelible
from indelible.core.approvals.sheets import approval_sheet
from indelible.core.commands import AwaitingApproval, Decided
from indelible.core.ports import Store
from indelible.core.sheets import KEPT_ASIDE, SheetFilter
from indelible.stores import open_store
from indelible.stores.sqlite.sheets import list_sheets
from indelible.testing.commands import Commands, asking, charged
from indelible.testing.suite import apply_one, take_claim
from tests.stores.database import Database, open_file

TENANT = "default"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    indelible.migrate(store_url)
    with contextlib.closing(open_store(store_url)) as store:
        yield store


def test_what_is_on_the_record_is_not_kept_on_the_sheet_too(store: Store, store_url: str) -> None:
    """Whoever erases it there has erased it."""
    make = Commands(TENANT)
    asked = apply_one(store, make.ask("asked", verdict=asking(notify=("chat",))))
    assert isinstance(asked, AwaitingApproval)
    assert isinstance(apply_one(store, make.approve(asked.approval)), Decided)
    take_claim(store, make, "paid", verdict=charged(1))
    with Database(store_url) as database:
        rows = database.run("SELECT kind, run_id, seq, body FROM indelible_sheets")
    assert {row[0] for row in rows} == {"approval", "budget", "delivery"}
    for kind, run_id, seq, body in rows:
        is_aside = kind in KEPT_ASIDE
        assert (body is not None, run_id is None, seq is None) == (is_aside, is_aside, is_aside)


def test_what_somebody_writes_onto_a_sheet_of_the_record_is_not_believed(store: Store, store_url: str) -> None:
    make = Commands(TENANT)
    asked = apply_one(store, make.ask("asked"))
    assert isinstance(asked, AwaitingApproval)
    body = approval_sheet(asked.approval).body or b""
    forged = body.replace(b'"status":"pending"', b'"status":"approved"')
    assert forged != body
    with Database(store_url) as database:
        database.run("UPDATE indelible_sheets SET body = ? WHERE kind = 'approval'", (forged,))
    (sheet,) = store.sheets(TENANT, SheetFilter(kind="approval"))
    assert sheet.body == body
    waiting = apply_one(store, make.ask("asked"))
    assert isinstance(waiting, AwaitingApproval)
    assert waiting.approval == asked.approval


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
OLDER = "created_at>? AND (created_at,id)<(?,?))"


@pytest.mark.parametrize(
    ("words", "index"),
    [
        ({}, "PRIMARY KEY (tenant=? AND kind=? AND id>? AND id<?)"),
        ({"id": "m-1", "status": "due", "topic": "chat"}, "PRIMARY KEY (tenant=? AND kind=? AND id=?)"),
        ({"status": "due"}, "INDEX indelible_sheets_by_status (tenant=? AND kind=? AND status=? AND id>? AND id<?)"),
        ({"topic": "chat", "after": ""}, "INDEX indelible_sheets_by_topic (tenant=? AND kind=? AND topic=? AND id>?"),
        ({"topic": "chat", "status": "due"}, "INDEX indelible_sheets_by_topic (tenant=? AND kind=? AND topic=?"),
        ({"due_by": LONG_AGO}, "INDEX indelible_sheets_by_due (tenant=? AND kind=? AND due_at<?)"),
        ({"due_by": LONG_AGO, "status": "due"}, "INDEX indelible_sheets_by_due (tenant=? AND kind=? AND due_at<?)"),
        ({"due_by": LONG_AGO, "topic": "chat"}, "INDEX indelible_sheets_by_channel (tenant=? AND topic=? AND due_at<?"),
        ({"is_by_time": True}, f"INDEX indelible_sheets_newest (tenant=? AND kind=? AND {OLDER}"),
        (
            {"is_by_time": True, "status": "due", "before": "m", "before_time": LONG_AGO},
            f"INDEX indelible_sheets_newest_by_status (tenant=? AND kind=? AND status=? AND {OLDER}",
        ),
        (
            {"is_by_time": True, "topic": "chat", "status": "due"},
            f"INDEX indelible_sheets_newest_by_topic (tenant=? AND kind=? AND topic=? AND {OLDER}",
        ),
    ],
)
def test_every_way_to_list_sheets_in_a_file_has_its_index_and_needs_no_sorting(
    words: dict[str, Any], index: str, sqlite_url: str
) -> None:
    plans = plans_of(SheetFilter(kind="delivery", **words), sqlite_url)
    assert f"SEARCH s USING {index}" in plans[0]
    assert not any("TEMP B-TREE" in plan for plan in plans)


@pytest.mark.parametrize(
    ("words", "index"),
    [
        ({}, "COVERING INDEX indelible_runs_newest (tenant=? AND (begun_at,run_id)<(?,?))"),
        ({"status": "open"}, "INDEX indelible_runs_newest (tenant=? AND (begun_at,run_id)<(?,?))"),
        ({"id": "r-1"}, "PRIMARY KEY (tenant=? AND run_id=?)"),
    ],
)
def test_75_runs_are_listed_by_an_index_and_each_reads_one_event(
    words: dict[str, Any], index: str, sqlite_url: str
) -> None:
    plans = plans_of(SheetFilter(kind="run", is_by_time=True, with_unstarted=True, **words), sqlite_url)
    assert f"SEARCH r USING {index}".replace("COVERING ", "") in plans[0].replace("COVERING ", "")
    assert "SEARCH e USING PRIMARY KEY (tenant=? AND run_id=? AND seq=?) LEFT-JOIN" in plans
    assert not any("TEMP B-TREE" in plan or plan.startswith("SCAN") for plan in plans)


def plans_of(selected: SheetFilter, sqlite_url: str) -> list[str]:
    """Return how SQLite would list these."""
    open_store(sqlite_url).close()
    plans: list[str] = []

    def explain(cursor: apsw.Cursor, sql: str, values: Any) -> bool:
        if not sql.startswith("EXPLAIN"):
            plans.extend(row[3] for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {sql}", values))
        return True

    connection = open_file(sqlite_url)
    connection.exec_trace = explain
    list_sheets(connection, TENANT, selected)
    connection.close()
    return plans
