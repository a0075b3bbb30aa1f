"""The pages and examples of OpenAI Agents and Pydantic AI run, from top to bottom."""

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
from agents import function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)
    logging.getLogger("indelible").handlers.clear()


def charge(order: str) -> str:
    """Charges."""
    return f"charged {order}"


def refund(order: str) -> str:
    """Refunds."""
    return f"refunded {order}"


def follow(page: str, names: dict[str, Any], between: str = "") -> dict[str, Any]:
    """Runs a page's snippets in their order, as one program; `between` stands before the second last of them."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "integrations" / page).read_text(), re.DOTALL)
    assert len(blocks) >= 3
    program = "\n".join([*blocks[:-1], between, blocks[-1]])
    exec(f"async def page():\n{indent(program, '    ')}\n    ledger.close()\n    return locals()", names)
    told: dict[str, Any] = asyncio.run(names["page"]())
    return told


def test_the_page_on_openai_agents() -> None:
    turns = [[function_call("refund", {"order": "123"}, call_id="c1")], [assistant_message("done")]]
    names: dict[str, Any] = {
        "model": ScriptedModel(turns),
        "charge": function_tool(charge),
        "refund": function_tool(refund),
    }
    decide = (
        "(question,) = ledger.approvals(status='pending')\nledger.approve(question, digest=question.digest, by='ana')"
    )
    told = follow("openai-agents.md", names, decide)
    assert told["waiting"] == []
    assert told["result"].final_output == "done"


def test_the_page_on_pydantic_ai() -> None:
    def scripted(messages: list[ModelMessage], about: AgentInfo) -> ModelResponse:
        if any(isinstance(one, ModelResponse) for one in messages):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("refund", {"order": "123"}, tool_call_id="call_2")])

    told = follow("pydantic-ai.md", {"model": FunctionModel(scripted), "charge": charge, "refund": refund})
    assert told["result"].output == "done"


@pytest.mark.parametrize("example", ["openai_agent.py", "pydantic_ai_agent.py", "function_calls.py"])
def test_the_example_asks_is_decided_and_goes_on_without_doing_anything_twice(example: str, tmp_path: Path) -> None:
    environment = {**os.environ, "INDELIBLE_KEYS": str(tmp_path / "keys")}
    said = []
    for words in ([], ["--decide"], []):
        command = [sys.executable, str(ROOT / "examples" / example), *words]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100)
        said.append(ran.stdout)
    first, second, third = said
    assert "charging 1000" in first
    assert "waits for a person: indelible approvals show apr_" in first
    assert "charging" not in second + third
    assert "refunding 50" in second
    assert "refunding" not in third
    assert second.endswith("refunded\n")
    assert third.endswith("refunded\n")


def test_what_one_framework_did_the_other_does_not_do_again(tmp_path: Path) -> None:
    environment = {**os.environ, "INDELIBLE_KEYS": str(tmp_path / "keys")}
    said = []
    for word in ("langgraph", "pydantic-ai"):
        command = [sys.executable, str(ROOT / "examples" / "change_framework.py"), word]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert ran.returncode == (word == "langgraph"), ran.stderr
        said.append(ran.stdout)
    first, second = said
    assert [line.split()[-1] for line in first.splitlines() if "charging" in line] == ["123", "124"]
    assert [line.split()[-1] for line in second.splitlines() if "charging" in line] == ["123"]
    assert second.count("succeeded after 1 attempt") == 3
