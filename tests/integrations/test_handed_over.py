"""FAULT 38 behind adapters, as one property: what is judged, shown, recorded and handed to the tool is the same."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from threading import Lock
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, v1
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import AsyncLedger, NothingHappened, Retry, migrate
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langgraph import ledger_tool_node
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability

pytestmark = pytest.mark.anyio
WORDS: dict[str, Any] = {"side_effect": "payment", "approval": "required"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


@pytest.fixture
async def ledger(store_url: str) -> AsyncIterator[AsyncLedger]:
    migrate(store_url)
    async with AsyncLedger.open(store_url, principal="dora") as opened:
        yield opened


class Mode(StrEnum):
    """Is equal to its text, and is recorded as it."""

    DRY = "dry"


class Till:
    """What a tool was entered with. It changes its arguments, and the first try ends before anything happened."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []

    def ring(self, **got: Any) -> str:
        self.got.append(copy.deepcopy(got))
        for one in got.values():
            if isinstance(one, list):
                one.clear()
            if isinstance(one, dict):
                one["changed"] = True
        if len(self.got) == 1:
            raise NothingHappened("the bank is closed")
        return "paid"


class State(MessagesState):
    """A graph's state with a field that is injected."""

    account: str


class Case(NamedTuple):
    """A tool, what a model says, what is recorded, and what the function gets where that has other names or values."""

    tool: Callable[[Till], Any]
    said: dict[str, Any]
    recorded: dict[str, Any]
    got: dict[str, Any] | None = None


async def by_langchain(ledger: AsyncLedger, tool: Any, said: dict[str, Any], **words: Any) -> None:
    call = {"name": "pay", "args": said, "id": "call_1x", "type": "tool_call"}
    made: Any = StateGraph(State)
    made.add_node("ask", lambda state: {"messages": [AIMessage(content="", tool_calls=[call])]})
    made.add_node("tools", ledger_tool_node([tool], ledger, **WORDS, **words))
    made.add_edge(START, "ask")
    made.add_edge("ask", "tools")
    made.add_edge("tools", END)
    place: Any = {"configurable": {"thread_id": "r"}}
    asked = {"messages": [HumanMessage("pay", id="m")], "account": "acme"}
    await made.compile(checkpointer=InMemorySaver()).ainvoke(asked, place)


async def by_openai(ledger: AsyncLedger, tool: Any, said: dict[str, Any]) -> None:
    turns = [[function_call("pay", said, call_id="call_1x")], [assistant_message("done")]]
    tools = LedgerTools(ledger, run="r", **WORDS).tools([tool])
    await Runner.run(OpenAIAgent(name="billing", model=ScriptedModel(turns), tools=tools), "pay")


async def by_pydantic_ai(ledger: AsyncLedger, tool: Any, said: dict[str, Any]) -> None:
    turns = iter((ToolCallPart("pay", said, tool_call_id="toolu_1x"), TextPart("done")))

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[next(turns)])

    behind = LedgerCapability(ledger, run="r", model_turns=False, **WORDS)
    outputs: Any = [str, DeferredToolRequests]
    await Agent(FunctionModel(says), tools=[tool], output_type=outputs, capabilities=[behind]).run("pay")


async def by_function_calls(ledger: AsyncLedger, tool: Any, said: dict[str, Any]) -> None:
    behind = FunctionCalls(ledger, {"pay": tool}, run="r", **WORDS)
    call = {"id": "call_1x", "type": "function", "function": {"name": "pay", "arguments": json.dumps(said)}}
    await behind.answer_async([call])


def structured(schema: Any, function: Callable[[Till], Any]) -> Callable[[Till], Any]:
    """Make a tool of LangChain's with a schema of any kind; None: it is made of the function's signature."""
    words: Any = {} if schema is None else {"args_schema": schema}
    return lambda till: StructuredTool.from_function(function(till), name="pay", description="Pays.", **words)


def usual(till: Till) -> Any:
    def pay(order: str, amount: Any = 5000) -> str:
        """Pay."""
        return till.ring(order=order, amount=amount)

    return pay


