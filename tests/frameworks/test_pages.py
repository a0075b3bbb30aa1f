"""The pages and examples of the heavy frameworks run, from top to bottom."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from crewai.tools import tool as crew_tool
from google.genai import types
from strands import tool as strands_tool

from indelible.testing.adapters import adk, crewai, strands

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    logging.getLogger("indelible").handlers.clear()


def charge(order: str) -> str:
    """Charges."""
    return f"charged {order}"


def refund(order: str) -> str:
    """Refunds."""
    return f"refunded {order}"


def follow(page: str, names: dict[str, Any], *, is_async: bool = False) -> dict[str, Any]:
    """Runs a page's snippets in their order, as one program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "integrations" / page).read_text(), re.DOTALL)
    assert len(blocks) == 3
    body = indent("\n".join([*blocks, "ledger.close()", "return locals()"]), "    ")
    exec(f"{'async ' if is_async else ''}def page():\n{body}", names)
    told: dict[str, Any] = asyncio.run(names["page"]()) if is_async else names["page"]()
    return told


def test_the_page_on_strands() -> None:
    model = strands.ScriptedModel([[strands.called("refund", "c1", order="123")], [{"text": "done"}]])
    names = {"model": model, "charge": strands_tool(charge), "refund": strands_tool(refund)}
    assert follow("strands.md", names)["result"].stop_reason == "end_turn"


def test_the_page_on_adk() -> None:
    turns = [[adk.called("refund", "c1", order="123")], [types.Part(text="done")]]
    names = {"model": adk.ScriptedLlm(model="scripted", turns=turns), "charge": charge, "refund": refund}
    told = follow("adk.md", names, is_async=True)
    heard = [part.text for event in told["session"].events for part in event.content.parts if part.text]
    assert heard == ["refund order 123"], "the session is as it was when it was resumed"
    assert told["answer"].waiting == []


def test_the_page_on_crewai() -> None:
    llm = crewai.ScriptedLLM(model="scripted", turns=[[crewai.called("refund", "c1", order="123")], "done"])
    names = {"llm": llm, "charge": crew_tool(charge), "refund": crew_tool(refund)}
    assert follow("crewai.md", names)["result"].raw == "done"


@pytest.mark.timeout(400)  # three processes that import a heavy framework each
@pytest.mark.parametrize("example", ["strands_agent.py", "adk_agent.py", "crewai_crew.py"])
def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(example: str, tmp_path: Path) -> None:
    environment = {**os.environ, "INDELIBLE_KEYS": str(tmp_path / "keys")}
    said = []
    for words in ([], ["--decide"], []):
        command = [sys.executable, str(ROOT / "examples" / example), *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        said.append(ran.stdout)
    first, second, third = said
    assert "charging 1000" in first
    assert "waits for a person: indelible approvals show apr_" in first
    assert "charging" not in second + third
    assert "refunding 50" in second
    assert "refunding" not in third
    assert second.endswith("refunded\n")
    assert third.endswith("refunded\n")
