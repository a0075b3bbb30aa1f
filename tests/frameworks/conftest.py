"""Fixtures for the tests of heavy frameworks: a ledger, and no word to anybody outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.integrations.ways import Way

# CrewAI reports to its makers unless it is told not to before it is imported.
os.environ.update(CREWAI_DISABLE_TELEMETRY="true", CREWAI_TRACING_ENABLED="false", OTEL_SDK_DISABLED="true")


def pytest_configure(config: pytest.Config) -> None:
    """Leaves to the frameworks what they warn themselves of; what is left open stays an error."""
    for kind in ("DeprecationWarning", "FutureWarning", "ImportWarning", "UserWarning"):
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    """A ledger in a folder of its own, where the test is at home, too."""
    monkeypatch.chdir(tmp_path)
    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


def decide(ledger: Ledger, *, yes: bool = True) -> None:
    """Decides everything that waits for a person."""
    for approval in ledger.approvals(status="pending"):
        if yes:
            ledger.approve(approval, digest=approval.digest, by="ana")
        else:
            ledger.deny(approval, by="ana", reason="not today")


def told_of(ledger: Ledger, kind: str, run: str = "order-123") -> list[Any]:
    """Gives what the events of one kind say in a run, by default that of the tests."""
    told: list[Any] = []

    def look(event: Any) -> None:
        if event.type == kind:
            told.append(event.payload)

    ledger.run_story(run, each=look)
    return told


OTHERS = ["strands-agents", "google-adk", "mcp", "langgraph", "openai-agents", "pydantic-ai-slim"]
"""The packages that strict mode cannot hold, or that are not tried here."""


def table_of(page: Path) -> list[str]:
    """Return the rows of a page's table of all ways in which code runs."""
    _, _, rest = page.read_text().partition("| how code runs | the ledger |\n|---|---|\n")
    return rest.partition("\n\n")[0].splitlines()


def row_of(way: Way) -> str:
    """Return what the page of its framework says of a way."""
    return f"| {way.name} | {'guarded' if way.is_guarded else 'named, and refused in strict mode'} |"
