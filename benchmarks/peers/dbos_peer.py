"""DBOS on SQLite and on PostgreSQL: a workflow per tool call, whose id is the idempotency key, with the tool as a step.

That is how its documentation makes a side effect durable and deduplicated. Nothing is sent anywhere: no conductor, no
OTLP, no admin server; the log is quiet. `DbosTuned` gives it, through its own `system_database_engine` option, a SQLite
file in WAL mode, which it does not choose by itself; synchronous=FULL in both.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.calls import RESULT, Call, finished_at
from benchmarks.contestant import Awaited, Blocking

CONNECTIONS = 20  # its default; 32 and 64, and threads instead of tasks, cannot be told apart from it


@DBOS.step()
def charge(args: dict[str, Any], work: float) -> dict[str, Any]:
    """Is the tool."""
    if not work:
        return RESULT
    time.sleep(work)
    return finished_at()


@DBOS.workflow()
def charge_once(args: dict[str, Any], work: float) -> dict[str, Any]:
    """Makes the tool durable."""
    return charge(args, work)


@DBOS.step()
async def charge_async(args: dict[str, Any], work: float) -> dict[str, Any]:
    """Is the tool, awaited."""
    if not work:
        return RESULT
    await asyncio.sleep(work)
    return finished_at()


@DBOS.workflow()
async def charge_once_async(args: dict[str, Any], work: float) -> dict[str, Any]:
    """Makes the awaited tool durable."""
    return await charge_async(args, work)


def _launch(url: str, engine: sa.Engine | None = None) -> None:
    config: DBOSConfig = {
        "name": "benchmark",
        "system_database_url": url,
        "sys_db_pool_size": CONNECTIONS,
        "log_level": "ERROR",
        "enable_otlp": False,
    }
    if engine is not None:
        config["system_database_engine"] = engine
    DBOS(config=config)
    DBOS.launch()


class DbosOne(Blocking):
    """One caller, blocking workflow."""

    def open(self, url: str) -> None:
        _launch(url)

    def call(self, call: Call) -> Any:
        with SetWorkflowID(call.run_id):
            return charge_once(call.args, call.work)

    def close(self) -> None:
        DBOS.destroy()


class DbosTunedOne(DbosOne):
    """One caller on a SQLite file in WAL mode."""

    def open(self, url: str) -> None:
        engine = sa.create_engine(url, pool_size=CONNECTIONS)
        sa.event.listen(engine, "connect", _use_wal)
        _launch(url, engine)


class DbosMany(Awaited):
    """Many callers, awaited workflows."""

    async def open(self, url: str) -> None:
        await asyncio.to_thread(_launch, url)

    async def call(self, call: Call) -> Any:
        with SetWorkflowID(call.run_id):
            return await charge_once_async(call.args, call.work)

    async def close(self) -> None:
        await asyncio.to_thread(DBOS.destroy)


def _use_wal(connection: Any, record: Any) -> None:
    connection.isolation_level = "IMMEDIATE"
    for setting in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {setting}")
