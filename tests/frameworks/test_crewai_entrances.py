"""By whichever method CrewAI enters a tool, behind the ledger the same deed is done as without it.

The numbers are those of the faults that were found.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any

import pytest
from crewai import Agent
from crewai.agents.crew_agent_executor import CrewAgentExecutor
from crewai.experimental.agent_executor import AgentExecutor
from crewai.tools import BaseTool, tool
from crewai.tools.agent_tools.add_image_tool import AddImageTool
from crewai.tools.agent_tools.delegate_work_tool import DelegateWorkTool
from crewai.tools.base_tool import Tool
from crewai.tools.tool_failure import ToolExecutionFailedError
from pydantic import BaseModel

from indelible import Ledger, instrument
from indelible.errors import BadCall
from indelible.integrations.crewai import LedgerTools
from indelible.testing.adapters.crewai import ScriptedLLM, called
from tests.frameworks.conftest import decide
from tests.frameworks.test_crewai_ways import STRICT, TextLLM, agent_of, crew_of

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


class Order(BaseModel):
    order: str


def noted(what: str, order: str) -> str:
    DONE.append(f"{what} {order}")
    return what


class Plain(BaseTool):
    """Has one deed."""

    name: str = "bank"
    description: str = "Charges."

    def _run(self, order: str) -> str:
        return noted("charged", order)


class OwnRun(Plain):
    """Has an entrance of its own."""

    def run(self, *args: Any, order: str = "", **words: Any) -> str:
        return noted("refunded", order)


class RunAround(Plain):
    """Does something around what CrewAI does."""

    def run(self, *args: Any, **words: Any) -> Any:
        noted("before", words["order"])
        return super().run(*args, **words)


class Both(Plain):
    """Has another deed when it is awaited."""

    async def _arun(self, order: str) -> str:
        await asyncio.sleep(0)
        return noted("sent", order)


class OnlyAwaited(Both):
    """Has one deed, which is awaited."""

    def _run(self, order: str) -> str:
        raise NotImplementedError("use arun")


class ArunAround(Both):
    """Does something around what CrewAI awaits."""

    async def arun(self, *args: Any, **words: Any) -> Any:
        noted("before", words["order"])
        return await super().arun(*args, **words)


class OfTheLoop(Plain):
    """Needs the loop of its caller, as a pool of connections does."""

    async def _arun(self, order: str) -> str:
        return noted("in the loop" if asyncio.get_running_loop() is LOOPS[-1] else "in another loop", order)


LOOPS: list[asyncio.AbstractEventLoop] = []


class OwnTool(Tool[..., Any]):
    """Is a function to those who call `run`, and something else to those who call it by text."""

    def _run(self, order: str) -> str:
        return noted("refunded", order)


def function_of() -> Any:
    return OwnTool(name="bank", description="d", func=lambda order: noted("charged", order), args_schema=Order)


def decorated() -> BaseTool:
    @tool("bank")
    async def bank(order: str) -> str:
        """Charges."""
        return noted("charged", order)

    return bank


TOOLS: dict[str, Callable[[], BaseTool]] = {
    "plain": Plain,
    "own run": OwnRun,
    "run around": RunAround,
    "both": Both,
    "only awaited": OnlyAwaited,
    "arun around": ArunAround,
    "of the loop": OfTheLoop,
    "own tool": function_of,
    "decorated": decorated,
}


def by_agent(tool: BaseTool) -> Any:
    return crew_of(agent_of([called("bank", "c1", order="1")], tools=[tool])).kickoff().raw


def by_text(tool: BaseTool) -> Any:
    turns = ['Thought: now\nAction: bank\nAction Input: {"order": "1"}', "Thought: I know\nFinal Answer: done"]
    return crew_of(agent_of(llm=TextLLM(model="scripted", turns=turns), tools=[tool])).kickoff().raw


def by_run(tool: BaseTool) -> Any:
    return tool.run(order="1")


def by_arun(tool: BaseTool) -> Any:
    async def awaited() -> Any:
        LOOPS.append(asyncio.get_running_loop())
        return await tool.arun(order="1")

    return asyncio.run(awaited())


def by_invoke(tool: BaseTool) -> Any:
    return tool.to_structured_tool().invoke({"order": "1"})


def by_ainvoke(tool: BaseTool) -> Any:
    return asyncio.run(tool.to_structured_tool().ainvoke({"order": "1"}))


ENTRANCES = [by_agent, by_text, by_run, by_arun, by_invoke, by_ainvoke]
LENIENT = {*((kind, by_arun) for kind in ("plain", "own run", "run around", "own tool")), ("decorated", by_ainvoke)}
"""Without the ledger, these cannot be awaited, or CrewAI loses their coroutine; behind it, they run."""
FAILS = {("only awaited", one) for one in ENTRANCES if one is not by_arun}
SEEN_BY_NOBODY = {("own run", by_run)}
"""What a class writes itself, and a program calls, does not meet the ledger."""


@pytest.mark.parametrize("by", ["hand", "instrument"])
@pytest.mark.parametrize("enters", ENTRANCES)
@pytest.mark.parametrize("kind", TOOLS)
def test_88_the_deed_behind_the_ledger_is_the_one_without_it(
    ledger: Ledger, kind: str, enters: Callable[[BaseTool], Any], by: str
) -> None:
    if (kind, enters) in FAILS:
        pytest.skip("without the ledger it raises, too")
    plain = None
    with suppress(NotImplementedError):
        plain = enters(TOOLS[kind]())
    without = list(DONE)
    DONE.clear()
    if by == "hand":
        (own,) = LedgerTools(ledger, run="order-1").tools([TOOLS[kind]()])
        told = enters(own)
    else:
        with instrument(ledger, **STRICT) as report, ledger.in_run("order-1"):
            told = enters(TOOLS[kind]())
            assert report.seen_unguarded == ()
    if (kind, enters) in LENIENT:
        assert DONE
    else:
        assert (told, DONE) == (plain, without)
    if by == "hand" or (kind, enters) not in SEEN_BY_NOBODY:
        assert [(one.tool, one.status) for one in ledger.effects()] == [("bank", "succeeded")]


@pytest.mark.parametrize("by", ["hand", "instrument"])
@pytest.mark.parametrize("enters", [by_agent, by_arun])
def test_88_a_tool_with_entrances_of_its_own_waits_for_a_person(
    ledger: Ledger, enters: Callable[[BaseTool], Any], by: str
) -> None:
    class Own(OwnRun):
        async def arun(self, *args: Any, order: str = "", **words: Any) -> str:
            return noted("refunded", order)

    def once() -> Any:
        with suppress(ToolExecutionFailedError):
            if by == "hand":
                return enters(LedgerTools(ledger, run="order-1", approval="required").tools([Own()])[0])
            with instrument(ledger, approval="required"), ledger.in_run("order-1"):
                return enters(Own() if enters is by_agent else LedgerTools(ledger, run="order-1").tools([Own()])[0])
        return None

    if by == "instrument" and enters is by_arun:
        pytest.skip("a program that calls an `arun` of a tool's own is not seen")
    once()
    assert DONE == []
    decide(ledger)
    once()
    once()
    assert DONE == ["refunded 1"]


@pytest.mark.parametrize("is_made_before", [True, False])
@pytest.mark.parametrize("is_awaited", [True, False])
def test_88_a_structured_tool_of_a_program_raises_its_stops(
    ledger: Ledger, is_made_before: bool, is_awaited: bool
) -> None:
    made = Plain().to_structured_tool()
    with instrument(ledger, approval="required"), ledger.in_run("order-1"):
        one = made if is_made_before else Plain().to_structured_tool()
        for _ in range(2):
            with pytest.raises(ToolExecutionFailedError):
                asyncio.run(one.ainvoke({"order": "1"})) if is_awaited else one.invoke({"order": "1"})
        decide(ledger)
        assert (asyncio.run(one.ainvoke({"order": "1"})) if is_awaited else one.invoke({"order": "1"})) == "charged"
    assert DONE == ["charged 1"]


def test_88_a_crew_of_the_deprecated_executor_that_is_awaited_knows_its_run(ledger: Ledger) -> None:
    class Awaited(TextLLM):
        async def acall(self, messages: Any, *args: Any, **words: Any) -> Any:
            return self.call(messages, *args, **words)

    turns = ['Thought: now\nAction: bank\nAction Input: {"order": "1"}', "Thought: I know\nFinal Answer: done"]
    agent = agent_of(llm=Awaited(model="scripted", turns=turns), tools=[Plain()], executor_class=CrewAgentExecutor)
    with instrument(ledger), ledger.in_run("order-1"):
        asyncio.run(crew_of(agent).akickoff())
    assert DONE == ["charged 1"]
    assert [effect.run_id for effect in ledger.effects()] == ["order-1"]


@pytest.mark.parametrize("by", ["crew", "hand"])
def test_88_what_a_tool_starts_and_leaves_behind_asks_the_ledger_again(ledger: Ledger, by: str) -> None:
    """Its context said for ever that the deed goes on, so its later calls passed the ledger."""
    is_over, left = threading.Event(), []

    class Leaving(Plain):
        def run(self, *args: Any, **words: Any) -> Any:
            def later() -> None:
                is_over.wait(60)
                super(Leaving, self).run(order="2")

            left.append(threading.Thread(target=copy_context().run, args=(later,)))
            left[-1].start()
            return super().run(*args, **words)

    with instrument(ledger), ledger.in_run("order-1"):
        by_agent(Leaving()) if by == "crew" else LedgerTools(ledger, run="order-1").tools([Leaving()])[0].run(order="1")
        assert DONE == ["charged 1"]
        is_over.set()
        left[0].join(60)
    assert sorted(DONE) == ["charged 1", "charged 2"]
    assert sorted(one.args["order"] for one in ledger.effects()) == ["1", "2"]


# What only looks like CrewAI's own


class BuyImage(AddImageTool):
    """Buys what it shows."""

    name: str = "buy_image"

    def _run(self, image_url: str, action: str | None = None, **words: Any) -> Any:
        return noted("bought", image_url)


class Hire(DelegateWorkTool):
    """Pays somebody instead of a coworker."""

    name: str = "hire"

    def _run(self, task: str, context: str, coworker: str | None = None, **words: Any) -> str:
        return noted("paid", task)


def bought() -> None:
    crew_of(agent_of([called("buy_image", "c1", image_url="1")], tools=[BuyImage()])).kickoff()


def bought_by_program() -> None:
    BuyImage().run(image_url="1")


def hired() -> None:
    hire = Hire(agents=[agent_of()], description="d")
    crew_of(agent_of([called("hire", "c1", task="1", context="c", coworker="x")], tools=[hire])).kickoff()


def hired_by_program() -> None:
    Hire(agents=[agent_of()], description="d").run(task="1", context="c", coworker="x")


@pytest.mark.parametrize("does", [bought, bought_by_program, hired, hired_by_program])
def test_88_a_tool_made_of_one_of_crewais_own_meets_the_ledger(ledger: Ledger, does: Callable[[], None]) -> None:
    with instrument(ledger, **STRICT), ledger.in_run("order-1"):
        does()
        does()
    assert len(DONE) == 1
    assert [effect.status for effect in ledger.effects()] == ["succeeded"]


class OwnAgent(Agent):
    """Does its tasks by itself."""

    def execute_task(self, *args: Any, **words: Any) -> str:
        return noted("paid", "1")


def test_88_an_agent_that_does_its_tasks_by_itself_is_named(ledger: Ledger) -> None:
    agent = OwnAgent(role="r", goal="g", backstory="b", llm=ScriptedLLM(model="s", turns=["done"]))
    with instrument(ledger, **STRICT), ledger.in_run("order-1"), pytest.raises(BadCall):
        crew_of(agent).kickoff()
    assert DONE == []
    with instrument(ledger) as report, ledger.in_run("order-1"):
        crew_of(agent).kickoff()
    assert report.seen_unguarded == ("CrewAI: OwnAgent (agents of other frameworks)",)


def test_88_an_executor_of_the_program_s_own_is_named(ledger: Ledger) -> None:
    """It runs what it likes in the place of CrewAI's."""

    class Mine(AgentExecutor):
        def invoke(self, inputs: Any) -> Any:
            return {"output": noted("paid", "1")}

    agent = agent_of(executor_class=Mine)
    with instrument(ledger, **STRICT), ledger.in_run("order-1"), pytest.raises(BadCall, match="Mine"):
        crew_of(agent).kickoff()
    assert DONE == []


def test_88_an_agent_of_a_class_of_its_own_that_only_adds_is_not_named(ledger: Ledger) -> None:
    class Ours(Agent):
        team: str = "billing"

        def greeting(self) -> str:
            return f"hello from {self.team}"

    agent = Ours(role="r", goal="g", backstory="b", llm=ScriptedLLM(model="s", turns=["done"]))
    with instrument(ledger, **STRICT) as report, ledger.in_run("order-1"):
        crew_of(agent).kickoff()
    assert (report.seen_unguarded, inspect.iscoroutinefunction(agent.aexecute_task)) == ((), True)
