"""provedex, in process, as its README shows: a session over one file, each event signed, chained, appended and synced.

A tool call is two of its events, `tool_called` and `tool_returned`. Like ours, they hold digests of arguments and
results; unlike ours, provedex leaves it to the caller to keep the values themselves, so it is spared writing them.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import provedex

from benchmarks.calls import RESULT, TOOL, Call
from benchmarks.contestant import Awaited, Blocking


def _opened(url: str) -> provedex.Session:
    path = url.removeprefix("sqlite:///").removesuffix(".db")
    keypair = provedex.SigningKeypair.load_or_create(f"{path}.key")
    return provedex.Session.open(keypair=keypair, ledger_path=f"{path}.ndjson", session_id="benchmark")


def _recorded(session: provedex.Session, call: Call) -> dict[str, Any]:
    shown = {"number": call.args["number"]}
    session.record(provedex.events.tool_called(tool_name=TOOL, args_sha256=_digest(call.args), args_redacted=shown))
    session.record(
        provedex.events.tool_returned(tool_name=TOOL, result_sha256=_digest(RESULT), latency_ms=0, success=True)
    )
    return RESULT


def _digest(value: dict[str, Any]) -> str:
    return hashlib.sha256(provedex.canonical_json(value)).hexdigest()


class ProvedexOne(Blocking):
    """One caller."""

    def open(self, url: str) -> None:
        self._session = _opened(url)

    def call(self, call: Call) -> Any:
        return _recorded(self._session, call)

    def close(self) -> None:
        del self._session  # which is how its file is closed


class ProvedexMany(Awaited):
    """Many callers of one event loop, off the loop as its README advises."""

    async def open(self, url: str) -> None:
        self._session = _opened(url)

    async def call(self, call: Call) -> Any:
        return await asyncio.to_thread(_recorded, self._session, call)

    async def close(self) -> None:
        del self._session


def write_ledger(path: Path, events: int) -> None:
    """Writes a ledger file of so many events with its own signing function, without a sync for each."""
    keypair, parent = provedex.SigningKeypair.generate(), provedex.GENESIS_PARENT_HASH
    called, returned = _digest({"amount": 1000}), _digest(RESULT)
    with path.open("w") as file:
        for seq in range(events):
            if seq % 2:
                event = provedex.events.tool_returned(
                    tool_name=TOOL, result_sha256=returned, latency_ms=0, success=True
                )
            else:
                event = provedex.events.tool_called(tool_name=TOOL, args_sha256=called, args_redacted={"number": seq})
            signed = provedex.sign_event(event=event, seq=seq, parent_hash=parent, keypair=keypair)
            parent = signed.self_hash
            file.write(signed.to_json() + "\n")
