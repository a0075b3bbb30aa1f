"""Who asked a person about a call of Google ADK, by the events of its session: the ledger, or the tool itself.

ADK hands a tool the last answer, whoever asked for it. And it hears what a call asks only when that is made: what a
resumed call asks would be lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple
from uuid import uuid4

from google.adk.agents.invocation_context import InvocationContext
from google.adk.auth.auth_preprocessor import request_processor as credentials
from google.adk.auth.auth_tool import AuthToolArguments
from google.adk.events.event import Event
from google.adk.flows.llm_flows.request_confirmation import request_processor as confirmations
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow.utils._workflow_hitl_utils import confirmation_interrupt_id
from google.genai import types

NAME = "indelible"
_CONFIRMATION, _INPUT, _CREDENTIAL = "adk_request_confirmation", "adk_request_input", "adk_request_credential"


class Question(NamedTuple):
    """One question of the ledger that a session has open: its id and name in ADK, and what it is about."""

    id: str
    name: str
    invocation_id: str
    payload: Mapping[str, Any]


def own_answer(context: ToolContext) -> ToolConfirmation | None:
    """Return what was answered to the question of a tool, a callback or ADK itself about a call; None if nothing was.

    Args:
        context: The context of the call.
    """
    is_ours: dict[str, bool] = {}
    answer: ToolConfirmation | None = None
    for event in context.session.events:
        for call in event.get_function_calls():
            if call.id == context.function_call_id:  # some models use an id again
                is_ours, answer = {}, None
            elif call.id == confirmation_interrupt_id(context.node_path) or _about(call) == context.function_call_id:
                is_ours[str(call.id)] = _ours_in(call) is not None
        for response in event.get_function_responses() if event.author == "user" else ():
            if is_ours.get(str(response.id)) is False:
                answer = ToolConfirmation.from_response_dict(response.response or {})
    return answer


def open_questions(events: Iterable[Event]) -> dict[str, Question]:
    """Return the questions of the ledger that are open in a session, by the call, or workflow node, that each is about.

    An answer that no result followed is given again: the process may have died over it.
    """
    found: dict[str, Question] = {}
    answered: set[str] = set()
    for event in events:
        for response in event.get_function_responses():
            asked = found.get(str(response.id))
            if event.author == "user":
                answered.add(str(response.id))
                if asked is not None and asked.name == _INPUT:
                    del found[asked.id]
            elif asked is not None and asked.id in answered:
                del found[str(response.id)]
        for call in event.get_function_calls():
            about, payload = _about(call) or str(call.id), _ours_in(call)
            if payload is not None:
                found[about] = Question(str(call.id), str(call.name), event.invocation_id, payload)
            elif call.name in (_CONFIRMATION, _INPUT):
                found.pop(about, None)
    return found


def let_resumed_calls_ask() -> None:
    """Let calls that ADK enters again ask people, in runs that have the ledger's plugin."""
    for processor in (confirmations, credentials):
        if not isinstance(vars(processor).get("run_async"), _Asking):
            vars(processor)["run_async"] = _Asking(processor.run_async)


class _Asking:
    """Stands where ADK enters calls again, and adds what they ask to the results, as ADK does for calls that are made.

    Args:
        enter: Enters the calls that were answered to.
    """

    def __init__(self, enter: Callable[[InvocationContext, LlmRequest], AsyncGenerator[Event, None]]) -> None:
        self._enter = enter

    async def __call__(self, context: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None]:
        is_ours = context.plugin_manager.get_plugin(NAME) is not None
        async with aclosing(self._enter(context, request)) as events:
            async for event in events:
                parts = _questions_in(event, context.session.events) if is_ours else []
                if not parts:
                    yield event
                    continue
                asked = Event(
                    invocation_id=event.invocation_id,
                    author=event.author,
                    branch=event.branch,
                    content=types.Content(role="model", parts=parts),
                    long_running_tool_ids={str(part.function_call.id) for part in parts if part.function_call},
                )
                asking = {*event.actions.requested_tool_confirmations, *event.actions.requested_auth_configs}
                is_settled = any(one.id not in asking for one in event.get_function_responses())
                for one in [event, asked] if is_settled else [asked, event]:
                    yield one


def _questions_in(event: Event, events: Sequence[Event]) -> list[types.Part]:
    """Return what calls ask that were entered again, in the form in which ADK asks.

    Args:
        event: Their results.
        events: The session before.
    """
    parts: list[types.Part] = []
    for response in event.get_function_responses():
        call_id = str(response.id)
        made = _Made(events, call_id)
        confirmation = event.actions.requested_tool_confirmations.get(call_id)
        credential = event.actions.requested_auth_configs.get(call_id)
        if made.call is None or not made.has_result:
            continue
        if confirmation is not None and (_is_ours(confirmation.payload) or _CONFIRMATION not in made.asked):
            original = made.call.model_dump(exclude_none=True, by_alias=True)
            told = confirmation.model_dump(exclude_none=True, by_alias=True)
            parts.append(_request(_CONFIRMATION, {"originalFunctionCall": original, "toolConfirmation": told}))
        if credential is not None and _CREDENTIAL not in made.asked:
            wanted = AuthToolArguments(function_call_id=call_id, auth_config=credential)
            parts.append(_request(_CREDENTIAL, wanted.model_dump(mode="json", exclude_none=True, by_alias=True)))
    return parts


def _request(name: str, args: dict[str, Any]) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=f"adk-{uuid4()}", name=name, args=args))


class _Made:
    """A call since it was made: whether it has had a result, and what was asked about it that is not the ledger's."""

    def __init__(self, events: Iterable[Event], call_id: str) -> None:
        self.call: types.FunctionCall | None = None
        self.has_result = False
        self.asked: set[str] = set()
        for event in events:
            for call in event.get_function_calls():
                if call.id == call_id:
                    self.call, self.has_result, self.asked = call, False, set()
                elif _about(call) == call_id and _ours_in(call) is None:
                    self.asked.add(str(call.name))
            self.has_result |= any(one.id == call_id for one in event.get_function_responses())


def _about(call: types.FunctionCall) -> str | None:
    """Return the id of the call that a question of ADK is about; None for all other calls."""
    args: Mapping[str, Any] = call.args or {}
    if call.name == _CONFIRMATION:
        return str(args.get("originalFunctionCall", {}).get("id"))
    return str(args.get("functionCallId")) if call.name == _CREDENTIAL else None


def _ours_in(call: types.FunctionCall) -> Mapping[str, Any] | None:
    """Return what the ledger asks by this call; None if it asks nothing."""
    args: Mapping[str, Any] = call.args or {}
    if call.name == _CONFIRMATION:
        payload = args.get("toolConfirmation", {}).get("payload")
    elif call.name == _INPUT:
        payload = (args.get("payload") or {}).get("confirmation_payload")
    else:
        return None
    return payload if _is_ours(payload) else None


def _is_ours(payload: Any) -> bool:
    return isinstance(payload, Mapping) and str(payload.get("type", "")).startswith(f"{NAME}.")
