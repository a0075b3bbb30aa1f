"""The answer to a tool's own question reaches that tool, of that call, once; and no call that a person permitted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from indelible import AsyncLedger, GrantTerms, ToolCall, migrate
from indelible.cli.mcp import read_terms
from indelible.errors import Misconfigured, StoreUnavailable
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_gate import _Asked
from indelible.integrations.mcp_words import IDEMPOTENCY_KEY, TURN
from indelible.integrations.results import ToolAsked

pytestmark = pytest.mark.anyio
YES = types.ElicitResult(action="accept", content={"pin": "42"})
BOB = {"to": "bob", "amount": 5}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url, seal=False) as opened:
        yield opened


def asks(name: str, state: str) -> types.InputRequiredResult:
    form = types.ElicitRequestFormParams(message=f"{name}?", requested_schema={"type": "object", "properties": {}})
    return types.InputRequiredResult(input_requests={name: types.ElicitRequest(params=form)}, request_state=state)


class Bank:
    """An MCP server that asks for a PIN, pays, and may then ask for something else.

    Args:
        then: What it answers after it paid. Default: that it paid.
    """

    def __init__(self, then: types.InputRequiredResult | None = None) -> None:
        self.states: list[str | None] = []
        self.paid: list[dict[str, Any]] = []
        self._then = then
        schema = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}}}
        self._tool = types.Tool(name="pay", description="Pays.", input_schema=schema)
        self.server: Server[Any] = Server("bank", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._tool])

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.states.append(params.request_state)
        if params.request_state is None:
            return asks("pin", "s1")
        if params.request_state == "s1":
            self.paid.append(dict(params.arguments or {}))
            if self._then is not None:
                return self._then
        return types.CallToolResult(content=[types.TextContent(text="paid")])


@asynccontextmanager
async def behind(ledger: AsyncLedger, bank: Bank, **words: Any) -> AsyncIterator[Client]:
    words = {"side_effect": "payment", **words}
    async with (
        Client(bank.server) as upstream,
        Client(ledger_proxy(ledger, upstream, run="order-1", **words), mode="2026-07-28") as client,
    ):
        yield client


async def call(client: Client, asked: Any = None, args: Any = BOB, **meta: Any) -> Any:
    """Call the tool, or answer its question."""
    said: dict[str, Any] = {}
    if asked is not None:
        assert isinstance(asked, types.InputRequiredResult)
        said = {"request_state": asked.request_state, "input_responses": dict.fromkeys(asked.input_requests or {}, YES)}
    named = cast("types.RequestParamsMeta", meta)
    return await client.session.call_tool("pay", args, meta=named, allow_input_required=True, **said)


async def statuses(ledger: AsyncLedger) -> list[str]:
    return [effect.status for effect in await ledger.effects(run_id="order-1")]


async def test_92_a_tool_that_was_given_input_and_asks_again_is_in_doubt(ledger: AsyncLedger) -> None:
    """It may ask before it acts or after. What it asked first, before it was given anything, may be asked again."""
    bank = Bank(asks("receipt", "s2"))
    async with behind(ledger, bank) as client:
        await call(client)
        told = await call(client, await call(client))
        again = await call(client)
    assert (told.is_error, again.is_error) == (True, True)
    assert (bank.states, len(bank.paid)) == ([None, None, "s1"], 1)
    assert await statuses(ledger) == ["in_doubt"]


async def test_92_a_tool_that_says_that_it_asks_before_it_acts_asks_on(ledger: AsyncLedger) -> None:
    bank = Bank(asks("receipt", "s2"))
    async with behind(ledger, bank, nothing_on=ToolAsked) as client:
        pin = await call(client)
        receipt = await call(client, pin)
        with pytest.raises(MCPError, match="no open question"):
            await call(client, pin)
        done = await call(client, receipt)
    assert not done.is_error
    assert bank.states == [None, "s1", "s2"]
    assert await statuses(ledger) == ["succeeded"]


@pytest.mark.parametrize("state", ["s1", "s2"])
async def test_92_an_answer_that_is_delivered_twice_at_once_is_sent_once(
    ledger: AsyncLedger, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Also if the tool asks the same again, and may be entered again."""
    bank, run, both, waiting = Bank(asks("pin", state)), AsyncLedger.run, asyncio.Event(), iter([False, True])

    async def run_together(*args: Any, **words: Any) -> Any:
        if next(waiting, True):
            both.set()
        await both.wait()
        return await run(*args, **words)

    async with (
        behind(ledger, bank, nothing_on=ToolAsked) as client,
        behind(ledger, bank, nothing_on=ToolAsked) as other,
    ):
        pin = await call(client)
        monkeypatch.setattr(AsyncLedger, "run", run_together)
        told = await asyncio.gather(call(client, pin), call(other, pin), return_exceptions=True)
    assert [type(one) for one in told].count(MCPError) == 1
    assert bank.states == [None, "s1"]
    assert await statuses(ledger) == ["ready"]


