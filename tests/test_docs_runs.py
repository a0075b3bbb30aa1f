"""The page about runs says what is so: its snippets run, in their order, as one program."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "runs.md"


def snippets() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, events, by_hand, checkpoints, resume, turns, compensate, packets = snippets()
    names: dict[str, Any] = {}
    exec(compile(first, "first", "exec"), names)
    ledger = names["ledger"]
    assert ledger.get_run("order-123").status == "completed"
    with ledger.start_run("by-hand", agent="a") as run:
        names |= {"run": run, "payload_hash": "00" * 32, "messages": [], "ask_the_model": lambda request: "yes"}
        for text in (events, by_hand, by_hand, turns):
            exec(compile(text, "snippet", "exec"), names)
        assert names["told"].status == "skipped"
        assert names["answer"] == "yes"

    class Agent:
        def memory(self) -> dict[str, int]:
            return {"n": 1}

    names |= {"agent": Agent()}
    exec(compile(checkpoints, "snippet", "exec"), names)
    ledger.end_run("order-124", "failed", by="ana", reason="for the next snippet")
    text = resume.replace("order-123", "order-124")
    assert text != resume
    exec(compile(text, "snippet", "exec"), names)
    assert ledger.get_run("order-124").status == "completed"
    refunds: list[str] = []
    names["stripe"] = type("Stripe", (), {"refund": staticmethod(refunds.append)})
    exec(compile(compensate.replace("...", 'return {"id": "ch_1"}'), "snippet", "exec"), names)
    with ledger.in_run("to-undo"):
        names["charge"]("1", 5)
    assert [done.value for done in ledger.compensate("to-undo")] == [None]
    assert refunds == ["ch_1"]
    assert "import_packet" in packets
    ledger.start_run("to-go", agent="a").release()
    with type(ledger).open(":memory:") as other:
        ledger.export_packet("to-go", "run.packet", to=other.journal_name)
        assert other.import_packet("run.packet", trust=True).id == "to-go"
    ledger.close()
