"""What both raw limits share: the rows of a transition, and a lane that writes for many callers from one thread."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.calls import RESULT, TOOL, Call
from benchmarks.contestant import Awaited


@dataclass(frozen=True, slots=True)
class Transition:
    """What one transition writes."""

    run: str
    key: bytes
    payload: bytes
    body: bytes
    hash: bytes


def encoded(value: Any) -> bytes:
    """Returns compact JSON; a real ledger needs a canonical form, the raw limit does not."""
    return json.dumps(value, separators=(",", ":")).encode()


def key_of(call: Call) -> bytes:
    """Returns what identifies a call within its run."""
    return hashlib.sha256(encoded(call.args)).digest()


def claim_of(call: Call) -> Transition:
    """Returns the first transition of a call."""
    args = encoded(call.args)
    return _transition(call, "processing", hashlib.sha256(args).digest(), args)


def settlement_of(call: Call, key: bytes) -> Transition:
    """Returns the second transition of a call."""
    return _transition(call, "succeeded", key, encoded(RESULT))


def _transition(call: Call, status: str, key: bytes, payload: bytes) -> Transition:
    # As long as the event of a real ledger: who, what, when, the link to the event before, one commitment.
    body = (
        f'{{"actor":{{"kind":"agent","proof":"process"}},"args":"{key.hex()}","format":"raw/1","origin":"raw/default",'
        f'"prev":"{key.hex()}","run":"{call.run_id}","status":"{status}","time":"2026-01-01T00:00:00.000000Z",'
        f'"tool":"{TOOL}"}}'
    ).encode()
    return Transition(call.run_id, key, payload, body, hashlib.sha256(b"\0" + body).digest())


class Lane(Awaited):
    """Writes for many callers from one thread: what gathers while a batch is written is the next batch."""

    async def open(self, url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[bool, Transition, asyncio.Future[None]]] = []
        self._ready = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, args=(url,), name="raw-lane", daemon=True)
        self._thread.start()

    async def call(self, call: Call) -> Any:
        claim = claim_of(call)
        await self._submitted(True, claim)
        await self._submitted(False, settlement_of(call, claim.key))
        return RESULT

    async def close(self) -> None:
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join()

    @abstractmethod
    def connect(self, url: str) -> None:
        """Opens the one connection; runs in the lane's thread, like everything below."""

    @abstractmethod
    def write(self, claims: Sequence[Transition], settlements: Sequence[Transition]) -> None:
        """Makes a batch durable in one transaction."""

    @abstractmethod
    def disconnect(self) -> None:
        """Closes the one connection."""

    def _submitted(self, is_claim: bool, step: Transition) -> asyncio.Future[None]:
        written = self._loop.create_future()
        with self._ready:
            self._waiting.append((is_claim, step, written))
            self._ready.notify()
        return written

    def _serve(self, url: str) -> None:
        self.connect(url)
        while batch := self._next_batch():
            try:
                self.write([step for claim, step, _ in batch if claim], [step for claim, step, _ in batch if not claim])
            except Exception as error:
                self._loop.call_soon_threadsafe(_answer, [written for _, _, written in batch], error)
            else:
                self._loop.call_soon_threadsafe(_answer, [written for _, _, written in batch], None)
        self.disconnect()

    def _next_batch(self) -> list[tuple[bool, Transition, asyncio.Future[None]]]:
        with self._ready:
            while not self._waiting and not self._closed:
                self._ready.wait()
            batch, self._waiting = self._waiting, []
            return batch


def _answer(waiting: list[asyncio.Future[None]], error: Exception | None) -> None:
    for written in waiting:
        if error is not None:
            written.set_exception(error)
        else:
            written.set_result(None)
