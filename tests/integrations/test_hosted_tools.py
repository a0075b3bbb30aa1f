"""What a model's provider would run is found wherever a configuration says it, and is never allowed by accident."""

from __future__ import annotations

from typing import Any

import pytest

from indelible.integrations.hosted import hosted_in

MCP = {"type": "mcp", "server_label": "bank", "server_url": "https://bank.example/mcp"}
CODE = {"type": "code_interpreter", "container": {"type": "auto"}}
FUNCTION = {"type": "function", "function": {"name": "charge"}}


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"params": {"tools": [CODE]}}, ["code_interpreter"]),
        ({"params": {"extra_body": {"tools": [MCP]}}}, ["mcp:bank"]),
        ({"extra_body": {"mcp_servers": [{"url": "https://bank.example"}]}}, ["mcp:https://bank.example"]),
        ({"params": {"web_search_options": {}}}, ["web_search_options"]),
        ({"tools": [{"codeExecution": {}}, {"functionDeclarations": []}]}, ["codeExecution"]),
        ({"anthropic_tools": [{"type": "web_search_20250305", "name": "web_search"}]}, ["web_search_20250305"]),
        ({"builtin_tools": ["web_search"]}, ["web_search"]),
        ([{"params": {"tools": [CODE]}}], ["code_interpreter"]),
        ({"tools": [FUNCTION, {"name": "charge", "input_schema": {}}], "temperature": 1}, []),
        ({"google_cached_content": "cachedContents/x"}, ["google_cached_content"]),
        ({"openrouter_preset": "@preset/with-web"}, ["openrouter_preset"]),
        ({"extra_body": {"preset": "with-web"}}, ["preset"]),
        ({"extra_body": {"plugins": [{"id": "web"}]}}, ["plugins"]),
        ({"anthropic_mcp_servers": [{"name": "bank"}]}, ["mcp:bank"]),
        ({"openai_prompt": {"id": "p"}}, ["prompt:p"]),
        ({"voice_preset": "alto", "uncached_contents": 1, "system_prompt": "Be kind."}, []),
        ({"tools": None}, []),
        (None, []),
    ],
)
def test_88_what_a_provider_would_run_is_found_at_any_depth(said: Any, names: list[str]) -> None:
    assert list(hosted_in(said)) == names
