"""`instrument()` in the heavy frameworks: agents that know nothing of a ledger, one line, and once across a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from strands import Agent, tool
from strands.session.file_session_manager import FileSessionManager

from indelible import Ledger, instrument
from indelible.integrations.adk import LedgerPlugin as AdkPlugin
from indelible.integrations.strands import LedgerPlugin as StrandsPlugin
from indelible.testing.adapters import adk as adk_rig
from indelible.testing.adapters import strands as strands_rig
from indelible.testing.crashing import crash_at
from indelible.testing.once import Outside
from tests.frameworks.conftest import decide

Work = Callable[..., Any]


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    (tmp_path / "outside").mkdir()
    return Outside(tmp_path / "outside")


def strands(outside: Outside, folder: Path, plugin: Any = None) -> Work:
    agent = strands_agent(outside, folder, plugin)
    return lambda: agent("charge")


def strands_agent(outside: Outside, folder: Path, plugin: Any = None) -> Agent:
    def charge(order: str) -> str:
        """Charges."""
        outside.happens(order)
        return "charged"

    turns = [[strands_rig.called("charge", "c1", order="o1")], [{"text": "done"}]]
    return Agent(
        model=strands_rig.ScriptedModel(turns),
        tools=[tool(name="charge")(charge)],
        session_manager=FileSessionManager("order-123", storage_dir=str(folder / "session")),
        plugins=None if plugin is None else [plugin],
        callback_handler=None,
    )


def adk(outside: Outside, folder: Path, plugin: Any = None) -> Work:
    runner = adk_runner(outside, folder, plugin)
    return lambda: asyncio.run(talk(runner, types.Content(role="user", parts=[types.Part(text="charge")])))


def adk_runner(outside: Outside, folder: Path, plugin: Any = None) -> Runner:
    def charge(order: str) -> str:
        """Charges."""
        outside.happens(order)
        return "charged"

    turns = [[adk_rig.called("charge", "c1", order="o1")], [types.Part(text="done")]]
    agent = LlmAgent(
        name="billing", model=adk_rig.ScriptedLlm(model="scripted", turns=turns), tools=[FunctionTool(charge)]
    )
    resumable = ResumabilityConfig(is_resumable=True)
    plugins = [] if plugin is None else [plugin]
    app = App(name="billing", root_agent=agent, plugins=plugins, resumability_config=resumable)
    return Runner(app=app, session_service=SqliteSessionService(str(folder / "sessions.db")))


async def talk(runner: Runner, said: types.Content, **words: Any) -> Any:
    """Says something in the session, which is begun if there is none; gives the session."""
    place = {"app_name": "billing", "user_id": "ana", "session_id": "order-123"}
    if await runner.session_service.get_session(**place) is None:
        await runner.session_service.create_session(**place)
    async for _ in runner.run_async(user_id="ana", session_id="order-123", new_message=said, **words):
        pass
    await runner.close()
    return await runner.session_service.get_session(**place)


WORKS: dict[str, Work] = {"strands": strands, "adk": adk}
PLUGINS: dict[str, Any] = {"strands": StrandsPlugin, "adk": AdkPlugin}


@pytest.mark.parametrize("framework", WORKS)
@pytest.mark.parametrize("at", ["after_handler", "after_record"])
def test_an_agent_that_knows_nothing_of_it_does_it_once_across_a_crash(
    framework: str, at: Any, ledger: Ledger, outside: Outside, tmp_path: Path
) -> None:
    """The saved session is put back as it was before: a backup, a second worker's view. Without the ledger it is 2."""

    def work(where: str) -> None:
        with instrument(ledger):
            (tmp_path / where).mkdir()
            WORKS[framework](outside, tmp_path / where)()

    crash_at(at, lambda: work("first"), tool="charge")
    work("second")
    assert outside.times("o1") == 1
    # A message that is sent again begins a new invocation of ADK, which asks before it charges once more.
    asks = {"requires_approval"} if (framework, at) == ("adk", "after_record") else set()
    assert {effect.status for effect in ledger.effects()} == {
        "succeeded" if at == "after_record" else "in_doubt"
    } | asks


@pytest.mark.parametrize("framework", WORKS)
def test_an_agent_that_has_the_adapter_is_guarded_once(
    framework: str, ledger: Ledger, outside: Outside, tmp_path: Path
) -> None:
    with instrument(ledger):
        WORKS[framework](outside, tmp_path, PLUGINS[framework](ledger, run="own"))()
    assert [effect.run_id for effect in ledger.effects()] == ["own"]


@pytest.mark.parametrize("framework", WORKS)
def test_undone_an_agent_that_was_made_meanwhile_is_plain_again(
    framework: str, ledger: Ledger, outside: Outside, tmp_path: Path
) -> None:
    with instrument(ledger) as report:
        assert {"Strands", "Google ADK"} <= set(report.wrapped)
        work = WORKS[framework](outside, tmp_path)
    work()
    assert outside.times("o1") == 1
    assert ledger.effects() == []


ASKS = {"charge": {"side_effect": "payment", "approval": "required"}}


def test_an_agent_of_strands_that_paused_goes_on(ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    with instrument(ledger, terms=ASKS):
        agent = strands_agent(outside, tmp_path)
        assert agent("charge").stop_reason == "interrupt"
        decide(ledger)
        assert agent(StrandsPlugin(ledger).answer(agent)).stop_reason == "end_turn"
    assert outside.times("o1") == 1


def test_an_app_of_adk_that_paused_goes_on(ledger: Ledger, outside: Outside, tmp_path: Path) -> None:
    async def asked_and_resumed() -> None:
        begun = types.Content(role="user", parts=[types.Part(text="charge")])
        session = await talk(adk_runner(outside, tmp_path), begun)
        decide(ledger)
        answer = await AdkPlugin(ledger).answer(session)
        assert answer is not None
        await talk(adk_runner(outside, tmp_path), answer.message, invocation_id=answer.invocation_id)

    with instrument(ledger, terms=ASKS):
        asyncio.run(asked_and_resumed())
    assert outside.times("o1") == 1
