"""A live ledger is verified with every change to its tables caught, or written down as carrying no evidence."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, ToolCall, migrate
from indelible.core.approvals.grants import GrantTerms
from indelible.core.commands import Keep
from indelible.core.effects.effect import SYSTEM
from indelible.core.ports import Store
from indelible.core.remote.replies import Reply, reply_sheet
from indelible.core.sheets import KEPT_ASIDE, Sheet
from indelible.core.verifying.findings import Report, Tail
from indelible.errors import IndelibleError, JournalError, KeyUnusable
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from tests.journal.decided import approve, ask, decide, refund, wire
from tests.journal.driven import drive
from tests.journal.exported import work
from tests.journal.tampering import TABLES, Change, Database, changes
from tests.stores.database import Database as AnyDatabase

SOON = datetime.now(UTC) + timedelta(hours=1)
PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
# What is compared is the same on both stores, how a column is read is not: so every change is tried on SQLite, and on
# PostgreSQL every column is edited; INDELIBLE_CHANGES=all tries every change there as well.
ON_BOTH = {"edit", "delete row", "insert row"}


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
    migrate(store_url, writer_keys=False)  # so that verification alone has to find what is changed
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        work(ledger)
        decide(ledger)
        drive(ledger)
        answer(ledger)
        ledger.seal()
        ledger.run(call(1), lambda effect: 1)
        ledger.seal()
        for number in (2, 3):
            ledger.run(call(number), lambda effect: 2)
        yield ledger


def answer(ledger: Ledger) -> None:
    """Keeps a reply, as a server does, and whatever else it keeps aside."""
    engine, reply = ledger._engine, Reply(id="rep_1", request="0" * 64, begun_at=datetime.now(UTC))
    aside = [
        Sheet(kind=kind, id="x", status="kept", body=b"{}")
        for kind in ("answered", "challenge", "compensated", "lease", "origin", "replays", "seen", "told")
    ]
    for sheet in (reply_sheet(reply), *aside):
        engine.writer.do(Keep(tenant="default", stamp=engine.mint.stamp(SYSTEM, 0), sheet=sheet))


@pytest.fixture
def database(ledger: Ledger, store_url: str) -> Iterator[Database]:
    """The ledger's database in other hands."""
    opened = Database(store_url)
    yield opened
    opened.close()


def look(ledger: Ledger, key: str, **words: Any) -> Report:
    """Verifies what is signed; what waits is there to be compared with the tables."""
    return verify(LiveEvidence(ledger._engine.store, "default"), [key], up_to_head=True, **words)


def test_a_ledger_that_nobody_touched_is_verified(ledger: Ledger) -> None:
    report = look(ledger, pinned_key(ledger._engine.store), deep=True)
    assert (report.verdict, report.flaw, report.tail) == ("verified", None, Tail(4)), report.why
    assert report.counts.older_heads == 1
    assert report.counts.payloads is not None
    assert report.counts.payloads.missing == 0
    assert report.remarks == ["what was never signed and was cut off cannot be seen"]


@pytest.mark.timeout(900)  # many changes; two minutes on a busy machine
def test_every_change_of_every_column_is_caught_or_listed(ledger: Ledger, database: Database, store_url: str) -> None:
    key = pinned_key(ledger._engine.store)
    passed, count = set(), 0
    is_tried_whole = store_url.startswith("sqlite") or os.environ.get("INDELIBLE_CHANGES") == "all"
    for change in (change for change in changes(database) if is_tried_whole or change.act in ON_BOTH):
        with database.changed(change) as has_happened:
            if not has_happened:
                continue
            count += 1
            if not database.rows("ledger"):
                continue  # a ledger without a name cannot be opened
            if change.column == "has_macs":
                with pytest.raises(KeyUnusable):
                    Ledger.open(store_url, seal=False)
                continue
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


