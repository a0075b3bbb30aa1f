"""OpenAI Agents' rig: a scripted model, and a saved `RunState` with its own approvals or with `LedgerTools`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from agents import Agent, Runner, RunState, Tool, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

from indelible import Ledger
from indelible.integrations.openai_agents import LedgerTools
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene

set_tracing_disabled(True)


class OpenAIAgentsRig:
    """Begins and resumes an agent that charges, from a state in a file."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""
        calls = [
            function_call("charge", {"order": call.order, "amount": call.amount}, call_id=call.call_id)
            for call in scene.calls
        ]
        agent, _ = _agent(scene, ledger, [calls, [assistant_message("done")]])
        return _kept(scene, asyncio.run(Runner.run(agent, "charge what is due")))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the saved state."""
        agent, gate = _agent(scene, ledger, [[assistant_message("done")]])
        return asyncio.run(_resumed(scene, agent, gate))

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into the saved state, wherever a call is in it."""
        by_id = {call.call_id: {"order": call.order, "amount": call.amount} for call in scene.calls}
        file = scene.state / "state.json"
        file.write_text(json.dumps(_changed(json.loads(file.read_text()), by_id)))


RIG: Rig = OpenAIAgentsRig()


def _agent(scene: Scene, ledger: Ledger | None, turns: list[Any]) -> tuple[Agent[Any], LedgerTools | None]:
    gate = None if ledger is None else LedgerTools(ledger, run="order-123", terms={"charge": scene.terms})
    native = gate is None and scene.asks
    charge = function_tool(scene.charge, needs_approval=native, failure_error_function=None)
    tools: list[Tool] = [charge] if gate is None else gate.tools([charge])
    return Agent(name="billing", model=ScriptedModel(turns), tools=tools), gate


async def _resumed(scene: Scene, agent: Agent[Any], gate: LedgerTools | None) -> Standing:
    state: RunState[Any, Any] = await RunState.from_string(agent, (scene.state / "state.json").read_text())
    if gate is None:
        for item in state.get_interruptions():
            (state.approve if scene.allowed[str(item.call_id)] else state.reject)(item)
    elif waiting := await gate.answer(state):
        return Standing(state="paused", waits_for=[str(item.call_id) for item in waiting])
    return _kept(scene, await Runner.run(agent, state))


def _kept(scene: Scene, result: Any) -> Standing:
    if not result.interruptions:
        outputs = [item for item in result.new_items if item.type == "tool_call_output_item"]
        doubtful = [str(item.raw_item["call_id"]) for item in outputs if "may have happened" in str(item.output)]
        return Standing(state="paused" if doubtful else "done", waits_for=doubtful)
    (scene.state / "state.json").write_text(result.to_state().to_string())
    return Standing(state="paused", waits_for=[str(item.call_id) for item in result.interruptions])


def _changed(value: Any, by_id: dict[str, dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_changed(part, by_id) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part, by_id) for name, part in value.items()}
    call_id = value.get("call_id")
    if call_id in by_id and isinstance(value.get("arguments"), str):
        changed["arguments"] = json.dumps(by_id[call_id], separators=(",", ":"))
    return changed