def open_(till: Till) -> Any:
    def pay(order: str, **more: Any) -> str:
        """Pay."""
        return till.ring(order=order, **more)

    return pay


def named_kwargs(till: Till) -> Any:
    def pay(order: str, kwargs: Any = 5000) -> str:
        """Pay."""
        return till.ring(order=order, kwargs=kwargs)

    return pay


def variadic(till: Till) -> Any:
    def pay(order: str, **kwargs: Any) -> str:
        """Pay."""
        return till.ring(order=order, **kwargs)

    return pay


def of_own(till: Till) -> Any:
    class Pay(BaseTool):
        """A tool without a schema of its own: LangChain validates nothing."""

        name: str = "pay"
        description: str = "Pays."

        def _run(self, order: Any, count: int = 1, mode: Any = Mode.DRY) -> str:
            return till.ring(order=order, count=count, mode=mode)

    return Pay()


class Late(BaseModel):
    """Has another default than the function."""

    order: str
    amount: int = 5


class AnyMode(BaseModel):
    order: str
    amount: Any = Mode.DRY


class Inside(BaseModel):
    charge: str
    mode: Any = Mode.DRY


class Nested(BaseModel):
    order: str
    amount: Inside


class Converts(BaseModel):
    """Its default is read as another when it is said."""

    order: str
    amount: int = 50

    @field_validator("amount")
    @classmethod
    def in_cents(cls, value: int) -> int:
        return value * 100


class NoNumber(BaseModel):
    """Its default cannot be said."""

    order: str
    amount: int = None  # type: ignore[assignment]


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order: str
    amount: int = Field(default=5, alias="amt")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    order: str


class Closed(BaseModel):
    order: str


class Kwargs(BaseModel):
    order: str
    kwargs: Any = {"amount": 5}


class ModeKwargs(BaseModel):
    order: str
    kwargs: Any = Mode.DRY


class OpenInjected(BaseModel):
    model_config = ConfigDict(extra="allow")
    order: str
    account: Annotated[str, InjectedState("account")]


