"""Fixtures of what is special to the PostgreSQL store: two stores on one database, and what they send."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from indelible.stores.postgres import PostgresStore, migrate
from tests.stores.postgres.disturbing import Traffic
from tests.stores.postgres.making import TENANT
from tests.waiting import PATIENCE


@pytest.fixture
def url(postgres_url: str) -> str:
    migrate(postgres_url)
    return postgres_url


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store:
        store._check_is_kept_here(TENANT)  # as before the first write of each process, so that no test counts it
        yield store


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """Another process's store, as far as the database can tell."""
    with contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store:
        store._check_is_kept_here(TENANT)
        yield store


@pytest.fixture
def admin(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def traffic(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Traffic:
    assert store.ledger_name, "connected before the counting begins"
    return Traffic(monkeypatch)
