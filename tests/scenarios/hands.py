"""A run in the hands of a scenario: one way to drive runs through both shells."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from tests.scenarios.shells import Driver
from tests.waiting import PATIENCE


class Hand:
    """Has the verbs of an active run, each waiting for its result on its ledger's loop."""

    def __init__(self, driver: Any, run: Any) -> None:
        self._driver = driver
        self.active = run

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.active, name)
        if not inspect.iscoroutinefunction(found):
            return found
        return lambda *args, **words: self._ended(found(*args, **words))

    def _ended(self, coroutine: Any) -> Any:
        value = asyncio.run_coroutine_threadsafe(coroutine, self._driver.loop).result(PATIENCE)
        return Hand(self._driver, value) if type(value) is type(self.active) else value

    def finish_delegation(self, child: Any, result: Any = None) -> Any:
        """Takes a child as a hand, or by its name."""
        child = child.active if isinstance(child, Hand) else child
        return self._ended(self.active.finish_delegation(child, result))


def begun(driver: Driver, verb: str, *args: Any, **words: Any) -> Any:
    """Starts, resumes or forks a run and gives it; nothing ends it but the scenario."""
    beginning = getattr(driver.ledger, verb)(*args, **words)
    if driver.kind != "async":
        return beginning

    async def awaited() -> Any:
        return await beginning

    return Hand(driver, asyncio.run_coroutine_threadsafe(awaited(), driver.loop).result(PATIENCE))  # type: ignore[attr-defined]


def started(driver: Driver, run_id: str | None = "r1", **words: Any) -> Any:
    """Starts a run."""
    return begun(driver, "start_run", run_id, **{"agent": "scout", **words})


def resumed(driver: Driver, run_id: str = "r1", **words: Any) -> Any:
    """Resumes a run."""
    return begun(driver, "resume_run", run_id, **words)


def inside(
    driver: Driver, body: Callable[[Any], Any], verb: str = "start_run", run_id: str = "r1", **words: Any
) -> Any:
    """Does something inside the block of a run that is started, resumed or forked; gives or raises what it does."""
    if verb == "start_run":
        words.setdefault("agent", "scout")
    if driver.kind != "async":
        with getattr(driver.ledger, verb)(run_id, **words) as run:
            return body(run)

    async def block() -> Any:
        async with getattr(driver.ledger, verb)(run_id, **words) as run:
            # In a thread, with the context of the block: the body waits, and the loop must not.
            return await asyncio.to_thread(body, Hand(driver, run))

    return asyncio.run_coroutine_threadsafe(block(), driver.loop).result(PATIENCE)  # type: ignore[attr-defined]


def told(driver: Driver, run_id: str = "r1") -> list[str]:
    """Lists the types of a run's events."""
    events: list[str] = []
    driver.run_story(run_id, each=lambda event: events.append(event.type))
    return events


def reasons(driver: Driver, run_id: str = "r1") -> list[str]:
    """Lists why a run's checkpoints were sealed, oldest first."""
    return [checkpoint.reason for checkpoint in driver.checkpoints(run_id)][::-1]
