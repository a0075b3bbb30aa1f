"""The page about coming from zehrava-gate says what is so: its snippets run, in their order, as one program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.places import Place

PAGE = Path(__file__).parents[2] / "docs" / "migrate" / "zehrava.md"


def test_the_snippets_run(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs, intents = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    place = Place(store_url, keys=tmp_path / "keys")
    names: dict[str, Any] = {}

    def run(text: str, *tokens: str) -> None:
        for token in tokens:
            text = text.replace("ind.…", place.tokens[token], 1)
        exec(compile(text.replace("http://localhost:8787", place.served.url), "snippet", "exec"), names)

    try:
        run(runs, "agent")
        assert names["ctx"]["suggestedNextAction"] == "await_approval_then_execute"
        run(intents, "ana")
        assert names["gate"].propose(
            destination="salesforce.import", policy="crm", payload="leads.csv", idempotency_key="batch-001"
        )["status"] == "duplicate_blocked"  # fmt: skip
        names["gate"].close()
        names["boss"].close()
    finally:
        place.close()
