"""The schema is what the migrations make, the same in both stores, and what the code reads and writes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest

import indelible
from indelible.core.effects.effect import Effect
from indelible.core.events import Event, Payload
from indelible.core.sheets import Sheet
from indelible.errors import Misconfigured, SchemaOutdated, StoreError
from indelible.stores import open_store
from indelible.stores.named_sql import Migration, load_migrations, load_queries
from indelible.stores.postgres import schema as postgres_schema
from indelible.stores.sqlite import schema as sqlite_schema
from tests.postgres import fresh_database
from tests.stores.database import open_file
from tests.waiting import PATIENCE

STORES = ["indelible.stores.sqlite", "indelible.stores.postgres"]
# Not about tenants: the ledger's own name, and which migrations it has.
ABOUT_THE_LEDGER = {"indelible_ledger", "indelible_migrations", "indelible_redaction"}
KINDS = {
    "TEXT": "text",
    "BLOB": "bytes",
    "INTEGER": "number",
    "text": "text",
    "bytea": "bytes",
    "bigint": "number",
    "integer": "number",
    "timestamp with time zone": "number",  # microseconds in SQLite
    "boolean": "truth",
}
# What one store needs for itself alone, and why.
ONLY_IN_POSTGRES = {"indelible_effects.awaited": "so that a move is told only if another process waits for it"}


class Column(NamedTuple):
    name: str
    kind: str
    is_required: bool


class Schema(NamedTuple):
    columns: dict[str, list[Column]]
    primary_keys: dict[str, list[str]]
    unique_keys: dict[str, list[list[str]]]
    indexes: dict[str, list[str]]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Schema:
    """What SQLite has after a ledger was opened."""
    path = tmp_path_factory.mktemp("schema") / "ledger.db"
    open_store(f"sqlite:///{path}").close()
    connection = open_file(path)
    columns, primary, unique = {}, {}, {}
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        rows = connection.execute(f"PRAGMA table_info({table})").fetchall()
        columns[table] = [Column(name, KINDS[kind], bool(required or key)) for _, name, kind, required, _, key in rows]
        primary[table] = [name for key, name in sorted((row[5], row[1]) for row in rows) if key]
        indexes = connection.execute(f"PRAGMA index_list({table})").fetchall()
        unique[table] = [
            [row[2] for row in connection.execute(f"PRAGMA index_info({index[1]})")]
            for index in indexes
            if index[2] and index[3] != "pk"
        ]
    named = "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    indexes = {
        name: [row[2] for row in connection.execute(f"PRAGMA index_info({name})")]
        for (name,) in connection.execute(named).fetchall()
    }
    connection.close()
    return Schema(columns, primary, unique, indexes)


@pytest.fixture(scope="module")
def postgres(request: pytest.FixtureRequest) -> Iterator[Schema]:
    """What PostgreSQL has after the migrations."""
    server = os.environ.get("INDELIBLE_TEST_POSTGRES") or request.getfixturevalue("_postgres_cluster").start().url
    with fresh_database(server) as url:
        indelible.migrate(url)
        yield postgres_schema_of(url)


def postgres_schema_of(postgres_url: str) -> Schema:
    columns: dict[str, list[Column]] = {}
    primary: dict[str, list[str]] = {}
    unique: dict[str, list[list[str]]] = {}
    with psycopg.connect(postgres_url) as connection:
        for table, name, kind, nullable in connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns "
            "WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
        ):
            if f"{table}.{name}" not in ONLY_IN_POSTGRES:
                columns.setdefault(table, []).append(Column(name, KINDS[kind], nullable == "NO"))
        for table, is_primary, names in connection.execute(
            "SELECT i.indrelid::regclass::text, i.indisprimary, "
            "array(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(n, o) JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o) "
            "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE i.indisunique AND n.nspname = current_schema()"
        ):
            if is_primary:
                primary[table] = names
            else:
                unique.setdefault(table, []).append(names)
        indexes = dict(
            connection.execute(
                "SELECT c.relname, array(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(n, o) "
                "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.n ORDER BY k.o) "
                "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
                "WHERE NOT i.indisprimary AND n.nspname = current_schema()"
            ).fetchall()
        )
    return Schema(columns, primary, {table: unique.get(table, []) for table in columns}, indexes)


@pytest.fixture(params=["sqlite", "postgres"])
def schema(request: pytest.FixtureRequest) -> Iterator[Schema]:
    """The schema of each store."""
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


# ── the same in both ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_both_stores_have_the_same_migrations_by_number_and_name() -> None:
    first, second = ([(m.number, m.name) for m in load_migrations(package)] for package in STORES)
    assert first == second
    assert [number for number, _ in first] == list(range(1, len(first) + 1)), "numbered from 1 without a gap"


def test_both_stores_have_the_same_tables_and_columns(sqlite: Schema, postgres: Schema) -> None:
    assert set(sqlite.columns) == set(postgres.columns) != set()
    for table, columns in sqlite.columns.items():
        assert columns == postgres.columns[table], table


def test_both_stores_have_the_same_keys(sqlite: Schema, postgres: Schema) -> None:
    assert {table: key for table, key in sqlite.primary_keys.items() if key} == postgres.primary_keys
    assert sqlite.unique_keys == postgres.unique_keys


def test_both_stores_have_the_same_indexes(sqlite: Schema, postgres: Schema) -> None:
    # SQLite's rows that wait for the journal have an order of their own already.
    only_postgres = {"indelible_pending_by_run"}
    assert {name: found for name, found in postgres.indexes.items() if name not in only_postgres} == sqlite.indexes


def test_both_stores_have_every_statement_described() -> None:
    for package in STORES:
        queries = load_queries(package)
        assert len(queries) > 40
        for name, sql in queries.items():
            assert sql.startswith("--"), f"{package}: {name} does not say what it is for"


# ── tenant first ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_key_begins_with_the_tenant(schema: Schema) -> None:
    tables = set(schema.columns) - ABOUT_THE_LEDGER
    assert len(tables) > 5
    for table in tables:
        keys = [schema.primary_keys.get(table, []), *schema.unique_keys[table]]
        assert schema.columns[table][0] == Column("tenant", "text", True), table
        starts = set() if table == "indelible_pending" else {"tenant"}  # what waits for the seal has no key
        assert {key[0] for key in keys if key} == starts, f"{table}: {keys}"


def test_every_table_carries_our_name(schema: Schema) -> None:
    """A ledger may live in an application's own database."""
    assert all(table.startswith("indelible_") for table in schema.columns)