class AliasInjected(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order: str
    account: Annotated[str, InjectedState("account")] = Field(alias="acct")


class AliasArg(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    order: str
    account: Annotated[str, InjectedToolArg()] = Field(default="acme", validation_alias="acct")


class Late1(v1.BaseModel):
    order: str
    amount: int = 5


class AnyMode1(v1.BaseModel):
    order: str
    amount: Any = Mode.DRY


class Kwargs1(v1.BaseModel):
    order: str
    kwargs: Any = {"amount": 5}


ORDER = {"order": "1"}
AMOUNT = {"type": "integer", "default": 5}
JSON = {"type": "object", "properties": {"order": {}, "amount": AMOUNT}, "required": ["order"]}
INSIDE = {
    "type": "object",
    "properties": {"order": {}, "amount": {"type": "object", "default": {}, "properties": {"cents": AMOUNT}}},
}
FIVE, DRY = {"order": "1", "amount": 5}, {"order": "1", "amount": "dry"}
LIST = {"order": "1", "amount": ["a", "b"]}
KWARGS = {"order": "1", "kwargs": {"amount": 5}}
LANGCHAIN = {
    "default": Case(structured(Late, usual), ORDER, FIVE),
    "converted": Case(structured(Late, usual), {"order": "1", "amount": "5"}, FIVE),
    "member": Case(structured(AnyMode, usual), ORDER, DRY, {"order": "1", "amount": Mode.DRY}),
    "its text": Case(structured(AnyMode, usual), DRY, DRY),
    "list": Case(structured(AnyMode, usual), LIST, LIST),
    "nested member": Case(
        structured(Nested, usual),
        {"order": "1", "amount": {"charge": "c"}},
        {"order": "1", "amount": {"charge": "c", "mode": "dry"}},
        {"order": "1", "amount": Inside(charge="c")},
    ),
    "default is no input": Case(structured(Converts, usual), ORDER, {"order": "1", "amount": 50}),
    "default is invalid": Case(structured(NoNumber, usual), ORDER, {"order": "1", "amount": None}),
    "by alias": Case(
        structured(Aliased, usual), {"order": "1", "amt": 7}, {"order": "1", "amt": 7}, {**FIVE, "amount": 7}
    ),
    "by name": Case(structured(Aliased, usual), {**FIVE, "amount": 7}, {"order": "1", "amt": 7}, {**FIVE, "amount": 7}),
    "extra": Case(structured(Open, open_), {"order": "1", "to": ["a"]}, {"order": "1", "to": ["a"]}),
    "ignored": Case(structured(Closed, open_), {"order": "1", "to": "mallory"}, ORDER),
    "kwargs": Case(structured(Kwargs, named_kwargs), ORDER, KWARGS),
    "member in kwargs": Case(structured(ModeKwargs, named_kwargs), ORDER, {"order": "1", "kwargs": "dry"}),
    "variadic": Case(structured(None, variadic), ORDER, {"order": "1", "kwargs": None}, ORDER),
    "no schema": Case(
        of_own,
        {"order": ["a"], "count": "2"},
        {"order": ["a"], "count": 2, "mode": "dry"},
        {"order": ["a"], "count": 2, "mode": Mode.DRY},
    ),
    "extra beside injected": Case(
        structured(OpenInjected, open_),
        {"order": "1", "amount": 9, "to": "mallory"},
        {"order": "1", "amount": 9, "to": "mallory", "account": "acme"},
    ),
    "injected by alias": Case(
        structured(AliasInjected, open_), {"order": "1", "acct": "mallory"}, {"order": "1", "account": "acme"}
    ),
    "injected default by alias": Case(
        structured(AliasArg, open_),
        {"order": "1", "account": "mallory"},
        {"order": "1", "account": "acme"},
    ),
    "pydantic 1": Case(structured(Late1, usual), ORDER, FIVE),
    "member in pydantic 1": Case(structured(AnyMode1, usual), ORDER, DRY, {"order": "1", "amount": Mode.DRY}),
    "list in pydantic 1": Case(structured(AnyMode1, usual), LIST, LIST),
    "kwargs in pydantic 1": Case(structured(Kwargs1, named_kwargs), ORDER, KWARGS),
    "json": Case(structured(JSON, usual), ORDER, FIVE),
    "json to **kwargs": Case(structured(JSON, open_), ORDER, FIVE),
    "json inside": Case(structured(INSIDE, usual), ORDER, {"order": "1", "amount": {"cents": 5}}),
    "list in json": Case(
        structured(INSIDE, usual), {"order": ["a"], "amount": {}}, {"order": ["a"], "amount": {"cents": 5}}
    ),
    "extra in json": Case(structured(JSON, open_), {**FIVE, "to": ["a"]}, {**FIVE, "to": ["a"]}),
}


def member(till: Till) -> Any:
    def pay(order: Any, amount: Any = Mode.DRY) -> str:
        """Pay."""
        return till.ring(order=order, amount=amount)

    return pay


def function(made: Callable[[Till], Any]) -> Callable[[Till], Any]:
    return lambda till: function_tool(made(till), strict_mode=False)


def of_pydantic_ai(made: Callable[[Till], Any]) -> Callable[[Till], Any]:
    return lambda till: Tool(made(till), name="pay", takes_ctx=False)


USUAL = {"order": "1", "amount": 5000}
OTHERS = {
    "openai default": (by_openai, Case(function(usual), ORDER, USUAL)),
    "openai member": (by_openai, Case(function(member), ORDER, DRY, {"order": "1", "amount": Mode.DRY})),
    "openai list": (by_openai, Case(function(usual), LIST, LIST)),
    "openai **kwargs": (
        by_openai,
        Case(
            function(variadic),
            {"order": "1", "kwargs": {"to": ["a"]}},
            {"order": "1", "kwargs": {"to": ["a"]}},
            {"order": "1", "to": ["a"]},
        ),
    ),
    "openai ignored": (by_openai, Case(function(usual), {**LIST, "to": "mallory"}, LIST)),
    "pydantic_ai default": (by_pydantic_ai, Case(of_pydantic_ai(usual), ORDER, USUAL)),
    "pydantic_ai member": (
        by_pydantic_ai,
        Case(of_pydantic_ai(member), ORDER, DRY, {"order": "1", "amount": Mode.DRY}),
    ),
    "pydantic_ai list": (by_pydantic_ai, Case(of_pydantic_ai(usual), LIST, LIST)),
    "functions default": (by_function_calls, Case(usual, ORDER, USUAL)),
    "functions list": (by_function_calls, Case(usual, LIST, LIST)),
    "functions **kwargs": (
        by_function_calls,
        Case(
            open_,
            {"order": "1", "to": ["a"]},
            {"order": "1", "more": {"to": ["a"]}},
            {"order": "1", "to": ["a"]},
        ),
    ),
}
ALL = {name: (by_langchain, case) for name, case in LANGCHAIN.items()} | OTHERS


@pytest.mark.parametrize("name", ALL)
async def test_38_what_is_shown_recorded_and_handed_to_the_tool_is_the_same(ledger: AsyncLedger, name: str) -> None:
    by, case = ALL[name]
    till, said = Till(), copy.deepcopy(case.said)
    tool = case.tool(till)
    await by(ledger, tool, said)
    (asked,) = await ledger.approvals()
    assert till.got == []
    assert (await ledger.get_effect(asked.effect_id)).args == case.recorded
    await ledger.approve(asked.id, digest=asked.digest, by="ana")
    with contextlib.suppress(NothingHappened):
        await by(ledger, tool, said)
    await by(ledger, tool, said)  # as the model said it, the tool is tried again
    (effect,) = await ledger.effects(tool="pay")
    got = case.recorded if case.got is None else case.got
    assert (effect.status, effect.args, said) == ("succeeded", case.recorded, case.said)
    assert till.got == [got, got]
    kinds = [{name: type(one) for name, one in entered.items()} for entered in till.got]
    assert kinds == [{name: type(one) for name, one in got.items()}] * 2


class Odd(BaseModel):
    """Cannot be compared, as pandas.NA cannot."""

    charge: str = "c"

    def __eq__(self, other: object) -> bool:
        raise TypeError("ambiguous")


class AnyOdd(BaseModel):
    order: str
    amount: Any = Odd()


async def test_38_a_value_that_cannot_be_compared_is_no_error_of_the_tool_s(ledger: AsyncLedger) -> None:
    """Its own error ended the agent, and would have left doubt where nothing was entered."""
    till = Till()
    tool = structured(AnyOdd, usual)(till)
    await by_langchain(ledger, tool, ORDER)
    (asked,) = await ledger.approvals()
    await ledger.approve(asked.id, digest=asked.digest, by="ana")
    for _ in range(2):
        with contextlib.suppress(NothingHappened):
            await by_langchain(ledger, tool, ORDER)
    assert [one.status for one in await ledger.effects()] == ["succeeded"]
    assert [(one["order"], one["amount"].charge) for one in till.got] == [("1", "c")] * 2


class Locked(BaseModel):
    """Cannot be copied."""

    items: list[str]
    _lock: Any = PrivateAttr(default_factory=Lock)


@pytest.mark.parametrize(("again", "attempts"), [(ConnectionError, 2), (Exception, 3)])
async def test_38_pydantic_ai_says_nothing_happened_of_no_call_that_was_entered(
    ledger: AsyncLedger, again: type[Exception], attempts: int
) -> None:
    """A tool that had changed arguments of which there is no copy was told as never entered."""
    got: list[Any] = []

    def pay(basket: Locked) -> str:
        got.append(list(basket.items))
        basket.items.pop()
        raise ConnectionError("lost")

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[ToolCallPart("pay", {"items": ["a", "b"]}, tool_call_id="toolu_1x")])

    retry = Retry(on=(again,), attempts=attempts, backoff=timedelta(0))
    terms = {"pay": {"side_effect": "payment", "on_crash": "retry", "retry": retry}}
    behind = LedgerCapability(ledger, run="r", model_turns=False, terms=terms)
    tools = [Tool(pay, takes_ctx=False)]
    with pytest.raises(Exception, match=r"doubt|may have happened") as caught:
        await Agent(FunctionModel(says), tools=tools, capabilities=[behind]).run("pay")
    assert not isinstance(caught.value, NothingHappened)
    assert got == [["a", "b"]]
    assert [one.status for one in await ledger.effects(tool="pay")] == ["in_doubt"]


async def test_38_pydantic_ai_enters_each_attempt_with_what_is_recorded(ledger: AsyncLedger) -> None:
    got: list[Any] = []

    def pay(items: list[str]) -> str:
        got.append(list(items))
        items.pop()
        if len(got) == 1:
            raise ConnectionError("lost")
        return "paid"

    turns = iter((ToolCallPart("pay", {"items": ["a", "b"]}, tool_call_id="toolu_1x"), TextPart("done")))

    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[next(turns)])

    retry = Retry(on=(ConnectionError,), attempts=2, backoff=timedelta(0))
    behind = LedgerCapability(
        ledger, run="r", model_turns=False, side_effect="payment", on_crash="retry", terms={"pay": {"retry": retry}}
    )
    tools = [Tool(pay, takes_ctx=False)]
    assert (await Agent(FunctionModel(says), tools=tools, capabilities=[behind]).run("pay")).output == "done"
    assert got == [["a", "b"], ["a", "b"]]
    (effect,) = await ledger.effects(tool="pay")
    assert effect.status == "succeeded"


