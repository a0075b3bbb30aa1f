"""Strands' rig: a scripted model and a session in files, with its own approvals or with `LedgerPlugin`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, tool
from strands.models.model import Model
from strands.session.file_session_manager import FileSessionManager
from strands.types.streaming import StreamEvent
from strands.vended_interventions.hitl import HumanInTheLoop

from indelible import Ledger
from indelible.integrations.strands import LedgerPlugin
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene


class StrandsRig:
    """Begins and resumes an agent that charges, in one session."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the agent from the start."""
        return _standing(_agent(scene, ledger)("charge what is due"))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the session: each interrupt is answered natively, or by a word that decides nothing."""
        agent = _agent(scene, ledger)
        answers: list[Any] = [
            {"interruptResponse": {"interruptId": id_, "response": _answer(scene, id_, ledger)}}
            for id_, interrupt in agent._interrupt_state.interrupts.items()
            if interrupt.response is None or ledger is None
        ]
        return _standing(agent(answers if agent._interrupt_state.activated else "go on"))

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into every file of the session, wherever a call is in it."""
        by_id = {call.call_id: {"order": call.order, "amount": call.amount} for call in scene.calls}
        for file in scene.state.rglob("*.json"):
            file.write_text(json.dumps(_changed(json.loads(file.read_text()), by_id)))


RIG: Rig = StrandsRig()


class ScriptedModel(Model):
    """Says the turn that is due by the messages so far: a resumed agent's model does not begin again."""

    def __init__(self, turns: list[list[dict[str, Any]]]) -> None:
        self._turns = turns

    def update_config(self, **words: Any) -> None:
        """Has nothing to set."""

    def get_config(self) -> dict[str, Any]:
        """Has nothing that is set."""
        return {}

    def structured_output(self, *words: Any, **more: Any) -> Any:
        """Is never asked for."""
        raise NotImplementedError

    async def stream(self, messages: Any, *words: Any, **more: Any) -> AsyncIterator[StreamEvent]:
        """Says the parts of a turn: texts, and calls of tools."""
        said = sum(message["role"] == "assistant" for message in messages)
        parts = self._turns[min(said, len(self._turns) - 1)]
        yield {"messageStart": {"role": "assistant"}}
        for part in parts:
            if "toolUse" in part:
                use = part["toolUse"]
                yield {
                    "contentBlockStart": {"start": {"toolUse": {"name": use["name"], "toolUseId": use["toolUseId"]}}}
                }
                yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(use["input"])}}}}
            else:
                yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": part["text"]}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if "toolUse" in parts[0] else "end_turn"}}


def called(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    """Gives the part of a turn by which a model calls a tool."""
    return {"toolUse": {"name": name, "toolUseId": call_id, "input": args}}


def _agent(scene: Scene, ledger: Ledger | None) -> Agent:
    calls = [called("charge", call.call_id, order=call.order, amount=call.amount) for call in scene.calls]
    return Agent(
        model=ScriptedModel([calls, [{"text": "done"}]]),
        tools=[tool(name="charge", description="Charges an order.")(scene.charge)],
        session_manager=FileSessionManager("order-123", storage_dir=str(scene.state)),
        plugins=[] if ledger is None else [LedgerPlugin(ledger, terms={"charge": scene.terms})],
        interventions=[HumanInTheLoop()] if ledger is None and scene.asks else [],
        callback_handler=None,
    )


def _answer(scene: Scene, interrupt: str, ledger: Ledger | None) -> Any:
    if ledger is not None:
        return "look again"
    (yes,) = [allowed for call_id, allowed in scene.allowed.items() if f":{call_id}:" in interrupt]
    return yes


def _standing(result: Any) -> Standing:
    if result.stop_reason != "interrupt":
        return Standing(state="done")
    return Standing(state="paused", waits_for=[interrupt.id for interrupt in result.interrupts])


def _changed(value: Any, by_id: dict[str, dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_changed(part, by_id) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part, by_id) for name, part in value.items()}
    if value.get("toolUseId") in by_id and "input" in value:
        changed["input"] = by_id[value["toolUseId"]]
    return changed
