"""Measures one handler of LangChain callbacks in this process, and prints what it found as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import FakeListChatModel
from langchain_core.outputs import Generation, LLMResult

from benchmarks.figures import percentile

WARM_UP = 200
# So long that what threads do a moment later falls into the phase of the callbacks it is about.
PHASES = 8
PROMPT = "what is the answer to the question that nobody has asked yet? " * 3
SERIALIZED = {"id": ["langchain", "llms", "fake", "Fake"]}
ANSWER = LLMResult(
    generations=[[Generation(text="forty-two, and " * 10)]],
    llm_output={"token_usage": {"prompt_tokens": 40, "completion_tokens": 20}},
)


class Contestant(Protocol):
    """Is a handler with a sink behind it."""

    handler: Any

    async def begin(self) -> None: ...

    async def settle(self) -> None: ...

    async def end(self) -> None: ...

    def recorded(self) -> int: ...


class Ours:
    """Writes to a SQLite ledger in a folder."""

    def __init__(self, mode: str, folder: str) -> None:
        from indelible import Ledger
        from indelible.integrations.langchain_callbacks import CallbackConfig, LedgerCallbackHandler

        self._ledger = Ledger.open(f"sqlite:///{folder}/ledger.db")
        config = CallbackConfig(mode=mode, spool=Path(folder, "spool"), session_id="s", shutdown_drain_seconds=60)  # type: ignore[arg-type]
        self.handler = LedgerCallbackHandler(self._ledger, config=config)

    async def begin(self) -> None:
        return None

    async def settle(self) -> None:
        await asyncio.to_thread(self.handler.flush)

    async def end(self) -> None:
        await asyncio.to_thread(self.handler.stop)

    def recorded(self) -> int:
        found = 0
        after = -1
        while page := self._ledger.events("s", after=after):
            found += sum(event.read()["type"] == "callback.model_invoked" for event in page)
            after = page[-1].seq
        self._ledger.close()
        return found


class Provedex:
    """Sends to a sink over loopback, as it is documented."""

    def __init__(self, sink: str) -> None:
        from provedex_langchain import ProvedexCallbackHandler, ProvedexConfig

        self._sink = sink
        self._before = self._count()
        self.handler = ProvedexCallbackHandler(config=ProvedexConfig(agent_url=sink))

    async def begin(self) -> None:
        await self.handler.start()

    async def settle(self) -> None:
        sent = -1
        while sent != (sent := self.handler.signed_total + self.handler.dropped_total):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # it does not say when it is done, but then it sends no more

    async def end(self) -> None:
        await self.handler.stop()

    def recorded(self) -> int:
        return self._count() - self._before

    def _count(self) -> int:
        with urllib.request.urlopen(f"{self._sink}/count") as answer:
            return int(json.load(answer)["count"])


class Floor:
    """Does nothing: what it adds is LangChain's own."""

    def __init__(self) -> None:
        self.handler = BaseCallbackHandler()
        self.handler.run_inline = True
        self.handler.on_chat_model_start = lambda *_, **__: None  # type: ignore[method-assign]

    async def begin(self) -> None:
        return None

    async def settle(self) -> None:
        return None

    async def end(self) -> None:
        return None

    def recorded(self) -> int:
        return 0


def _contestant(name: str, sink: str, folder: str) -> Contestant:
    if name == "floor":
        return Floor()
    return Provedex(sink) if name == "provedex" else Ours(name, folder)


def _pair(handler: Any, timed: Callable[[int], None]) -> None:
    run_id = uuid4()
    begun = time.perf_counter_ns()
    handler.on_llm_start(SERIALIZED, [PROMPT], run_id=run_id)
    between = time.perf_counter_ns()
    handler.on_llm_end(ANSWER, run_id=run_id)
    ended = time.perf_counter_ns()
    timed(between - begun)
    timed(ended - between)


async def _producer(handler: Any, pairs: int) -> dict[str, float]:
    """Gives what a callback costs in a burst, as provedex measures it."""
    taken: list[int] = []
    for _ in range(WARM_UP):
        _pair(handler, lambda _taken: None)
    await asyncio.sleep(0.5)
    for _ in range(pairs):
        _pair(handler, taken.append)
    return {"producer": statistics.median(taken) / 1e3, "producer_p99": percentile(taken, 99) / 1e3}


async def _ainvoke(one: Contestant, invocations: int) -> dict[str, float]:
    """Gives what a callback adds to a real call of a model, with and without the handler in turns.

    `ainvoke` is what whoever calls the model waits longer; `ainvoke_cpu` is the processor time of all threads, until
    everything that was told is delivered.
    """
    calls = invocations // PHASES
    waited, worked = [], []
    for _ in range(PHASES):
        without, with_it = [await _phase(handled, calls) for handled in (None, one)]
        waited.append((with_it[0] - without[0]) / (2 * calls) * 1e6)
        worked.append((with_it[1] - without[1]) / (2 * calls) * 1e6)
    return {"ainvoke": statistics.median(waited), "ainvoke_cpu": statistics.median(worked)}


async def _phase(one: Contestant | None, calls: int) -> tuple[float, float]:
    model = FakeListChatModel(responses=["forty-two"])
    config: Any = {"callbacks": [] if one is None else [one.handler]}
    begun, work = time.perf_counter(), time.process_time()
    for _ in range(calls):
        await model.ainvoke(PROMPT, config=config)
    waited = time.perf_counter() - begun
    if one is not None:
        await one.settle()
    return waited, time.process_time() - work


async def _burst(contestant: Contestant, pairs: int) -> None:
    for number in range(pairs):
        _pair(contestant.handler, lambda _taken: None)
        if number % 10 == 0:
            await asyncio.sleep(0)  # as an agent does, which also waits for its model


async def _measured(name: str, sink: str, folder: str, pairs: int, invocations: int, burst: int) -> dict[str, float]:
    one = _contestant(name, sink, f"{folder}")
    await one.begin()
    found = await _producer(one.handler, pairs if name != "strict" else pairs // 10)
    await one.settle()
    found.update(await _ainvoke(one, invocations if name != "strict" else invocations // 5))
    await one.end()
    one.recorded()
    if burst and name != "floor":
        Path(folder, "burst").mkdir()
        again = _contestant(name, sink, f"{folder}/burst")
        await again.begin()
        await _burst(again, burst if name != "strict" else burst // 10)
        await again.end()
        expected = burst if name != "strict" else burst // 10
        found["burst"] = float(expected - again.recorded())
    return found


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    contestant, sink, folder, *counts = sys.argv[1:]
    print(json.dumps(asyncio.run(_measured(contestant, sink, folder, *map(int, counts)))))
