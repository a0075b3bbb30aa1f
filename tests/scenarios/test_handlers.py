"""Handlers of both kinds in both ledgers, handlers that call the ledger, and what they know of themselves."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from typing import Any

import httpx2
import pytest

from indelible import AsyncLedger, Ledger, NothingHappened, Refused, RunningEffect, current_effect
from indelible.errors import EffectFailed
from indelible.http import AsyncIdempotencyTransport, IdempotencyTransport
from tests.scenarios.shells import Count, Driver, Gate, charge, in_thread
from tests.waiting import PATIENCE

# ── both kinds in both ledgers ───────────────────────────────────────────────────────────────────────────────────────


async def coroutine_handler(effect: RunningEffect) -> Any:
    await asyncio.sleep(0)
    found = current_effect()
    assert found is effect
    return {"amount": effect.args["amount"]}


def blocking_handler(effect: RunningEffect) -> Any:
    found = current_effect()
    assert found is effect
    return {"amount": effect.args["amount"]}


class CallableObject:
    """Is a handler too."""

    def __call__(self, effect: RunningEffect) -> Any:
        return blocking_handler(effect)


class AwaitableObject:
    """Is an asynchronous handler."""

    async def __call__(self, effect: RunningEffect) -> Any:
        return await coroutine_handler(effect)


HANDLERS = [
    pytest.param(coroutine_handler, id="coroutine function"),
    pytest.param(blocking_handler, id="function"),
    pytest.param(lambda effect: coroutine_handler(effect), id="function that returns a coroutine"),
    pytest.param(CallableObject(), id="callable object"),
    pytest.param(AwaitableObject(), id="object with an asynchronous call"),
    pytest.param(functools.partial(coroutine_handler), id="partial of a coroutine function"),
    pytest.param(functools.partial(blocking_handler), id="partial of a function"),
]


@pytest.mark.parametrize("handler", HANDLERS)
def test_the_asynchronous_ledger_takes_any_handler(place: dict[str, Any], handler: Any) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            assert await ledger.run(charge(), handler) == await ledger.run(charge(), handler) == {"amount": 5}

    asyncio.run(scenario())


@pytest.mark.parametrize("handler", HANDLERS)
def test_the_blocking_ledger_takes_any_handler(place: dict[str, Any], handler: Any) -> None:
    with Ledger.open(**place) as ledger:
        assert ledger.run(charge(), handler) == ledger.run(charge(), handler) == {"amount": 5}


@pytest.mark.parametrize("handler", [coroutine_handler, blocking_handler])
def test_the_blocking_ledger_works_where_a_loop_is_running(place: dict[str, Any], handler: Any) -> None:
    async def cell() -> Any:
        with Ledger.open(**place) as ledger:
            return ledger.run(charge(), handler)

    assert asyncio.run(cell()) == {"amount": 5}


def test_a_blocking_handler_does_not_block_the_loop(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            gate = Gate("done")
            task = asyncio.create_task(ledger.run(charge(), gate))
            await asyncio.to_thread(gate.await_entry)
            assert await ledger.run(charge(args={"amount": 6}), Count("meanwhile")) == "meanwhile"
            gate.open()
            assert await task == "done"

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [ValueError("no"), NothingHappened("no")])
def test_what_a_coroutine_raises_in_the_blocking_ledger_is_raised(place: dict[str, Any], error: Exception) -> None:
    async def handler(effect: RunningEffect) -> None:
        raise error

    async def cell(ledger: Ledger) -> None:
        ledger.run(charge(args={"amount": 6}), handler)

    with Ledger.open(**place) as ledger:
        with pytest.raises(type(error), match="no"):
            ledger.run(charge(), handler)
        with pytest.raises(type(error), match="no"):
            asyncio.run(cell(ledger))


def test_many_blocking_handlers_of_the_asynchronous_ledger_can_all_wait_for_each_other(place: dict[str, Any]) -> None:
    """Handlers that block must not use up the threads that others need."""
    number = 40
    together = threading.Barrier(number)

    def handler(effect: RunningEffect) -> int:
        together.wait(PATIENCE)
        return 1

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            calls = [ledger.run(charge(args={"amount": n}), handler) for n in range(number)]
            async with asyncio.timeout(PATIENCE):
                assert sum(await asyncio.gather(*calls)) == number

    asyncio.run(scenario())


def test_reading_goes_on_while_many_blocking_handlers_run(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            gate = Gate()
            tasks = [asyncio.create_task(ledger.run(charge(args={"amount": n}), gate)) for n in range(40)]
            try:
                await asyncio.to_thread(gate.await_entry)
                async with asyncio.timeout(PATIENCE / 2):
                    assert await ledger.effects(status="processing")
                    assert await ledger.get_effect("eff_nothing") is None
            finally:
                gate.open()
                await asyncio.gather(*tasks)

    asyncio.run(scenario())


# ── handlers that call the ledger ────────────────────────────────────────────────────────────────────────────────────


def test_a_handler_may_make_other_calls(ledger: Driver) -> None:
    inner = Count("inner")

    def outer(effect: RunningEffect) -> list[Any]:
        first = ledger.run(charge(tool="inner"), inner)
        assert current_effect() is effect or ledger.kind == "async"
        return [first, ledger.run(charge(tool="inner"), inner)]

    assert ledger.run(charge(), outer) == ["inner", "inner"]
    assert inner.entries == 1
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"charge": "succeeded", "inner": "succeeded"}


def test_a_nested_call_that_replays_a_failure_settles_the_outer_one_that_says_so(ledger: Driver) -> None:
    with pytest.raises(Refused, match="declined"):
        ledger.run(charge(tool="inner"), Count(Refused("declined")))

    def outer(effect: RunningEffect) -> None:
        ledger.run(charge(tool="inner"), Count())

    with pytest.raises(EffectFailed, match="declined"):
        ledger.run(charge(), outer, failed_on=EffectFailed)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"charge": "failed", "inner": "failed"}


def test_the_refusal_of_a_nested_call_is_none_of_the_outer_one(ledger: Driver) -> None:
    def outer(effect: RunningEffect) -> None:
        ledger.run(charge(tool="inner"), Count(Refused("declined")))

    with pytest.raises(Refused, match="declined"):
        ledger.run(charge(), outer)
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"charge": "in_doubt", "inner": "failed"}


def test_an_awaited_handler_may_await_other_calls(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:

            async def inner(effect: RunningEffect) -> str:
                assert current_effect() is effect
                return effect.tool

            async def outer(effect: RunningEffect) -> list[Any]:
                found = await asyncio.gather(*(ledger.run(charge(tool=f"inner-{n}"), inner) for n in range(3)))
                assert current_effect() is effect
                return found

            assert await ledger.run(charge(), outer) == ["inner-0", "inner-1", "inner-2"]

    asyncio.run(scenario())


def test_outside_of_handlers_there_is_no_current_effect(ledger: Driver) -> None:
    assert current_effect() is None
    ledger.run(charge(), Count())
    assert current_effect() is None
    with pytest.raises(ValueError, match="no"):
        ledger.run(charge(args={"amount": 6}), Count(ValueError("no")))
    assert current_effect() is None


def test_handlers_beside_each_other_each_have_their_own_effect(ledger: Driver) -> None:
    together = threading.Barrier(5)

    def handler(effect: RunningEffect) -> bool:
        together.wait(PATIENCE)
        found = current_effect()
        return found is not None and found.id == effect.id

    calls = [ledger.spawn("run", charge(args={"amount": n}), handler) for n in range(5)]
    assert all(call.result(PATIENCE) for call in calls)


def test_a_handler_may_be_interrupted_and_the_ledger_used_again(place: dict[str, Any]) -> None:
    with Ledger.open(**place) as ledger:
        with pytest.raises(KeyboardInterrupt):
            ledger.run(charge(), Count(KeyboardInterrupt()))
        assert ledger.run(charge(args={"amount": 6}), Count("next")) == "next"


def test_the_same_request_has_the_same_key_and_another_one_has_its_own(ledger: Driver) -> None:
    keys: list[list[str]] = []

    def handler(effect: RunningEffect) -> None:
        sent = [("charges", b"5"), ("mails", b"hello"), ("charges", b"5")]
        sent = sent if effect.attempt == 1 else sent[::-1]
        keys.append([effect.key_for_sending("POST", f"https://a.example/{path}", body) for path, body in sent])
        if effect.attempt == 1:
            raise NothingHappened("again")

    for _ in range(2):
        try:
            ledger.run(charge(), handler)
        except NothingHappened:
            continue
    one, mail, again = keys[0]
    assert one == again != mail
    assert keys[1] == [one, mail, one], "a second attempt repeats the keys of the first, in whichever order"
    assert mail == ledger.effects()[0].request_key("POST", "https://a.example/mails"), "a probe knows them"


@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_handler_sends_again_because_the_answer_got_lost_is_done_once(sqlite_url: str, is_async: bool) -> None:
    done: dict[str, bytes] = {}

    def provider(request: httpx2.Request) -> httpx2.Response:
        is_new = request.headers["Idempotency-Key"] not in done
        done.setdefault(request.headers["Idempotency-Key"], request.content)
        if is_new:
            raise httpx2.ReadTimeout("it is done, and the answer got lost")
        return httpx2.Response(200)

    def pay(effect: RunningEffect) -> None:
        with httpx2.Client(transport=IdempotencyTransport(httpx2.MockTransport(provider))) as bank:
            for amount in (5, 5, 6, 6):
                with contextlib.suppress(httpx2.ReadTimeout), effect.request(str(amount)):
                    bank.post("https://bank.example/charges", json={"amount": amount})

    async def pay_later(effect: RunningEffect) -> None:
        transport = AsyncIdempotencyTransport(httpx2.MockTransport(provider))
        async with httpx2.AsyncClient(transport=transport) as bank:
            for amount in (5, 5, 6, 6):
                with contextlib.suppress(httpx2.ReadTimeout), effect.request(str(amount)):
                    await bank.post("https://bank.example/charges", json={"amount": amount})

    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(charge(), pay_later if is_async else pay)
        assert next(iter(done)) == ledger.effects()[0].request_key("POST", "https://bank.example/charges", "5")
    assert list(done.values()) == [b'{"amount":5}', b'{"amount":6}']


# ── closing while threads start ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["waiting", "writer"])
def test_a_ledger_closed_while_a_thread_of_its_own_begins_ends_well(
    place: dict[str, Any], part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, may_begin = threading.Event(), threading.Event()

    class SlowToStart(threading.Thread):
        def start(self) -> None:
            if self.name == f"indelible-{part}":
                begins.set()
                assert may_begin.wait(PATIENCE)
            super().start()

    ledger = Ledger.open(**place, wait=1)
    claim: Any = ledger.begin(charge())
    monkeypatch.setattr(threading, "Thread", SlowToStart)
    if part == "waiting":
        busy = in_thread(lambda: ledger.run(charge(), Count()))
    else:
        busy = in_thread(
            lambda: asyncio.run(AsyncLedger(ledger._engine, tenant=ledger.tenant).begin(charge(args={"amount": 6})))
        )
    assert begins.wait(PATIENCE)
    closing = in_thread(ledger.close)
    monkeypatch.undo()
    try:
        if closing.done():
            closing.result()
    finally:
        may_begin.set()
    closing.result(PATIENCE)
    busy.exception(PATIENCE)
    assert claim
