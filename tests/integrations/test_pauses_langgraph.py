"""LangGraph: a pause of the ledger's has an id of its own, and a tool's own questions get their own answers."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

from indelible import Approval, Ledger, NothingHappened, instrument, migrate
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


@pytest.mark.anyio
@pytest.mark.parametrize("shell", ["blocking", "async"])
@pytest.mark.parametrize("amount", [5, 500], ids=["another account", "edited too"])
async def test_15_a_yes_to_what_the_tool_asked_about_other_arguments_is_no_answer(
    ledger: Ledger, amount: int, shell: str
) -> None:
    @tool
    def pay(amount: int, config: RunnableConfig) -> str:
        """Pays."""
        question = f"{amount} from {config['configurable']['account']}?"
        return f"{question} {interrupt(question)}"

    builder = StateGraph(MessagesState)
    builder.add_node("tools", ledger_tool_node([pay], ledger, terms={"pay": ASKS}))
    builder.add_edge(START, "tools")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def go(account: str, given: Any) -> Any:
        at: Any = {"configurable": {"thread_id": "order-123", "account": account}}
        return await graph.ainvoke(given, at) if shell == "async" else graph.invoke(given, at)

    result = await go("A", {"messages": [calls(("pay", {"amount": 5}, "call_X"))]})
    approve(ledger)
    result = await go("A", by_id(result, "go on"))
    assert asked(result) == "5 from A?"
    result = await go("B", by_id(result, "yes"))
    (approval,) = ledger.approvals(status="pending")
    if amount != 5:
        args = {**ledger.view_approval(approval).args, "amount": amount}
        approval = ledger.edit_approval(approval, args, digest=approval.digest, by="bob", reason="as agreed")
    ledger.approve(approval, digest=approval.digest, by="ana")
    result = await go("B", by_id(result, "go on"))
    assert asked(result) == f"{amount} from B?"
    assert said(await go("B", by_id(result, "yes")))[0].content == f"{amount} from B? yes"


class Clerks:
    """Has a graph of one node, whose tool lets an agent of its own do the work of each order of a turn."""

    def __init__(self, ledger: Ledger, way: str, asks: str) -> None:
        self.done: list[tuple[str, str]] = []
        self.fails: set[str] = set()
        words: dict[str, Any] = ASKS if asks == "ours" else {**PAYS, "dedupe": "call"}
        self.terms = {"work": words, "hand_over": {"side_effect": "write", "nothing_on": GraphInterrupt}}
        self._asks = asks
        self._behind = [] if way == "instrument" else [LedgerMiddleware(ledger, terms=self.terms)]
        tools = [StructuredTool.from_function(self._hand_over, self._hand_over_async, "hand_over", "Hands over.")]
        builder = StateGraph(MessagesState)
        node = ToolNode(tools) if way == "instrument" else ledger_tool_node(tools, ledger, terms=self.terms)
        builder.add_node("tools", node)
        builder.add_edge(START, "tools")
        self.builder = builder
        self.graph = builder.compile(checkpointer=InMemorySaver())
        turn = calls(*(("hand_over", {"order": order}, f"call_{order}") for order in "ABC"))
        self.input = {"messages": [HumanMessage("go", id="m1"), turn]}

    def _clerk(self, order: str) -> Any:
        def work(order: str) -> str:
            """Does what is due."""
            answer = "done" if self._asks != "the tool's" else interrupt(f"work on {order}?")
            self.done.append((order, answer))
            return f"worked on {order}"

        turns = [calls(("work", {"order": order}, f"call_X{order}")), AIMessage(content="done")]
        return create_agent(Always(responses=turns), [tool(work)], middleware=self._behind)

    def _hand_over(self, order: str) -> str:
        said_to = {"messages": [HumanMessage("go", id=f"to {order}")]}
        heard = str(self._clerk(order).invoke(said_to)["messages"][-2].content)
        if order in self.fails:
            raise NothingHappened("the line is down")
        return heard

    async def _hand_over_async(self, order: str) -> str:
        said_to = {"messages": [HumanMessage("go", id=f"to {order}")]}
        return str((await self._clerk(order).ainvoke(said_to))["messages"][-2].content)


@pytest.mark.anyio
@pytest.mark.parametrize("shell", ["blocking", "async"])
@pytest.mark.parametrize("asks", ["ours", "the tool's"])
@pytest.mark.parametrize("way", ["gate", "instrument"])
async def test_04_the_agents_inside_of_two_calls_of_one_task_keep_to_themselves(
    ledger: Ledger, way: str, asks: str, shell: str
) -> None:
    clerks = Clerks(ledger, way, asks)
    around = instrument(ledger, terms=clerks.terms) if way == "instrument" else contextlib.nullcontext()
    words: Any = {**THREAD, "max_concurrency": 1}
    given: Any = clerks.input
    with around, ledger.in_run("order-123"):
        for _ in range(4):  # calls that are done are not entered again, so the others come earlier
            is_async = shell == "async"
            result = await clerks.graph.ainvoke(given, words) if is_async else clerks.graph.invoke(given, words)
            asked = result.get("__interrupt__", ())
            for one in ledger.approvals(status="pending"):
                ledger.approve(one, digest=one.digest, by="ana")
            given = Command(resume={one.id: f"answer to {one.value}" for one in asked})
    assert [message.content for message in said(result)] == [f"worked on {order}" for order in "ABC"]
    expected = "done" if asks == "ours" else "answer to work on {}?"
    assert sorted(clerks.done) == [(order, expected.format(order)) for order in "ABC"]
    assert {effect.status for effect in ledger.effects()} == {"succeeded"}


def test_04_what_is_done_inside_is_not_done_again_when_a_call_before_it_replays(ledger: Ledger) -> None:
    clerks = Clerks(ledger, "gate", "nobody")
    graph = clerks.builder.compile()  # nothing but the ledger knows what was done
    words: Any = {**THREAD, "max_concurrency": 1}
    clerks.fails = {"C"}
    with pytest.raises(NothingHappened):
        graph.invoke(clerks.input, words)
    clerks.fails = set()
    assert len(said(graph.invoke(clerks.input, words))) == 3
    assert sorted(order for order, _ in clerks.done) == ["A", "B", "C"]


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
