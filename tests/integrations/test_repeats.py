"""One table of cases for the adapters: a lost answer, a default left out, a model that repeats itself, and turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from mcp.client import Client
from mcp.server import Server
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import AsyncLedger
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_words import TURN
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.telling import TEXTS

pytestmark = pytest.mark.anyio
CHARGE = {"order": "o1", "amount": 5}
INVITES = ("try again", "call again", "calling again", "retry")
REPLAYED = TEXTS["replayed"].partition("{")[0]
WAITS = "waits for a person"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


class Till:
    """Has one tool, and counts what was charged, before it raises."""

    def __init__(self, raises: Exception | None = None) -> None:
        self.charged: list[int] = []
        self.raises = raises

    def charge(self, order: str, amount: int = 5000) -> dict[str, int]:
        """Charges."""
        self.charged.append(amount)
        if self.raises is not None:
            raise self.raises
        return {"charged": amount}


Said = list[list[dict[str, Any]]]
"""The arguments of the calls that a model makes, for each message of the user's. It numbers each turn's from zero."""
Play = Callable[..., Awaitable[list[str]]]


async def openai_agents(ledger: AsyncLedger, till: Till, said: Said, **words: Any) -> list[str]:
    tool = function_tool(till.charge, strict_mode=False)
    heard: list[str] = []
    for number, calls in enumerate(said, 1):
        turns: list[Any] = [[function_call("charge", args, call_id=f"call_{n}")] for n, args in enumerate(calls)]
        tools = LedgerTools(ledger, run="order-1", **words).tools([tool])
        agent = OpenAIAgent(name="billing", model=ScriptedModel([*turns, [assistant_message("done")]]), tools=tools)
        asked: Any = [{"role": "user", "content": f"message {n}"} for n in range(number)]
        result = await Runner.run(agent, asked)
        heard += [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
        heard += [WAITS for _ in result.interruptions]
    return heard


async def pydantic_ai(ledger: AsyncLedger, till: Till, said: Said, **words: Any) -> list[str]:
    heard: list[str] = []
    history: list[ModelMessage] = []
    for number, calls in enumerate(said, 1):
        parts = [ToolCallPart("charge", args, tool_call_id=f"call_{n}") for n, args in enumerate(calls)]
        before = len(history)

        def says(messages: list[ModelMessage], about: AgentInfo, parts: Any = parts, before: int = before) -> Any:
            made = sum(isinstance(message, ModelResponse) for message in messages[before:])
            return ModelResponse(parts=[parts[made] if made < len(parts) else TextPart("done")])

        gate = LedgerCapability(ledger, run="order-1", model_turns=False, **words)
        kinds: Any = [str, DeferredToolRequests]
        agent = Agent(FunctionModel(says), tools=[Tool(till.charge)], output_type=kinds, capabilities=[gate])
        try:
            result = await agent.run(f"message {number}", message_history=history)
        except ConnectionError:  # it stops the agent, and no model hears of it
            continue
        for message in result.new_messages():
            if isinstance(message, ModelRequest):
                parts_ = [one for one in message.parts if isinstance(one, (ToolReturnPart, UserPromptPart))]
                if any(isinstance(one, ToolReturnPart) for one in parts_):
                    heard.append(" ".join(str(one.content) for one in parts_))
        if isinstance(result.output, DeferredToolRequests):
            paused = [one["type"] for one in result.output.metadata.values()]
            heard += [WAITS if kind == "indelible.approval" else "may have happened" for kind in paused]
        history += [ModelRequest(parts=[UserPromptPart(f"message {number}")]), ModelResponse(parts=[TextPart("ok")])]
    return heard


@asynccontextmanager
async def _proxied(ledger: AsyncLedger, till: Till, **words: Any) -> AsyncIterator[Client]:
    properties = {"order": {"type": "string"}, "amount": {"type": "integer", "default": 5000}}
    tool = types.Tool(name="charge", input_schema={"type": "object", "properties": properties})

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def called(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = till.charge(**(params.arguments or {}))
        return types.CallToolResult(content=[types.TextContent(text=str(given))])

    async with (
        Client(Server("till", on_list_tools=listed, on_call_tool=called)) as upstream,
        Client(ledger_proxy(ledger, upstream, run="order-1", **words), mode="legacy") as client,
    ):
        yield client


async def mcp(ledger: AsyncLedger, till: Till, said: Said, **words: Any) -> list[str]:
    heard: list[str] = []
    async with _proxied(ledger, till, **words) as client:
        for number, calls in enumerate(said):
            for n, args in enumerate(calls):
                meta = cast("types.RequestParamsMeta", {TURN: f"m{number}", "openai/toolCallId": f"call_{n}"})
                result = await client.call_tool("charge", args, meta=meta)
                heard.append(" ".join(block.text for block in result.content if isinstance(block, types.TextContent)))
    return heard


@pytest.fixture(params=[openai_agents, pydantic_ai, mcp])
def play(request: pytest.FixtureRequest) -> Play:
    found: Play = request.param
    return found


async def statuses(ledger: AsyncLedger) -> list[str]:
    return [effect.status for effect in await ledger.effects(run_id="order-1")]


async def test_a_lost_answer_leaves_doubt_and_invites_no_repeat(sqlite_url: str, play: Play) -> None:
    till = Till(raises=ConnectionError("reset by peer"))
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        heard = await play(ledger, till, [[CHARGE], [CHARGE]], side_effect="payment")
        assert till.charged == [5]
        assert await statuses(ledger) == ["in_doubt"]
    assert heard, "the second call is told of, or pauses the agent"
    assert [text for text in heard for word in INVITES if word in text.lower()] == []
    assert "may have happened" in heard[-1]


async def test_the_same_payment_in_one_turn_pays_once_and_says_so(sqlite_url: str, play: Play) -> None:
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        first, again = await play(ledger, till, [[CHARGE, CHARGE]], side_effect="payment")
    assert till.charged == [5]
    assert "5" in first
    assert REPLAYED not in first
    assert "5" in again
    assert REPLAYED in again


async def test_the_same_payment_in_the_next_turn_asks_and_is_made_when_it_is_approved(
    sqlite_url: str, play: Play
) -> None:
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        _, asks = await play(ledger, till, [[CHARGE], [CHARGE]], side_effect="payment")
        assert WAITS in asks
        assert till.charged == [5]
        (question,) = await ledger.approvals(status="pending")
        await ledger.approve(question, digest=question.digest, by="ana")
        replayed, made = await play(ledger, till, [[CHARGE], [CHARGE]], side_effect="payment")
    assert till.charged == [5, 5]
    assert (WAITS in made, REPLAYED in replayed, REPLAYED in made) == (False, True, False), "call_0 tells nothing"


async def test_a_read_reads_each_time_and_a_notification_is_sent_in_each_turn(sqlite_url: str, play: Play) -> None:
    reading, sending = Till(), Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        await play(ledger, reading, [[CHARGE, CHARGE], [CHARGE]], side_effect="read")
        await play(ledger, sending, [[CHARGE, CHARGE], [CHARGE]], side_effect="notification", scope="sent")
    assert reading.charged == [5, 5, 5]
    assert sending.charged == [5, 5]


async def test_a_default_left_out_is_the_same_call_as_one_spelled_out(sqlite_url: str, play: Play) -> None:
    till, spelled = Till(), {"order": "o1", "amount": 5000}
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        await play(ledger, till, [[{"order": "o1"}, spelled]], side_effect="payment")
        assert [effect.args for effect in await ledger.effects()] == [spelled]
        await play(ledger, till, [[{"order": "o2"}]], side_effect="payment", approval="required")
        (question,) = await ledger.approvals(status="pending")
        asked = await ledger.get_effect(question.effect_id)
        assert asked is not None
        assert asked.args == {"order": "o2", "amount": 5000}, "the approver sees it"
    assert till.charged == [5000]


async def test_a_policy_judges_a_default_that_the_model_leaves_out(sqlite_url: str, play: Play) -> None:
    till = Till()
    rules = [
        {"name": "too much", "match": {"args": {"amount": {"gt": 1000}}}, "then": "refuse"},
        {"name": "the rest", "then": "allow"},
    ]
    async with AsyncLedger.open(sqlite_url, seal=False, policy={"rules": rules}) as ledger:
        (told,) = await play(ledger, till, [[{"order": "o1"}]])
    assert till.charged == []
    assert "too much" in told


async def test_the_same_key_with_other_arguments_is_told_and_stops_no_agent(sqlite_url: str, play: Play) -> None:
    till = Till()
    async with AsyncLedger.open(sqlite_url, seal=False) as ledger:
        _, told = await play(ledger, till, [[CHARGE, {"order": "o1", "amount": 6}]], key=["order"])
    assert till.charged == [5]
    assert "amount=5" in told
