"""Ledgers under agent-ledger's names: in memory, and on every store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from indelible.compat.agent_ledger import EffectLedger, EffectLedgerOptions, EffectStore, LedgerStore, MemoryStore
from indelible.compat.agent_ledger.stores.postgres import PostgresStore
from tests.compat.agent_ledger.calling import pool_of


@pytest.fixture
def memory() -> Iterator[MemoryStore]:
    made = MemoryStore()
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[EffectStore[Any]]:
    made: EffectStore[Any]
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = LedgerStore(request.getfixturevalue("sqlite_url"))
    else:
        made = PostgresStore(pool=pool_of(request.getfixturevalue("postgres_url")))
    yield made
    made.close()


@pytest.fixture
def ledger(store: EffectStore[Any]) -> EffectLedger[Any]:
    return EffectLedger(EffectLedgerOptions(store=store))


@pytest.fixture
def quick(memory: MemoryStore) -> EffectLedger[Any]:
    """A ledger in memory, for what does not depend on where effects are kept."""
    return EffectLedger(EffectLedgerOptions(store=memory))
