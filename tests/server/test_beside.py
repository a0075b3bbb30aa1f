"""A call through the server and the same call at the database, at once: one execution, and both get its value."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from indelible import Ledger, RunningEffect, ToolCall, migrate
from tests.server.serving import serve_believing

ROUNDS = 15
CALLERS = 6


def test_one_of_all_executes_wherever_it_comes_from(store_url: str) -> None:
    migrate(store_url)
    served = serve_believing(store_url, seal=False)
    entries: list[str] = []

    def handler(effect: RunningEffect) -> str:
        entries.append(effect.key)
        return effect.key

    afar = Ledger.open(served.url, token=quote(ascii("acme")))
    here = Ledger.open(store_url, tenant="acme", seal=False)
    with ThreadPoolExecutor(CALLERS) as pool, afar, here:
        for number in range(ROUNDS):
            call, gate = ToolCall(tool="charge", args={"n": number}, run_id="order-1"), threading.Barrier(CALLERS)

            def run(place: int, call: ToolCall = call, gate: threading.Barrier = gate) -> str:
                gate.wait()
                return str((afar if place % 2 else here).run(call, handler, wait=30))

            told = set(pool.map(run, range(CALLERS)))
            assert len(told) == 1
            assert entries.count(told.pop()) == 1
    served.stop()
    assert len(entries) == ROUNDS