# ── what the code expects ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_columns_are_the_fields_of_the_records(schema: Schema) -> None:
    def names(table: str) -> list[str]:
        return [column.name for column in schema.columns[f"indelible_{table}"]]

    kept_apart, named = {"args_json", "detail_json"}, {"permission_id": "approval_id"}
    told = [named.get(field.name, field.name) for field in fields(Effect) if field.name not in kept_apart]
    assert names("effects") == [*(name.removesuffix("_json") for name in told), "mac"]
    of_row = {field.name for field in fields(Sheet)} - {"row_version"}
    assert sorted(names("sheets")) == sorted(["tenant", *of_row])
    assert names("events") == ["tenant", *(field.name for field in fields(Event))]
    assert names("payloads") == ["tenant", *Payload._fields]
    assert names("pending") == ["tenant", "run_id", "seq", "hash"]
    assert names("runs") == ["tenant", "run_id", "count", "head", "begun_at"]


def test_only_what_may_be_unknown_may_be_missing(schema: Schema) -> None:
    optional = {
        f"{table}.{column.name}"
        for table, columns in schema.columns.items()
        for column in columns
        if not column.is_required
    }
    effects = "indelible_effects"
    assert optional == {
        f"{effects}.call_id",
        f"{effects}.lease_until",
        f"{effects}.detail_seq",
        f"{effects}.approval_id",
        f"{effects}.charges",
        f"{effects}.turn",
        f"{effects}.doubted",
        *(f"indelible_sheets.{name}" for name in ("due_at", "run_id", "seq", "body", "created_at")),
        "indelible_events.effect_id",
        "indelible_events.signature",
        *(f"indelible_{table}.mac" for table in ("effects", "events", "payloads", "sheets")),
    }


# ── moving on ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes this version of Indelible one that has a migration more."""
    for module in (sqlite_schema, postgres_schema):
        more = Migration(len(module.MIGRATIONS) + 1, "more", "CREATE TABLE indelible_more (tenant text NOT NULL);")
        monkeypatch.setattr(module, "MIGRATIONS", [*module.MIGRATIONS, more])
    return


