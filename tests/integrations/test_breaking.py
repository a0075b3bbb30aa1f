"""One provider that breaks its answer after the deed, behind every door: done once, in doubt, its budget kept.

A program that calls a tool gets the tool's exception; a model hears that it may have happened, and never that it may
call again. Each door meets one way in eight, on each store and with each commit others; INDELIBLE_BREAKING=all tries
all.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from zlib import crc32

import pytest
from agents import set_tracing_disabled

from indelible import Effect, Idempotent, Retry, migrate
from indelible.compat import agent_ledger, locus
from tests.commit import COMMIT
from tests.integrations.breaking_provider import DONE
from tests.integrations.breaking_ways import (
    AWAITED,
    BLOCKING,
    CANCELLED,
    EVERY_WAY,
    INSIDE,
    READS_IT,
    WAYS,
    Pay,
    Provider,
    provider_process,
)
from tests.integrations.doors import BY_THE_TOOL, DOORS, PAUSED, TOOL, Called, Door, Site

pytestmark = pytest.mark.anyio
ONE_IN = 1 if os.environ.get("INDELIBLE_BREAKING") == "all" else 8
PAYMENT: dict[str, Any] = {"side_effect": "payment"}
BUDGET: dict[str, Any] = {"name": "payments", "limit": 5, "window": "1d", "sum": "amount", "per": "run"}
POLICY: dict[str, Any] = {
    "rules": [{"name": "any", "then": "allow"}],
    "budgets": [{**BUDGET, "match": {"tool": TOOL}}],
}
"""Each run may spend five, and one call takes all of it."""
INVITING = ("try again", "call again", "calling again", "you may call", "nothing was done", "timed out", "retry")
DOUBT = "may have happened"
FAILED_ON: dict[str, dict[str, Any]] = {"": {}, "_careful": {"failed_on": ()}}
"""Faces of other libraries call an exception `failed`, as those document it, unless the program says otherwise."""


async def by_agent_ledger(
    failed_on: Any, site: Site, made: Called, args: Any, run: str, words: Any, turn: str = "m1"
) -> str:
    store = agent_ledger.LedgerStore(site.ledger)
    face = agent_ledger.EffectLedger(agent_ledger.EffectLedgerOptions(store=store, **failed_on))
    call = agent_ledger.ToolCall(workflow_id=run, call_id=turn, tool=TOOL, args=dict(args))

    async def handler(effect: agent_ledger.Effect) -> Any:
        given = made.function(**args)
        return await given if inspect.isawaitable(given) else given

    return str(await face.run(call, handler))


async def by_locus(failed_on: Any, site: Site, made: Called, args: Any, run: str, words: Any, turn: str = "m1") -> str:
    tool: Any = locus.tool(idempotent=True, name=TOOL, **words, **failed_on)(made.function)
    with locus.agent_run(run, ledger=site.ledger):
        given = tool(**args)
        return str(await given if inspect.isawaitable(given) else given)


FACES: dict[str, Door] = {
    **{f"agent_ledger{careful}": partial(by_agent_ledger, words) for careful, words in FAILED_ON.items()},
    **{f"locus{careful}": partial(by_locus, words) for careful, words in FAILED_ON.items()},
}


def telling(door: Door) -> Door:
    """Return a door of LangChain through which the model hears of a tool that raised."""

    async def told(site: Site, made: Called, args: Any, run: str, words: Any, turn: str = "m1") -> str:
        return await door(site, made, args, run, {**words, "on_error": "tell"}, turn)

    return told


EVERY_DOOR = {
    **DOORS,
    **{f"{name}_telling": telling(DOORS[name]) for name in ("langchain", "langgraph")},
    "server_url": DOORS["server"],
    **FACES,
}
TO_A_MODEL = frozenset(name for name in DOORS if name not in (*BY_THE_TOOL, "server"))
"""The doors whose words a model hears; the words of the others are for programs."""
BLOCKS = frozenset({"begin", "connected", "functions_blocking", "langchain_blocking"})
"""The doors whose tools are blocking functions."""


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provider_process(tmp_path_factory.mktemp("provider")) as found:
        yield found


class Case:
    """One way of losing an answer, behind one door."""

    def __init__(
        self, provider: Provider, site: Site, door: str, way: str, words: dict[str, Any] | None = None
    ) -> None:
        self.site, self.door, self.way = site, door, way
        self.words = PAYMENT | (words or {})
        self.order = f"{site.tenant} {door} {way} {' '.join(words or {})}"
        self.provider = provider
        number = crc32(f"{COMMIT} {self.order}".encode())
        is_async = door not in BLOCKS and number % 2 == 1
        clients = [*BLOCKING, *AWAITED] if is_async else list(BLOCKING)
        clients = [client for client in clients if (client, way) not in READS_IT]
        client = clients[number // 2 % len(clients)]
        self.made = Pay(provider, way, client, site.ledger.blocking, is_async=is_async, passes_key=bool(words))
        if door == "server_url":
            self.made.url = provider.address(way, self.order)

    def __str__(self) -> str:
        return f"{self.door}, {self.way}, {self.made.client}, is_async={self.made.is_async}"

    async def call(self, turn: str = "m1", amount: int = 5) -> str:
        """Make the call; return what the model hears, or what was raised."""
        args = {"order": self.order, "amount": amount}
        try:
            return await EVERY_DOOR[self.door](self.site, self.made, args, self.order, self.words, turn)
        except (Exception, asyncio.CancelledError) as error:
            return f"raised {type(error).__module__}.{type(error).__qualname__}: {error} {_notes(error)}"

    async def effect(self) -> Effect:
        (found,) = await self.site.ledger.effects(run_id=self.order)
        return found


def _notes(error: BaseException) -> str:
    return " ".join(getattr(error, "__notes__", ()))


def tried(store: str, door: str, without: tuple[str, ...] = ()) -> list[str]:
    """Return the ways that a door meets this time: at least one."""
    ways = [way for way in WAYS if not way.startswith(("proxy", "tls"))] if door == "server_url" else [*EVERY_WAY]
    if door == "begin":
        ways.remove(CANCELLED)  # a program that claims by hand, and is cancelled, commits nothing
    numbers = {way: crc32(f"{COMMIT} {store} {door} {way}".encode()) for way in ways if way not in without}
    return [way for way, number in numbers.items() if number % ONE_IN == 0] or [min(numbers, key=numbers.__getitem__)]


@pytest.fixture
def url(store_url: str) -> str:
    migrate(store_url)
    return store_url


@pytest.mark.parametrize("door", EVERY_DOOR)
async def test_37_an_answer_that_is_lost_leaves_one_deed_in_doubt_behind_every_door(
    door: str, url: str, provider: Provider
) -> None:
    wrong: list[str] = []
    async with Site(url, seal=False, policy=POLICY, tenant=url[:4]) as site:
        for way in tried(url[:4], door):
            case = Case(provider, site, door, way)
            wrong += [f"{case}: {why}" for why in await misled(case)]
    assert not wrong, "\n".join(wrong)


async def misled(case: Case) -> list[str]:
    """Make a call whose answer is lost, again, in the user's next message, and one more; return what went wrong."""
    first, again, later, more = [
        await case.call("m1"),
        await case.call("m1"),
        await case.call("m2"),
        await case.call("m2", amount=1),
    ]
    effects = {one.args["amount"]: one for one in await case.site.ledger.effects(run_id=case.order)}
    if 5 not in effects:
        return [f"no effect: {first!r}"]
    wanted, status = expected(case), effects[5].status
    if status not in wanted:
        return [f"{status}, not {wanted}: {first!r}"]
    deeds, keys = case.provider.booked(case.order)
    wrong = []
    if (deeds, len(keys)) != (1, 1) and "failed" not in wanted:  # what failed gives its budget back
        wrong.append(f"{deeds} deeds, {len(keys)} requests")
    if effects[5].attempt != 1:
        wrong.append(f"{effects[5].attempt} attempts")
    if status == "in_doubt":
        if effects[5].charges_json is None or set(effects) != {5} or "budget" not in more.lower():
            wrong.append(f"the budget is free: {more!r}")
        wrong += [f"heard {text!r}" for text in (again, later) if DOUBT not in text]
        wrong += [f"heard first {first!r}" for _ in "1" if not first.startswith("raised") and DOUBT not in first]
        told = [text for text in (first, again, later) if not text.startswith(("raised", PAUSED))]
        wrong += [f"is invited: {text!r}" for text in told if case.door in TO_A_MODEL and _invites(text)]
    return wrong


