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

Work = Callable[..., Any]


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    (tmp_path / "outside").mkdir()
    return Outside(tmp_path / "outside")


def strands(outside: Outside, folder: Path, plugin: Any = None) -> Any:
    def charge(order: str) -> str:
        """Charges."""
        outside.happens(order)
        return "charged"

    turns = [[strands_rig.called("charge", "c1", order="o1")], [{"text": "done"}]]
    agent = Agent(
        model=strands_rig.ScriptedModel(turns),
        tools=[tool(name="charge")(charge)],
        session_manager=FileSessionManager("order-123", storage_dir=str(folder / "session")),
        plugins=None if plugin is None else [plugin],
        callback_handler=None,
    )
    return lambda: agent("charge")


def adk(outside: Outside, folder: Path, plugin: Any = None) -> Any:
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
    runner = Runner(app=app, session_service=SqliteSessionService(str(folder / "sessions.db")))

    async def talk() -> None:
        place = {"app_name": "billing", "user_id": "ana", "session_id": "order-123"}
        if await runner.session_service.get_session(**place) is None:
            await runner.session_service.create_session(**place)
        said = types.Content(role="user", parts=[types.Part(text="charge")])
        async for _ in runner.run_async(user_id="ana", session_id="order-123", new_message=said):
            pass
        await runner.close()

    return lambda: asyncio.run(talk())


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
    (effect,) = ledger.effects()
    assert effect.status == ("succeeded" if at == "after_record" else "in_doubt")


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
