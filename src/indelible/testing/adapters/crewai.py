"""CrewAI's rig: a flow that asks and then kicks off a crew, or a crew with `LedgerTools` that is kicked off again.

A crew by itself cannot pause: its own durable approval is that of flows, which stand before the crew.
"""

from __future__ import annotations

import json
import os
from typing import Any

# It reports to its makers and offers to show traces, unless it is told not to before it is imported.
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")

import apsw
from crewai import Agent, Crew, Task
from crewai.flow import Flow, human_feedback, listen, persist, start
from crewai.flow.async_feedback import HumanFeedbackPending
from crewai.flow.persistence import SQLiteFlowPersistence
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolExecutionFailedError

from indelible import Ledger
from indelible.integrations.crewai import LedgerTools
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene

FLOW = "order-123"


class CrewAIRig:
    """Begins and resumes a crew that charges."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the flow, or the crew, from the start."""
        asked = [{"id": call.call_id, "order": call.order, "amount": call.amount} for call in scene.calls]
        if ledger is not None:
            (scene.state / "calls.json").write_text(json.dumps(asked))
            return _kicked_off(scene, ledger)
        if not scene.asks:
            _crew(scene, asked, None).kickoff()
            return Standing(state="done")
        flow = _flow(scene)(persistence=_persistence(scene), suppress_flow_events=True)
        paused = flow.kickoff(inputs={"id": FLOW, "asked": asked})
        return Standing(state="paused" if isinstance(paused, HumanFeedbackPending) else "done")

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the flow's saved state, or kicks the crew off again."""
        if ledger is not None:
            return _kicked_off(scene, ledger)
        flow = _flow(scene).from_pending(FLOW, _persistence(scene), suppress_flow_events=True)
        flow.resume(json.dumps(scene.allowed))
        return Standing(state="done")

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into what is saved: the flow's state, or what the crew's model will say."""
        by_id = {call.call_id: call.amount for call in scene.calls}
        if scene.side == "ledger":
            file = scene.state / "calls.json"
            file.write_text(json.dumps(_changed(json.loads(file.read_text()), by_id)))
            return
        database = apsw.Connection(str(scene.state / "flows.db"))
        for table, place in (("flow_states", "state_json"), ("pending_feedback", "state_json"), _CONTEXT):
            for row, content in list(database.execute(f"SELECT id, {place} FROM {table}")):  # noqa: S608
                changed = json.dumps(_changed(json.loads(content), by_id))
                database.execute(f"UPDATE {table} SET {place} = ? WHERE id = ?", (changed, row))  # noqa: S608
        database.close()


RIG: Rig = CrewAIRig()
_CONTEXT = ("pending_feedback", "context_json")


class ScriptedLLM(BaseLLM):
    """Says the turn that is due by the messages so far."""

    turns: list[Any]

    def call(self, messages: Any, *words: Any, **more: Any) -> Any:
        """Says a text, or calls tools."""
        said = sum(message["role"] == "assistant" for message in messages)
        return self.turns[min(said, len(self.turns) - 1)]

    def supports_function_calling(self) -> bool:
        """Calls tools by their names, not by text."""
        return True


def called(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    """Gives the part of a turn by which a model calls a tool."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}


def _crew(scene: Scene, asked: list[dict[str, Any]], gate: LedgerTools | None) -> Crew:
    def charge(order: str, amount: int) -> str:
        """Charges an order."""
        return scene.charge(order, amount)

    tools: list[BaseTool] = [tool(charge)]
    calls = [called("charge", one["id"], order=one["order"], amount=one["amount"]) for one in asked]
    agent = Agent(
        role="billing",
        goal="charge what is due",
        backstory="keeps the books",
        llm=ScriptedLLM(model="scripted", turns=[calls, "done"] if calls else ["done"]),
        tools=tools if gate is None else gate.tools(tools),
    )
    return Crew(agents=[agent], tasks=[Task(description="charge what is due", expected_output="done", agent=agent)])


def _kicked_off(scene: Scene, ledger: Ledger) -> Standing:
    asked = json.loads((scene.state / "calls.json").read_text())
    by_order = {one["order"]: one["id"] for one in asked}
    gate = LedgerTools(
        ledger, run=FLOW, terms={"charge": scene.terms}, call_id=lambda _, args: str(by_order[args["order"]])
    )
    try:
        _crew(scene, asked, gate).kickoff()
    except ToolExecutionFailedError as stopped:
        failure = stopped.record.failure
        return Standing(state="paused" if "approval" in failure.details else "refused", why=failure.message)
    return Standing(state="done")


def _persistence(scene: Scene) -> SQLiteFlowPersistence:
    return SQLiteFlowPersistence(str(scene.state / "flows.db"))


class _Later:
    """Answers later."""

    def request_feedback(self, context: Any, flow: Any) -> str:
        """Pauses the flow."""
        raise HumanFeedbackPending(context=context)


def _flow(scene: Scene) -> Any:
    @persist(_persistence(scene))
    class Charging(Flow[dict[str, Any]]):
        """Asks, and then kicks off the crew with the calls that were allowed."""

        @start()
        @human_feedback(message="charge?", provider=_Later())
        def propose(self) -> Any:
            return self.state["asked"]

        @listen(propose)
        def act(self, answer: Any) -> str:
            allowed = json.loads(answer.feedback)
            _crew(scene, [one for one in answer.output if allowed[one["id"]]], None).kickoff()
            return "done"

    return Charging


def _changed(value: Any, by_id: dict[str, int]) -> Any:
    if isinstance(value, list):
        return [_changed(part, by_id) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part, by_id) for name, part in value.items()}
    return changed | {"amount": by_id[value["id"]]} if value.get("id") in by_id else changed