def newest(database: Database, status: str, kind: str = "approval") -> int:
    rows = database.rows("sheets")
    return next(place for place, row in enumerate(rows) if (row["kind"], row["status"]) == (kind, status))


def replaced(database: Database, table: str, place: int, **columns: Any) -> None:
    rows = database.rows(table)
    rows[place] |= columns
    database.replace(table, rows)


def test_an_approval_that_somebody_edits_in_the_database_is_named(ledger: Ledger, database: Database) -> None:
    key, before = pinned_key(ledger._engine.store), database.rows("sheets")
    told = {row["seq"]: row for row in before if row["run_id"] == "order-7"}
    used = before[newest(database, "consumed")]
    earlier = next(event.seq for event in ledger.events(used["run_id"]) if event.type == "approval_received")
    for status, columns in (
        ("pending", {"status": "approved"}),
        ("consumed", {"status": "approved"}),
        ("denied", {"status": "pending"}),
        ("consumed", {"status": "approved", "version": used["version"] - 1, "seq": earlier}),
        ("pending", {"due_at": before[newest(database, "approved")]["due_at"]}),
        ("pending", {"seq": max(told) - 1}),
    ):
        place = newest(database, status)
        replaced(database, "sheets", place, **columns)
        report = look(ledger, key)
        assert (report.verdict, report.exit_code) == ("tampered", 1), columns
        assert report.flaw is not None
        assert report.flaw.run is not None
        database.replace("sheets", before)
    assert look(ledger, key).verdict == "verified"


def test_a_vote_that_somebody_writes_into_the_database_is_named(ledger: Ledger, database: Database) -> None:
    key, before = pinned_key(ledger._engine.store), database.rows("payloads")
    place, row = next(
        (place, row)
        for place, row in enumerate(before)
        if row["field"] == "approval" and b'"status":"pending"' in bytes(row["value"])
    )
    approval = json.loads(bytes(row["value"]))
    vote = {"at": approval["asked_at"], "by": "bo", "is_approval": True, "on_behalf_of": None, "signature": None}
    forged = {**approval, "status": "approved", "votes": [{**vote, "via": "passkey"}]}
    replaced(database, "payloads", place, value=json.dumps(forged, sort_keys=True, separators=(",", ":")).encode())
    report = look(ledger, key)
    assert (report.verdict, report.flaw and report.flaw.seq) == ("tampered", row["seq"])
    assert "its approval is not the value it committed to" in report.why


def test_an_effect_that_is_given_another_s_approval_or_budget_is_named(ledger: Ledger, database: Database) -> None:
    key, before = pinned_key(ledger._engine.store), database.rows("effects")
    asked = [place for place, row in enumerate(before) if row["approval_id"]]
    plain = next(place for place, row in enumerate(before) if not row["approval_id"])
    held = next(row["charges"] for row in before if row["charges"])
    for place, columns in (
        (asked[0], {"approval_id": before[asked[1]]["approval_id"]}),
        (asked[0], {"approval_id": None}),
        (plain, {"approval_id": before[asked[0]]["approval_id"]}),
        (plain, {"charges": held}),
        (next(i for i, row in enumerate(before) if row["charges"]), {"charges": None}),
    ):
        replaced(database, "effects", place, **columns)
        report = look(ledger, key)
        assert (report.verdict, report.flaw and report.flaw.run) == ("tampered", before[place]["run_id"]), columns
        database.replace("effects", before)


