"""The pages and examples of the heavy frameworks run, from top to bottom."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from crewai.tools import tool as crew_tool
from google.genai import types
from strands import tool as strands_tool

from indelible.testing.adapters import adk, crewai, strands
from tests.integrations.following import charge, check_asks_is_decided_and_goes_on, follow, refund


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    logging.getLogger("indelible").handlers.clear()


def test_the_page_on_strands() -> None:
    model = strands.ScriptedModel([[strands.called("refund", "c1", order="123")], [{"text": "done"}]])
    names = {"model": model, "charge": strands_tool(charge), "refund": strands_tool(refund)}
    assert follow("strands.md", names, is_async=False)["result"].stop_reason == "end_turn"


def test_the_page_on_adk() -> None:
    turns = [[adk.called("refund", "c1", order="123")], [types.Part(text="done")]]
    names = {"model": adk.ScriptedLlm(model="scripted", turns=turns), "charge": charge, "refund": refund}
    told = follow("adk.md", names)
    heard = [part.text for event in told["session"].events for part in event.content.parts if part.text]
    assert heard == ["refund order 123"], "the session is as it was when it was resumed"
    assert told["answer"].waiting == []


def test_the_page_on_crewai() -> None:
    llm = crewai.ScriptedLLM(model="scripted", turns=[[crewai.called("refund", "c1", order="123")], "done"])
    names = {"llm": llm, "charge": crew_tool(charge), "refund": crew_tool(refund)}
    assert follow("crewai.md", names, is_async=False)["result"].raw == "done"


@pytest.mark.timeout(400)  # three processes that import a heavy framework each
@pytest.mark.parametrize("example", ["strands_agent.py", "adk_agent.py", "crewai_crew.py"])
def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(example: str, tmp_path: Path) -> None:
    check_asks_is_decided_and_goes_on(example, tmp_path / "keys")
