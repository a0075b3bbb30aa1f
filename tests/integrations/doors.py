"""Every way in, driven by one small interface: the same tool, the same arguments, and what came of it through each."""

from __future__ import annotations

import inspect
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from mcp.client import Client
from mcp.server import Server
from pydantic import BaseModel, create_model
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from indelible import AsyncLedger, Claimed, Succeeded, ToolCall
from indelible.errors import ApprovalPending, NothingHappened, PolicyRefused
from indelible.integrations.function_calls import FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.tool import called
from tests.integrations.langchain_agents import Scripted, calls

TOOL = "pay"
_IDS = itertools.count()


def _new_id() -> str:
    """Name a call as a model does that says the same once more: with a new id."""
    return f"toolu_{next(_IDS):08}"


class Money(BaseModel):
    """A value with a default inside, which a model may leave out."""

    amount: int = 5000
    currency: str = "usd"


@dataclass
class Made:
    """A tool that is made of parameters, and remembers what its body got."""

    parameters: list[inspect.Parameter]
    got: list[dict[str, Any]] = field(default_factory=list)

    @property
    def function(self) -> Callable[..., Any]:
        def pay(**given: Any) -> str:
            """Pays."""
            self.got.append(json.loads(json.dumps(given, default=lambda one: one.model_dump(mode="json"))))
            return "paid"

        pay.__signature__ = inspect.Signature(self.parameters, return_annotation=str)  # type: ignore[attr-defined]
        pay.__annotations__ = {one.name: one.annotation for one in self.parameters} | {"return": str}
        return pay

    @property
    def model(self) -> type[BaseModel]:
        fields: dict[str, Any] = {
            one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in self.parameters
        }
        return create_model(TOOL, **fields)

    def whole(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as a framework's validation makes them: with every default."""
        return self.model.model_validate(args).model_dump(mode="json")


Words = dict[str, Any]
Door = Callable[[AsyncLedger, Made, Mapping[str, Any], str, Words], Awaitable[None]]
"""Makes one call in a run; returns when it ran, waits, or was refused."""


async def decorator(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    tool = ledger.blocking.tool(TOOL, wait=False, **words)(made.function)
    with ledger.in_run(run), suppress(ApprovalPending, PolicyRefused):
        tool(**args)


async def tool_call(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    blocking = ledger.blocking
    tool = blocking.tool(TOOL, wait=False, **words)(made.function)
    with suppress(ApprovalPending, PolicyRefused):
        blocking.run(ToolCall(tool=TOOL, args=args, run_id=run), tool.handler)


async def begin(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    blocking = ledger.blocking
    tool = blocking.tool(TOOL, wait=False, **words)(made.function)
    with suppress(PolicyRefused):
        begun = blocking.begin(ToolCall(tool=TOOL, args=args, run_id=run))
        if isinstance(begun, Claimed):
            blocking.commit(begun.claim, Succeeded(called(tool._function, begun.claim.effect.args)))


async def functions(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    function = {"name": TOOL, "arguments": json.dumps(dict(args))}
    loop = FunctionCalls(ledger, {TOOL: made.function}, run=run, **words)
    await loop.answer_async([{"id": _new_id(), "type": "function", "function": function}])


async def langchain(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    tool = StructuredTool.from_function(made.function, name=TOOL, description="Pays.", args_schema=made.model)
    turns = [calls((TOOL, dict(args), _new_id())), AIMessage(content="done")]
    behind = LedgerMiddleware(ledger, run=run, model_turns=False, **words)
    agent = create_agent(Scripted(responses=turns), [tool], middleware=[behind], checkpointer=InMemorySaver())
    await agent.ainvoke({"messages": [("user", "pay")]}, {"configurable": {"thread_id": run}})  # type: ignore[call-overload]


async def openai_agents(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    tool = function_tool(made.function, name_override=TOOL, strict_mode=False)
    turns: list[Any] = [[function_call(TOOL, dict(args), call_id=_new_id())], [assistant_message("done")]]
    tools = LedgerTools(ledger, run=run, **words).tools([tool])
    await Runner.run(OpenAIAgent(name="billing", model=ScriptedModel(turns), tools=tools), "pay")


async def pydantic_ai(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    def says(messages: list[Any], about: Any) -> ModelResponse:
        is_first = not any(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(
            parts=[ToolCallPart(TOOL, dict(args), tool_call_id=_new_id()) if is_first else TextPart("done")]
        )

    behind, kinds = LedgerCapability(ledger, run=run, model_turns=False, **words), [str, DeferredToolRequests]
    tools = [Tool(made.function, name=TOOL, takes_ctx=False)]
    agent: Any = Agent(FunctionModel(says), tools=tools, output_type=kinds, capabilities=[behind])  # type: ignore[arg-type]
    with suppress(NothingHappened):  # what an approver edited, only the agent can validate
        await agent.run("pay")


async def mcp(ledger: AsyncLedger, made: Made, args: Mapping[str, Any], run: str, words: Words) -> None:
    tool = types.Tool(name=TOOL, description="Pays.", input_schema=made.model.model_json_schema())

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def entered(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        validated = made.model.model_validate(params.arguments or {})
        given = made.function(**{name: getattr(validated, name) for name in made.model.model_fields})
        return types.CallToolResult(content=[types.TextContent(text=str(given))])

    async with (
        Client(Server("till", on_list_tools=listed, on_call_tool=entered)) as upstream,
        Client(ledger_proxy(ledger, upstream, run=run, **words), mode="legacy") as client,
    ):
        await client.call_tool(TOOL, dict(args))


DOORS: dict[str, Door] = {
    "decorator": decorator,
    "tool_call": tool_call,
    "begin": begin,
    "functions": functions,
    "langchain": langchain,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
    "mcp": mcp,
}
BY_THE_TOOL = ("decorator", "tool_call", "begin")
"""The doors of a registered tool: its own types read what is given, and what an approver edits."""
VALIDATING = frozenset({*BY_THE_TOOL, "langchain", "openai_agents", "pydantic_ai", "mcp"})
"""The doors whose frameworks, or signatures, read a model inside the arguments; the others hand it on as it is."""
TAKES_EDITS = frozenset(DOORS) - {"pydantic_ai"}
