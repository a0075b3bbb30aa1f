"""What a model's provider would run is found wherever a configuration says it, and is never allowed by accident."""

from __future__ import annotations

from typing import Any

import pytest

from indelible import Ledger, instrument
from indelible.integrations.instrument import FRAMEWORKS
from indelible.integrations.ways import hosted_in

MCP = {"type": "mcp", "server_label": "bank", "server_url": "https://bank.example/mcp"}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
FUNCTION = {"type": "function", "function": {"name": "charge"}}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"params": {"tools": [CODE]}}, ["code_interpreter"]),
        ({"params": {"extra_body": {"tools": [MCP]}}}, ["bank"]),
        ({"extra_body": {"mcp_servers": [{"url": "https://bank.example"}]}}, ["https://bank.example"]),
        ({"params": {"web_search_options": {}}}, ["web_search_options"]),
        ({"tools": [{"codeExecution": {}}, {"functionDeclarations": []}]}, ["codeExecution"]),
        ({"anthropic_tools": [{"type": "web_search_20250305", "name": "web_search"}]}, ["web_search"]),
        ({"builtin_tools": ["web_search"]}, ["web_search"]),
        ([{"params": {"tools": [CODE]}}], ["code_interpreter"]),
        ({"tools": [FUNCTION, {"name": "charge", "input_schema": {}}], "temperature": 1}, []),
        ({"tools": None}, []),
        (None, []),
    ],
)
def test_88_what_a_provider_would_run_is_found_at_any_depth(said: Any, names: list[str]) -> None:
    assert list(hosted_in(said)) == names


def test_88_a_package_that_may_be_installed_lets_no_tool_of_its_name_run(sqlite_url: str) -> None:
    packages = [one.package for one in FRAMEWORKS]
    with Ledger.open(sqlite_url) as ledger, instrument(ledger, strict=True, allow=[*packages, "web_search"]) as made:
        assert made._watch.allowed == {"web_search"}
