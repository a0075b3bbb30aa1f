"""The rig of plain functions: a loop that keeps the model's message in a file and asks its user, or the ledger."""

from __future__ import annotations

import json
from typing import Any

from indelible import Ledger
from indelible.integrations.function_calls import FunctionCalls
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene


class FunctionsRig:
    """Runs the tool calls of one message of a model, and runs them again when it is resumed, as loops do."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Keeps what the model asks for; then calls it, or waits until the user has said yes."""
        _keep(scene)
        if ledger is None and scene.asks:
            return Standing(state="paused", waits_for=[call.call_id for call in scene.calls])
        return _called(scene, ledger)

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Makes the kept calls that the user let pass; behind the ledger all of them, for it knows which."""
        return _called(scene, ledger)

    def tamper(self, scene: Scene) -> None:
        """Keeps other arguments than those that were shown."""
        _keep(scene)


RIG: Rig = FunctionsRig()


def _keep(scene: Scene) -> None:
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": "charge", "arguments": json.dumps({"order": call.order, "amount": call.amount})},
        }
        for call in scene.calls
    ]
    (scene.state / "message.json").write_text(json.dumps({"role": "assistant", "tool_calls": calls}))


def _called(scene: Scene, ledger: Ledger | None) -> Standing:
    calls: list[dict[str, Any]] = json.loads((scene.state / "message.json").read_text())["tool_calls"]
    if ledger is None:
        for call in calls:
            if scene.allowed.get(call["id"], not scene.asks):
                scene.charge(**json.loads(call["function"]["arguments"]))
        return Standing(state="done")
    gate = FunctionCalls(ledger, {"charge": scene.charge}, run="order-123", terms={"charge": scene.terms})
    waiting = gate.answer(calls).waiting
    return Standing(state="paused" if waiting else "done", waits_for=[one.call_id for one in waiting])
