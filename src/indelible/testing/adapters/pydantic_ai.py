"""Pydantic AI's rig: a scripted model and saved messages, with its own approvals or with `LedgerCapability`."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from indelible import Ledger
from indelible.integrations.pydantic_ai import LedgerCapability
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene


class PydanticAIRig:
    """Begins and resumes an agent that charges, from messages in a file."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""
        return _kept(scene, _agent(scene, ledger).run_sync("charge what is due", conversation_id="order-123"))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the saved messages."""
        saved = json.loads((scene.state / "messages.json").read_text())
        # With a ledger, "approved" only lets the agent look again; without one, it is the decision.
        decided = {one: ledger is not None or scene.allowed[one] for one in saved["asked"]}
        history = ModelMessagesTypeAdapter.validate_python(saved["messages"])
        results = DeferredToolResults(approvals=dict(decided))
        return _kept(scene, _agent(scene, ledger).run_sync(message_history=history, deferred_tool_results=results))

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into the saved messages, wherever a call is in them."""
        file = scene.state / "messages.json"
        saved = json.loads(file.read_text())
        by_id = {call.call_id: {"order": call.order, "amount": call.amount} for call in scene.calls}
        for message in saved["messages"]:
            for part in message["parts"]:
                if part.get("tool_call_id") in by_id and part["part_kind"] == "tool-call":
                    part["args"] = by_id[part["tool_call_id"]]
        file.write_text(json.dumps(saved))


RIG: Rig = PydanticAIRig()


def _agent(scene: Scene, ledger: Ledger | None) -> Agent[None, Any]:
    def says(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse(parts=[TextPart("done")])
        parts = [
            ToolCallPart("charge", {"order": call.order, "amount": call.amount}, tool_call_id=call.call_id)
            for call in scene.calls
        ]
        return ModelResponse(parts=parts)

    # With a broken store, a model that is asked once per turn would stop the agent before it came to the tool.
    turns = not scene.is_store_broken
    return Agent(
        FunctionModel(says),
        tools=[Tool(scene.charge, requires_approval=ledger is None and scene.asks)],
        output_type=[str, DeferredToolRequests],
        capabilities=[]
        if ledger is None
        else [LedgerCapability(ledger, terms={"charge": scene.terms}, model_turns=turns)],
    )


def _kept(scene: Scene, result: Any) -> Standing:
    if not isinstance(result.output, DeferredToolRequests):
        return Standing(state="done")
    asked = [call.tool_call_id for call in result.output.approvals]
    saved = {"asked": asked, "messages": json.loads(result.all_messages_json())}
    (scene.state / "messages.json").write_text(json.dumps(saved))
    return Standing(state="paused", waits_for=asked)
