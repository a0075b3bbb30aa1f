"""FAULT 45 behind ADK, which knows a session by app, user and id: the same id alone is not the same run."""

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from indelible import Ledger, instrument
from indelible.integrations.adk import LedgerPlugin, run_of
from indelible.testing.adapters.adk import ScriptedLlm, called

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


def book(room: str, tool_context: ToolContext) -> dict[str, Any]:
    """Books a room for the user."""
    DONE.append(tool_context.user_id)
    return {"door_code": f"code of {tool_context.user_id}"}


def says(user: str, app_name: str, plugins: list[Any]) -> list[Any]:
    """Let a user say to the agent of an app, in the user's session "main", to book; return what the model hears."""
    turns = [[called("book", "c1", room="7")], [types.Part(text="done")]] * 2
    agent = LlmAgent(name="hotel", model=ScriptedLlm(model="scripted", turns=turns), tools=[book])
    resumable = ResumabilityConfig(is_resumable=True)
    app = App(name=app_name, root_agent=agent, plugins=plugins, resumability_config=resumable)
    sessions = SqliteSessionService("sessions.db")

    async def run() -> list[Any]:
        place = {"user_id": user, "session_id": "main"}
        if await sessions.get_session(app_name=app_name, **place) is None:
            await sessions.create_session(app_name=app_name, **place)
        runner = Runner(app=app, session_service=sessions)
        message = types.Content(role="user", parts=[types.Part(text="book 7")])
        found = [one async for one in runner.run_async(new_message=message, **place)]
        await runner.close()
        return [each.response for one in found for each in one.get_function_responses()]

    return asyncio.run(run())


WORDS: list[dict[str, Any]] = [
    {"key": ["room"]},
    {"dedupe": "args"},
    {"dedupe": "call"},
    {"side_effect": "payment"},
]


@pytest.mark.parametrize("is_everywhere", [False, True])
@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("second", [("bob", "hotel"), ("ana", "hostel")])
def test_45_a_session_of_another_user_or_app_is_another_run(
    ledger: Ledger, is_everywhere: bool, words: dict[str, Any], second: tuple[str, str]
) -> None:
    if is_everywhere:
        with instrument(ledger, terms={"book": words}):
            told = says("ana", "hotel", []) + says(*second, [])
    else:
        told = [
            one
            for who in (("ana", "hotel"), second)
            for one in says(*who, [LedgerPlugin(ledger, terms={"book": words})])
        ]
    users = ["ana", second[0]]
    assert users == DONE
    assert told == [{"door_code": f"code of {user}"} for user in users]
    runs = {effect.run_id for effect in ledger.effects()}
    assert runs == {"hotel/ana/main", f"{second[1]}/{second[0]}/main"}


def test_45_the_same_session_is_the_same_run(ledger: Ledger) -> None:
    first, again = (says("ana", "hotel", [LedgerPlugin(ledger, terms={"book": {"key": ["room"]}})]) for _ in range(2))
    assert DONE == ["ana"]
    assert again[0]["door_code"] == first[0]["door_code"]


def test_45_no_two_sessions_have_one_name() -> None:
    names = [("a", "b/c", "d"), ("a/b", "c", "d"), ("a", "b", "c/d"), ("a", "b%2Fc", "d"), ("a", "b", "c%2Fd")]
    runs = {run_of(Session(app_name=app, user_id=user, id=own)) for app, user, own in names}
    assert len(runs) == len(names)
