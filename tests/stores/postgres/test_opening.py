"""Opening a PostgreSQL store: its schema, its address, and what is said when either is wrong."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from indelible.errors import Misconfigured, SchemaOutdated, StoreError, StoreUnavailable
from indelible.stores.postgres import PostgresStore, migrate
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.schema import MIGRATIONS
from tests.postgres import PostgresServer
from tests.stores.postgres.making import NAMES, claim


def test_an_empty_database_says_how_to_migrate(postgres_url: str) -> None:
    with pytest.raises(SchemaOutdated, match="run: indelible migrate, with the same URL"):
        PostgresStore(postgres_url)


def test_a_newer_schema_is_refused(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("INSERT INTO indelible_migrations VALUES (9999, 'of_the_future', now())")
    for work in (lambda: PostgresStore(url), lambda: migrate(url)):
        with pytest.raises(SchemaOutdated, match="upgrade Indelible"):
            work()


def test_migrators_that_race_apply_each_migration_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        applied = list(pool.map(migrate, [postgres_url] * 8))
    assert sorted(name for names in applied for name in names) == NAMES
    with psycopg.connect(postgres_url) as connection:
        noted = connection.execute("SELECT number, name FROM indelible_migrations ORDER BY number").fetchall()
        assert noted == [(migration.number, migration.name) for migration in MIGRATIONS]
        found = connection.execute("SELECT name FROM indelible_ledger").fetchall()
    assert len(found) == 1
    assert re.fullmatch("ledger-[0-9a-f]{12}", found[0][0])


def test_a_migration_that_fails_leaves_nothing(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE indelible_pending (in_the_way int)")
        with pytest.raises(StoreError, match="already exists"):
            migrate(postgres_url)
        assert connection.execute(
            "SELECT to_regclass('indelible_effects'), count(*) FROM indelible_migrations"
        ).fetchone() == (None, 0)
        connection.execute("DROP TABLE indelible_pending")
    assert migrate(postgres_url) == NAMES


def test_no_message_shows_the_password(postgres_server: PostgresServer) -> None:
    wrong = postgres_server.url_of("no_such_database", tcp=True)
    with pytest.raises(Misconfigured) as unreachable:
        PostgresStore(wrong)
    assert "no_such_database" in str(unreachable.value)
    shown = [str(unreachable.value)]
    for url in ("postgresql://u:s3cret@:x/y z?what=ever", "postgresql://u:s3cret@h/d?pooler=sometimes"):
        with pytest.raises(Misconfigured) as unreadable:
            PostgresStore(url)
        shown.append(str(unreadable.value))
    assert not any("s3cret" in text or postgres_server.password in text for text in shown)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ledger:hidden@db/agents", "postgresql://ledger@db/agents"),
        ("postgresql://ledger@a,b,c/agents?target_session_attrs=read-write", "postgresql://ledger@a,b,c/agents"),
        ("postgresql://a:1,b,c:3/agents", "postgresql://a:1,b,c:3/agents"),
        ("postgresql://a,b/agents?port=5433", "postgresql://a:5433,b:5433/agents"),
    ],
)
def test_an_address_is_shown_as_it_is_written(url: str, shown: str) -> None:
    assert Target(url).address == shown


def test_a_closed_store_says_so_and_closing_twice_is_fine(url: str) -> None:
    store = PostgresStore(url)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="open it again"):
        claim(store, 1)
