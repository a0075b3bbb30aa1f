"""The page about LangChain says what is so: its snippets run, in their order, as one program; so does the example."""

from __future__ import annotations

import logging
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from tests.integrations.langchain_agents import Scripted, calls

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations" / "langchain.md"


@tool
def charge(order: str) -> str:
    """Charges."""
    return f"charged {order}"


@tool
def refund(order: str) -> str:
    """Refunds."""
    return f"refunded {order}"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    logging.getLogger("indelible").handlers.clear()


def test_the_snippets_run(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [calls(("refund", {"order": "123"}, "c1")), AIMessage(content="done"), AIMessage(content="hello")]
    names: dict[str, Any] = {
        "model": Scripted(responses=turns),
        "charge": charge,
        "refund": refund,
        "saver": InMemorySaver(),
        "secret": b"of the page where people sign in",
    }
    resumed = []
    for text in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(text, "snippet", "exec"), names)
        if "agent.invoke(Command" in text:
            resumed.append(names["result"]["messages"][-1].content)
    assert resumed == ["done"]
    said = capsys.readouterr().out
    assert "refund {'order': '123'} indelible approvals show apr_" in said
    assert said.endswith("3 0\n")
    names["ledger"].close()


def test_every_row_of_the_matrix_is_what_the_cases_say() -> None:
    from indelible.testing.adapters.cases import CASES

    table = PAGE.read_text().partition("## Native beside ours")[2].partition("\n## ")[0]
    assert table.count("\n| ") == len(CASES) + 1


def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []
    for words in ([], ["--decide"], []):
        monkeypatch.setattr(sys, "argv", ["langchain_agent.py", *words])
        runpy.run_path(str(ROOT / "examples" / "langchain_agent.py"))
        said.append(capsys.readouterr().out)
    first, second, third = said
    assert "charging 1000" in first
    assert "waits for a person: indelible approvals show apr_" in first
    assert "charging" not in second
    assert "refunding 50" in second
    assert "ing 50" not in third
    assert third.endswith("charge succeeded, attempt 1\nrefund succeeded, attempt 1\n")
