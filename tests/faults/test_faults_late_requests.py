"""A thread of a handler that begins its request after the handler has ended: nothing of it leaves (A-09)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any

import pytest

from indelible import RunningEffect, ToolCall
from indelible.errors import BadCall
from tests.http.clients import OURS
from tests.http.provider import Provider, providing
from tests.scenarios.shells import Driver, Shell
from tests.waiting import PATIENCE, eventually

CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})
PAY: dict[str, Any] = {"side_effect": "payment", "marks_sending": True}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as found:
        yield found


class Late:
    """Does something in a thread of the handler's when the handler has ended, and keeps what it raised."""

    def __init__(self, does: Callable[[], Any]) -> None:
        self._does = does
        self._is_over = threading.Event()
        self.ended: list[BaseException | None] = []

    def start(self) -> None:
        threading.Thread(target=copy_context().run, args=(self._wait,), daemon=True).start()

    def _wait(self) -> None:
        assert self._is_over.wait(PATIENCE)
        try:
            self._does()
        except BaseException as error:
            self.ended.append(error)
        else:
            self.ended.append(None)

    def go(self) -> BaseException | None:
        self._is_over.set()
        eventually(lambda: self.ended)
        return self.ended[0]


def run(ledger: Driver, late: Late, ends: str) -> str:
    """Lets a handler start a thread and end; returns the status of the effect."""

    def handler(effect: RunningEffect) -> str:
        late.start()
        if ends == "raises":
            raise KeyError
        return "paid"

    if ends == "raises":
        with pytest.raises(KeyError):
            ledger.run(CALL, handler, **PAY)
    else:
        assert ledger.run(CALL, handler, **PAY) == "paid"
    status: str = ledger.effects()[0].status
    return status


@pytest.mark.parametrize("ends", ["returns", "raises"])
@pytest.mark.parametrize("name", sorted(OURS))
def test_09_a_request_that_begins_after_the_handlers_end_does_not_leave(
    ledger: Driver, provider: Provider, name: str, ends: str
) -> None:
    late = Late(lambda: OURS[name](f"{provider.url}/v1/charges", {"amount": 5}))
    before = run(ledger, late, ends)
    assert isinstance(caused(late.go()), BadCall)
    assert provider.requests == []
    assert ledger.effects()[0].status == before == ("ready" if ends == "raises" else "succeeded")


def caused(error: BaseException | None) -> BaseException | None:
    """Return the error below those that a client puts around it."""
    while error is not None and not isinstance(error, BadCall):
        error = error.__cause__ or error.__context__
    return error


@pytest.mark.parametrize("ends", ["returns", "raises"])
@pytest.mark.parametrize("way", ["sending", "request", "transaction"])
def test_09_an_effect_whose_handler_has_ended_marks_and_names_nothing(ledger: Driver, way: str, ends: str) -> None:
    held: list[RunningEffect] = []

    def use() -> None:
        opened = held[0].request("item-7") if way == "request" else getattr(held[0], way)()
        with opened:
            raise AssertionError("entered")

    def handler(effect: RunningEffect) -> str:
        held.append(effect)
        if ends == "raises":
            raise KeyError
        return "paid"

    if ends == "raises":
        with pytest.raises(KeyError):
            ledger.run(CALL, handler, **PAY)
    else:
        ledger.run(CALL, handler, **PAY)
    with pytest.raises(BadCall):
        use()


def test_09_a_task_that_outlives_its_handler_sends_nothing(scenario_url: str, provider: Provider) -> None:
    shell = Shell("async", scenario_url)
    ledger = shell.open()
    is_over: list[asyncio.Event] = []
    tasks: list[asyncio.Task[Any]] = []

    async def late() -> Any:
        await is_over[0].wait()
        return OURS["httpx"](f"{provider.url}/v1/charges", {"amount": 5})

    async def handler(effect: RunningEffect) -> str:
        is_over.append(asyncio.Event())
        tasks.append(asyncio.create_task(late()))
        return "paid"

    assert ledger.run(CALL, handler, **PAY) == "paid"

    async def awaited() -> Any:
        is_over[0].set()
        return await tasks[0]

    with pytest.raises(BadCall):
        asyncio.run_coroutine_threadsafe(awaited(), ledger.loop).result(PATIENCE)  # type: ignore[attr-defined]
    assert provider.requests == []
    shell.close()


def test_09_a_call_of_its_own_in_a_thread_that_outlives_a_handler_is_recorded_and_sent(
    ledger: Driver, provider: Provider
) -> None:
    """What is called through the ledger has a record of its own, whichever handler its thread was started in."""
    other = ToolCall(run_id="order-2", tool="mail", args={"to": "ana"})
    late = Late(lambda: ledger.run(other, lambda effect: OURS["httpx"](provider.url, {})["id"], side_effect="write"))
    assert run(ledger, late, "returns") == "succeeded"
    assert late.go() is None
    assert len(provider.requests) == 1
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"pay": "succeeded", "mail": "succeeded"}
