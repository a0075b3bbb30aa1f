"""A ledger that is in use is upgraded in place: what it holds stays as it was, and goes on from there."""

from __future__ import annotations

import json
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import indelible
from indelible import Ledger, ToolCall
from indelible.core.commands import AwaitingApproval, Claimed, Decided, InDoubt, Moved, Recorded, Replayed
from indelible.core.effects.effect import Effect
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import SchemaOutdated
from indelible.stores import open_store, secure_rows
from indelible.stores.postgres import schema as postgres_schema
from indelible.stores.sqlite import schema as sqlite_schema
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands
from indelible.testing.journal_conformance import EVERYTHING, check_journal, recording
from indelible.testing.suite import apply_one, check_chain, take_claim
from tests.stores.database import Database

TENANT = "default"
BEFORE_APPROVALS = 3


@pytest.fixture
def newer_url(store_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Another ledger on the same kind of store, of the newest version."""
    newer = f"sqlite:///{tmp_path / 'newer.db'}"
    if not store_url.startswith("sqlite"):
        newer = request.getfixturevalue("another_postgres_url")
    indelible.migrate(newer, writer_keys=False)  # which no older version knows
    return newer


@pytest.fixture
def older_url(store_url: str, newer_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger as the version before approvals left it: filled, with effects in every state it knew."""
    fill(newer_url)
    make_older(store_url, BEFORE_APPROVALS, monkeypatch)
    with Database(newer_url) as source, Database(store_url) as copy:
        carry_over(source, copy)
        # At that time, a question was the status of an effect and nothing else.
        copy.run("UPDATE indelible_effects SET status = 'requires_approval', attempt = 0 WHERE status = 'ready'")
    return store_url


def make_older(url: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the tables as so many migrations left them."""
    with monkeypatch.context() as patch:
        for module in (sqlite_schema, postgres_schema):
            patch.setattr(module, "MIGRATIONS", module.MIGRATIONS[:version])
        indelible.migrate(url, writer_keys=False)


def carry_over(source: Database, copy: Database) -> None:
    """Copies what an older ledger can hold of a newer one."""
    tables = copy.tables()
    if "indelible_ledger" in tables:
        copy.run("DELETE FROM indelible_ledger")
    for table, columns in tables.items():
        if table != "indelible_migrations":
            named, places = ", ".join(columns), ", ".join("?" * len(columns))
            for row in source.run(f"SELECT {named} FROM {table}"):
                copy.run(f"INSERT INTO {table} ({named}) VALUES ({places})", row)


@pytest.mark.parametrize("calls", [0, 3], ids=["empty", "filled"])
def test_a_ledger_of_the_first_version_goes_on_and_all_of_it_is_sealed(
    store_url: str, newer_url: str, calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Ledger.open(newer_url, keys=tmp_path / "elsewhere", seal=False) as ledger:
        told = [ledger.run(numbered(number), lambda effect: {"done": effect.args}) for number in range(calls)]
    make_older(store_url, 1, monkeypatch)
    with Database(newer_url) as source, Database(store_url) as first:
        carry_over(source, first)
        assert len(rows_of(first, "indelible_effects")) == calls
        assert "indelible_leaves" not in first.tables()
    with pytest.raises(SchemaOutdated) if store_url.startswith("postgres") else nullcontext():
        Ledger.open(store_url, keys=tmp_path / "keys").close()
    indelible.migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=True) as ledger:
        assert [ledger.run(numbered(number), never) for number in range(calls)] == told
        ledger.run(numbered(99), lambda effect: "new")
        assert len(list(ledger.events("order-1"))) == 2 * (calls + 1)
        done = ledger.export(tmp_path / "all.zip")
        assert done.events == done.size > 2 * (calls + 1)  # the ledger also tells of its own key
    with zipfile.ZipFile(tmp_path / "all.zip") as bundle:
        (key,) = json.loads(bundle.read("manifest.json"))["keys"]
    assert indelible.verify(tmp_path / "all.zip", key=key).verdict == "verified"


def numbered(number: int) -> ToolCall:
    return ToolCall(run_id="order-1", tool="charge", args={"number": number})


def never(effect: object) -> None:
    raise AssertionError("this was done by the version before")


@pytest.fixture
def another_postgres_url(request: pytest.FixtureRequest) -> Any:
    from tests.postgres import fresh_database

    with fresh_database(request.getfixturevalue("postgres_server").url) as url:
        yield url


def fill(url: str) -> None:
    make, clock = Commands(TENANT), FakeClock()
    store = open_store(url, clock=clock)
    done, doubtful, asked = (take_claim(store, make, name) for name in ("done", "doubtful", "asked"))
    take_claim(store, make, "running", lease=LEASE * 2)
    apply_one(store, make.finish(done))
    apply_one(store, make.relinquish(doubtful, "in_doubt"))
    apply_one(store, make.relinquish(asked))
    store.journal.integrate(TENANT, 4)
    apply_one(store, recording(make, run_id="run-2", committed={"note": b'"kept"'}))
    store.close()


def everything(store: Store) -> tuple[Any, ...]:
    make = Commands(TENANT)
    effects = store.look([make.ref(name) for name in ("done", "doubtful", "asked", "running")]).effects
    runs = [check_chain(store, TENANT, run_id) for run_id in ("run-1", "run-2")]
    payloads = [store.payloads(TENANT, events[0].run_id, range(len(events))) for events in runs]
    return effects, runs, payloads, store.journal.tree(TENANT), store.ledger_name


def test_a_filled_ledger_of_the_version_before_keeps_everything(older_url: str) -> None:
    with Database(older_url) as older:
        before = {table: sorted(map(repr, rows_of(older, table))) for table in older.tables()}
        assert all(before[table] for table in ("indelible_effects", "indelible_events", "indelible_leaves"))
        assert "indelible_sheets" not in before
    assert indelible.migrate(older_url) == [
        *("0004_approvals", "0005_newest_runs", "0006_turns", "0007_doubts", "0008_macs")
    ]
    with Database(older_url) as newer:
        for table in set(before) - {"indelible_migrations"}:
            columns = len(newer.tables()[table])
            added = {"indelible_effects": 5, "indelible_runs": 1, "indelible_events": 1, "indelible_payloads": 1}
            added["indelible_ledger"] = 1
            rows = [row[: columns - added.get(table, 0)] for row in rows_of(newer, table)]
            assert sorted(map(repr, rows)) == before[table], table
        assert newer.run("SELECT DISTINCT approval_id, charges, turn, doubted FROM indelible_effects") == [(None,) * 4]
        assert newer.run("SELECT count(*) FROM indelible_sheets") == [(0,)]


BEFORE_NEWEST_RUNS = 4


def begin_runs(url: str, keys: Path) -> list[str]:
    """Begins runs whose names are no order, and gives them as they are to be listed."""
    for tenant in (TENANT, "acme"):
        with Ledger.open(url, tenant=tenant, keys=keys, seal=False) as ledger:
            for name in ("m", "z", "a", "k"):
                ledger.start_run(name, agent="scout").complete()
            listed = [run.id for run in ledger.runs()]
    assert listed == ["k", "a", "z", "m"]
    return listed


def forget_when_they_began(url: str) -> None:
    """Makes the tables those of the version before, which kept no time."""
    with Database(url) as database:
        for index in ("newest", "newest_by_status", "newest_by_topic"):
            database.run(f"DROP INDEX indelible_sheets_{index}")
        database.run("ALTER TABLE indelible_sheets DROP COLUMN created_at")
        database.run("ALTER TABLE indelible_effects DROP COLUMN turn")
        database.run("ALTER TABLE indelible_effects DROP COLUMN doubted")
        database.run("ALTER TABLE indelible_ledger DROP COLUMN has_macs")
        for table in ("effects", "events", "payloads", "sheets"):
            database.run(f"ALTER TABLE indelible_{table} DROP COLUMN mac")
        database.run("DROP INDEX indelible_effects_by_digest")
        database.run("DROP INDEX indelible_runs_newest")
        database.run("ALTER TABLE indelible_runs DROP COLUMN begun_at")
        database.run("DELETE FROM indelible_migrations WHERE number > ?", (BEFORE_NEWEST_RUNS,))


def test_runs_of_the_version_before_are_listed_by_when_they_began(store_url: str, tmp_path: Path) -> None:
    indelible.migrate(store_url, writer_keys=False)
    listed = begin_runs(store_url, tmp_path)
    with Database(store_url) as database:
        kept = "SELECT tenant, kind, id, created_at FROM indelible_sheets ORDER BY 1, 2, 3"
        before = [tuple(row) for row in database.run(kept)]
    forget_when_they_began(store_url)
    assert indelible.migrate(store_url) == ["0005_newest_runs", "0006_turns", "0007_doubts", "0008_macs"]
    with Database(store_url) as database:
        assert [tuple(row) for row in database.run(kept)] == before
    with Ledger.open(store_url, keys=tmp_path, seal=False) as ledger:
        assert [run.id for run in ledger.runs()] == listed


def test_a_run_whose_first_event_was_altered_is_listed_last(store_url: str, tmp_path: Path) -> None:
    indelible.migrate(store_url, writer_keys=False)
    begin_runs(store_url, tmp_path)
    with Database(store_url) as database:
        database.run("UPDATE indelible_events SET body = ? WHERE run_id = 'k' AND seq = 0", (b"\xff nonsense",))
    forget_when_they_began(store_url)
    indelible.migrate(store_url)
    with Ledger.open(store_url, keys=tmp_path, seal=False) as ledger:
        assert [sheet.id for sheet in newest(ledger)] == ["a", "z", "m", "k"]
        assert [sheet.id for sheet in newest(ledger, with_unstarted=True)] == ["a", "z", "m", "k"]


def newest(ledger: Ledger, *, with_unstarted: bool = False) -> list[Sheet]:
    selected = SheetFilter(kind="run", is_by_time=True, with_unstarted=with_unstarted)
    return ledger._engine.store.sheets(TENANT, selected)


def test_rows_that_are_secured_are_upgraded_too(postgres_url: str, tmp_path: Path) -> None:
    """Their owner, who upgrades them, sees none of them otherwise; afterwards the wall stands again."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS upgrading")
        admin.execute("CREATE ROLE upgrading LOGIN PASSWORD 'upgrading' NOSUPERUSER NOBYPASSRLS")
        admin.execute("GRANT CREATE ON SCHEMA public TO upgrading")
        parts = urlsplit(postgres_url)
        owned = urlunsplit(parts._replace(netloc=f"upgrading:upgrading@{parts.netloc.rpartition('@')[2]}"))
        indelible.migrate(owned, writer_keys=False)
        secure_rows(owned)
        begin_runs(owned, tmp_path)
        kept = "SELECT tenant, id, created_at FROM indelible_sheets WHERE kind = 'run' ORDER BY 1, 2"
        before = admin.execute(kept).fetchall()
        forget_when_they_began(owned)
        indelible.migrate(owned)
        assert admin.execute(kept).fetchall() == before
        walls = "SELECT count(*) FROM pg_class WHERE relforcerowsecurity AND relname IN ('indelible_sheets', %s)"
        assert admin.execute(walls, ("indelible_events",)).fetchone() == (2,)
        admin.execute("DROP OWNED BY upgrading")
        admin.execute("DROP ROLE upgrading")


def rows_of(database: Database, table: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in database.run(f"SELECT * FROM {table}")]


def test_a_ledger_goes_on_from_where_the_version_before_left_it(older_url: str) -> None:
    indelible.migrate(older_url)
    make, clock = Commands(TENANT), FakeClock()
    store = open_store(older_url, clock=clock)
    effects, runs, _, tree, _ = everything(store)
    assert [effect.status for effect in effects] == ["succeeded", "in_doubt", "requires_approval", "processing"]
    assert (len(runs[0]), tree.size) == (7, 4)
    assert isinstance(apply_one(store, make.open("done")), Replayed)
    assert isinstance(apply_one(store, make.open("doubtful")), InDoubt)
    assert isinstance(apply_one(store, make.settle(make.ref("doubtful"))), Moved)
    clock.advance(LEASE * 2)
    assert isinstance(apply_one(store, make.open("running")), InDoubt)
    assert isinstance(apply_one(store, recording(make)), Recorded)
    decide_what_was_asked(store, make, effects[2])
    store.journal.integrate(TENANT, EVERYTHING)
    check_journal(store, TENANT)
    store.close()


def test_a_process_that_is_running_while_a_newer_one_adds_columns_reads_the_old_ones_right(store_url: str) -> None:
    """On SQLite whoever opens the file migrates it; others may be at work, and must not take arguments for a result."""
    indelible.migrate(store_url)
    pay, refund = (
        ToolCall(tool="pay", args={"amount": 5}, run_id="order-1"),
        ToolCall(tool="refund", args={"amount": 5}, run_id="order-1"),
    )
    with Ledger.open(store_url, seal=False) as ledger:
        assert ledger.run(pay, lambda effect: "paid") == "paid"
        begun = ledger.begin(refund, approval="required")
        assert isinstance(begun, AwaitingApproval)
        with Database(store_url) as newer:
            for table in ("effects", "sheets", "events", "runs", "payloads"):
                kind = "BLOB" if newer.is_sqlite else "bytea"
                newer.run(f"ALTER TABLE indelible_{table} ADD COLUMN added_later {kind}")
        assert ledger.run(pay, lambda effect: "paid twice") == "paid"
        ledger.approve(begun.approval, digest=begun.approval.digest, by="ada")
        assert ledger.run(refund, lambda effect: effect.args, approval="required") == {"amount": 5}
        assert [(effect.args, effect.detail) for effect in ledger.effects()] == [
            ({"amount": 5}, {"amount": 5}),
            ({"amount": 5}, "paid"),
        ]


def decide_what_was_asked(store: Store, make: Commands, waiting: Effect) -> None:
    """An old question bound nothing that could be checked, so somebody is asked anew, whoever says it may run."""
    asked = apply_one(store, make.open("asked"), waiting)
    assert isinstance(asked, AwaitingApproval)
    assert isinstance(apply_one(store, make.approve(asked.approval)), Decided)
    assert isinstance(apply_one(store, make.open("asked")), Claimed)
    (sheet,) = store.sheets(TENANT, SheetFilter(kind="approval"))
    assert (sheet.status, sheet.version) == ("consumed", 3)
