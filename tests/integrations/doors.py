"""Every way in, driven by one small interface: the same tool, the same arguments, and what came of it through each."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import quote

import httpx2
import mcp_types as types
from agents import Agent as OpenAIAgent
from agents import Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from mcp.client import Client
from mcp.server import Server
from pydantic import BaseModel, create_model
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from indelible import AsyncLedger, Claimed, Replayed, Succeeded, ToolCall
from indelible.core.effects.calls import OptionWords
from indelible.errors import ApprovalPending, BudgetExceeded, EffectInDoubt, KeyReused, PolicyRefused
from indelible.integrations.function_calls import Answered, FunctionCalls
from indelible.integrations.langchain import LedgerMiddleware, ledger_tool_node
from indelible.integrations.mcp import ledger_proxy
from indelible.integrations.mcp_words import IDEMPOTENCY_KEY, TURN
from indelible.integrations.openai_agents import LedgerTools
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.integrations.telling import TEXTS, heard_of, heard_of_answer
from indelible.server.app import create_app
from indelible.server.gateway import Gateway
from indelible.server.gateway_tools import DEFAULT_TIMEOUT, GatewayTool, _defaults
from indelible.server.ledgers import Ledgers
from indelible.stores import open_store
from tests.integrations.langchain_agents import Scripted, calls
from tests.server.serving import Served, believing

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
    own: dict[str, Any] = field(default_factory=dict)
    """What the body puts in the place of arguments that it is not given: other defaults than the schema tells."""

    @property
    def function(self) -> Callable[..., Any]:
        def pay(**given: Any) -> str:
            """Pays."""
            self.got.append(json.loads(json.dumps(self.own | given, default=lambda one: one.model_dump(mode="json"))))
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


class Called(Protocol):
    """A tool as the doors need it."""

    @property
    def function(self) -> Callable[..., Any]:
        """The body."""

    @property
    def model(self) -> type[BaseModel]:
        """What it takes."""


class Site:
    """A ledger, and a server beside it on the same store that runs the same tools; the server starts when it is used.

    Args:
        url: The store.
        opened: How ledgers are opened there.
    """

    def __init__(self, url: str, **opened: Any) -> None:
        self.ledger = AsyncLedger.open(url, **opened)
        self.tenant = str(opened.pop("tenant", "default"))
        self._url, self._opened = url, opened
        self._served: Served | None = None
        self._gateway = Gateway()
        self._remote: AsyncLedger | None = None

    @functools.cached_property
    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(trust_env=False)

    async def __aenter__(self) -> Site:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._remote is not None:
            await self._remote.close()
        if "client" in vars(self):
            await self.client.aclose()
        if self._served is not None:
            await asyncio.to_thread(self._served.stop)
        await self.ledger.close()

    @property
    def token(self) -> str:
        return quote(json.dumps(self.tenant))

    def served(self, *tools: GatewayTool) -> str:
        """Return the address of the server, which runs these tools now."""
        self._gateway.tools = {tool.name: tool for tool in tools}
        if self._served is None:
            words = {word: value for word, value in self._opened.items() if word != "wakeups"}
            ledgers = Ledgers(open_store(self._url), gateway=self._gateway, **words)
            self._served = Served(create_app(ledgers, believing))
        return self._served.url

    def remote(self) -> AsyncLedger:
        """Return a ledger that is behind the server: the tool runs here, and the record is there."""
        if self._remote is None:
            self._remote = AsyncLedger.open(self.served(), token=self.token, tenant=self.tenant)
        return self._remote


Door = Callable[..., Awaitable[str]]
"""Makes one call, by `(site, made, args, run, words, turn)`. Returns what the model hears.

What the tool raises is raised where that stops the agent.
"""


_OF_THE_LEDGER = (ApprovalPending, BudgetExceeded, EffectInDoubt, KeyReused, PolicyRefused)


async def _came_of(made: Callable[[], Any]) -> str:
    """Return what a program gets that calls a tool, with what the ledger refuses as a model would hear it."""
    try:
        value = made()
        return str(await value if inspect.isawaitable(value) else value)
    except _OF_THE_LEDGER as refused:
        heard = heard_of(refused, TOOL)
        assert heard is not None
        return heard.text


async def decorator(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Call the decorated function. One that is awaited is a tool of the asynchronous ledger."""
    ledger: Any = site.ledger if inspect.iscoroutinefunction(made.function) else site.ledger.blocking
    tool = ledger.tool(TOOL, wait=False, **words)(made.function)
    with site.ledger.in_run(run):
        return await _came_of(lambda: tool(**args))