def _invites(text: str) -> bool:
    return any(words in text.lower() for words in INVITING)


def expected(case: Case) -> tuple[str, ...]:
    """Return how an effect may stand."""
    if case.door in FACES and not case.door.endswith("careful") and case.way != CANCELLED:
        return ("failed", "in_doubt") if case.way in INSIDE else ("failed",)
    return ("succeeded",) if case.door == "server_url" and case.way in DONE else ("in_doubt",)


# A tool that says that it may be repeated hands its key on, and the provider counts one deed for one key.

PAUSE = timedelta(milliseconds=1)
REPEATS: dict[str, dict[str, Any]] = {
    "retry": {"retry": Retry(on=(Exception,), attempts=3, backoff=PAUSE)},
    "on_crash": {"on_crash": "retry"},
    "downstream": {"downstream": Idempotent(attempts=2, backoff=PAUSE)},
}
REPEATING = [door for door in EVERY_DOOR if door not in FACES]


@pytest.mark.parametrize("door", REPEATING)
async def test_37_what_is_repeated_on_purpose_is_sent_with_one_key_and_keeps_its_budget(
    door: str, url: str, provider: Provider
) -> None:
    wrong: list[str] = []
    async with Site(url, seal=False, policy=POLICY, tenant=url[:4]) as site:
        for how, words in REPEATS.items():
            ways = tried(f"{how} {url[:4]}", door, without=(CANCELLED, *DONE))
            for way in ways[:: 1 if ONE_IN == 1 else 4]:
                case = Case(provider, site, door, way, words)
                wrong += [f"{case}, {how}: {why}" for why in await repeated(case)]
    assert not wrong, "\n".join(wrong)


async def repeated(case: Case) -> list[str]:
    """Make a call that may be repeated, again, and in the next message; return what went wrong."""
    heard = [await case.call("m1"), await case.call("m1"), await case.call("m2"), await case.call("m2", amount=1)]
    effects = {one.args["amount"]: one for one in await case.site.ledger.effects(run_id=case.order)}
    deeds, keys = case.provider.booked(case.order)
    found = (deeds, len(set(keys)), None in keys, effects[5].status, set(effects), "budget" in heard[-1].lower())
    wanted = (1, 1, False, "in_doubt", {5}, True)
    is_repeated = len(keys) > 1 or (case.door == "begin" and "retry" in case.words)
    return [] if found == wanted and is_repeated else [f"{found}, {len(keys)} requests: {heard}"]