async def test_92_an_answer_to_one_server_is_not_given_to_another(ledger: AsyncLedger) -> None:
    one, other = Bank(), Bank()
    async with behind(ledger, one, server="bank-a") as a, behind(ledger, other, server="bank-b") as b:
        pin = await call(a)
        with pytest.raises(MCPError, match="no open question"):
            await call(b, pin)
        assert (other.states, await statuses(ledger)) == ([], ["ready"])
        await call(b)
        with pytest.raises(MCPError, match="no open question"):
            await call(b, pin)
        assert not (await call(a, pin)).is_error
    assert (one.states, other.states) == ([None, "s1"], [None])


@pytest.mark.parametrize("name", [TURN, IDEMPOTENCY_KEY])
async def test_92_an_answer_to_one_call_is_not_given_to_another(ledger: AsyncLedger, name: str) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        pin = await call(client, **{name: "1"})
        with pytest.raises(MCPError, match="no open question"):
            await call(client, pin, **{name: "2"})
        assert (bank.paid, await statuses(ledger)) == ([], ["ready"])
        assert not (await call(client, pin, **{name: "1"})).is_error
    assert len(bank.paid) == 1


async def test_92_a_call_on_a_standing_grant_is_not_continued_with_input_that_its_giver_has_not_seen(
    ledger: AsyncLedger,
) -> None:
    bank = Bank()
    async with behind(ledger, bank, approval="required") as client:
        await call(client)
        (asked,) = await ledger.approvals(status="pending")
        grant = GrantTerms(count=5, until=datetime.now(UTC) + timedelta(hours=1), pin=("amount",))
        await ledger.approve(asked, digest=asked.digest, by="ana", grant=grant)
        told = [await call(client), await call(client, args={"to": "eve", "amount": 5})]
    assert [one.is_error for one in told] == [True, True]
    assert (bank.states, bank.paid) == ([None, None], [])
    assert await statuses(ledger) == ["failed", "failed"]


async def test_92_input_is_not_given_on_a_grant_that_came_after_the_question(ledger: AsyncLedger) -> None:
    bank = Bank()
    async with behind(ledger, bank) as client:
        pin = await call(client)
    async with behind(ledger, bank, approval="required") as client:
        await call(client, args={"to": "eve", "amount": 5})
        (asked,) = await ledger.approvals(status="pending")
        grant = GrantTerms(count=5, until=datetime.now(UTC) + timedelta(hours=1), pin=("amount",))
        await ledger.approve(asked, digest=asked.digest, by="ana", grant=grant)
        told = await call(client, pin)
    assert told.is_error
    assert (bank.states, bank.paid) == ([None], [])


async def test_92_what_was_not_sent_is_not_recorded_as_given(
    ledger: AsyncLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank()

    async def fails(*args: Any, **words: Any) -> None:
        raise StoreUnavailable("gone")

    async with behind(ledger, bank) as client:
        pin = await call(client)
        with monkeypatch.context() as broken:
            broken.setattr(AsyncLedger, "record", fails)
            await call(client, pin)
        assert (bank.paid, await statuses(ledger)) == ([], ["ready"])


async def test_95_no_guess_at_redacted_arguments_can_be_checked_against_what_a_question_leaves(store_url: str) -> None:
    """The record knows the question by a hash of the arguments and of something that only the client has."""
    migrate(store_url)
    bank, told = Bank(), list[Any]()
    async with AsyncLedger.open(store_url, seal=False, redact=["args.to"]) as ledger, behind(ledger, bank) as client:
        asked = await call(client)
        (effect,) = await ledger.effects()
        await call(client, asked)
        await ledger.run_story("order-1", each=told.append)
    secret, *known = json.loads(asked.request_state.removeprefix("upstream:"))
    assert len(secret) == 32
    assert secret not in f"{effect.detail} {[one.payload for one in told]}"
    guess = ToolCall(tool="pay", args=BOB, run_id="order-1")
    assert _Asked(secret, *known).mark(guess) != _Asked("0" * 32, *known).mark(guess)


async def test_95_erasing_a_person_erases_what_was_answered(store_url: str) -> None:
    migrate(store_url)
    bank, told = Bank(), list[Any]()
    async with AsyncLedger.open(store_url, seal=False, subject="args.to") as ledger, behind(ledger, bank) as client:
        await call(client, await call(client))
        await ledger.erase(subject="bob", by="ana", reason="asked")
        await ledger.run_story("order-1", each=told.append)
    assert [one.payload for one in told if one.type == "mcp.input_given"] == [None]


def test_92_terms_in_a_file_say_that_a_tool_asks_before_it_acts(tmp_path: Path) -> None:
    file = tmp_path / "tools.toml"
    file.write_text('[tools.pay]\nnothing_on = ["ToolAsked"]\n')
    assert read_terms(file) == {"pay": {"nothing_on": ToolAsked}}
    file.write_text('[tools.pay]\nnothing_on = ["ToolError"]\n')
    with pytest.raises(Misconfigured):
        read_terms(file)