async def test_38_a_default_that_is_made_anew_and_may_vary_runs_as_it_was_shown(ledger: AsyncLedger) -> None:
    got: list[str] = []

    class Anew(BaseModel):
        order: str
        request: str = Field(default_factory=lambda: str(uuid4()))

    def pay(order: str, request: str) -> str:
        got.append(request)
        return "paid"

    tool = StructuredTool.from_function(pay, name="pay", description="Pays.", args_schema=Anew)
    await by_langchain(ledger, tool, ORDER, varies=["request"])
    (asked,) = await ledger.approvals()
    shown = (await ledger.get_effect(asked.effect_id)).args
    await ledger.approve(asked.id, digest=asked.digest, by="ana")
    for _ in range(2):
        await by_langchain(ledger, tool, ORDER, varies=["request"])
    assert got == [shown["request"]]


async def test_91_an_edit_that_is_no_json_is_refused_before_a_tool_that_takes_json(ledger: AsyncLedger) -> None:
    got: list[str] = []

    async def pay(context: Any, said: str) -> str:
        got.append(said)
        return "paid"

    schema = {"type": "object", "properties": {"amount": {}}}
    tool = FunctionTool(
        name="pay", description="Pay.", params_json_schema=schema, on_invoke_tool=pay, strict_json_schema=False
    )
    await by_openai(ledger, tool, {"amount": 5})
    (asked,) = await ledger.approvals()
    edited = await ledger.edit_approval(asked.id, args={"amount": Decimal("5.10")}, digest=asked.digest, by="ana")
    (asked,) = await ledger.approvals()
    await ledger.approve(asked.id, digest=asked.digest, by="bob")
    await by_openai(ledger, tool, {"amount": 5})
    assert edited is not None
    assert got == []
    assert [one.status for one in await ledger.effects(tool="pay")].count("in_doubt") == 0


async def test_38_the_context_of_a_tool_of_openai_agents_says_what_is_recorded(ledger: AsyncLedger) -> None:
    """The function's own parameters were right, and its context still had what the model said beside them."""
    heard: list[Any] = []

    @function_tool(strict_mode=False)
    def pay(ctx: ToolContext[Any], order: str, amount: int = 5) -> str:
        """Pays."""
        heard.extend([ctx.tool_arguments, None if ctx.tool_call is None else ctx.tool_call.arguments])
        return "paid"

    said = function_call("pay", {"order": "1", "to": "mallory"}, call_id="c1")
    tools = LedgerTools(ledger, run="r", side_effect="payment").tools([pay])
    model = ScriptedModel([[said], [assistant_message("done")]])
    await Runner.run(OpenAIAgent(name="b", model=model, tools=tools), "pay")
    (effect,) = await ledger.effects()
    assert [json.loads(one) for one in heard] == [effect.args, effect.args]
