"""What `redact=` keeps out of the record never comes back to a tool as its mark: not from a turn, not from a state."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from pydantic_ai import Agent, ToolReturn
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from indelible import Ledger, Redacted, ToolCall
from indelible.errors import BadCall
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware, ledger_tool_node
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.pydantic_ai_durability import LedgerDurability
from indelible.integrations.results import text_in
from tests.scenarios.shells import prepare_store

CARD = "4111111111111111"
MARK = "[redacted card " + "0" * 32 + "]"
TERMS = {"charge": {"side_effect": "payment"}}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    with Ledger.open(prepare_store(store_url), seal=False, redact=["card"]) as opened:
        yield opened


# ── a call with marks ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [MARK, f"pay {MARK}", Redacted("0" * 64), {"$redacted": "0" * 64}, {MARK: 1}])
@pytest.mark.parametrize("rules", [["card"], None])
def test_a_call_with_a_mark_is_refused_before_its_tool_is_entered(
    rules: list[str] | None, value: Any, store_url: str
) -> None:
    entered: list[Any] = []
    with Ledger.open(prepare_store(store_url), seal=False, redact=rules) as ledger:
        with pytest.raises(BadCall):
            ledger.run(ToolCall(run_id="r", tool="charge", args={"to": [value]}), entered.append, side_effect="payment")
        assert (entered, ledger.effects()) == ([], [])


# ── turns that are replayed ──────────────────────────────────────────────────────────────────────────────────────────


class Till:
    """Charges, and notes with what."""

    def __init__(self) -> None:
        self.charged: list[str] = []

    def charge(self, card: str) -> str:
        """Charges."""
        self.charged.append(card)
        return "ok"


def _scripted(messages: Any, about: Any) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("charge", {"card": CARD}, tool_call_id="call_abcdefgh")])


def _capability(ledger: Ledger) -> Any:
    return LedgerCapability(ledger, terms=TERMS)


def _durability(ledger: Ledger) -> Any:
    return LedgerDurability(ledger, run="order-1", terms=TERMS)


@pytest.mark.parametrize("make", [_capability, _durability])
def test_pydantic_ai_charges_the_card_and_never_its_mark(make: Callable[[Ledger], Any], ledger: Ledger) -> None:
    till = Till()

    def run() -> None:
        agent = Agent(FunctionModel(_scripted), name="billing", tools=[till.charge], capabilities=[make(ledger)])
        asyncio.run(agent.run("charge", conversation_id="order-1"))

    run()
    for _ in range(2):
        with pytest.raises(BadCall):
            run()
    assert till.charged == [CARD]
    assert [effect.tool for effect in ledger.effects() if effect.tool != "model.turn"] == ["charge"]


class _Model(FakeMessagesListChatModel):
    def bind_tools(self, tools: Any, **words: Any) -> Any:
        return self


class _Dies(AgentMiddleware[Any, Any, Any]):
    """Dies when the model has answered, before its message is saved."""

    is_dying = True

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        answer = handler(request)
        if self.is_dying:
            raise KeyboardInterrupt
        return answer


def test_langchain_never_charges_the_mark_of_a_card(ledger: Ledger) -> None:
    till, dies, saver = Till(), _Dies(), InMemorySaver()
    calls: Any = [{"name": "charge", "args": {"card": CARD}, "id": "call_abcdefgh"}]

    def run(given: Any) -> None:
        model = _Model(responses=[AIMessage(content="", tool_calls=calls), AIMessage(content="done")])
        words: Any = {"checkpointer": saver, "middleware": [dies, LedgerMiddleware(ledger, terms=TERMS)]}
        agent: Any = create_agent(model, [tool(till.charge)], **words)
        agent.invoke(given, {"configurable": {"thread_id": "order-1"}})

    with pytest.raises(KeyboardInterrupt):
        run({"messages": [HumanMessage("charge", id="m1")]})
    dies.is_dying = False
    with pytest.raises(BadCall):
        run(None)
    assert till.charged == []


# ── states that are kept ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.anyio
async def test_openai_agents_load_no_state_with_marks(ledger: Ledger) -> None:
    set_tracing_disabled(True)
    till = Till()
    gate = LedgerTools(ledger, run="order-1", terms={"charge": {**TERMS["charge"], "approval": "required"}})

    def agent(*turns: Any) -> OpenAIAgent[Any]:
        return OpenAIAgent(name="a", model=ScriptedModel(list(turns)), tools=gate.tools([function_tool(till.charge)]))

    asking = agent([function_call("charge", {"card": CARD}, call_id="call_Kq7charge")], [assistant_message("done")])
    paused = await Runner.run(asking, "go")
    await gate.keep(paused)
    (asked,) = ledger.approvals(status="pending")
    ledger.approve(asked, digest=asked.digest, by="ana")
    with pytest.raises(BadCall):
        await gate.load(agent([assistant_message("done")]))
    state = paused.to_state()  # kept elsewhere, it has the card: what was approved runs
    assert await gate.answer(state) == []
    await Runner.run(asking, state)
    assert till.charged == [CARD]


# ── what a model is told ─────────────────────────────────────────────────────────────────────────────────────────────


def test_function_calls_tell_the_model_the_text_of_a_redacted_value(ledger: Ledger) -> None:
    def look(who: str) -> dict[str, str]:
        return {"ssn": "078-05-1120", "name": who}

    calls = FunctionCalls(ledger, {"look": look}, run="r", terms={"look": {"redact": ["result.ssn"]}})
    asked = {"type": "function", "id": "call_a", "function": {"name": "look", "arguments": '{"who": "ana"}'}}
    first, again = (calls.answer([asked]).messages[0]["content"] for _ in range(2))
    (effect,) = ledger.effects()
    recorded: Any = effect.detail
    mark = str(recorded["ssn"])
    assert json.loads(first) == {"ssn": mark, "name": "ana"}
    assert again.startswith(first)
    assert mark == f"[redacted value {recorded['ssn'].mark[:32]}]"


def test_what_another_framework_recorded_is_told_with_the_text_of_redacted_values() -> None:
    assert text_in({"a": [Redacted("0" * 64)]}) == json.dumps({"a": [f"[redacted value {'0' * 32}]"]})


@pytest.mark.anyio
async def test_openai_agents_show_an_edit_with_redacted_parts(store_url: str) -> None:
    set_tracing_disabled(True)
    till = Till()

    def pay(pin: str, amount: int) -> str:
        """Pays."""
        return till.charge(f"{pin} {amount}")

    with Ledger.open(prepare_store(store_url), seal=False) as opened:
        terms = {"pay": {"side_effect": "payment", "approval": "required", "redact": ["args.pin"]}}
        gate = LedgerTools(opened, run="order-1", terms=terms)
        turns: Any = [
            [function_call("pay", {"pin": "hunter2", "amount": 5}, call_id="call_a")],
            [assistant_message("k")],
        ]
        tools = gate.tools([function_tool(pay, needs_approval=True)])
        paused = await Runner.run(OpenAIAgent(name="a", model=ScriptedModel(turns), tools=tools), "go")
        (asked,) = opened.approvals(status="pending")
        (effect,) = opened.effects()
        edited = opened.edit_approval(asked, {**effect.args, "amount": 3}, digest=asked.digest, by="ana")
        opened.approve(edited, digest=edited.digest, by="ben")
        (shown,) = await gate.answer(paused.to_state())
    assert json.loads(shown.arguments or "") == {"pin": str(effect.args["pin"]), "amount": 3}


# ── paths of results ─────────────────────────────────────────────────────────────────────────────────────────────────

SSN = "078-05-1120"


def look(who: str) -> dict[str, str]:
    """Looks up."""
    return {"ssn": SSN, "name": who}


def _by_pydantic_ai(ledger: Ledger, terms: Any) -> Any:
    def scripted(messages: Any, about: Any) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {"who": "ana"}, tool_call_id="call_abcdefgh")])

    gate = LedgerCapability(ledger, terms=terms, model_turns=False)
    agent = Agent(FunctionModel(scripted), tools=[look], capabilities=[gate])
    return asyncio.run(agent.run("x", conversation_id="r")).all_messages()


def _by_openai_agents(ledger: Ledger, terms: Any) -> Any:
    turns: Any = [[function_call("look", {"who": "ana"}, call_id="call_Kq7")], [assistant_message("done")]]
    tools = LedgerTools(ledger, run="r", terms=terms).tools([function_tool(look)])
    set_tracing_disabled(True)
    return asyncio.run(Runner.run(OpenAIAgent(name="a", model=ScriptedModel(turns), tools=tools), "go")).to_input_list()


def _by_langgraph(ledger: Ledger, terms: Any) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", ledger_tool_node([tool(look)], ledger, terms=terms))
    graph.add_edge(START, "tools")
    calls: Any = [{"name": "look", "args": {"who": "ana"}, "id": "call_abcdefgh"}]
    said = {"messages": [HumanMessage("go", id="m1"), AIMessage(content="", tool_calls=calls)]}
    return graph.compile(checkpointer=InMemorySaver()).invoke(said, {"configurable": {"thread_id": "r"}})


@pytest.mark.parametrize("rule", ["result.ssn", "*.ssn"])
@pytest.mark.parametrize("way", [_by_pydantic_ai, _by_openai_agents, _by_langgraph])
def test_a_path_holds_for_the_tools_own_result_and_the_model_hears_what_is_recorded(
    way: Callable[[Ledger, Any], Any], rule: str, ledger: Ledger
) -> None:
    terms = {"look": {"side_effect": "write", "redact": [rule]}}
    for _ in range(2):
        heard = str(way(ledger, terms))
        assert SSN not in heard
        assert "[redacted value " in heard
        assert "ana" in heard
    assert [SSN in str(effect.detail) for effect in ledger.effects()] == [False]


@pytest.mark.parametrize("rule", ["result.ssn", "result.update.ssn", "*.ssn"])
def test_a_path_holds_for_a_command_that_a_tool_gives(rule: str, ledger: Ledger) -> None:
    @tool
    def look(who: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Looks up."""
        return Command(update={"ssn": SSN, "messages": [ToolMessage(who, tool_call_id=call_id)]})

    class Known(MessagesState):
        ssn: str

    graph: Any = StateGraph(Known)
    terms = {"look": {"side_effect": "write", "redact": [rule]}}
    graph.add_node("tools", ledger_tool_node([look], ledger, terms=terms))
    graph.add_edge(START, "tools")
    calls: Any = [{"name": "look", "args": {"who": "ana"}, "id": "call_abcdefgh"}]
    said = {"messages": [HumanMessage("go", id="m1"), AIMessage(content="", tool_calls=calls)]}
    state = graph.compile().invoke(said, {"configurable": {"thread_id": "r"}})
    assert state["ssn"].startswith("[redacted value ")
    assert [SSN in str(effect.detail) for effect in ledger.effects()] == [False]


def _beside_a_result(who: str) -> Any:
    """Looks up."""
    return ToolReturn("ok", metadata={"ssn": SSN})


def _beside_a_message(who: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Looks up."""
    return ToolMessage("ok", tool_call_id=call_id, artifact={"ssn": SSN})


def _beside_a_message_of_a_command(who: str, call_id: Annotated[str, InjectedToolCallId]) -> Any:
    """Looks up."""
    return Command(update={"messages": [_beside_a_message(who, call_id)]})


@pytest.mark.parametrize("rule", ["result.ssn", "*.ssn"])
@pytest.mark.parametrize("gives", [_beside_a_result, _beside_a_message, _beside_a_message_of_a_command])
def test_17_a_path_holds_for_what_a_tool_gives_beside_its_result(
    gives: Any, rule: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gives, "__name__", "look")
    monkeypatch.setitem(globals(), "look", gives)
    way = _by_pydantic_ai if gives is _beside_a_result else _by_langgraph
    way(ledger, {"look": {"side_effect": "write", "redact": [rule]}})
    (effect,) = ledger.effects(tool="look")
    assert effect.status == "succeeded"
    assert SSN not in str(effect.detail)
