"""Every scenario that takes `shell` or `ledger` runs through both shells on both stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from indelible.testing.clock import FakeClock
from tests.scenarios.shells import Driver, Shell, prepare_store


@pytest.fixture(params=["blocking", "async"])
def shell(request: pytest.FixtureRequest, store_url: str) -> Iterator[Shell]:
    """Opens ledgers of one kind on an empty store."""
    opener = Shell(request.param, prepare_store(store_url))
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
def ready_url(store_url: str) -> str:
    """An empty store, for scenarios about one shell alone."""
    return prepare_store(store_url)
