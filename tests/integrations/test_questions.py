"""What the pause of a framework shows is what is recorded, whole, and a vote counts for that alone.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import RunContextWrapper, Runner, RunState, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Approval, AsyncLedger, NothingHappened, migrate
from indelible.core.values.canonical import encode
from indelible.core.values.tags import Encrypted
from indelible.errors import ApprovalPending, VoteRefused
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langgraph import ledger_tool_node
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.terms import MOST_IN_PAUSE, question_of
from tests.notify.making import approval as asked_about
from tests.notify.making import effect as recorded

pytestmark = pytest.mark.anyio
SLY = {"to": "p\u0430ypal\u202e", "amount": 7}
EDITED = {"to": "mallory\u200b", "amount": 999}
PAYS: dict[str, Any] = {"side_effect": "payment", "approval": "required", "dedupe": "args"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


Asks = Callable[[], Awaitable[dict[str, Any] | None]]
"""Runs an agent until it pauses or ends; returns the question that it shows."""


class Desk:
    """Has a tool that pays, and one person who decides."""

    def __init__(self, ledger: AsyncLedger) -> None:
        self.ledger = ledger
        self.paid: list[dict[str, Any]] = []

    def pay(self, to: str, amount: int) -> str:
        """Pays."""
        self.paid.append({"to": to, "amount": amount})
        return "paid"

    async def open(self) -> Approval:
        (approval,) = await self.ledger.approvals(status="pending")
        return approval

    async def edit(self) -> None:
        asked = await self.open()
        await self.ledger.edit_approval(asked, EDITED, digest=asked.digest, by="eve")

    async def walk(self, asks: Asks, *, runs_edited: bool = True) -> None:
        """See that an agent shows what is recorded, that a vote on an edited call is refused, and that it runs then.

        Args:
            asks: The agent.
            runs_edited: It can have edited arguments validated; else it runs nothing.
        """
        first = await asks()
        await self.check(first, SLY)
        await self.edit()
        assert first is not None
        with pytest.raises(VoteRefused) as refused:
            await self.ledger.approve(first["approval"], digest=first["digest"], by="ana")
        assert (refused.value.code, self.paid) == ("digest", [])
        again = await asks()
        await self.check(again, EDITED)
        assert again is not None
        await self.ledger.approve(again["approval"], digest=again["digest"], by="ana")
        if not runs_edited:
            with pytest.raises(NothingHappened):
                await asks()
            assert self.paid == []
            return
        assert await asks() is None
        assert self.paid == [EDITED]

    async def check(self, question: dict[str, Any] | None, args: dict[str, Any]) -> None:
        asked = await self.open()
        effect = await self.ledger.get_effect(asked.effect_id)
        assert question is not None
        assert effect is not None
        assert json.loads(question["text"]) == question["args"] == effect.args == args
        assert not set(question["text"]) & {"\u202e", "\u200b"}
        assert {one["path"] for one in question["look_closely"]} == {"args.to"}
        assert (question["approval"], question["digest"], question["why_not"]) == (asked.id, asked.digest, None)


@pytest.fixture
async def desk(store_url: str) -> Any:
    migrate(store_url)
    async with AsyncLedger.open(store_url, seal=False) as ledger:
        yield Desk(ledger)


async def test_84_langgraph(desk: Desk) -> None:
    said = {"name": "pay", "args": SLY, "id": "call_1x", "type": "tool_call"}
    tool = StructuredTool.from_function(desk.pay, name="pay")
    made: Any = StateGraph(MessagesState)
    made.add_node("ask", lambda state: {"messages": [AIMessage(content="", tool_calls=[said])]})
    made.add_node("tools", ledger_tool_node([tool], desk.ledger, **PAYS))
    made.add_edge(START, "ask")
    made.add_edge("ask", "tools")
    made.add_edge("tools", END)
    graph, place = made.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    turns: list[Any] = [{"messages": [HumanMessage("pay")]}, Command(resume="look"), Command(resume="look")]

    async def asks() -> dict[str, Any] | None:
        found = (await graph.ainvoke(turns.pop(0), place)).get("__interrupt__", ())
        return found[0].value if found else None

    await desk.walk(asks)


async def test_84_a_vote_in_langgraph_names_what_the_pause_showed(desk: Desk) -> None:
    said = {"name": "pay", "args": SLY, "id": "call_1x", "type": "tool_call"}
    tool = StructuredTool.from_function(desk.pay, name="pay")
    made: Any = StateGraph(MessagesState)
    made.add_node("ask", lambda state: {"messages": [AIMessage(content="", tool_calls=[said])]})
    made.add_node("tools", ledger_tool_node([tool], desk.ledger, decided_by=lambda answer, config: "ana", **PAYS))
    made.add_edge(START, "ask")
    made.add_edge("ask", "tools")
    made.add_edge("tools", END)
    graph, place = made.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    (first,) = (await graph.ainvoke({"messages": [HumanMessage("pay")]}, place))["__interrupt__"]
    await desk.edit()
    for kind in ("approve", "reject"):
        vote = {"type": kind, "digest": first.value["digest"]}
        (again,) = (await graph.ainvoke(Command(resume=vote), place))["__interrupt__"]
        assert (again.value["args"], desk.paid) == (EDITED, [])
        assert (await desk.open()).votes == ()
    await graph.ainvoke(Command(resume={"type": "approve", "digest": again.value["digest"]}), place)
    assert desk.paid == [EDITED]


async def test_84_pydantic_ai(desk: Desk) -> None:
    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        is_done = any(part.part_kind == "tool-return" for part in messages[-1].parts)
        return ModelResponse(parts=[TextPart("done") if is_done else ToolCallPart("pay", SLY, tool_call_id="toolu_1x")])

    behind = LedgerCapability(desk.ledger, run="r", model_turns=False, **PAYS)
    outputs: Any = [str, DeferredToolRequests]
    tool = Tool(desk.pay, name="pay", takes_ctx=False)
    agent = Agent(FunctionModel(says), tools=[tool], output_type=outputs, capabilities=[behind])
    words: list[dict[str, Any]] = [{"user_prompt": "pay"}]

    async def asks() -> dict[str, Any] | None:
        result = await agent.run(**words[-1])
        if not isinstance(result.output, DeferredToolRequests):
            return None
        yes = DeferredToolResults(approvals={"toolu_1x": True})
        words.append({"message_history": result.all_messages(), "deferred_tool_results": yes})
        return result.output.metadata["toolu_1x"]

    await desk.walk(asks, runs_edited=False)


async def test_84_openai_agents(desk: Desk) -> None:
    @function_tool(name_override="pay")
    def pay(to: str, amount: int) -> str:
        """Pays."""
        return desk.pay(to, amount)

    gate = LedgerTools(desk.ledger, run="r", **PAYS)
    turns = [[function_call("pay", SLY, call_id="call_1x")], [assistant_message("done")]]
    agent = OpenAIAgent[Any](name="billing", model=ScriptedModel(turns), tools=gate.tools([pay]))
    state: RunState[Any, Any] = (await Runner.run(agent, "pay")).to_state()

    async def asks() -> dict[str, Any] | None:
        if await gate.answer(state):
            (question,) = await gate.questions(state)
            assert (question["tool"], question["call_id"]) == ("pay", "call_1x")
            return question
        await Runner.run(agent, state)
        return None

    await desk.walk(asks)
    assert await gate.questions(RunState(RunContextWrapper(None), "pay", agent, 3)) == []


async def test_84_function_calls(desk: Desk) -> None:
    calls = FunctionCalls(desk.ledger, {"pay": desk.pay}, run="r", **PAYS)
    said = {"id": "call_1x", "type": "function", "function": {"name": "pay", "arguments": json.dumps(SLY)}}

    async def asks() -> dict[str, Any] | None:
        waiting = (await calls.answer_async([said])).waiting
        return dict(waiting[0].question or {}) if waiting else None

    await desk.walk(asks)


@pytest.mark.parametrize(
    "unseen",
    [
        None,
        recorded({"to": "mallory"}, id="eff_2"),
        recorded({"to": "mallory"}, opened_seq=1),
        recorded(args_json=None),
        recorded(args_json=encode(Encrypted(b"\x01" + bytes(52)))),
        recorded({"note": "x" * MOST_IN_PAUSE}),
    ],
)
async def test_84_a_pause_that_cannot_show_the_arguments_offers_no_digest(unseen: Any) -> None:
    asked = asked_about(recorded({"to": "bob"}))
    question = question_of(ApprovalPending("it waits", approval=asked, effect=unseen))
    assert (question["args"], question["text"], question["digest"]) == (None, None, None)
    assert question["why_not"]
    assert question["show"] == f"indelible approvals show {asked.id}"
