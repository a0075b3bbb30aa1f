"""LangGraph: a pause of the ledger's has an id of its own, and a tool's own questions get their own answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from indelible import Approval, Ledger, migrate
from indelible.integrations.langchain import LedgerMiddleware, ledger_tool_node
from tests.integrations.langchain_agents import HELLO, THREAD, Scripted, Till, agent, calls, said

PAYS: dict[str, Any] = {"side_effect": "payment", "nothing_on": GraphInterrupt}
ASKS: dict[str, Any] = {**PAYS, "approval": "required"}
Resume = Callable[[Any], Any]


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[Any]:
    connection = sqlite3.connect(tmp_path / "graph.db", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


def colour_and_size(order: str, amount: int) -> str:
    return f"{interrupt('which colour?')} {interrupt('which size?')}"


def asking(ledger: Ledger, saver: Any, words: dict[str, Any] = ASKS) -> Any:
    """Gives an agent whose tool asks two questions of its own before it is done."""
    return agent(Till(colour_and_size), [LedgerMiddleware(ledger, terms={"charge": words})], saver=saver)


class Always(Scripted):
    """Is a model that calls its tool until it has heard of it: a graph without a state of its own asks it again."""

    def _generate(self, messages: Any, *args: Any, **words: Any) -> Any:
        heard = any(message.type == "tool" for message in messages)
        return ChatResult(generations=[ChatGeneration(message=self.responses[int(heard)])])


class Durable:
    """Invokes a graph that saves its state as often as it is told to."""

    def __init__(self, graph: Any, durability: str) -> None:
        self._graph = graph
        self._durability = durability

    def invoke(self, *args: Any) -> Any:
        return self._graph.invoke(*args, durability=self._durability)


def asked(result: dict[str, Any]) -> Any:
    """Gives the one question that a graph stands at: the type of ours, or the tool's own."""
    (question,) = result["__interrupt__"]
    return question.value["type"] if isinstance(question.value, dict) else question.value


def by_word(result: dict[str, Any], answer: Any) -> Command[Any]:
    return Command(resume=answer)


def by_id(result: dict[str, Any], answer: Any) -> Command[Any]:
    return Command(resume={result["__interrupt__"][0].id: answer})


def nothing(result: dict[str, Any], answer: Any) -> None:
    return None


def approve(ledger: Ledger) -> Approval:
    (approval,) = ledger.approvals(status="pending")
    return ledger.approve(approval, digest=approval.digest, by="ana")


RESUMING = {"a word": by_word, "the id": by_id}


@pytest.mark.parametrize("ours", [by_word, by_id, nothing], ids=["a word", "the id", "nothing"])
@pytest.mark.parametrize("tools", RESUMING.values(), ids=RESUMING)
def test_85_a_tools_own_questions_are_asked_after_ours_and_get_their_own_answers(
    ledger: Ledger, saver: Any, ours: Any, tools: Any
) -> None:
    graph = asking(ledger, saver)
    result = graph.invoke(HELLO, THREAD)
    assert asked(result) == "indelible.approval"
    approve(ledger)
    result = graph.invoke(ours(result, "go on"), THREAD)
    assert asked(result) == "which colour?"
    result = graph.invoke(tools(result, "blue"), THREAD)
    assert asked(result) == "which size?"
    result = graph.invoke(tools(result, "large"), THREAD)
    assert said(result)[0].content == "blue large"
    (effect,) = ledger.effects(tool="charge")
    assert effect.status == "succeeded"


@pytest.mark.parametrize("tools", RESUMING.values(), ids=RESUMING)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_85_an_answer_that_came_before_the_decision_answers_no_question_of_the_tools(
    ledger: Ledger, saver: Any, tools: Any, durability: Any
) -> None:
    graph = Durable(asking(ledger, saver), durability)
    graph.invoke(HELLO, THREAD)
    for _ in range(2):  # nobody has decided: the graph keeps "go on", and asks again
        assert asked(graph.invoke(Command(resume="go on"), THREAD)) == "indelible.approval"
    approve(ledger)
    result = graph.invoke(None, THREAD)
    assert asked(result) == "which colour?"
    assert asked(graph.invoke(None, THREAD)) == "which colour?", "an old answer is no answer"
    result = graph.invoke(tools(result, "blue"), THREAD)
    assert asked(result) == "which size?"
    result = graph.invoke(tools(result, "large"), THREAD)
    assert said(result)[0].content == "blue large"