def test_what_is_left_of_an_erased_approval_is_still_compared(ledger: Ledger, database: Database) -> None:
    ledger.erase(run_id="order-8", by="ana", reason="request of 3 May")
    ledger.seal()
    key, before = pinned_key(ledger._engine.store), database.rows("sheets")
    report = look(ledger, key)
    assert report.verdict == "verified", report.why
    place = next(place for place, row in enumerate(before) if (row["kind"], row["topic"]) == ("approval", "order-8"))
    granted = next(place for place, row in enumerate(before) if row["kind"] == "grant" and row["status"] == "active")
    row, open_one = before[place], before[newest(database, "approved")]
    for at, columns in (
        (place, {"status": "pending"}),
        (place, {"version": row["version"] + 1}),
        (place, {"topic": "order-9"}),
        (place, {"due_at": open_one["due_at"]}),
        (place, {"id": row["id"] + "0"}),
        (place, {"seq": row["seq"] - 1}),
        (place, {"run_id": "order-9"}),
        (granted, {"seq": before[granted]["seq"] + 1}),
    ):
        replaced(database, "sheets", at, **columns)
        assert look(ledger, key).verdict == "tampered", columns
        database.replace("sheets", before)
    database.replace("sheets", [*before, {**before[granted], "id": "grt_copy"}])
    assert "two rows name one event" in look(ledger, key).why
    database.replace("sheets", before)
    assert look(ledger, key).verdict == "verified"


RUN_ROWS = {
    "an edited status": ({"kind": "run", "id": "lead-2"}, {"status": "active"}),
    "a run that was never over": ({"kind": "run", "id": "lead-1"}, {"status": "active", "version": 1, "seq": 0}),
    "another agent's run": ({"kind": "run", "id": "lead-1"}, {"topic": "billing"}),
    "a deleted run": ({"kind": "run", "id": "lead-1"}, None),
    "a renamed run": ({"kind": "run", "id": "lead-1"}, {"id": "lead-0"}),
    "an edited checkpoint": ({"kind": "checkpoint", "topic": "lead-1"}, {"topic": "lead-2"}),
    "a dropped checkpoint": ({"kind": "checkpoint", "topic": "lead-2"}, None),
    "a dropped limit": ({"kind": "limit", "id": "lead-1"}, None),
    "a limit that is none": ({"kind": "limit", "id": "lead-1"}, {"status": "ended"}),
    "an older event's checkpoint": ({"kind": "checkpoint", "topic": "lead-1"}, {"seq": 0}),
}


def test_a_run_or_a_checkpoint_that_somebody_edits_in_the_database_is_named(ledger: Ledger, database: Database) -> None:
    key, before = pinned_key(ledger._engine.store), database.rows("sheets")
    for what, (where, columns) in RUN_ROWS.items():
        place = next(i for i, row in enumerate(before) if where.items() <= row.items())
        rows = [dict(row) for row in before]
        rows[place : place + 1] = [] if columns is None else [rows[place] | columns]
        database.replace("sheets", rows)
        report = look(ledger, key)
        assert report.verdict == "tampered", what
        assert where["kind"] in report.why, what
        assert report.flaw is not None
        assert report.flaw.run in ("lead-1", "lead-2"), what
    one, other = (
        next(row for row in before if (row["kind"], row["topic"]) == ("checkpoint", run))
        for run in ("lead-1", "lead-2")
    )
    swapped = {one["id"]: {**other, "id": one["id"]}, other["id"]: {**one, "id": other["id"]}}
    database.replace("sheets", [swapped.get(row["id"], row) for row in before])
    assert "its row names another event" in look(ledger, key).why, "two runs' checkpoints were swapped"
    database.replace("sheets", before)
    assert look(ledger, key).verdict == "verified"


def test_a_state_that_somebody_edits_drops_or_swaps_in_the_database_is_named(
    ledger: Ledger, database: Database
) -> None:
    key, before = pinned_key(ledger._engine.store), database.rows("payloads")
    one, other = (
        next(i for i, row in enumerate(before) if (row["field"], row["run_id"]) == ("state", run))
        for run in ("lead-1", "lead-2")
    )
    swapped = {"value": before[other]["value"], "salt": before[other]["salt"]}
    for columns in ({"value": b'{"leads":2}'}, swapped, None):
        rows = [dict(row) for row in before]
        rows[one : one + 1] = [] if columns is None else [rows[one] | columns]
        database.replace("payloads", rows)
        report = look(ledger, key)
        assert (report.verdict, report.flaw and report.flaw.run) == ("tampered", "lead-1"), columns
        assert "state" in report.why
    database.replace("payloads", before)


