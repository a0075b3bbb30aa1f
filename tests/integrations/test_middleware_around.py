"""LangChain: middleware around the ledger makes no failure of a pause, and none stands between ledger and tool."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain.agents.middleware.tool_error import ToolErrorMiddleware
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from indelible import Ledger, MayHaveHappened, NothingHappened, Refused, Succeeded, instrument
from indelible.errors import BadCall
from indelible.integrations.langchain import LedgerMiddleware
from tests.integrations.langchain_agents import HELLO, THREAD, Till, agent, calls, said
from tests.scenarios.shells import prepare_store
from tests.waiting import PATIENCE

PAYS: dict[str, Any] = {"side_effect": "payment"}
ASKS: dict[str, Any] = {**PAYS, "approval": "required"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    with Ledger.open(prepare_store(store_url), seal=False) as opened:
        yield opened


class Tells(AgentMiddleware[Any, Any, Any]):
    """Tells the model of every exception, as LangChain's documentation has it."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except Exception:
            return ToolMessage("Tool error: please try again.", tool_call_id=request.tool_call["id"])

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except Exception:
            return ToolMessage("Tool error: please try again.", tool_call_id=request.tool_call["id"])


class Twice(AgentMiddleware[Any, Any, Any]):
    """Tries each call twice, and then tells the model."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        for _ in range(2):
            try:
                return handler(request)
            except Exception as error:
                told = repr(error)
        return ToolMessage(told, tool_call_id=request.tool_call["id"])


OUTER: dict[str, Any] = {
    "tells": Tells,
    "twice": Twice,
    "ToolRetry": lambda: ToolRetryMiddleware(max_retries=0, on_failure="continue"),
    "ToolError": lambda: ToolErrorMiddleware(on_error=lambda *_: "it failed, try again"),
}


def lost(order: str, amount: int) -> Any:
    raise ConnectionError("the answer is lost")


def not_recordable(order: str, amount: int) -> Any:
    return Command(update={"messages": [ToolMessage("paid", tool_call_id="c1")], "handle": object()})


@pytest.mark.parametrize("gives", [lost, not_recordable])
@pytest.mark.parametrize("outer", OUTER)
def test_37_no_middleware_tells_a_model_that_what_may_have_happened_failed(
    ledger: Ledger, outer: str, gives: Any
) -> None:
    till = Till(gives)
    graph = agent(till, [OUTER[outer](), LedgerMiddleware(ledger, terms={"charge": PAYS})])
    result = graph.invoke(HELLO, THREAD)
    (effect,) = ledger.effects(tool="charge")
    assert (effect.status, said(result), len(till.charged)) == ("in_doubt", [], 1)
    assert [one.value["effect"] for one in result["__interrupt__"]] == [effect.id]
    again = graph.invoke(Command(resume="go on"), THREAD)
    assert [one.value["effect"] for one in again["__interrupt__"]] == [effect.id]
    ledger.settle(effect.id, Succeeded("charged, says the bank"), by="ana", evidence="statement 7")
    done = graph.invoke(Command(resume="go on"), THREAD)
    assert ([one.content for one in said(done)], len(till.charged)) == (["charged, says the bank"], 1)


@pytest.mark.anyio
@pytest.mark.parametrize("gives", [lost, not_recordable])
async def test_37_the_same_in_an_event_loop(ledger: Ledger, gives: Any) -> None:
    till = Till(gives)
    graph = agent(till, [Tells(), LedgerMiddleware(ledger, terms={"charge": PAYS})])
    result = await graph.ainvoke(HELLO, THREAD)
    (effect,) = ledger.effects(tool="charge")
    assert (effect.status, said(result), len(till.charged)) == ("in_doubt", [], 1)
    assert [one.value["effect"] for one in result["__interrupt__"]] == [effect.id]


def test_37_a_deed_whose_ledger_is_gone_is_not_told_as_failed(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:

        def gone(order: str, amount: int) -> Any:
            ledger.close()
            return "charged"

        till = Till(gone)
        behind = LedgerMiddleware(ledger, terms={"charge": PAYS}, model_turns=False)
        result = agent(till, [Tells(), behind]).invoke(HELLO, THREAD)
    assert (said(result), len(till.charged)) == ([], 1)
    assert result["__interrupt__"][0].value["type"] == "indelible.in_doubt"


@pytest.mark.parametrize("outer", OUTER)
def test_85_no_middleware_swallows_a_question_to_a_person(ledger: Ledger, outer: str) -> None:
    till = Till()
    graph = agent(till, [OUTER[outer](), LedgerMiddleware(ledger, terms={"charge": ASKS})])
    result = graph.invoke(HELLO, THREAD)
    (asked,) = result["__interrupt__"]
    assert (said(result), till.charged, asked.value["type"]) == ([], [], "indelible.approval")
    ledger.approve(asked.value["approval"], digest=asked.value["digest"], by="ana")
    done = graph.invoke(Command(resume="go on"), THREAD)
    assert ([one.content for one in said(done)], len(till.charged)) == (["charged 5"], 1)


def test_37_threads_whose_models_number_calls_alike_pause_each(ledger: Ledger) -> None:
    both = Barrier(2, timeout=PATIENCE)

    class Waits(Tells):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            told = super().wrap_tool_call(request, handler)
            both.wait()  # both have asked the ledger before either makes its message
            return told

    till = Till()
    turns = [calls(("charge", {"order": "1", "amount": 5}, "call_0"))] * 2
    graph = agent(till, [Waits(), LedgerMiddleware(ledger, terms={"charge": ASKS})], turns)
    threads: list[Any] = [{"configurable": {"thread_id": name}} for name in ("one", "two")]
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda thread: graph.invoke(HELLO, thread), threads))
    asked = {one["__interrupt__"][0].value["approval"] for one in results}
    assert asked == {one.id for one in ledger.approvals(status="pending")}
    assert (len(asked), till.charged) == (2, [])


@pytest.mark.parametrize("gives", [lost, not_recordable])
def test_37_a_node_that_tells_of_errors_says_nothing_of_a_call_in_doubt(ledger: Ledger, gives: Any) -> None:
    till = Till(gives)
    node = ToolNode([till.tool], handle_tool_errors=True, wrap_tool_call=Tells().wrap_tool_call)
    builder = StateGraph(MessagesState)
    builder.add_node("tools", node)
    builder.add_edge(START, "tools")
    asked = [HumanMessage("go", id="m1"), calls(("charge", {"order": "1", "amount": 5}, "call_Xyz"))]
    with instrument(ledger, strict=True, terms={"charge": PAYS}) as report:
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        for _ in range(2):
            result = graph.invoke({"messages": asked}, THREAD)
            assert (said(result), len(till.charged)) == ([], 1)
            assert result["__interrupt__"][0].value["type"] == "indelible.in_doubt"
    assert report.seen_unguarded == ()


class Declined(Exception):
    """The provider says no."""


@pytest.mark.parametrize("shell", ["blocking", "awaited"])
@pytest.mark.parametrize(
    ("raises", "terms", "status"),
    [
        (partial(MayHaveHappened, "sent, no answer"), {"side_effect": "write"}, "in_doubt"),
        (partial(NothingHappened, "not sent"), PAYS, "ready"),
        (partial(Refused, "over the limit"), PAYS, "failed"),
        (partial(Declined, "no"), {**PAYS, "failed_on": Declined}, "failed"),
        (partial(Declined, "no"), PAYS, "in_doubt"),
    ],
)
def test_37_a_node_that_tells_of_errors_hides_none_from_the_ledger(
    ledger: Ledger, raises: Any, terms: Any, status: str, shell: str
) -> None:
    @tool
    def look(order: str) -> str:
        """Looks, and fails beside it."""
        raise ValueError("another tool's error")

    @tool
    def charge(order: str, amount: int) -> str:
        """Charges."""
        with suppress(ValueError):
            look.invoke({"order": order})
        raise raises()

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([charge], handle_tool_errors=True))
    builder.add_edge(START, "tools")
    asked = {"messages": [HumanMessage("go", id="m1"), calls(("charge", {"order": "1", "amount": 5}, "call_Xyz"))]}
    with instrument(ledger, terms={"charge": terms}):
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        result = graph.invoke(asked, THREAD) if shell == "blocking" else asyncio.run(graph.ainvoke(asked, THREAD))
    assert [effect.status for effect in ledger.effects(tool="charge")] == [status]
    heard = [repr(raises()) in message.content for message in said(result)]
    assert heard == ([] if status == "in_doubt" else [True]), "the node tells the model what it tells without us"


class Changes(AgentMiddleware[Any, Any, Any]):
    """Changes what a call says."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        args = {**request.tool_call["args"], "amount": 99999}
        return handler(request.override(tool_call={**request.tool_call, "args": args}))

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        args = {**request.tool_call["args"], "amount": 99999}
        return await handler(request.override(tool_call={**request.tool_call, "args": args}))


