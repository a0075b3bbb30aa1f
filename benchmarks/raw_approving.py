"""The raw limit of approving on PostgreSQL: two durable updates, and a NOTIFY between the processes.

Nobody is asked who they are, nothing is compared, recorded or judged. So it is the yardstick for what the machine and
the server take at that moment, and not a rival.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg

from benchmarks.approvable import SIZE, Approvable, Handle
from benchmarks.calls import args_of

SCHEMA = "CREATE TABLE IF NOT EXISTS raw_asked (run_id text PRIMARY KEY, status text NOT NULL, args text NOT NULL)"
ASK = "INSERT INTO raw_asked (run_id, status, args) VALUES (%s, 'asked', %s)"
APPROVE = """
WITH approved AS (UPDATE raw_asked SET status = 'approved' WHERE run_id = %s AND status = 'asked' RETURNING run_id)
SELECT pg_notify('raw_approving', run_id) FROM approved
"""
CLAIM = "UPDATE raw_asked SET status = 'processing' WHERE run_id = %s AND status = 'approved'"


class RawApproving(Approvable):
    """One connection writes; in the process that waits another one listens, and the loop hears it."""

    async def open_to_wait(self, url: str) -> None:
        await self.open_to_approve(url)
        self._connection.execute(SCHEMA)
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._ear = psycopg.connect(url, autocommit=True)
        self._ear.execute("LISTEN raw_approving")
        asyncio.get_running_loop().add_reader(self._ear.fileno(), self._hear)

    async def open_to_approve(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)

    def _hear(self) -> None:
        pgconn = self._ear.pgconn
        pgconn.consume_input()
        while (notice := pgconn.notifies()) is not None:
            run_id = notice.extra.decode()
            if self._connection.execute(CLAIM, [run_id]).rowcount == 1:
                self._waiting.pop(run_id).set_result(self.enter(run_id))

    async def ask(self, run_id: str) -> tuple[Handle, asyncio.Future[Any]]:
        self._waiting[run_id] = asyncio.get_running_loop().create_future()
        self._connection.execute(ASK, [run_id, str(args_of(SIZE, 0))])
        return {"id": run_id}, self._waiting[run_id]

    async def approve(self, handle: Handle) -> None:
        self._connection.execute(APPROVE, [handle["id"]])

    async def close(self) -> None:
        self._connection.close()
        if hasattr(self, "_ear"):
            asyncio.get_running_loop().remove_reader(self._ear.fileno())
            self._ear.close()
