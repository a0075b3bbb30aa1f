"""The pages and examples of OpenAI Agents and Pydantic AI run, from top to bottom."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.integrations.following import charge, check_asks_is_decided_and_goes_on, follow, refund, run_example


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)
    logging.getLogger("indelible").handlers.clear()


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
    told = follow("openai-agents.md", names, between=decide)
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
    check_asks_is_decided_and_goes_on(example, tmp_path / "keys")


def test_what_one_framework_did_the_other_does_not_do_again(tmp_path: Path) -> None:
    said = []
    for word in ("langgraph", "pydantic-ai"):
        ran = run_example("change_framework.py", tmp_path / "keys", word)
        assert ran.returncode == (word == "langgraph"), ran.stderr
        said.append(ran.stdout)
    first, second = said
    assert [line.split()[-1] for line in first.splitlines() if "charging" in line] == ["123", "124"]
    assert [line.split()[-1] for line in second.splitlines() if "charging" in line] == ["123"]
    assert second.count("succeeded after 1 attempt") == 3
