"""What a child process runs. It imports little, for that takes longer than all it does."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import httpx

from indelible import Idempotent, Ledger, RunningEffect, ToolCall
from indelible.http.httpx import IdempotencyTransport

CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})


def pay_in_child(line: Any, store: str, url: str, is_killed: bool) -> Any:
    """Pay in a process of its own, which may be killed when the provider has answered."""

    def handler(effect: RunningEffect) -> Any:
        with httpx.Client(transport=IdempotencyTransport()) as client:
            answer = client.post(f"{url}/v1/charges", json={"amount": 5}, timeout=60).json()
        if is_killed:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer["id"]

    words: Any = {"downstream": Idempotent(window=timedelta(hours=1)), "lease": timedelta(seconds=1)}
    with Ledger.open(store, seal=False) as ledger:
        return ledger.run(CALL, handler, side_effect="payment", **words)
