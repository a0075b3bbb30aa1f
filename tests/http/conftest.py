"""A provider for each test, a ledger with a budget, and SDKs that do not wait long before they retry."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from indelible import Ledger, migrate
from tests.http.provider import Provider, providing

BUDGET = {
    "rules": [{"name": "pay", "match": {"tool": "pay*"}, "then": "allow"}],
    "budgets": [{"name": "charges", "limit": 5, "window": "1d", "sum": "amount", "per": "run"}],
}
"""Each run may spend five."""


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INITIAL_RETRY_DELAY", "MAX_RETRY_DELAY"):
        monkeypatch.setattr(f"openai._base_client.{name}", 0.001)


@pytest.fixture
def provider() -> Iterator[Provider]:
    """A provider that honours keys."""
    with providing() as found:
        yield found


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    """A ledger whose runs may spend five each."""
    migrate(store_url)
    with Ledger.open(store_url, seal=False, policy=BUDGET) as found:
        yield found


@pytest.fixture(params=["sqlite", "postgres"] if os.environ.get("INDELIBLE_MATRIX") == "full" else ["sqlite"])
def quick(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The same on SQLite alone, for what happens before the store is asked; INDELIBLE_MATRIX=full runs it on both."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    migrate(url)
    with Ledger.open(url, seal=False, policy=BUDGET) as found:
        yield found