async def tool_call(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Run a `ToolCall` with the tool's handler."""
    ledger: Any = site.ledger if inspect.iscoroutinefunction(made.function) else site.ledger.blocking
    tool = ledger.tool(TOOL, wait=False, **words)(made.function)
    return await _came_of(lambda: ledger.run(ToolCall(tool=TOOL, args=args, run_id=run), tool.handler))


def called(function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
    """Call a function with recorded arguments: `*args` as a list, `**kwargs` as an object."""
    arguments = inspect.signature(function).bind_partial()
    arguments.arguments.update(args)
    return function(*arguments.args, **arguments.kwargs)


async def begin(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Claim the call, run the body by hand, and commit what came of it."""
    ledger = site.ledger.blocking
    tool = ledger.tool(TOOL, wait=False, **words)(made.function)

    def by_hand() -> Any:
        begun = ledger.begin(ToolCall(tool=TOOL, args=args, run_id=run))
        if isinstance(begun, Replayed):
            return begun.value
        if not isinstance(begun, Claimed):
            return heard_of_answer(begun, TOOL).text
        if hasattr(made, "given_key"):
            made.given_key = begun.claim.effect.key
        try:
            value = called(tool._function, begun.claim.effect.args)
        except Exception as error:
            ledger.commit(begun.claim, error)
            raise
        return ledger.commit(begun.claim, Succeeded(value))

    return await _came_of(by_hand)


async def connected(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Call the decorated function; the ledger is behind a server."""
    ledger = await asyncio.to_thread(site.remote)
    tool = ledger.blocking.tool(TOOL, wait=False, **words)(made.function)

    def by_http() -> Any:
        with ledger.in_run(run):
            return tool(**args)

    return await _came_of(lambda: asyncio.to_thread(by_http))


async def functions(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Hand a model's tool call to a loop of functions."""
    loop = FunctionCalls(site.ledger, {TOOL: made.function}, run=run, **words)
    return _answered(await loop.answer_async([_function_call(args)], turn=turn))


async def functions_blocking(
    site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1"
) -> str:
    """Do the same without a loop."""
    loop = FunctionCalls(site.ledger.blocking, {TOOL: made.function}, run=run, **words)
    return _answered(await asyncio.to_thread(loop.answer, [_function_call(args)], turn=turn))


def _function_call(args: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": _new_id(), "type": "function", "function": {"name": TOOL, "arguments": json.dumps(dict(args))}}


def _answered(answered: Answered) -> str:
    (said,) = [*(one["content"] for one in answered.messages), *(one.told for one in answered.waiting)]
    return str(said)


def _langchain_tool(made: Called) -> StructuredTool:
    function: Any = made.function
    of: Words = {"coroutine": function} if inspect.iscoroutinefunction(function) else {"func": function}
    return StructuredTool.from_function(**of, name=TOOL, description="Pays.", args_schema=made.model)


def _told_by_graph(result: Mapping[str, Any]) -> str:
    told = [str(message.content) for message in result["messages"] if isinstance(message, ToolMessage)]
    return (told or [_paused(one.value) for one in result["__interrupt__"]])[-1]


PAUSED = "paused: "


def _paused(question: Mapping[str, Any]) -> str:
    """Return what a pause says to the person who is asked; the model hears nothing meanwhile."""
    return PAUSED + str(question.get("why") or question)


def _langchain_agent(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words) -> Any:
    turns = [calls((TOOL, dict(args), _new_id())), AIMessage(content="done")]
    behind = LedgerMiddleware(site.ledger, run=run, model_turns=False, **words)
    return create_agent(
        Scripted(responses=turns), [_langchain_tool(made)], middleware=[behind], checkpointer=InMemorySaver()
    )


def _said_by_user(turn: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(content="pay", id=turn)]}


async def langchain(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Run a LangChain agent."""
    agent = _langchain_agent(site, made, args, run, words)
    return _told_by_graph(await agent.ainvoke(_said_by_user(turn), {"configurable": {"thread_id": run}}))


async def langchain_blocking(
    site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1"
) -> str:
    """Do the same without a loop."""
    agent, thread = _langchain_agent(site, made, args, run, words), {"configurable": {"thread_id": run}}
    return _told_by_graph(await asyncio.to_thread(agent.invoke, _said_by_user(turn), thread))


async def langgraph(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Run a graph with a node of tools."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [calls((TOOL, dict(args), _new_id()))]})
    graph.add_node("tools", ledger_tool_node([_langchain_tool(made)], site.ledger, run=run, **words))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    thread: Any = {"configurable": {"thread_id": run}}
    return _told_by_graph(await graph.compile(InMemorySaver()).ainvoke(_said_by_user(turn), thread))  # type: ignore[call-overload]


async def openai_agents(
    site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1"
) -> str:
    """Run an agent of the OpenAI Agents SDK."""
    tool = function_tool(made.function, name_override=TOOL, strict_mode=False)
    turns: list[Any] = [[function_call(TOOL, dict(args), call_id=_new_id())], [assistant_message("done")]]
    tools = LedgerTools(site.ledger, run=run, turn=turn, **words).tools([tool])
    result = await Runner.run(OpenAIAgent(name="billing", model=ScriptedModel(turns), tools=tools), "pay")
    told = [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]
    return told[-1] if told else TEXTS["waits"]


async def pydantic_ai(
    site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1"
) -> str:
    """Run an agent of Pydantic AI."""

    def says(messages: list[Any], about: Any) -> ModelResponse:
        is_first = not any(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(
            parts=[ToolCallPart(TOOL, dict(args), tool_call_id=_new_id()) if is_first else TextPart("done")]
        )

    behind, kinds = LedgerCapability(site.ledger, run=run, model_turns=False, **words), [str, DeferredToolRequests]
    tools = [Tool(made.function, name=TOOL, takes_ctx=False)]
    agent: Any = Agent(FunctionModel(says), tools=tools, output_type=kinds, capabilities=[behind])  # type: ignore[arg-type]
    result = await agent.run(turn)
    if isinstance(result.output, DeferredToolRequests):
        return _paused(next(iter(result.output.metadata.values())))
    parts = [part for message in result.new_messages() for part in message.parts]
    told = [str(part.content) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
    return told[-1]


async def mcp(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Call a tool of an MCP server through the proxy."""
    tool = types.Tool(name=TOOL, description="Pays.", input_schema=made.model.model_json_schema())

    async def listed(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def entered(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        validated = made.model.model_validate(params.arguments or {})
        if hasattr(made, "given_key"):
            made.given_key = (params.meta or {}).get(IDEMPOTENCY_KEY)
        given = made.function(**{name: getattr(validated, name) for name in made.model.model_fields})
        given = await given if inspect.isawaitable(given) else given
        return types.CallToolResult(content=[types.TextContent(text=str(given))])

    async with (
        Client(Server("till", on_list_tools=listed, on_call_tool=entered)) as upstream,
        Client(ledger_proxy(site.ledger, upstream, run=run, **words), mode="legacy") as client,
    ):
        result = await client.call_tool(TOOL, dict(args), meta=cast("types.RequestParamsMeta", {TURN: turn}))
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


def served_tool(made: Called, words: Words, url: str | None = None) -> GatewayTool:
    """Return the tool as the server runs it: a function there, or one at an address."""
    function: Any = None if url is not None else made.function
    options = {word: value for word, value in words.items() if word in OptionWords.__annotations__}
    identity = {word: value for word, value in words.items() if word not in options}
    return GatewayTool(
        name=TOOL,
        url=url,
        words={**options, "marks_sending": True} if url is not None else options,  # type: ignore[typeddict-item]
        identity=identity,  # type: ignore[arg-type]
        function=function,
        defaults={} if function is None else _defaults(function),
        schema=None if function is not None else made.model.model_json_schema(),
        timeout=getattr(made, "timeout", DEFAULT_TIMEOUT),
    )


async def server(site: Site, made: Called, args: Mapping[str, Any], run: str, words: Words, turn: str = "m1") -> str:
    """Ask the server to run its tool, over HTTP."""
    url = await asyncio.to_thread(site.served, served_tool(made, words, getattr(made, "url", None)))
    return await _asked(site, url, {"args": dict(args), "run_id": run, "turn": turn, "wait_s": 0})


async def _asked(site: Site, url: str, body: dict[str, Any]) -> str:
    asked = await site.client.post(
        f"{url}/v1/tools/{TOOL}/calls", json=body, headers={"Authorization": f"Bearer {site.token}"}
    )
    told = asked.json()
    if told["status"] == 202 or "approval" in told:
        return TEXTS["waits"]
    return str(told.get("detail") or told.get("value") or told.get("error"))


DOORS: dict[str, Door] = {
    "decorator": decorator,
    "tool_call": tool_call,
    "begin": begin,
    "connected": connected,
    "functions": functions,
    "functions_blocking": functions_blocking,
    "langchain": langchain,
    "langchain_blocking": langchain_blocking,
    "langgraph": langgraph,
    "openai_agents": openai_agents,
    "pydantic_ai": pydantic_ai,
    "mcp": mcp,
    "server": server,
}
"""Every way in. Those that ask a model's provider, and those whose frameworks are heavy, have tests of their own."""
BY_THE_TOOL = ("decorator", "tool_call", "begin", "connected")
"""The doors of a registered tool: its own types read what is given, and what an approver edits."""
VALIDATING = frozenset(
    {*BY_THE_TOOL, "langchain", "langchain_blocking", "langgraph", "openai_agents", "pydantic_ai", "mcp"}
)
"""The doors whose frameworks, or signatures, read a model inside the arguments; the others hand it on as it is."""
TAKES_EDITS = frozenset(DOORS) - {"pydantic_ai"}