@pytest.mark.parametrize("tools", RESUMING.values(), ids=RESUMING)
@pytest.mark.parametrize("ours", [by_word, by_id, nothing], ids=["a word", "the id", "nothing"])
def test_85_an_approval_that_is_asked_for_after_the_tools_question_takes_no_answer_from_it(
    ledger: Ledger, saver: Any, ours: Any, tools: Any
) -> None:
    result = asking(ledger, saver, PAYS).invoke(HELLO, THREAD)
    assert asked(result) == "which colour?"
    graph = asking(ledger, saver)  # by now, somebody has to be asked
    result = graph.invoke(tools(result, "blue"), THREAD)
    assert asked(result) == "indelible.approval"
    approve(ledger)
    result = graph.invoke(ours(result, "go on"), THREAD)
    assert asked(result) == "which size?", "what was answered to the tool's first question is kept"
    result = graph.invoke(tools(result, "large"), THREAD)
    assert said(result)[0].content == "blue large"


def test_85_an_answer_by_a_person_is_their_vote_and_no_answer_to_the_tool(ledger: Ledger, saver: Any) -> None:
    middleware = LedgerMiddleware(ledger, terms={"charge": ASKS}, decided_by=lambda answer, config: answer["by"])
    graph = agent(Till(colour_and_size), [middleware], saver=saver)
    result = graph.invoke(HELLO, THREAD)
    vote = {"type": "approve", "digest": result["__interrupt__"][0].value["digest"], "by": "ana"}
    result = graph.invoke(Command(resume=vote), THREAD)
    assert asked(result) == "which colour?"
    assert asked(graph.invoke(Command(resume="blue"), THREAD)) == "which size?"
    result = graph.invoke(Command(resume="large"), THREAD)
    assert said(result)[0].content == "blue large"
    (approval,) = ledger.approvals(status="consumed")
    assert [one.by for one in approval.votes] == ["ana"]


def test_85_calls_of_one_node_do_not_answer_each_other(ledger: Ledger, saver: Any) -> None:
    @tool
    def charge(order: str) -> str:
        """Charges an order."""
        return f"charged {order}"

    @tool
    def book(day: str) -> str:
        """Books a day."""
        return f"booked at {interrupt('which hour?')}"

    builder = StateGraph(MessagesState)
    terms = {"charge": ASKS, "book": ASKS}
    builder.add_node("tools", ledger_tool_node([charge, book], ledger, terms=terms))
    builder.add_edge(START, "tools")
    graph = builder.compile(checkpointer=saver)
    turn = calls(("charge", {"order": "1"}, "c1"), ("book", {"day": "monday"}, "c2"))
    result = graph.invoke({"messages": [turn]}, THREAD)
    for _ in range(4):
        if asked(result) != "indelible.approval":
            break
        for approval in ledger.approvals(status="pending"):
            ledger.approve(approval, digest=approval.digest, by="ana")
        result = graph.invoke(Command(resume="go on"), THREAD)
    assert asked(result) == "which hour?"
    result = graph.invoke(Command(resume="noon"), THREAD)
    assert [message.content for message in said(result)] == ["charged 1", "booked at noon"]


@pytest.mark.parametrize("own", [None, True, False], ids=["the state around it", "its own", "no state"])
def test_85_in_a_graph_within_a_graph_answers_stay_apart_too(ledger: Ledger, own: Any) -> None:
    turns = [calls(("charge", {"order": "1", "amount": 5}, "c1")), AIMessage(content="done")]
    inner: Any = create_agent(
        Always(responses=turns),
        [Till(colour_and_size).tool],
        middleware=[LedgerMiddleware(ledger, terms={"charge": ASKS})],
        checkpointer=own,
    )
    builder = StateGraph(MessagesState)
    builder.add_node("inner", inner)
    builder.add_edge(START, "inner")
    graph = builder.compile(checkpointer=InMemorySaver())
    result = graph.invoke(HELLO, THREAD)
    assert asked(result) == "indelible.approval"
    approve(ledger)
    assert asked(graph.invoke(Command(resume="go on"), THREAD)) == "which colour?"
    assert asked(graph.invoke(None, THREAD)) == "which colour?"
    if own is False:
        return  # LangGraph itself keeps one answer there, and a tool with two questions never ends
    assert asked(graph.invoke(Command(resume="blue"), THREAD)) == "which size?"
    assert said(graph.invoke(Command(resume="large"), THREAD))[0].content == "blue large"


