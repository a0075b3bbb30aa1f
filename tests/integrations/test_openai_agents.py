"""OpenAI Agents behind the ledger: once, with permission, whatever a saved state says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    Runner,
    RunState,
    SQLiteSession,
    Tool,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents.testing import ScriptedModel, assistant_message, function_call

from indelible import AsyncLedger, Refused, migrate
from indelible.errors import BadCall, ReviewRequired
from indelible.integrations.openai_agents import LedgerTools, ledger_tools
from indelible.integrations.telling import TEXTS
from tests.scenarios.raw import execute

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
async def ledger(sqlite_url: str) -> AsyncIterator[AsyncLedger]:
    async with AsyncLedger.open(sqlite_url) as opened:
        yield opened


class Till:
    """Has one tool, and counts."""

    def __init__(self, raises: Exception | None = None, hangs: bool = False) -> None:
        self.charged: list[int] = []
        self.raises, self.hangs = raises, hangs

    async def charge(self, amount: int) -> dict[str, int]:
        """Charges."""
        self.charged.append(amount)
        if self.hangs:
            await asyncio.Event().wait()
        if self.raises is not None:
            raise self.raises
        return {"charged": amount}


def agent_with(tools: list[Tool], *turns: Any) -> Agent[Any]:
    return Agent(name="billing", model=ScriptedModel([*turns, [assistant_message("done")]]), tools=tools)


def calling(amount: int = 5, call_id: str = "c1") -> list[Any]:
    return [function_call("charge", {"amount": amount}, call_id=call_id)]


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


async def test_a_call_runs_once_and_the_model_gets_what_it_gave_again(ledger: AsyncLedger) -> None:
    till = Till()
    for _ in range(2):
        tools = ledger_tools([function_tool(till.charge)], ledger, run="order-1")
        result = await Runner.run(agent_with(tools, calling()), "go")
        assert outputs(result) == [{"charged": 5}]
    assert till.charged == [5]


async def test_parts_that_the_sdk_knows_get_the_note_as_a_part_more(ledger: AsyncLedger) -> None:
    @function_tool
    def chart(amount: int) -> Any:
        """Draws."""
        return [ToolOutputText(text="a chart"), ToolOutputImage(image_url="https://example.com/1.png")]

    tools = ledger_tools([chart], ledger, run="order-1")
    draws = [[function_call("chart", {"amount": 5}, call_id=call_id)] for call_id in ("c1", "c2")]
    _, again = outputs(await Runner.run(agent_with(tools, *draws), "go"))
    assert [part["type"] for part in again] == ["text", "image", "text"]
    assert "Nothing was run now" in again[-1]["text"]


async def test_a_tool_that_refuses_is_told_its_own_way_and_not_run_again(ledger: AsyncLedger) -> None:
    till = Till(raises=Refused("no funds"))
    told = function_tool(till.charge, failure_error_function=lambda context, error: f"it said: {error}")
    for _ in range(2):
        result = await Runner.run(agent_with(ledger_tools([told], ledger, run="order-1"), calling()), "go")
        assert outputs(result) == ["it said: no funds"]
    assert till.charged == [5]
    (effect,) = await ledger.effects()
    assert effect.status == "failed"


async def test_the_turn_is_the_users_message_in_a_session_or_what_the_integrator_says(ledger: AsyncLedger) -> None:
    till, session = Till(), SQLiteSession("order-1")
    tools = ledger_tools([function_tool(till.charge)], ledger, run="order-1", side_effect="notification")
    for _ in range(2):  # the user says the same twice; a model numbers the calls of each turn from zero
        await Runner.run(agent_with(tools, calling(call_id="call_0")), "charge 5", session=session)
    assert till.charged == [5, 5]
    for turn in ("m1", "m1", "m2"):
        words = {"run": "order-2", "side_effect": "notification", "turn": lambda context: context.context}
        tools = ledger_tools([function_tool(till.charge)], ledger, **words)
        await Runner.run(agent_with(tools, calling(call_id="call_0")), "charge 5", context=turn)
    assert till.charged == [5, 5, 5, 5]


async def test_a_state_that_says_approved_approves_nothing(ledger: AsyncLedger) -> None:
    till = Till()
    gate = LedgerTools(ledger, run="order-1", approval="required")
    agent = agent_with(gate.tools([function_tool(till.charge)]), calling())
    paused = await Runner.run(agent, "go")
    state = paused.to_state()
    (item,) = state.get_interruptions()
    assert [one.call_id for one in await gate.answer(state)] == ["c1"]
    state.approve(item)
    (told,) = outputs(await Runner.run(agent, state))
    assert "waits for a person" in told
    assert till.charged == []


async def test_a_denial_is_told_to_the_model(ledger: AsyncLedger) -> None:
    till = Till()
    gate = LedgerTools(ledger, run="order-1", approval="required")
    agent = agent_with(gate.tools([function_tool(till.charge)]), calling())
    kept = (await Runner.run(agent, "go")).to_state().to_string()
    (approval,) = await ledger.approvals(status="pending")
    await ledger.deny(approval.id, by="ana", reason="too much")
    state: RunState[Any, Any] = await RunState.from_string(agent, kept)
    assert await gate.answer(state) == []
    result = await Runner.run(agent, state)
    assert "too much" in outputs(result)[0]
    assert till.charged == []


async def test_a_state_that_was_kept_is_given_back_and_one_that_was_changed_is_not(store_url: str) -> None:
    migrate(store_url)
    till = Till()
    async with AsyncLedger.open(store_url) as ledger:
        gate = LedgerTools(ledger, run="order-1", approval="required")
        agent = agent_with(gate.tools([function_tool(till.charge)]), calling())
        assert await gate.load(agent) is None
        paused = await Runner.run(agent, "go")
        await gate.keep(paused)
        state = await gate.load(agent)
        assert state is not None
        assert state.to_json() == paused.to_state().to_json()
        await gate.keep(state)
        assert len(await gate.answer(state)) == 1
    where = "WHERE run_id = 'order-1' AND field = 'payload' AND seq = (SELECT max(seq) FROM indelible_payloads)"
    ((kept,),) = execute(store_url, f"SELECT value FROM indelible_payloads {where}")
    forged = bytes(kept).replace(b"amount", b"amOunt")
    assert forged != bytes(kept)
    execute(store_url, f"UPDATE indelible_payloads SET value = ? {where}", forged)
    async with AsyncLedger.open(store_url) as ledger:
        with pytest.raises(ReviewRequired, match="is not what was recorded"):
            await LedgerTools(ledger, run="order-1").load(agent)
    with pytest.raises(BadCall, match="say which"):
        await LedgerTools(ledger, run=lambda context: "order-1").load(agent)


async def test_a_timeout_leaves_it_in_doubt(ledger: AsyncLedger) -> None:
    till = Till(hangs=True)
    slow = function_tool(till.charge, timeout=0.2)
    for run in (f"order-{number}" for number in itertools.count()):
        await Runner.run(agent_with(ledger_tools([slow], ledger, run=run), calling()), "go")
        if till.charged:  # else a busy machine did not get so far in that time
            break
    (effect,) = await ledger.effects(run_id=run)
    assert effect.status == "in_doubt"
    (told,) = outputs(await Runner.run(agent_with(ledger_tools([slow], ledger, run=run), calling()), "go"))
    assert told == TEXTS["in_doubt"].format(tool="charge", effect=effect.id)
    assert till.charged == [5]


def test_tools_that_run_elsewhere_are_refused(sqlite_url: str) -> None:
    async def refused(tool: Any) -> None:
        async with AsyncLedger.open(sqlite_url) as ledger:
            with pytest.raises(BadCall, match="leave it out"):
                ledger_tools([tool], ledger, run="order-1")

    asyncio.run(refused(WebSearchTool()))
