"""Whatever takes `shell` or `ledger` runs through both shells on both stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from indelible.testing.clock import FakeClock
from tests.conftest import _KEYS
from tests.lending import lent_folder
from tests.postgres import fresh_database
from tests.scenarios.shells import Driver, Shell, prepare_store


@pytest.fixture(scope="session")
def _scenario_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """One PostgreSQL database for all scenarios: each has a tenant of its own, and tenants do not see each other."""
    server = os.environ.get("INDELIBLE_TEST_POSTGRES") or request.getfixturevalue("_postgres_cluster").start().url
    with fresh_database(server) as url:
        yield prepare_store(url)


@pytest.fixture(params=["sqlite", "postgres"])
def scenario_url(request: pytest.FixtureRequest) -> str:
    """A store that is ready; the tables may hold other tenants' effects."""
    if request.param == "postgres" and "without_writer_keys" in request.fixturenames:
        return prepare_store(request.getfixturevalue("postgres_url"))  # the shared one has keys
    if request.param == "postgres":
        if "INDELIBLE_TEST_POSTGRES" not in os.environ:
            request.getfixturevalue("postgres_server")  # up again, if a test before this one killed it
        url: str = request.getfixturevalue("_scenario_database")
        return url
    return prepare_store(request.getfixturevalue("sqlite_url"))


@pytest.fixture(params=["blocking", "async", "http"])
def shell(request: pytest.FixtureRequest, scenario_url: str) -> Iterator[Shell]:
    """Opens ledgers of one kind on one store, for a tenant that has no effects yet."""
    opener = Shell(request.param, scenario_url)
    yield opener
    opener.close()


@pytest.fixture
def clock() -> FakeClock:
    """The store's clock: it stands still until a scenario moves it, and agrees with ledgers that go by the real one."""
    return FakeClock(datetime.now(UTC))


@pytest.fixture
def ledger(shell: Shell, clock: FakeClock) -> Driver:
    """A ledger whose store goes by the fake clock."""
    return shell.open(clock=clock)


@pytest.fixture
def place(scenario_url: str) -> dict[str, Any]:
    """Where to open a ledger without effects, as words for `open`; for scenarios about one shell alone."""
    return {"url": scenario_url, "tenant": f"tenant-{uuid4().hex[:8]}", "run": "order-1"}


@pytest.fixture
def keys(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, scenario_url: str) -> Path:
    """A folder of keys for this test alone: whoever finds data keys opens what is encrypted, and works through a view.

    The redaction key is the database's, which scenarios may share.
    """
    folder = tmp_path_factory.mktemp("keys")
    folder.chmod(0o700)
    monkeypatch.setenv("INDELIBLE_KEYS", str(folder))
    if scenario_url.startswith("postgres"):
        monkeypatch.setenv("INDELIBLE_REDACTION_KEY", _shared_redaction_key(scenario_url))
        lent_folder(Path(_KEYS.name), folder)
    return folder


_SHARED: dict[str, str] = {}


def _shared_redaction_key(url: str) -> str:
    """Gives the redaction key of a database that other scenarios use too, who made it in the folder of all tests."""
    if url not in _SHARED:
        from indelible.journal.keys.redaction_key import RedactionKey
        from indelible.stores import open_store

        store = open_store(url)
        try:
            _SHARED[url] = RedactionKey(store, Path(_KEYS.name))().hex()
        finally:
            store.close()
    return _SHARED[url]