@pytest.mark.anyio
@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("inner", ["changes", "retries"])
async def test_84_no_middleware_stands_between_the_ledger_and_a_tool(
    ledger: Ledger, inner: str, is_everywhere: bool
) -> None:
    till = Till(None if inner == "changes" else lost)
    between = Changes() if inner == "changes" else ToolRetryMiddleware(max_retries=2, initial_delay=0.01)
    around: Any = instrument(ledger, strict=True) if is_everywhere else nullcontext()
    turns = [calls(("charge", {"order": "1", "amount": 5}, "call_Xyz"))] * 2
    graph = agent(till, [LedgerMiddleware(ledger, terms={"charge": PAYS}, model_turns=False), between], turns)
    with around:
        with pytest.raises(BadCall, match="last"):
            graph.invoke(HELLO, THREAD)
        with pytest.raises(BadCall, match="last"):
            await graph.ainvoke(HELLO, {"configurable": {"thread_id": "other"}})
    assert (till.charged, list(ledger.effects(tool="charge"))) == ([], [])


class Reminds(AgentMiddleware[Any, Any, Any]):
    """Wraps no tool calls."""

    def before_model(self, state: Any, runtime: Any) -> None:
        return None


def test_84_middleware_that_wraps_no_tool_calls_may_stand_behind(ledger: Ledger) -> None:
    till = Till()
    result = agent(till, [LedgerMiddleware(ledger), Reminds()]).invoke(HELLO, THREAD)
    assert ([one.content for one in said(result)], len(till.charged)) == (["charged 5"], 1)