def tables_of(url: str) -> set[str]:
    if url.startswith("sqlite"):
        with open_file(url) as connection:
            return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    with psycopg.connect(url) as postgres:
        found = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return {name for (name,) in found}


def test_from_empty_everything_is_applied_once(store_url: str) -> None:
    names = [f"{migration.number:04}_{migration.name}" for migration in load_migrations(STORES[0])]
    assert indelible.migrate(store_url) == names
    assert indelible.migrate(store_url) == []
    open_store(store_url).close()


def test_an_older_store_gets_what_it_lacks_and_keeps_what_it_has(
    store_url: str, request: pytest.FixtureRequest
) -> None:
    indelible.migrate(store_url)
    store = open_store(store_url)
    name = store.ledger_name
    store.close()
    request.getfixturevalue("next_version")
    assert [migration.partition("_")[2] for migration in indelible.migrate(store_url)] == ["more"]
    assert "indelible_more" in tables_of(store_url)
    store = open_store(store_url)
    assert store.ledger_name == name
    store.close()


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    indelible.migrate(store_url)
    for module in (sqlite_schema, postgres_schema):
        monkeypatch.setattr(module, "MIGRATIONS", module.MIGRATIONS[:-1])
    before = tables_of(store_url)
    with pytest.raises(SchemaOutdated, match="upgrade Indelible"):
        open_store(store_url)
    with pytest.raises(SchemaOutdated, match="upgrade Indelible"):
        indelible.migrate(store_url)
    assert tables_of(store_url) == before


def test_a_migration_that_fails_leaves_the_store_as_it_was(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    indelible.migrate(store_url)
    before = tables_of(store_url)
    for module in (sqlite_schema, postgres_schema):
        broken = Migration(
            len(module.MIGRATIONS) + 1, "broken", "CREATE TABLE indelible_half (n integer); SELECT * FROM nowhere;"
        )
        monkeypatch.setattr(module, "MIGRATIONS", [*module.MIGRATIONS, broken])
    with pytest.raises(StoreError):
        indelible.migrate(store_url)
    monkeypatch.undo()
    assert tables_of(store_url) == before
    open_store(store_url).close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_file_that_somebody_is_writing_to_is_waited_for(sqlite_url: str) -> None:
    """An application's own database is not in WAL mode yet, and the application is in the middle of a transaction."""
    theirs = open_file(sqlite_url)
    theirs.execute("CREATE TABLE theirs (n); BEGIN IMMEDIATE; INSERT INTO theirs VALUES (1)")
    opened: list[object] = []
    opening = threading.Thread(target=lambda: opened.append(open_store(sqlite_url)))
    opening.start()
    opening.join(0.3)
    theirs.execute("COMMIT")
    opening.join(PATIENCE)
    theirs.close()
    assert opened
    opened[0].close()  # type: ignore[attr-defined]


def test_a_new_file_opened_by_many_at_once_is_made_once(sqlite_url: str) -> None:
    together, names, problems = threading.Barrier(6), set(), []

    def open_it() -> None:
        together.wait(PATIENCE)
        try:
            store = open_store(sqlite_url)
            names.add(store.ledger_name)
            store.close()
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert (problems, len(names)) == ([], 1)


# ── files that are something else ────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but dear to somebody " * 100)
    before = path.read_bytes()
    with pytest.raises(Misconfigured, match="SQLite"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_ledger_lives_in_an_applications_database(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with open_file(path) as connection:
        for table in ("effects", "events", "runs", "migrations", "presize"):
            connection.execute(f"CREATE TABLE {table} (theirs)")
            connection.execute(f"INSERT INTO {table} VALUES (1)")
    connection.close()
    store = open_store(f"sqlite:///{path}")
    store.close()
    connection = open_file(path)
    for table in ("effects", "events", "runs", "migrations", "presize"):
        assert connection.execute(f"SELECT theirs FROM {table}").fetchall() == [(1,)]
    connection.close()


def test_an_empty_postgres_says_how_to_migrate(postgres_url: str) -> None:
    with pytest.raises(SchemaOutdated, match="indelible migrate"):
        open_store(postgres_url)
    assert tables_of(postgres_url) == set(), "and is left alone"


@pytest.mark.parametrize("address", ["mysql://host/db", "ftp://x", "redis://"])
def test_an_address_of_no_store_is_refused(address: str) -> None:
    with pytest.raises(Misconfigured, match="sqlite:///"):
        open_store(address)
