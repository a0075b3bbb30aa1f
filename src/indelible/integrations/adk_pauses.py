"""Who asked a person about a call of Google ADK, by the events of its session: the ledger, or the tool itself.

ADK hands a tool the last answer, whoever asked for it. And it lets a call ask only when it is made: what a resumed call
asks would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from uuid import uuid4

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.flows.llm_flows.functions import build_auth_request_event
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


def ask_again(context: InvocationContext, event: Event) -> None:
    """Put into an event of tool results what calls ask that ADK would lose, in the form in which it asks.

    Args:
        context: The context of the run.
        event: The event, before it is in the session.
    """
    actions = event.actions
    for response in event.get_function_responses():
        call_id = str(response.id)
        made = _Made(context.session.events, call_id)
        if made.call is None or not made.has_result:
            continue
        asked = actions.requested_tool_confirmations.get(call_id)
        if asked is not None and (_is_ours(asked.payload) or _CONFIRMATION not in made.asked):
            _add(event, [_request_of(made.call, asked)])
        credential = actions.requested_auth_configs.get(call_id)
        if credential is not None and _CREDENTIAL not in made.asked:
            request = build_auth_request_event(context, {call_id: credential}, author=event.author)
            _add(event, (request.content and request.content.parts) or [])


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


def _request_of(call: types.FunctionCall, asked: ToolConfirmation) -> types.Part:
    args = {
        "originalFunctionCall": call.model_dump(exclude_none=True, by_alias=True),
        "toolConfirmation": asked.model_dump(exclude_none=True, by_alias=True),
    }
    return types.Part(function_call=types.FunctionCall(id=f"adk-{uuid4()}", name=_CONFIRMATION, args=args))


def _add(event: Event, parts: Iterable[types.Part]) -> None:
    assert event.content is not None, "it has results of tools"
    event.content.parts = [*(event.content.parts or ()), *parts]
    ids = {str(part.function_call.id) for part in parts if part.function_call}
    event.long_running_tool_ids = {*(event.long_running_tool_ids or ()), *ids}