@pytest.mark.anyio
async def test_85_in_an_event_loop_too(ledger: Ledger) -> None:
    graph = asking(ledger, InMemorySaver())
    result = await graph.ainvoke(HELLO, THREAD)
    assert asked(result) == "indelible.approval"
    assert asked(await graph.ainvoke(Command(resume="go on"), THREAD)) == "indelible.approval"
    approve(ledger)
    assert asked(await graph.ainvoke(None, THREAD)) == "which colour?"
    assert asked(await graph.ainvoke(None, THREAD)) == "which colour?"
    assert asked(await graph.ainvoke(Command(resume="blue"), THREAD)) == "which size?"
    assert said(await graph.ainvoke(Command(resume="large"), THREAD))[0].content == "blue large"


def test_85_each_pause_of_ours_has_an_id_of_its_own(ledger: Ledger) -> None:
    graph = asking(ledger, InMemorySaver())
    first = graph.invoke(HELLO, THREAD)["__interrupt__"][0].id
    assert graph.invoke(Command(resume="go on"), THREAD)["__interrupt__"][0].id == first, "the same question"
    approve(ledger)
    assert graph.invoke(Command(resume="go on"), THREAD)["__interrupt__"][0].id != first


@pytest.mark.parametrize("side_effect", ["payment", "external_mutation", "notification", "delegation", "write"])
def test_85_a_tool_that_pauses_after_it_acted_does_not_act_twice_unseen(ledger: Ledger, side_effect: str) -> None:
    till = Till(lambda order, amount: f"the user says {interrupt('happy?')}")
    graph = agent(till, [LedgerMiddleware(ledger, terms={"charge": {"side_effect": side_effect}})])
    assert asked(graph.invoke(HELLO, THREAD)) == "happy?"
    (effect,) = ledger.effects(tool="charge")
    assert effect.status == "in_doubt"
    for _ in range(2):
        assert asked(graph.invoke(Command(resume="yes"), THREAD)) == "indelible.in_doubt"
    assert len(till.charged) == 1, "it was entered once; only a person lets it be entered again"
    ledger.retry(effect.id, by="ana", reason="nothing was charged")
    result = graph.invoke(Command(resume="go on"), THREAD)
    assert said(result)[0].content == "the user says yes"
    assert len(till.charged) == 2


def test_85_a_tool_that_reads_may_pause_as_it_likes(ledger: Ledger) -> None:
    graph = asking(ledger, InMemorySaver(), {"side_effect": "read"})
    assert asked(graph.invoke(HELLO, THREAD)) == "which colour?"
    assert asked(graph.invoke(Command(resume="blue"), THREAD)) == "which size?"
    assert said(graph.invoke(Command(resume="large"), THREAD))[0].content == "blue large"


def test_96_a_model_that_numbers_each_turns_calls_anew_pays_twice_if_it_is_asked_to(ledger: Ledger) -> None:
    till, saver = Till(), InMemorySaver()
    for amount in (5, 7, 5):
        turns = [calls(("charge", {"order": "1", "amount": amount}, "call_0")), AIMessage(content="done")]
        graph = agent(till, [LedgerMiddleware(ledger, terms={"charge": PAYS})], turns, saver=saver)
        result = graph.invoke(HELLO, THREAD)
        if "__interrupt__" in result:
            approve(ledger)
            result = graph.invoke(Command(resume="go on"), THREAD)
        assert said(result)[-1].content == f"charged {amount}"
    assert till.charged == [("1", 5), ("1", 7), ("1", 5)]
