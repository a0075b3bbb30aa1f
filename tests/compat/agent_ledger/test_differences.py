"""What is said otherwise than by agent-ledger, because the ledger behind its names is ours."""

from __future__ import annotations

import asyncio
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.compat.agent_ledger import (
    CommitSucceeded,
    EffectDeniedError,
    EffectLedger,
    EffectLedgerInvariantError,
    EffectLedgerOptions,
    EffectLedgerValidationError,
    EffectStatus,
    EffectStoreError,
    EffectTimeoutError,
    LedgerStore,
    MemoryStore,
    RunOptions,
    ToolCall,
)
from indelible.compat.agent_ledger.stores.postgres import PostgresStore
from tests.compat.agent_ledger.calling import ASKED, BRIEFLY, CHARGE, DEPLOY, Bank, until

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]


async def test_nothing_is_written_past_the_ledger(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    ready, done = EffectStatus.READY, EffectStatus.SUCCEEDED
    for writing in (
        memory.upsert(None),
        memory.transition("id", ready, done),
        memory.claim_for_processing("id", ready),
        memory.increment_dedup_count("key"),
    ):
        with pytest.raises(EffectStoreError, match="past the ledger"):
            await writing
    with pytest.raises(EffectStoreError):
        memory.transaction()
    for verb in (quick.run(CHARGE, Bank(), object()), quick.begin(CHARGE, object()), quick.approve("k", object())):
        with pytest.raises(EffectLedgerValidationError, match=r"current_effect\(\)\.transaction"):
            await verb


async def test_it_is_too_late_to_ask_about_what_may_be_running(quick: EffectLedger[Any], memory: MemoryStore) -> None:
    begun, stranger = await quick.begin(CHARGE), EffectLedger(EffectLedgerOptions(store=memory))
    with pytest.raises(EffectLedgerInvariantError, match="too late"):
        await stranger.request_approval(begun.effect.idem_key)
    await quick.commit(begun.effect.id, CommitSucceeded())
    assert await quick.request_approval(begun.effect.idem_key) is False
    for unknown in ("nope", "ab" * 32):
        assert await quick.request_approval(unknown) is False
        assert await quick.approve(unknown) is False
        assert await quick.deny(unknown) is False
        assert await quick.find_by_idem_key(unknown) is None


async def test_whoever_dies_before_asking_has_done_nothing_and_the_call_can_be_asked_about_again(
    quick: EffectLedger[Any],
) -> None:
    begun = await quick.begin(CHARGE)
    await quick._begun.pop(begun.effect.id).put_back()  # and then the process is gone
    again = await quick.begin(CHARGE)
    assert (again.cached, again.effect.id) == (False, begun.effect.id)
    assert await quick.request_approval(again.effect.idem_key)
    assert await quick.deny(again.effect.idem_key)


async def test_another_process_approves_by_the_key_alone(store_url: str) -> None:
    """It has never seen the call, and looks the key up."""
    if store_url.startswith("postgresql"):
        from indelible import migrate

        migrate(store_url)
    asking, deciding = LedgerStore(store_url), LedgerStore(store_url)
    agent, people = (EffectLedger(EffectLedgerOptions(store=one)) for one in (asking, deciding))
    waiting = asyncio.ensure_future(agent.run(DEPLOY, Bank("deployed"), run_options=ASKED))
    key = agent.idem_key(DEPLOY)
    await until(lambda: people.find_by_idem_key(key))
    assert await people.approve(key, by="ana")
    assert await waiting == "deployed"
    asking.close()
    deciding.close()


async def test_a_ledger_that_is_open_serves_and_stays_open(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url) as ours:
        ledger = EffectLedger(EffectLedgerOptions(store=LedgerStore(ours)))
        assert await ledger.run(CHARGE, Bank("done")) == "done"
        ledger._store.close()
        assert [one.run_id for one in ours.effects()] == ["order-123"]


async def test_the_policy_judges_these_calls_too() -> None:
    rules = [
        {"name": "never", "match": {"tool": "wipe"}, "then": "refuse", "why": "on principle"},
        {"name": "ask first", "match": {"tool": "k8s.*"}, "then": "ask"},
    ]
    with Ledger.open(":memory:", seal=False, policy={"rules": rules}) as ours:
        ledger = EffectLedger(EffectLedgerOptions(store=LedgerStore(ours)))
        bank = Bank()
        with pytest.raises(EffectDeniedError, match="never"):
            await ledger.run(ToolCall(workflow_id="w", tool="wipe", args={}), bank)
        with pytest.raises(EffectTimeoutError):  # though the call does not say that it needs approval
            await ledger.run(DEPLOY, bank, run_options=RunOptions(requires_approval=False, concurrency=BRIEFLY))
        assert not bank.seen


async def test_arguments_that_are_too_large_are_refused(memory: MemoryStore) -> None:
    ledger = EffectLedger(EffectLedgerOptions(store=memory, max_args_size_bytes=10))
    with pytest.raises(EffectLedgerValidationError, match="at most 10"):
        await ledger.run(CHARGE, Bank())
    with pytest.raises(EffectLedgerValidationError):  # our ledger's own limits are told the same way
        await EffectLedger(EffectLedgerOptions(store=memory)).run(
            ToolCall(workflow_id="w", tool="no spaces allowed", args={}), Bank()
        )


async def test_78_the_extra_for_postgres_has_the_pool_that_the_page_names(postgres_url: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(re.match(r"psycopg\[[^\]]*\bpool\b", one) for one in extras["postgres"])
    from psycopg_pool import AsyncConnectionPool  # the tests have no other extra that brings it

    store: PostgresStore[Any] = PostgresStore(pool=AsyncConnectionPool(conninfo=postgres_url, open=False))
    ledger: EffectLedger[Any] = EffectLedger(EffectLedgerOptions(store=store))
    assert [await ledger.run(CHARGE, Bank("done")) for _ in range(2)] == ["done", "done"]
    store.close()
