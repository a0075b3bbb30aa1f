"""Google ADK's rig: a scripted model and sessions in SQLite, with its own confirmations or with `LedgerPlugin`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import apsw
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from indelible import Ledger
from indelible.integrations.adk import LedgerPlugin
from indelible.testing.adapters.rig import Rig, Standing
from indelible.testing.adapters.scene import Scene

APP, USER, SESSION = "billing", "ana", "order-123"
CONFIRMATION = "adk_request_confirmation"


class AdkRig:
    """Begins and resumes an app that charges, in one session."""

    def begin(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Runs the app from the start."""
        return asyncio.run(_begun(_runner(scene, ledger)[0]))

    def resume(self, scene: Scene, ledger: Ledger | None) -> Standing:
        """Goes on from the session: confirmations are answered natively, or as the plugin does it."""
        while True:
            try:
                return asyncio.run(_resumed(scene, *_runner(scene, ledger)))
            except StaleSessionError:  # another worker has moved the session: it is looked at again
                continue

    def tamper(self, scene: Scene) -> None:
        """Writes other arguments into every event of the session, wherever a call is in it."""
        by_id = {call.call_id: {"order": call.order, "amount": call.amount} for call in scene.calls}
        database = apsw.Connection(str(scene.state / "sessions.db"))
        for row, event in list(database.execute("SELECT rowid, event_data FROM events")):
            changed = json.dumps(_changed(json.loads(event), by_id))
            database.execute("UPDATE events SET event_data = ? WHERE rowid = ?", (changed, row))
        database.close()


RIG: Rig = AdkRig()


class ScriptedLlm(BaseLlm):
    """Says the turn that is due by the messages so far: a resumed app's model does not begin again."""

    turns: list[list[types.Part]]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Says the parts of a turn: texts, and calls of tools."""
        said = sum(content.role == "model" and not _is_question(content) for content in llm_request.contents)
        parts = self.turns[min(said, len(self.turns) - 1)]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _is_question(content: types.Content) -> bool:
    return any(part.function_call and part.function_call.name == CONFIRMATION for part in content.parts or ())


def called(name: str, call_id: str, **args: Any) -> types.Part:
    """Gives the part of a turn by which a model calls a tool."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def _runner(scene: Scene, ledger: Ledger | None) -> tuple[Runner, LedgerPlugin | None]:
    def charge(order: str, amount: int) -> str:
        """Charges an order."""
        return scene.charge(order, amount)

    calls = [called("charge", call.call_id, order=call.order, amount=call.amount) for call in scene.calls]
    agent = LlmAgent(
        name=APP,
        model=ScriptedLlm(model="scripted", turns=[calls, [types.Part(text="done")]]),
        tools=[FunctionTool(charge, require_confirmation=ledger is None and scene.asks)],
    )
    plugin = None if ledger is None else LedgerPlugin(ledger, terms={"charge": scene.terms})
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name=APP, root_agent=agent, plugins=[plugin] if plugin else [], resumability_config=resumable)
    return Runner(app=app, session_service=SqliteSessionService(str(scene.state / "sessions.db"))), plugin


async def _begun(runner: Runner) -> Standing:
    await runner.session_service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
    return await _run(runner, types.Content(role="user", parts=[types.Part(text="charge what is due")]))


async def _resumed(scene: Scene, runner: Runner, plugin: LedgerPlugin | None) -> Standing:
    session = await runner.session_service.get_session(app_name=APP, user_id=USER, session_id=SESSION)
    assert session is not None, "it was begun"
    if plugin is None:
        parts = [_answered(question, scene.allowed[call_id]) for call_id, question in _asked(session.events).items()]
        invocation = next(event.invocation_id for event in session.events if event.author != "user")
        return await _run(runner, types.Content(role="user", parts=parts), invocation)
    answer = await plugin.answer(session)
    if answer is None:
        return Standing(state="done")
    if answer.waiting:
        return Standing(state="paused", waits_for=answer.waiting)
    return await _run(runner, answer.message, answer.invocation_id)


async def _run(runner: Runner, message: types.Content, invocation: str | None = None) -> Standing:
    """Runs an app until it is done or asks."""
    words: dict[str, Any] = {
        "user_id": USER,
        "session_id": SESSION,
        "new_message": message,
        "invocation_id": invocation,
    }
    heard = [event async for event in runner.run_async(**words)]
    await runner.close()
    asked = _asked(heard)
    return Standing(state="paused" if asked else "done", waits_for=list(asked))


def _asked(events: Any) -> dict[str, str]:
    """Gives the ids of the last confirmations that were asked for, by the id of the call that each is about."""
    return {
        call.args["originalFunctionCall"]["id"]: call.id
        for event in events
        for call in event.get_function_calls()
        if call.name == CONFIRMATION
    }


def _answered(question: str, yes: bool) -> types.Part:
    response = types.FunctionResponse(id=question, name=CONFIRMATION, response={"confirmed": yes})
    return types.Part(function_response=response)


def _changed(value: Any, by_id: dict[str, dict[str, Any]]) -> Any:
    if isinstance(value, list):
        return [_changed(part, by_id) for part in value]
    if not isinstance(value, dict):
        return value
    changed = {name: _changed(part, by_id) for name, part in value.items()}
    if value.get("id") in by_id and isinstance(value.get("args"), dict):
        changed["args"] = by_id[value["id"]]
    return changed
