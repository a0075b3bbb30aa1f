"""Agents whose tools ask people themselves, each pass in a process of its own: what is kept between is in a folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi.openapi.models import APIKey
from google.adk.agents import LlmAgent, SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types
from strands import Agent, tool
from strands import ToolContext as StrandsContext
from strands.interrupt import InterruptException
from strands.session.file_session_manager import FileSessionManager
from strands.vended_interventions.hitl import HumanInTheLoop

from indelible import Ledger
from indelible.integrations.adk import LedgerPlugin, ToolAsked
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.testing.adapters.adk import ScriptedLlm, called
from indelible.testing.adapters.strands import ScriptedModel
from indelible.testing.adapters.strands import called as strands_called

FILES: frozenset[str] = frozenset()
PAYS: dict[str, Any] = {"side_effect": "payment", "approval": "required"}
WANTED = AuthConfig(
    auth_scheme=APIKey(**{"in": "header", "name": "X-Key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
    credential_key="till",
)
PLACE: dict[str, Any] = {"app_name": "billing", "user_id": "ana", "session_id": "order-123"}


def _end(folder: str, **told: Any) -> None:
    Path(folder, "end.json").write_text(json.dumps(told))


def adk(
    tracer: Any,
    folder: str,
    url: str | None = None,
    asks: str = "tool",
    say: dict[str, Any] | None = None,
    first: bool = False,
    calls: int = 1,
    shape: str = "agent",
) -> None:
    """Runs an app once: its first time, or resumed with answers.

    Args:
        tracer: Not needed.
        folder: Where the session is kept.
        url: The ledger; without one the app is as it is natively.
        asks: Who asks a person beside the ledger: the tool, for a confirmation or for credentials; its
            `require_confirmation`; a callback.
        say: What is answered to each open question, by the id of the call; default: what `LedgerPlugin.answer` answers.
        first: Begin.
        calls: How many calls the model makes at once.
        shape: Whose tool it is: an agent's, a sub-agent's, that of an agent in a workflow, or a workflow's own.
    """
    if url is None:
        asyncio.run(_adk(folder, None, asks, say, first, calls, shape))
        return
    with Ledger.open(url) as ledger:
        terms = {"charge": {**PAYS, "nothing_on": ToolAsked}}
        asyncio.run(_adk(folder, LedgerPlugin(ledger, terms=terms), asks, say, first, calls, shape))


async def _adk(
    folder: str,
    plugin: LedgerPlugin | None,
    asks: str,
    say: dict[str, Any] | None,
    first: bool,
    calls: int,
    shape: str,
) -> None:
    entered: list[str] = []

    def charge(order: str, tool_context: ToolContext) -> dict[str, Any]:
        """Charges an order."""
        heard = tool_context.tool_confirmation
        if asks == "credentials":
            found = tool_context.get_auth_response(WANTED)
            if found is None:
                tool_context.request_credential(WANTED)
                return {"status": "asked"}
            entered.append(order)
            return {"status": "charged", "heard": found.api_key}
        if asks == "tool" and heard is None:
            tool_context.request_confirmation(hint=f"which colour, {order}?", payload={"colour": ""})
            return {"status": "asked"}
        if heard is not None and not heard.confirmed:
            return {"status": "told not to"}
        entered.append(order)
        return {"status": "charged", "heard": None if heard is None else heard.payload}

    def ask(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> Any:
        heard = tool_context.tool_confirmation
        if heard is None:
            tool_context.request_confirmation(hint=f"sure, {args['order']}?")
            tool_context.actions.skip_summarization = True
            return {"status": "asked"}
        return None if heard.confirmed else {"status": "told not to"}

    turn = [called("charge", f"c{number}", order=f"o{number}") for number in range(1, calls + 1)]

    def agent_of(name: str, turns: Any, tools: Any = (), **words: Any) -> LlmAgent:
        return LlmAgent(name=name, model=ScriptedLlm(model="scripted", turns=turns), tools=list(tools), **words)

    till = FunctionTool(charge, require_confirmation=asks == "framework")
    callback = ask if asks == "callback" else None
    done = [types.Part(text="done")]

    def charging(**words: Any) -> LlmAgent:
        return agent_of("billing", [turn, done], [till], before_tool_callback=callback, **words)

    root: Any
    match shape:
        case "agent":
            root = charging()
        case "sub-agent":
            handed = [[called("transfer_to_agent", "t1", agent_name="billing")], done]
            root = agent_of("root", handed, sub_agents=[charging()])
        case "single turn":
            asked_for = [[called("billing", "t1", request="go")], done]
            root = agent_of("root", asked_for, sub_agents=[charging(mode="single_turn", description="Bills.")])
        case "sequence":
            root = SequentialAgent(name="root", sub_agents=[charging(), agent_of("second", [done])])
        case "agent in a workflow":
            root = Workflow(name="flow", edges=[(START, charging())])
        case _:
            root = Workflow(name="flow", edges=[(START, till)])
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name="billing", root_agent=root, plugins=[plugin] if plugin else [], resumability_config=resumable)
    sessions = SqliteSessionService(str(Path(folder, "sessions.db")))
    runner = Runner(app=app, session_service=sessions)
    words: dict[str, Any] = {"user_id": "ana", "session_id": "order-123"}
    if first:
        await sessions.create_session(**PLACE)
        words["new_message"] = types.Content(role="user", parts=[types.Part(text='{"order": "o1"}')])
    else:
        session = await sessions.get_session(**PLACE)
        assert session is not None
        words |= await _answers(session, plugin, say)
    events = [event async for event in runner.run_async(**words)]
    await runner.close()
    asked = {about: question for about, question, *_ in _asked_in(events)}
    given = {one.id: one.response for event in events for one in event.get_function_responses()}
    outputs = [event.output for event in events if event.output is not None]
    given |= {"node": outputs[-1]} if outputs else {}
    _end(folder, asked=asked, entered=entered, given=given)


def _asked_in(events: Any) -> Iterator[tuple[str, str, Any, str]]:
    """Yield the questions in events: the call that each is about, what it says, its call, and its invocation."""
    for event in events:
        for call in event.get_function_calls():
            match call.name:
                case "adk_request_confirmation":
                    asked = call.args["toolConfirmation"]
                    question = _question(asked.get("payload"), asked["hint"])
                    yield call.args["originalFunctionCall"]["id"], question, call, event.invocation_id
                case "adk_request_input":
                    question = _question(call.args["payload"].get("confirmation_payload"), call.args["message"])
                    yield "node", question, call, event.invocation_id
                case "adk_request_credential":
                    yield call.args["functionCallId"], "credentials", call, event.invocation_id
                case _:
                    pass


def _question(payload: Any, hint: str) -> str:
    return str(payload["type"]) if isinstance(payload, dict) and "type" in payload else hint


async def _answers(session: Any, plugin: LedgerPlugin | None, say: dict[str, Any] | None) -> dict[str, Any]:
    if say is None:
        assert plugin is not None
        answer = await plugin.answer(session)
        assert answer is not None
        return {"new_message": answer.message, "invocation_id": answer.invocation_id}
    asked = {about: (call, invocation_id) for about, _, call, invocation_id in _asked_in(session.events)}
    parts = []
    for about, said in say.items():
        call, invocation_id = asked[about]
        if call.name == "adk_request_credential":
            said = {**call.args["authConfig"], "exchangedAuthCredential": {"authType": "apiKey", "apiKey": said}}
        response = types.FunctionResponse(id=call.id, name=call.name, response=said)
        parts.append(types.Part(function_response=response))
    return {"new_message": types.Content(role="user", parts=parts), "invocation_id": invocation_id}


def strands(
    tracer: Any,
    folder: str,
    url: str | None = None,
    asks: str = "tool",
    say: dict[str, Any] | None = None,
    first: bool = False,
    is_inside: bool = False,
) -> None:
    """Runs an agent once: its first time, or resumed with answers.

    Args:
        tracer: Not needed.
        folder: Where the session is kept.
        url: The ledger; without one the agent is as it is natively.
        asks: Who asks a person beside the ledger: the tool, or an intervention of the SDK.
        say: What is answered, by the name of the question; default: what `LedgerPlugin.answer` answers.
        first: Begin.
        is_inside: The tool is that of an agent inside, which is a tool of the agent.
    """
    if url is None:
        _strands(folder, None, asks, say, first, is_inside)
        return
    with Ledger.open(url) as ledger:
        terms = {"charge": {**PAYS, "nothing_on": InterruptException}, "till": {"side_effect": "delegation"}}
        _strands(folder, StrandsPlugin(ledger, terms=terms), asks, say, first, is_inside)


def _strands(
    folder: str, plugin: StrandsPlugin | None, asks: str, say: dict[str, Any] | None, first: bool, is_inside: bool
) -> None:
    entered: list[str] = []

    @tool(context=True)
    def charge(order: str, tool_context: StrandsContext) -> str:
        """Charges an order."""
        said = []
        if asks == "tool":
            said = [tool_context.interrupt(name, reason=f"which {name}?") for name in ("colour", "size")]
        entered.append(order)
        return f"charged {' '.join(said)}".strip()

    def agent_of(name: str, call: Any, tools: Any, **words: Any) -> Agent:
        model = ScriptedModel([[call], [{"text": "done"}]])
        return Agent(name=name, model=model, tools=tools, callback_handler=None, **words)

    charges = strands_called("charge", "c1", order="o1")
    asking = [HumanInTheLoop()] if asks == "framework" else []
    words: dict[str, Any] = {
        "session_manager": FileSessionManager("order-123", storage_dir=folder),
        "plugins": [plugin] if plugin else [],
    }
    if is_inside:
        inner = agent_of("till", charges, [charge], interventions=asking)
        agent = agent_of("billing", strands_called("till", "t1", input="charge"), [inner], **words)
    else:
        agent = agent_of("billing", charges, [charge], interventions=asking, **words)
    if first:
        result = agent("charge")
    elif say is None:
        assert plugin is not None
        result = agent(plugin.answer(agent))
    else:
        waiting = agent._interrupt_state.interrupts.values()
        answers: Any = [
            {"interruptResponse": {"interruptId": one.id, "response": say[one.name]}}
            for one in waiting
            if one.response is None and one.name in say
        ]
        assert len(answers) == len(say), [one.name for one in waiting]
        result = agent(answers)
    asked = [
        one.reason["type"] if isinstance(one.reason, dict) and "type" in one.reason else one.name
        for one in result.interrupts or ()
    ]
    given = [part["toolResult"]["content"] for m in agent.messages for part in m["content"] if "toolResult" in part]
    _end(folder, asked=asked, entered=entered, given=given)
