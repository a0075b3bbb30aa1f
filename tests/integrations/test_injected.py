"""What a framework gives a tool beside the model's arguments is recorded, shown and bound, or named as not shown."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from datetime import date, timedelta
from enum import Enum
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, RunContextWrapper, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, create_model
from pydantic_ai import Agent, DeferredToolRequests, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Approval, Ledger, NothingHappened, instrument, migrate
from indelible.errors import BadCall
from indelible.integrations.injected import recorded
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.tool import encode
from tests.integrations.langchain_agents import THREAD, Scripted, calls, said

ASKS: dict[str, Any] = {"side_effect": "payment", "approval": "required"}


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


class State(AgentState[Any]):
    account: str


@dataclass
class Who:
    user: str
    api_key: str = "sk-1"


paid: list[Any] = []


@tool
def by_field(amount: int, account: Annotated[str, InjectedState("account")]) -> str:
    """Pays."""
    paid.append(account)
    return account


@tool
def by_state(amount: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Pays."""
    paid.append(state["account"])
    return str(state["account"])


@tool
def by_runtime(amount: int, runtime: ToolRuntime[Who, State]) -> str:
    """Pays."""
    paid.append(runtime.state["account"])
    return str(runtime.state["account"])


@tool
def by_config(amount: int, config: RunnableConfig) -> str:
    """Pays."""
    paid.append(config["configurable"]["account"])
    return str(config["configurable"]["account"])


@tool
def by_context(amount: int, runtime: ToolRuntime[Who, State]) -> str:
    """Pays."""
    paid.append(runtime.context.user)
    return runtime.context.user


@tool
def by_user(amount: int, runtime: ToolRuntime[Who, State]) -> str:
    """Pays."""
    assert runtime.server_info is not None
    assert runtime.server_info.user is not None
    paid.append(runtime.server_info.user.identity)
    return runtime.server_info.user.identity


@dataclass
class SignedIn:
    """Is a user as LangGraph's server hands them to a graph."""

    identity: str


TOOLS = {one.name: one for one in (by_field, by_state, by_runtime, by_config, by_context, by_user)}
WHERE = {
    "by_field": ("account",),
    "by_state": ("state", "account"),
    "by_runtime": ("runtime", "state", "account"),
    "by_config": ("config", "configurable", "account"),
    "by_context": ("runtime", "context", "user"),
    "by_user": ("runtime", "user"),
}


class Paying:
    """Is an agent that pays 5 by one tool, from an account that the program names."""

    def __init__(self, ledger: Ledger, name: str, words: dict[str, Any] = ASKS) -> None:
        paid.clear()
        turns = [calls((name, {"amount": 5, "account": "of the model"}, "c1")), AIMessage(content="done")]
        self.name = name
        self.graph: Any = create_agent(
            Scripted(responses=turns),
            [TOOLS[name]],
            middleware=[LedgerMiddleware(ledger, terms={name: words})],
            state_schema=State,
            context_schema=Who,
            checkpointer=InMemorySaver(),
        )

    def invoke(self, given: Any, account: str) -> Any:
        here: dict[str, Any] = {**THREAD["configurable"], "account": account}
        if self.name == "by_user":  # all else stays the same
            server = {"assistant_id": "a1", "graph_id": "g1", "langgraph_auth_user": SignedIn(account)}
            here, account = here | {"account": "of all users"} | server, "of all users"
        return self.graph.invoke(given, {"configurable": here}, context=Who(account))

    def begin(self, account: str) -> Any:
        return self.invoke({"messages": [("user", "pay")], "account": account}, account)

    def go_on(self, account: str) -> Any:
        if self.name in ("by_field", "by_state", "by_runtime"):
            self.graph.update_state(THREAD, {"account": account}, as_node="model")
            return self.invoke(None, account)
        return self.invoke(Command(resume="go on"), account)

    def shown_in(self, result: Any) -> Any:
        found = result["__interrupt__"][0].value["args"]
        for name in WHERE[self.name]:
            found = found[name]
        return found


def approve(ledger: Ledger) -> Approval:
    (approval,) = ledger.approvals(status="pending")
    return ledger.approve(approval, digest=approval.digest, by="ana")


@pytest.mark.parametrize("name", TOOLS)
def test_89_an_account_that_changed_after_the_approval_is_asked_about_again(ledger: Ledger, name: str) -> None:
    paying = Paying(ledger, name)
    first = paying.begin("acme")
    assert paying.shown_in(first) == "acme"
    old = approve(ledger)
    second = paying.go_on("mallory")
    assert (paid, paying.shown_in(second)) == ([], "mallory")
    assert [one.status for one in ledger.approvals() if one.id == old.id] == ["stale"]
    approve(ledger)
    result = paying.go_on("mallory")
    assert (paid, said(result)[-1].content) == (["mallory"], "mallory")
    (effect,) = ledger.effects(tool=name)
    assert (effect.status, effect.args["amount"]) == ("succeeded", 5)