def test_what_is_left_of_an_erased_run_is_still_compared(ledger: Ledger, database: Database) -> None:
    ledger.erase(run_id="lead-1", by="ana", reason="request of 3 May")
    ledger.seal()
    key, before = pinned_key(ledger._engine.store), database.rows("sheets")
    assert look(ledger, key).verdict == "verified", look(ledger, key).why
    run = next(i for i, row in enumerate(before) if (row["kind"], row["id"]) == ("run", "lead-1"))
    saved = next(i for i, row in enumerate(before) if (row["kind"], row["topic"]) == ("checkpoint", "lead-1"))
    due = next(row["due_at"] for row in before if row["due_at"] is not None)
    for place, columns in (
        (run, {"status": "failed"}),
        (run, {"version": before[run]["version"] + 1}),
        (run, {"seq": 0}),
        (run, {"due_at": due}),
        (saved, {"status": "gone"}),
        (saved, {"topic": "lead-2"}),
        (saved, {"id": before[saved]["id"] + "0"}),
    ):
        replaced(database, "sheets", place, **columns)
        assert look(ledger, key).verdict == "tampered", columns
        database.replace("sheets", before)


def test_no_table_is_forgotten(database: Database) -> None:
    page = PAGE.read_text(encoding="utf-8")
    others = database.tables() - TABLES.keys()
    assert all(f"`indelible_{name}`" in page for name in others), others
    assert {f"sheets of kind {kind}" for kind in KEPT_ASIDE} <= _listed_in_the_page()


def _listed_as(change: Change) -> str:
    if change.kind in KEPT_ASIDE:
        return f"sheets of kind {change.kind}"
    act = "delete row" if change.column == "tenant" else change.act
    return f"{change.table}: {act}" if change.column in ("", "tenant") else f"{change.table}.{change.column}"


def _listed_in_the_page() -> set[str]:
    section = PAGE.read_text(encoding="utf-8").partition("## Columns that carry no evidence")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_a_ledger_that_is_written_to_meanwhile_is_no_suspect(ledger: Ledger) -> None:
    key, stop = pinned_key(ledger._engine.store), threading.Event()

    def keep_writing() -> None:
        number = 100
        approve(ledger, ask(ledger, refund("order-20", 9)), "ana", grant=GrantTerms(count=10_000, until=SOON))
        while not stop.is_set():
            ledger.run(call(number := number + 1), lambda effect: number)
            ledger.run(refund(f"order-{number}", 9), lambda effect: "on a grant, in a run of its own")
            approve(ledger, ask(ledger, wire(number)), "ana", "eve")
            ledger.delegate("eve", until=SOON, by="cy")
            ledger.run(wire(number), lambda effect: "on the votes of two")
            with ledger.start_run(f"lead-{number}", agent="sales") as run:
                run.checkpoint({"n": number})

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        verdicts = [look(ledger, key) for _ in range(3)]
        ledger.seal()
        verdicts += [look(ledger, key) for _ in range(2)]
    finally:
        stop.set()
        writer.join()
    assert [(report.verdict, report.flaw) for report in verdicts] == [("verified", None)] * 5


def test_without_a_key_the_ledger_itself_proves_nothing(ledger: Ledger) -> None:
    report = verify(LiveEvidence(ledger._engine.store, "default"))
    assert (report.verdict, report.exit_code) == ("cannot_tell", 2)


