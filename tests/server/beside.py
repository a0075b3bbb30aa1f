"""Processes that make the same call: at the database, by our client, by plain requests, by the server's own tool."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import httpx2

from indelible import Ledger, RunningEffect, ToolCall, connect
from tests.waiting import PATIENCE

Way = Literal["database", "client", "requests", "gateway", "careless"]
WORLD = "INDELIBLE_TEST_WORLD"
RUN = "order-1"
TOOL, GATEWAY_TOOL = "charge", "gate.charge"


def execute(number: int) -> str:
    """Is what must happen once: a line in a file, and a value that no other execution gives."""
    value = f"{number}/{os.urandom(6).hex()}"
    line = os.open(os.environ[WORLD], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(line, f"{value}\n".encode())
    finally:
        os.close(line)
    return value


def charge(n: int) -> str:
    """Is the tool that the server runs."""
    return execute(n)


def caller(line: Connection, way: Way, url: str, token: str, world: Path, tool: str, schema: str) -> None:
    """Makes the call with each number it hears, and says what it got; None ends it."""
    os.environ[WORLD] = str(world)
    with _WAYS[way](url, token, tool, schema) as calling:
        line.send("ready")
        while (number := line.recv()) is not None:
            line.send(calling.call(number))


class AtTheLedger:
    """Calls by the library's verbs: at the database itself, or at a server."""

    def __init__(self, ledger: Ledger, tool: str, schema: str) -> None:
        self._ledger, self._tool, self._schema = ledger, tool, schema

    def __enter__(self) -> AtTheLedger:
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.close()

    def call(self, number: int) -> str:
        """Runs it."""

        def handler(effect: RunningEffect) -> str:
            return execute(effect.args["n"])

        call = ToolCall(tool=self._tool, args={"n": number}, run_id=RUN, schema=self._schema)
        return str(self._ledger.run(call, handler, wait=PATIENCE))


class ByRequests:
    """Calls as another language does: requests, and nothing of ours."""

    def __init__(self, url: str, token: str, tool: str) -> None:
        self._tool = tool
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE, trust_env=False
        )

    def __enter__(self) -> ByRequests:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(self, number: int) -> str:
        """Begins, executes and commits, or waits for whoever does."""
        body = {"run_id": RUN, "tool": self._tool, "args": {"n": number}}
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = self._http.post("/v1/effects", json=body)
            told = answer.json()
            if answer.status_code == 200:
                return str(told["effect"]["outcome"]["value"])
            if answer.status_code == 201:
                return self._settle(told, execute(number))
            assert told["type"] == "/problems/still-running", told
            self._http.get(f"/v1/effects/{told['effect_id']}", params={"wait": 5})
        raise TimeoutError(number)

    def _settle(self, claimed: dict[str, Any], value: str) -> str:
        effect = claimed["effect"]
        report = {"token": claimed["token"], "attempt": effect["attempt"], "outcome": _succeeded(value)}
        answer = self._http.post(f"/v1/effects/{effect['id']}/commit", json=report)
        assert answer.status_code == 200, answer.text
        return value


class Careless(ByRequests):
    """Looks whether it was done, and does it if not."""

    def call(self, number: int) -> str:
        """Forgets that others look as well."""
        listed = self._http.get("/v1/effects", params={"limit": 1000}).json()["effects"]
        if any(effect["args"] == {"n": number} for effect in listed):
            return super().call(number)
        return execute(number)


class ByTheGateway(ByRequests):
    """Lets the server do it."""

    def call(self, number: int) -> str:
        """Asks for it until it is done."""
        body = {"run_id": RUN, "args": {"n": number}, "wait_s": 20}
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            answer = self._http.post(f"/v1/tools/{self._tool}/calls", json=body)
            if answer.status_code == 200:
                return str(answer.json()["value"])
            assert answer.json()["type"] == "/problems/still-running", answer.text
        raise TimeoutError(number)


def _succeeded(value: str) -> dict[str, str]:
    return {"status": "succeeded", "value": value}


_WAYS: dict[Way, Any] = {
    "database": lambda url, token, tool, schema: AtTheLedger(Ledger.open(url, tenant="acme", seal=False), tool, schema),
    "client": lambda url, token, tool, schema: AtTheLedger(connect(url, token=token), tool, schema),
    "requests": lambda url, token, tool, schema: ByRequests(url, token, tool),
    "careless": lambda url, token, tool, schema: Careless(url, token, tool),
    "gateway": lambda url, token, tool, schema: ByTheGateway(url, token, tool),
}
