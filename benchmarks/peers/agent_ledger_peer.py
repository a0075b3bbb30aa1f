"""agent-ledger on PostgreSQL: its PostgresStore over psycopg's async pool, as its README shows.

`AgentLedger` is what the README leads to, with the pool kept open at a size that serves concurrency best.
`AgentLedgerTuned` goes further than its documentation: autocommit connections, which spare BEGIN and COMMIT, and a
poll every 10 to 20 ms. Each of its store's operations is one statement, so its guarantees stay the same.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from agent_ledger import (
    ConcurrencyOptions,
    Effect,
    EffectLedger,
    EffectLedgerOptions,
    LedgerDefaults,
    RunOptions,
    ToolCall,
)
from agent_ledger.stores.postgres import SCHEMA_SQL, PostgresStore
from psycopg_pool import AsyncConnectionPool

from benchmarks.calls import RESULT, TOOL, Call, finished_at
from benchmarks.contestant import Awaited

# Tried with 2, 4, 8, 16 and 32 connections on a busy machine: for many callers 2 and 4 are slower, and 8, 16 and 32
# cannot be told apart; for one caller 16 and 32 are slower, and 2, 4 and 8 cannot be told apart.
CONNECTIONS_FOR_MANY = 16
CONNECTIONS_FOR_ONE = 8


class AgentLedger(Awaited):
    """The documented set-up."""

    connection_options: ClassVar[dict[str, Any]] = {}
    defaults: LedgerDefaults | None = None
    connections = CONNECTIONS_FOR_MANY

    async def open(self, url: str) -> None:
        self._pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            url,
            min_size=self.connections,
            max_size=self.connections,
            kwargs=self.connection_options,
            open=False,
        )
        await self._pool.open(wait=True)
        async with self._pool.connection() as connection:
            await connection.execute(SCHEMA_SQL)
        self._ledger: EffectLedger[Any] = EffectLedger(
            EffectLedgerOptions(store=PostgresStore(self._pool), defaults=self.defaults)
        )

    async def call(self, call: Call) -> Any:
        wanted = ToolCall(workflow_id=call.run_id, tool=TOOL, args=call.args)
        if not call.work:
            return await self._ledger.run(wanted, _instant)

        async def slow(effect: Effect) -> dict[str, Any]:
            await asyncio.sleep(call.work)
            return finished_at()

        return await self._ledger.run(wanted, slow)

    async def close(self) -> None:
        await self._pool.close()


class AgentLedgerOne(AgentLedger):
    """The documented set-up with the pool that serves a single caller best."""

    connections = CONNECTIONS_FOR_ONE


class AgentLedgerTuned(AgentLedger):
    """Tuned by hand beyond the documentation."""

    connection_options: ClassVar[dict[str, Any]] = {"autocommit": True}
    defaults = LedgerDefaults(
        run=RunOptions(concurrency=ConcurrencyOptions(initial_interval_s=0.01, max_interval_s=0.02))
    )


class AgentLedgerTunedOne(AgentLedgerTuned):
    """Tuned by hand, with the pool that serves a single caller best."""

    connections = CONNECTIONS_FOR_ONE


async def _instant(effect: Effect) -> dict[str, Any]:
    return RESULT