def test_a_ledger_without_a_head_cannot_be_told(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(call(1), lambda effect: 1)
        report = verify(LiveEvidence(ledger._engine.store, "default"))
    assert report.verdict == "cannot_tell"
    assert "journal seal" in report.why


FAR = {"sqlite": "4611686018427387904", "postgres": "'infinity'"}
LONG_AGO = {"sqlite": "-4611686018427387904", "postgres": "'-infinity'"}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("DELETE FROM indelible_tiles", "tampered"),
        ("UPDATE indelible_trees SET size = 1000000000000", "tampered"),
        ("UPDATE indelible_trees SET size = -1", "tampered"),
        ("UPDATE indelible_sheets SET created_at = {far} WHERE kind = 'run'", "verified tampered"),
        ("UPDATE indelible_sheets SET due_at = {long_ago}", "tampered"),
        ("UPDATE indelible_effects SET created_at = {far}", "tampered"),
        ("UPDATE indelible_effects SET updated_at = {long_ago}", "tampered"),
        ("UPDATE indelible_effects SET lease_until = {far}", "verified"),
    ],
)
@pytest.mark.parametrize("is_taken_in", [False, True])
@pytest.mark.timeout(60)  # it was asked about each of the entries that a size promised
def test_15_odd_values_are_a_verdict_and_an_error_of_the_ledger(
    change: str, verdict: str, store_url: str, tmp_path: Path, is_taken_in: bool
) -> None:
    """Also while entries wait for a signature: the process that took them in was killed before it signed."""
    migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"keys": tmp_path / "keys", "seal": False}
    with Ledger.open(store_url, **place) as ledger:
        with ledger.start_run("order-1", agent="billing", intent="x"):
            ledger.run(call(1), lambda effect: 1)
        ledger.seal()
        key = pinned_key(ledger._engine.store)
        event = ledger.events("order-3")[0]
        ledger.run(call(2), lambda effect: 2)
        if is_taken_in:
            ledger._engine.store.journal.integrate("default", 512)
    kind = "sqlite" if store_url.startswith("sqlite") else "postgres"
    with AnyDatabase(store_url) as database:
        database.run(change.format(far=FAR[kind], long_ago=LONG_AGO[kind]))
    with Ledger.open(store_url, **place) as ledger:
        store = ledger._engine.store
        assert verify(LiveEvidence(store, "default"), [key]).verdict in verdict
        assert verify(LiveEvidence(store, "default", ledger._engine.notary.seal_with_own_key), [key]).verdict in verdict
        for act in (
            lambda: ledger.run(call(3), lambda effect: 3),
            lambda: ledger.run(call(1), lambda effect: 1),
            ledger.effects,
            ledger.runs,
            ledger.stopped,
            ledger.seal,
            lambda: ledger.receipt(event),
            ledger.continue_journal,
            lambda: ledger.export(tmp_path / "out"),
        ):
            with suppress(IndelibleError):
                act()


@pytest.mark.parametrize("table", ["tiles", "trees"])
def test_15_once_the_tree_is_mended_effects_run_and_are_sealed_again(
    table: str, store_url: str, tmp_path: Path
) -> None:
    """What cannot be read proves no loss, so no stop is written that only a declared loss would end."""
    migrate(store_url, keys=tmp_path / "keys")
    place: dict[str, Any] = {"keys": tmp_path / "keys", "seal": False}
    with Ledger.open(store_url, **place) as ledger:
        ledger.run(call(1), lambda effect: 1)
        ledger.seal()
        key = pinned_key(ledger._engine.store)
        ledger.run(call(2), lambda effect: 2)
        ledger._engine.store.journal.integrate("default", 512)
    database = Database(store_url)
    rows = database.rows(table)
    database.replace(table, [] if table == "tiles" else [{**rows[0], "size": 10**12}])
    with Ledger.open(store_url, **place) as ledger:
        for act in (lambda: ledger.run(call(3), lambda effect: 3), ledger.seal, ledger.continue_journal):
            with pytest.raises(JournalError):
                act()
    database.replace(table, rows)
    database.close()
    with Ledger.open(store_url, **place) as ledger:
        assert ledger.stopped() is None
        assert ledger.run(call(3), lambda effect: 3) == 3
        ledger.seal()
        assert verify(LiveEvidence(ledger._engine.store, "default"), [key]).verdict == "verified"