@pytest.mark.parametrize("name", TOOLS)
def test_89_what_was_approved_runs_as_long_as_nothing_changed(ledger: Ledger, name: str) -> None:
    paying = Paying(ledger, name)
    paying.begin("acme")
    approve(ledger)
    paying.invoke(Command(resume="go on"), "acme")
    assert paid == ["acme"]


class Customer(BaseModel):
    account: str


@tool
def of_state(amount: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Pays."""
    paid.append(state["customer"].account)
    return "paid"


@tool
def of_runtime(amount: int, runtime: ToolRuntime[Any, Any]) -> str:
    """Pays."""
    paid.append(runtime.state["customer"].account)
    return "paid"


@tool
def of_list(amount: int, customer: Annotated[Any, InjectedState("customer")]) -> str:
    """Pays."""
    paid.append(customer[0].account)
    return "paid"


class StateOfModels(AgentState[Any]):
    customer: Any


@pytest.mark.parametrize("account", ["acme", "mallory"])
@pytest.mark.parametrize(
    ("by", "make"),
    [
        (of_state, lambda account: Customer(account=account)),
        (of_runtime, lambda account: Customer(account=account)),
        (of_list, lambda account: [Customer(account=account)]),
    ],
)
def test_89_an_object_in_a_state_is_bound(ledger: Ledger, by: Any, make: Any, account: str) -> None:
    paid.clear()
    turns = [calls((by.name, {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={by.name: ASKS})]
    graph: Any = create_agent(
        Scripted(responses=turns), [by], middleware=behind, state_schema=StateOfModels, checkpointer=InMemorySaver()
    )
    graph.invoke({"messages": [("user", "pay")], "customer": make("acme")}, THREAD)
    approve(ledger)
    graph.invoke(Command(resume="go on", update={"customer": make(account)}), THREAD)
    assert paid == (["acme"] if account == "acme" else [])


def default_of_state(default: str) -> Any:
    @tool
    def pay(amount: int, account: Annotated[str, InjectedState("account")] = default) -> str:
        """Pays."""
        paid.append(account)
        return "paid"

    return pay


def default_of_argument(default: str) -> Any:
    @tool
    def pay(amount: int, account: Annotated[str, InjectedToolArg] = default) -> str:
        """Pays."""
        paid.append(account)
        return "paid"

    return pay


class Given(BaseModel):
    amount: int
    account: Annotated[str, InjectedToolArg]


def default_of_schema(default: str) -> Any:
    def pay(amount: int, account: str) -> str:
        """Pays."""
        paid.append(account)
        return "paid"

    fields: dict[str, Any] = {"account": (Annotated[str, InjectedToolArg], default)}
    return StructuredTool.from_function(pay, args_schema=create_model("Args", __base__=Given, **fields))


@pytest.mark.parametrize("account", ["acme", "mallory"])
@pytest.mark.parametrize("make", [default_of_state, default_of_argument, default_of_schema])
def test_89_the_default_of_an_injected_parameter_is_shown_and_bound(ledger: Ledger, make: Any, account: str) -> None:
    paid.clear()
    saver = InMemorySaver()

    def graph(default: str) -> Any:
        turns = [calls(("pay", {"amount": 5, "account": "of the model"}, "c1")), AIMessage(content="done")]
        behind = [LedgerMiddleware(ledger, model_turns=False, terms={"pay": ASKS})]
        model = Scripted(responses=turns[len(ledger.effects()) :])
        return create_agent(model, [make(default)], middleware=behind, state_schema=State, checkpointer=saver)

    first = graph("acme").invoke({"messages": [("user", "pay")]}, THREAD)
    assert first["__interrupt__"][0].value["args"] == {"amount": 5, "account": "acme"}
    approve(ledger)
    second = graph(account).invoke(Command(resume="go on"), THREAD)
    if account == "acme":
        assert paid == ["acme"]
    else:
        assert (paid, second["__interrupt__"][0].value["args"]["account"]) == ([], "mallory")


def of_class(blocking: str, awaited: str) -> Any:
    class Pay(BaseTool):
        name: str = "pay"
        description: str = "Pays."

        def _run(self, amount: int, account: Annotated[str, InjectedToolArg] = blocking) -> str:
            paid.append(account)
            return "paid"

        async def _arun(self, amount: int, account: Annotated[str, InjectedToolArg] = awaited) -> str:
            return self._run(amount, account)

    return Pay()


def of_functions(blocking: str, awaited: str) -> Any:
    def pay(amount: int, account: Annotated[str, InjectedToolArg] = blocking) -> str:
        """Pays."""
        paid.append(account)
        return "paid"

    async def pay_too(amount: int, account: Annotated[str, InjectedToolArg] = awaited) -> str:
        return pay(amount, account)

    return StructuredTool.from_function(pay, coroutine=pay_too, name="pay")


@pytest.mark.parametrize("shell", ["blocking", "awaited"])
@pytest.mark.parametrize(("make", "account"), [(of_class, "acme"), (of_functions, "acme"), (of_functions, "mallory")])
def test_89_the_default_that_runs_is_the_recorded_one(ledger: Ledger, make: Any, account: str, shell: str) -> None:
    paid.clear()
    turns = [calls(("pay", {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={"pay": {"side_effect": "payment"}})]
    graph: Any = create_agent(Scripted(responses=turns), [make("acme", account)], middleware=behind)
    asked = {"messages": [("user", "pay")]}
    if shell == "blocking":
        graph.invoke(asked, THREAD)
    else:
        asyncio.run(graph.ainvoke(asked, THREAD))
    assert paid == [effect.args["account"] for effect in ledger.effects(tool="pay")] == ["acme"]


def test_89_a_tool_whose_functions_have_different_defaults_is_refused(ledger: Ledger) -> None:
    """LangChain picks the function, so an approver could not be shown the value that runs."""
    paid.clear()
    turns = [calls(("pay", {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={"pay": {"side_effect": "payment"}})]
    graph: Any = create_agent(Scripted(responses=turns), [of_class("acme", "mallory")], middleware=behind)
    with pytest.raises(BadCall):
        asyncio.run(graph.ainvoke({"messages": [("user", "pay")]}, THREAD))
    assert (paid, ledger.effects(tool="pay")) == ([], [])


def test_89_a_value_that_is_made_anew_is_named_by_its_type(ledger: Ledger) -> None:
    class Made(BaseModel):
        amount: int
        account: Annotated[str, InjectedToolArg] = Field(default_factory=lambda: "acme")
        id_: Annotated[str, InjectedToolCallId] = ""

    def pay(amount: int, account: str, id_: str) -> str:
        """Pays."""
        return f"paid {account}"

    turns = [calls(("pay", {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={"pay": {"side_effect": "payment"}})]
    tools = [StructuredTool.from_function(pay, args_schema=Made)]
    graph: Any = create_agent(Scripted(responses=turns), tools, middleware=behind)
    assert said(graph.invoke({"messages": [("user", "pay")]}, THREAD))[-1].content == "paid acme"
    assert ledger.effects(tool="pay")[0].args == {"amount": 5, "account": {"not_shown": "function"}}


def test_89_a_langchain_tool_that_changed_in_place_is_asked_about_again(ledger: Ledger) -> None:
    paid.clear()
    changing = default_of_argument("acme")
    turns = [calls(("pay", {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={"pay": ASKS})]
    graph: Any = create_agent(Scripted(responses=turns), [changing], middleware=behind, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "pay")]}, THREAD)
    old = approve(ledger)
    changing.description = "Pays in millions, from the live account."
    graph.invoke(Command(resume="go on"), THREAD)
    (again,) = ledger.approvals(status="pending")
    assert (paid, again.replaces) == ([], old.id)


@tool
def by_metadata(amount: int, config: RunnableConfig) -> str:
    """Pays."""
    paid.append(config["metadata"]["account"])
    return "paid"


@pytest.mark.parametrize(("before", "after"), [("acme", "mallory"), (1, True)])
def test_89_metadata_is_bound_beside_a_name_of_configurable(ledger: Ledger, before: Any, after: Any) -> None:
    paid.clear()
    turns = [calls(("by_metadata", {"amount": 5}, "c1")), AIMessage(content="done")]
    behind = [LedgerMiddleware(ledger, terms={"by_metadata": ASKS})]
    graph: Any = create_agent(Scripted(responses=turns), [by_metadata], middleware=behind, checkpointer=InMemorySaver())

    def invoke(given: Any, account: Any) -> Any:
        configurable = {**THREAD["configurable"], "account": after}
        return graph.invoke(given, {"configurable": configurable, "metadata": {"account": account}})

    first = invoke({"messages": [("user", "pay")]}, before)
    assert first["__interrupt__"][0].value["args"]["config"]["metadata"] == {"account": before}
    approve(ledger)
    second = invoke(Command(resume="go on"), after)
    assert (paid, second["__interrupt__"][0].value["args"]["config"]) == ([], {"configurable": {"account": after}})


def test_89_a_state_that_grew_turns_no_replay_into_another_call(ledger: Ledger) -> None:
    paying = Paying(ledger, "by_state", {"side_effect": "payment"})
    paying.begin("acme")
    (before,) = [one for one in paying.graph.get_state_history(THREAD) if one.next == ("tools",)]
    changed = paying.graph.update_state(before.config, {"account": "mallory"}, as_node="model")
    paying.graph.invoke(None, changed, context=Who("mallory"))
    assert paid == ["acme"]
    (effect,) = ledger.effects(tool="by_state")
    assert effect.args["state"]["messages"] == {"not_shown": "list"}


def test_89_a_field_that_changes_by_itself_can_be_left_out(ledger: Ledger) -> None:
    paying = Paying(ledger, "by_field", {**ASKS, "unbound": ["account"]})
    assert paying.shown_in(paying.begin("acme")) == {"not_shown": "str"}
    approve(ledger)
    paying.go_on("other")
    assert paid == ["other"]


def test_89_what_cannot_be_shown_is_named_by_its_type(ledger: Ledger) -> None:
    @tool
    def save(
        name: str,
        store: Annotated[Any, InjectedStore()],
        id_: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime[Who, Any],
    ) -> str:
        """Saves."""
        return "saved"

    turns = [calls(("save", {"name": "a"}, "c1")), AIMessage(content="done")]
    graph: Any = create_agent(
        Scripted(responses=turns),
        [save],
        middleware=[LedgerMiddleware(ledger, terms={"save": ASKS})],
        context_schema=Who,
        checkpointer=InMemorySaver(),
        store=InMemoryStore(),
    )
    result = graph.invoke({"messages": [("user", "go")]}, THREAD, context=Who("ana"))
    args = result["__interrupt__"][0].value["args"]
    store = {"not_shown": "langgraph.store.memory.InMemoryStore"}
    assert (args["store"], args["runtime"]["store"], args["name"]) == (store, store, "a")
    assert args["runtime"]["context"] == {"user": "ana", "api_key": {"not_shown": "str"}}
    assert "id_" not in args
    approve(ledger)
    assert said(graph.invoke(Command(resume="go on"), THREAD, context=Who("ana")))[-1].content == "saved"


def test_89_a_model_cannot_say_what_the_framework_injects(ledger: Ledger) -> None:
    paying = Paying(ledger, "by_field", {"side_effect": "payment"})
    paying.begin("acme")
    assert (paid, ledger.effects(tool="by_field")[0].args["account"]) == (["acme"], "acme")


@dataclass
class Deps:
    account: str
    db: Any = None


def openai_agent(ledger: Ledger, words: dict[str, Any] = ASKS) -> tuple[LedgerTools, OpenAIAgent[Deps]]:
    @function_tool
    def charge(ctx: RunContextWrapper[Deps], amount: int) -> str:
        """Charges."""
        paid.append(ctx.context.account)
        return f"charged {ctx.context.account}"

    paid.clear()
    set_tracing_disabled(True)
    gate = LedgerTools(ledger, run="order-123", terms={"charge": words})
    turns = [[function_call("charge", {"amount": 5}, call_id="c1")], [assistant_message("done")]]
    return gate, OpenAIAgent(name="till", model=ScriptedModel(turns), tools=gate.tools([charge]))


@pytest.mark.anyio
async def test_89_openai_agents_the_context_is_bound(ledger: Ledger) -> None:
    gate, agent = openai_agent(ledger)
    result = await Runner.run(agent, "go", context=Deps("acme", object()))
    (approval,) = ledger.approvals(status="pending")
    (effect,) = ledger.effects(tool="charge")
    assert effect.args == {"amount": 5, "context": {"account": "acme", "db": {"not_shown": "object"}}}
    approve(ledger)
    state = result.to_state()
    assert await gate.answer(state) == []
    state._context.context = Deps("mallory", object())
    await Runner.run(agent, state)
    assert paid == []
    (again,) = ledger.approvals(status="pending")
    (effect,) = ledger.effects(tool="charge")
    assert (again.replaces, effect.args["context"]["account"]) == (approval.id, "mallory")


@pytest.mark.anyio
async def test_89_openai_agents_a_named_tuple_beside_a_handle_is_bound(ledger: Ledger) -> None:
    class Pair(NamedTuple):
        db: Any
        account: str

    gate, agent = openai_agent(ledger)
    result = await Runner.run(agent, "go", context=Pair(object(), "acme"))  # type: ignore[arg-type]
    (effect,) = ledger.effects(tool="charge")
    assert effect.args["context"] == {"db": {"not_shown": "object"}, "account": "acme"}
    approve(ledger)
    state = result.to_state()
    assert await gate.answer(state) == []
    state._context.context = Pair(object(), "mallory")  # type: ignore[assignment]
    await Runner.run(agent, state)
    assert (paid, ledger.effects(tool="charge")[0].status) == ([], "requires_approval")


@pytest.mark.anyio
async def test_89_openai_agents_what_was_approved_runs(ledger: Ledger) -> None:
    gate, agent = openai_agent(ledger)
    result = await Runner.run(agent, "go", context=Deps("acme"))
    approve(ledger)
    state = result.to_state()
    assert await gate.answer(state) == []
    await Runner.run(agent, state)
    assert paid == ["acme"]


@pytest.mark.anyio
async def test_89_openai_agents_a_context_that_is_gone_is_another_one(ledger: Ledger) -> None:
    gate, agent = openai_agent(ledger)
    result = await Runner.run(agent, "go", context=Deps("acme"))
    approve(ledger)
    state = result.to_state()
    assert await gate.answer(state) == []
    state._context.context = None
    await Runner.run(agent, state)
    assert (paid, ledger.effects(tool="charge")[0].status) == ([], "requires_approval")


def pydantic_agent(ledger: Ledger) -> Agent[Deps, Any]:
    def charge(ctx: RunContext[Deps], amount: int) -> str:
        """Charges."""
        paid.append(ctx.deps.account)
        return f"charged {ctx.deps.account}"

    def answers(messages: list[Any], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("charge", {"amount": 5}, "c1")])
        return ModelResponse(parts=[TextPart("done")])

    paid.clear()
    return Agent(
        FunctionModel(answers),
        deps_type=Deps,
        tools=[charge],
        output_type=[str, DeferredToolRequests],
        capabilities=[LedgerCapability(ledger, terms={"charge": ASKS})],
    )


@pytest.mark.anyio
@pytest.mark.parametrize("account", ["acme", "mallory"])
async def test_89_pydantic_ai_dependencies_are_bound(ledger: Ledger, account: str) -> None:
    agent = pydantic_agent(ledger)
    first: Any = await agent.run("go", deps=Deps("acme", object()), conversation_id="order-123")
    shown = first.output.metadata["c1"]["args"]
    assert shown == {"amount": 5, "deps": {"account": "acme", "db": {"not_shown": "object"}}}
    approve(ledger)
    second: Any = await agent.run(
        message_history=first.all_messages(),
        deferred_tool_results=first.output.build_results(approve_all=True),
        deps=Deps(account, object()),
        conversation_id="order-123",
    )
    if account == "acme":
        assert (paid, second.output) == (["acme"], "done")
    else:
        assert (paid, second.output.metadata["c1"]["args"]["deps"]["account"]) == ([], "mallory")


WAITS = {**ASKS, "wait": timedelta(seconds=60)}


def by_openai(ledger: Ledger, given: Deps, args: dict[str, Any], words: dict[str, Any]) -> None:
    async def charge(ctx: ToolContext[Any], arguments: str) -> str:
        paid.append((json.loads(arguments), ctx.context and ctx.context.account))
        return "charged"

    schema = {"type": "object", "properties": {"amount": {"type": "integer"}}}
    tool = FunctionTool(
        name="charge", description="", params_json_schema=schema, on_invoke_tool=charge, strict_json_schema=False
    )
    turns = [[function_call("charge", args, call_id="call_1x")], [assistant_message("done")]]
    set_tracing_disabled(True)
    with instrument(ledger, terms={"charge": words}), ledger.in_run("order-123"):
        agent = OpenAIAgent(name="till", model=ScriptedModel(turns), tools=[tool])
        asyncio.run(Runner.run(agent, "go", context=given))


def by_pydantic(ledger: Ledger, given: Deps, args: dict[str, Any], words: dict[str, Any]) -> None:
    def charge(ctx: RunContext[Deps], amount: int, **more: Any) -> str:
        paid.append(({"amount": amount, **more}, ctx.deps and ctx.deps.account))
        return "charged"

    turns = iter([ToolCallPart("charge", args, "call_1x"), TextPart("done")])
    model = FunctionModel(lambda messages, info: ModelResponse(parts=[next(turns)]))
    behind = LedgerCapability(ledger, model_turns=False, terms={"charge": words})
    agent = Agent(model, deps_type=Deps, tools=[charge], capabilities=[behind])
    asyncio.run(agent.run("go", deps=given, conversation_id="order-123"))


def by_langchain(ledger: Ledger, given: Deps, args: dict[str, Any], words: dict[str, Any]) -> None:
    @tool
    def charge(amount: int, runtime: ToolRuntime[Deps, Any]) -> str:
        """Charge."""
        paid.append(({"amount": amount}, runtime.context.account))
        return "charged"

    turns = [calls(("charge", args, "call_1x")), AIMessage(content="done")]
    behind = LedgerMiddleware(ledger, model_turns=False, terms={"charge": words})
    agent = create_agent(Scripted(responses=turns), [charge], middleware=[behind], context_schema=Deps)
    agent.invoke({"messages": [("user", "go")]}, THREAD, context=given)


@pytest.mark.parametrize("play", [by_openai, by_pydantic, by_langchain])
@pytest.mark.parametrize("account", ["acme", "mallory"])
def test_89_what_changes_while_the_call_waits_does_not_reach_the_tool(
    ledger: Ledger, play: Callable[..., None], account: str
) -> None:
    paid.clear()
    given = Deps("acme")

    def decide() -> None:
        while not (pending := ledger.approvals(status="pending")):
            threading.Event().wait(0.01)
        given.account = account
        ledger.approve(pending[0], digest=pending[0].digest, by="ana")

    with ThreadPoolExecutor(1) as threads, contextlib.suppress(NothingHappened):
        decided = threads.submit(decide)
        play(ledger, given, {"amount": 5}, WAITS)
    decided.result()
    (effect,) = ledger.effects(tool="charge")
    if account == "acme":
        assert (paid, effect.status) == ([({"amount": 5}, "acme")], "succeeded")
    else:
        assert (paid, effect.status) == ([], "ready")


@pytest.mark.parametrize(("play", "name"), [(by_openai, "context"), (by_pydantic, "deps"), (by_langchain, "runtime")])
@pytest.mark.parametrize("given", [Deps("acme"), None], ids=["supplied", "not"])
def test_38_an_argument_named_like_what_is_supplied_is_shown_and_run_or_refused(
    ledger: Ledger, play: Callable[..., None], name: str, given: Any
) -> None:
    if given is None and play is by_langchain:
        pytest.skip("a runtime is always supplied")
    paid.clear()
    said = {"amount": 5, name: "mallory"}
    play(ledger, given, said, {"side_effect": "payment"})
    shown = [effect.args for effect in ledger.effects(tool="charge")]
    if given is None:
        assert (paid, shown) == ([(said, None)], [said])
    elif play is by_langchain:  # the framework drops what the model says there
        assert paid == [({"amount": 5}, "acme")]
        assert shown[0]["runtime"]["context"]["account"] == "acme"
    else:
        assert (paid, shown) == ([], [])


def test_values_are_shown_as_json_or_named_by_their_type() -> None:
    class Inner:
        def __init__(self) -> None:
            self.url = "postgresql://user:password@host"

    class Pair(NamedTuple):
        db: Any
        to: str
        api_key: str = "k"

    class Kind(Enum):
        PAIR = (object(), 1)

    @dataclass
    class Deps:
        user: str = "ana"
        limits: dict[str, int] = field(default_factory=lambda: {"day": 5})
        db: Inner = field(default_factory=Inner)
        pairs: Any = field(default_factory=lambda: [Pair(Inner(), "acme"), Inner()])
        pool: Any = field(default_factory=lambda: [Inner(), Inner()])
        kind: Any = Kind.PAIR
        texts: Any = field(default_factory=lambda: ["x" * 30_000, "y"])
        auth_token: str = "t"
        headers: dict[str, str] = field(default_factory=lambda: {"api_key": "k"})

    shown = recorded({"deps": Deps(), "text": "x" * 30_000, "none": None}, unbound=["user"])
    inner = {"not_shown": f"{__name__}.{Inner.__qualname__}"}
    assert shown == {
        "deps": {
            "user": {"not_shown": "str"},
            "limits": {"day": 5},
            "db": inner,
            "pairs": [{"class": Pair.__qualname__, "db": inner, "to": "acme", "api_key": {"not_shown": "str"}}, inner],
            "pool": {"not_shown": "list"},
            "kind": "PAIR",
            "texts": [{"not_shown": "str"}, "y"],
            "auth_token": {"not_shown": "str"},
            "headers": {"api_key": {"not_shown": "str"}},
        },
        "text": {"not_shown": "str"},
        "none": None,
    }


class Loose(BaseModel):
    """Has a field, and whatever else it is given."""

    model_config = ConfigDict(extra="allow")
    region: str = "eu"
    _iban: str = PrivateAttr("A")

    def to_whom(self) -> str:
        return "OURS"


class Stricter(Loose):
    def to_whom(self) -> str:
        return "MALLORY"


class Wired(NamedTuple):
    """Holds a handle beside a value."""

    db: Any
    iban: str


def ring_of(iban: str) -> Loose:
    made = Loose(iban=iban)
    made.__pydantic_extra__["self"] = made  # type: ignore[index]
    return made


class Held:
    """Keeps what the tool reads in an attribute that is not public."""

    def __init__(self, iban: str) -> None:
        self._iban = iban
        self.region = "eu"


class Only:
    __slots__ = ("iban",)

    def __init__(self, iban: str) -> None:
        self.iban = iban


class Slotted(Held):
    __slots__ = ("__hidden", "iban")

    def __init__(self, iban: str) -> None:
        super().__init__("A")
        self.iban = iban
        self.__hidden = iban


@dataclass
class Initial:
    region: str = "eu"
    iban: InitVar[str] = "A"

    def __post_init__(self, iban: str) -> None:
        self.iban = iban


class Named(dict[str, Any]):
    """A mapping with an attribute."""

    iban: str


class Coded(str):
    """A text with an attribute."""

    iban: str


class Tenant(namedtuple("Tenant", "account region")):
    """A named tuple with a method, so its objects have a `__dict__`."""

    def label(self) -> str:
        return f"{self.account}@{self.region}"


class Basket(list[str]):
    """A list of a class of its own."""


class Chosen(set[str]):
    """A set of a class of its own."""


class Due(date):
    """A date of a class of its own."""

    iban: str


class Amount(int):
    """A number of a class of its own."""


class OursByClass:
    iban = "OURS"


class TheirsByClass:
    iban = "MALLORY"


class Paths(PurePosixPath):
    iban: str


def private(iban: str) -> Any:
    made = Loose()
    made._iban = iban
    return made


def with_attribute(made: Any, iban: str) -> Any:
    made.iban = iban
    return made


HOLDERS: dict[str, tuple[Any, Any]] = {
    "extra fields": (lambda iban: Loose(iban=iban), lambda deps: deps.iban),
    "private of a model": (private, lambda deps: deps._iban),
    "private of an object": (Held, lambda deps: deps._iban),
    "slots": (Slotted, lambda deps: deps.iban),
    "slots alone": (Only, lambda deps: deps.iban),
    "numbered": (lambda iban: {"to": {1: iban}}, lambda deps: deps["to"][1]),
    "init variable": (lambda iban: Initial(iban=iban), lambda deps: deps.iban),
    "set later": (lambda iban: with_attribute(Deps("acme"), iban), lambda deps: deps.iban),
    "attribute of a mapping": (lambda iban: with_attribute(Named(region="eu"), iban), lambda deps: deps.iban),
    "beside a secret": (lambda iban: {"to": {"iban": iban, "token": "t"}}, lambda deps: deps["to"]["iban"]),
    "beside a number": (lambda iban: {"to": {"iban": iban, "max_tokens": 1}}, lambda deps: deps["to"]["iban"]),
    "named tuple": (lambda iban: Tenant(iban, "eu"), lambda deps: deps.account),
    "text": (Coded, str),
    "text with an attribute": (lambda iban: with_attribute(Coded(iban), "A"), str),
    "attribute of a text": (lambda iban: with_attribute(Coded("eu"), iban), lambda deps: deps.iban),
    "attribute of a text inside": (
        lambda iban: {"to": with_attribute(Coded("eu"), iban)},
        lambda deps: deps["to"].iban,
    ),
    "list": (lambda iban: Basket([iban]), lambda deps: deps[0]),
    "set": (lambda iban: Chosen([iban]), lambda deps: next(iter(deps))),
    "number": (lambda iban: Amount(len(iban)), lambda deps: {4: "OURS", 7: "MALLORY"}[deps]),
    "date": (lambda iban: Due(2026, 1, len(iban)), lambda deps: {4: "OURS", 7: "MALLORY"}[deps.day]),
    "attribute of a date": (lambda iban: with_attribute(Due(2026, 1, 1), iban), lambda deps: deps.iban),
    "attribute of a date inside": (
        lambda iban: {"due": [with_attribute(Due(2026, 1, 1), iban)]},
        lambda deps: deps["due"][0].iban,
    ),
    "attribute of a path inside": (
        lambda iban: {"to": with_attribute(Paths("/a"), iban)},
        lambda deps: deps["to"].iban,
    ),
    "partial": (lambda iban: functools.partial(str, iban), lambda deps: deps()),
    "class": (lambda iban: OursByClass() if iban == "OURS" else TheirsByClass(), lambda deps: deps.iban),
    "beside a handle": (lambda iban: {"to": {"iban": iban, "db": object()}}, lambda deps: deps["to"]["iban"]),
    "named tuple beside a handle": (lambda iban: Wired(object(), iban), lambda deps: deps.iban),
    "tuple beside a handle": (lambda iban: (object(), iban), lambda deps: deps[1]),
    "set beside a handle": (lambda iban: {Only("A"), iban}, lambda deps: next(one for one in deps if one in IBANS)),
    "model in a mapping": (lambda iban: {"to": Loose(iban=iban)}, lambda deps: deps["to"].iban),
    "model in a dataclass": (lambda iban: Deps("acme", Loose(iban=iban)), lambda deps: deps.db.iban),
    "models in a list": (lambda iban: [Loose(iban=iban)], lambda deps: deps[0].iban),
    "dataclass in a list in a model": (lambda iban: Loose(to=[Deps(iban)]), lambda deps: deps.to[0].account),
    "named tuple in a list": (lambda iban: [Wired(object(), iban)], lambda deps: deps[0].iban),
    "attribute of a mapping inside": (lambda iban: [with_attribute(Named(), iban)], lambda deps: deps[0].iban),
    "beside a long text": (lambda iban: [Loose(iban=iban, note="x" * 30_000)], lambda deps: deps[0].iban),
    "beside itself": (lambda iban: [ring_of(iban)], lambda deps: deps[0].iban),
    "class inside": (lambda iban: [Loose() if iban == "OURS" else Stricter()], lambda deps: deps[0].to_whom()),
}
IBANS = ("OURS", "MALLORY")


def holding_agent(ledger: Ledger, read: Any) -> Agent[Any, Any]:
    def charge(ctx: RunContext[Any], amount: int) -> str:
        """Charges."""
        paid.append(read(ctx))
        return "charged"

    def answers(messages: list[Any], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("charge", {"amount": 5}, "c1")])
        return ModelResponse(parts=[TextPart("done")])

    paid.clear()
    gate = LedgerCapability(ledger, terms={"charge": ASKS})
    return Agent(FunctionModel(answers), tools=[charge], output_type=[str, DeferredToolRequests], capabilities=[gate])


async def asked_then_run(ledger: Ledger, agent: Agent[Any, Any], first: dict[str, Any], then: dict[str, Any]) -> Any:
    asked: Any = await agent.run("go", conversation_id="order-123", **first)
    approve(ledger)
    answers = asked.output.build_results(approve_all=True)
    words: dict[str, Any] = {"message_history": asked.all_messages(), "deferred_tool_results": answers}
    return (await agent.run(conversation_id="order-123", **words, **then)).output


@pytest.mark.anyio
@pytest.mark.parametrize("iban", ["OURS", "MALLORY"])
@pytest.mark.parametrize("name", HOLDERS)
async def test_89_nothing_that_the_dependencies_hold_changes_unseen(ledger: Ledger, name: str, iban: str) -> None:
    make, read = HOLDERS[name]
    agent = holding_agent(ledger, lambda ctx: read(ctx.deps))
    output = await asked_then_run(ledger, agent, {"deps": make("OURS")}, {"deps": make(iban)})
    if iban == "OURS":
        assert (paid, output) == (["OURS"], "done")
    else:
        assert (paid, isinstance(output, DeferredToolRequests)) == ([], True)


@pytest.mark.anyio
@pytest.mark.parametrize("iban", ["OURS", "MALLORY"])
async def test_89_the_metadata_of_a_pydantic_ai_run_is_bound(ledger: Ledger, iban: str) -> None:
    agent = holding_agent(ledger, lambda ctx: ctx.metadata["iban"])
    output = await asked_then_run(ledger, agent, {"metadata": {"iban": "OURS"}}, {"metadata": {"iban": iban}})
    if iban == "OURS":
        assert (paid, output) == (["OURS"], "done")
    else:
        assert (paid, isinstance(output, DeferredToolRequests)) == ([], True)


def test_89_all_that_an_object_holds_is_shown_or_named() -> None:
    class Lazy:
        def __init__(self) -> None:
            self.region = "eu"

        @cached_property
        def iban(self) -> str:
            return "computed"

    lazy = Lazy()
    assert lazy.iban == "computed"
    values = {
        "nested": {"to": {"iban": "A", "api_token": "t", "max_tokens": 3, "access_tokens": ["t"]}},
        "several": [{"iban": "A", "password": "p"}, ("x", 1)],
        "slots": Slotted("A"),
        "lazy": lazy,
        "clashing": with_attribute(Named(iban="item"), "attribute"),
        "text": {"code": with_attribute(Coded("eu"), "A")},
        "same": {1: "A", "1": "B"},
        "inside": {"same": {1: "A", "1": "B"}},
        "class": Lazy,
    }
    text = {"not_shown": "str"}
    assert recorded(values) == {
        "nested": {"to": {"iban": "A", "api_token": text, "max_tokens": 3, "access_tokens": {"not_shown": "list"}}},
        "several": [{"iban": "A", "password": text}, ["x", 1]],
        "slots": {"_iban": "A", "region": "eu", "iban": "A", "_Slotted__hidden": "A"},
        "lazy": {"region": "eu"},
        "clashing": {"iban": "item", "iban_": "attribute"},
        "text": {"code": {"value": "eu", "iban": "A"}},
        "same": {"not_shown": "dict"},
        "inside": {"same": {"not_shown": "dict"}},
        "class": {"not_shown": "type"},
    }


def test_89_a_type_that_is_not_read_whole_says_so() -> None:
    class Handle:
        """Holds nothing."""

    class Region(Enum):
        EU = "eu"
        ANY = object()

    class Broken(Exception):
        """Holds its arguments where no attribute shows them."""

    ring: dict[str, Any] = {}
    ring["self"] = ring
    path = PurePosixPath("/a")
    assert path.name == "a"  # kept in the path from now on
    values = {
        "file": io.StringIO("acme"),
        "handle": Handle(),
        "error": with_attribute(Broken("acme"), "A"),
        "region": Region.EU,
        "any": {"region": Region.ANY},
        "path": path,
        "paths": Paths("/a"),
        "ring": {"ring": ring},
        "partial": functools.partial(Handle, "acme", to="A"),
    }
    here = f"{__name__}.test_89_a_type_that_is_not_read_whole_says_so.<locals>"
    assert recorded(values) == {
        "file": {"not_shown": "_io.StringIO"},
        "handle": {"not_shown": f"{here}.Handle"},
        "error": {"iban": "A", "not_shown": f"{here}.Broken"},
        "region": "eu",
        "any": {"region": "ANY"},
        "path": "/a",
        "paths": "/a",
        "ring": {"ring": {"self": {"not_shown": "dict"}}},
        "partial": {"func": {"not_shown": "type"}, "args": ["acme"], "keywords": {"to": "A"}},
    }


@dataclass
class Knows:
    """Points at others, who point back."""

    name: str
    others: list[Any] = field(default_factory=list)


class Detached:
    """A field that cannot be read now."""

    def __get__(self, one: Any, kind: Any = None) -> Any:
        if one is None:
            return ""
        raise RuntimeError("detached")

    def __set__(self, one: Any, value: Any) -> None:
        """Takes anything."""


@dataclass
class Row:
    """Has a field that cannot be read, and one that can."""

    account: str
    more: str = Detached()  # type: ignore[assignment]


def test_89_objects_that_point_at_each_other_or_cannot_be_read_are_recorded_at_once() -> None:
    people = [Knows(str(number)) for number in range(40)]
    for one in people:
        one.others = people
    shown = recorded({"deps": {"people": people}}, (), ())
    assert shown["deps"]["people"][0]["name"] == "0"
    row = recorded({"deps": {"row": Row("a")}}, (), ())["deps"]["row"]
    assert row["account"] == "a"
    assert "not_shown" in row["more"]
    keyed = {uuid4(): {"account": "a"}}
    assert recorded({"deps": {"by_id": keyed}}, (), ())["deps"]["by_id"] == {str(*keyed): {"account": "a"}}


def test_89_what_json_cannot_hold_stops_no_call() -> None:
    found = recorded({"limits": {"most": float("inf"), "least": float("nan"), "name": "a\ud800", "day": 5}})
    assert found == {"limits": {"most": "inf", "least": "nan", "name": {"not_shown": "str"}, "day": 5}}
    encode(found)
