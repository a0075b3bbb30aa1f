"""Pydantic AI on the ledger as its durable engine: killed anywhere and run again, it repeats nothing.

All the lines at which a process can be killed: INDELIBLE_DURABILITY_KILLS=all
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, Succeeded, migrate
from tests.integrations.forking import ROOT, Forks, forking
from tests.integrations.outside import ORDERS, Outside

KILLS = os.environ.get("INDELIBLE_DURABILITY_KILLS", "3")


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking("tests.integrations.durable_acts") as host:
        yield host


@pytest.fixture
def url(store_url: str) -> str:
    migrate(store_url)
    return store_url


class Stage:
    """Plays one run of the agent, in as many processes as it takes, and knows what was done outside."""

    def __init__(self, forks: Forks, url: str, folder: Path) -> None:
        folder.mkdir()
        self._forks, self._url, self._folder = forks, url, folder
        self.outside = Outside(str(folder))

    def play(self, act: str = "durable", kill_at: int | None = None, **words: Any) -> dict[str, Any] | None:
        """Plays the agent's process; gives how it ended, or None when it was killed."""
        words = {"url": self._url, "folder": str(self._folder), "run_id": self._folder.name, **words}
        if not self._forks.play(act, kill_at, **words):
            return None
        told: dict[str, Any] = json.loads((self._folder / "end.json").read_text())
        return told

    def play_to_the_end(self, act: str = "durable") -> None:
        """Runs the agent again until it is done, and lets a person settle what is in doubt."""
        for _ in range(3):
            told = self.play(act)
            assert told is not None
            if told["said"] == "done":
                return
            assert told["said"]["type"] == "indelible.in_doubt"
            self._settle_by_what_happened()
        raise AssertionError("it came to no end")

    def _settle_by_what_happened(self) -> None:
        with Ledger.open(self._url, seal=False) as ledger:
            (effect,) = ledger.effects(status="in_doubt", run_id=self._folder.name)
            done = ledger.effects(status="succeeded", run_id=self._folder.name, tool="charge")
            if self.charges() > len(done):
                ledger.settle(effect, Succeeded("charged"), by="ana", evidence="the bank's list")
            else:
                ledger.retry(effect, by="ana")

    def charges(self) -> int:
        return self.outside.count("charged")

    def check_charges(self) -> None:
        """Raises unless each charge was made as often as it is due."""
        for order, amount in set(ORDERS):
            assert self.outside.count(f"charged {order} {amount} EUR") == ORDERS.count((order, amount))

    def check(self) -> None:
        """Raises unless each turn was asked for once too, but for one that had no answer yet."""
        self.check_charges()
        asked = [self.outside.count(f"asked {turn}") for turn in range(len(ORDERS) + 1)]
        assert min(asked) == 1
        assert sum(asked) <= len(asked) + 1, asked


def test_killed_anywhere_and_run_again_nothing_is_repeated(forks: Forks, url: str, tmp_path: Path) -> None:
    whole = Stage(forks, url, tmp_path / "whole")
    told = whole.play(kill_at=0)
    assert told is not None
    assert told["said"] == "done"
    whole.check()
    lines = told["lines"]
    step = 1 if KILLS == "all" else lines // int(KILLS)
    # Each store begins elsewhere, so that together they are killed at twice as many lines.
    for kill_at in range(max(1, step // 2) if url.startswith("sqlite") else step, lines, step):
        stage = Stage(forks, url, tmp_path / f"killed-at-{kill_at}")
        assert stage.play(kill_at=kill_at) is None
        stage.play_to_the_end()
        stage.check()


@pytest.mark.parametrize(
    ("first", "second", "dies"),
    [
        ("in_langgraph", "in_pydantic_ai", {"dies_at_turn": 2}),
        ("in_pydantic_ai", "in_langgraph", {"dies_after": 2}),
    ],
)
def test_begun_in_one_framework_and_gone_on_with_in_another_nothing_is_repeated(
    forks: Forks, url: str, tmp_path: Path, first: str, second: str, dies: dict[str, int]
) -> None:
    """Two charges are made, one framework is killed, and the other one makes the third, which says what the first says.

    It is killed when its model is asked for the third turn, or in the tool, right after the second charge.
    """
    stage = Stage(forks, url, tmp_path / "order-1")
    assert stage.play(first, **dies) is None
    assert stage.charges() == 2
    stage.play_to_the_end(second)
    stage.check_charges()
    stage.play_to_the_end(first)
    stage.check_charges()


def test_a_framework_that_shows_no_conversation_goes_on_by_arguments_alone(
    forks: Forks, url: str, tmp_path: Path
) -> None:
    stage = Stage(forks, url, tmp_path / "order-1")
    assert stage.play("in_langgraph", dies_at_turn=2) is None
    told = stage.play("in_openai_agents", orders=2)
    assert told is not None
    assert told["said"] == "done"
    assert stage.charges() == 2


@pytest.mark.parametrize("act", ["durable", "kept"])
def test_asked_in_one_process_decided_in_the_terminal_and_done_by_another(
    forks: Forks, url: str, tmp_path: Path, act: str
) -> None:
    stage = Stage(forks, url, tmp_path / "order-1")
    asks = {"orders": 1, "approval": "required"}
    told = stage.play(act, **asks)
    assert act == "durable" or told is None, "the one that keeps its state is killed when it has"
    (waiting,) = json.loads(indelible(url, "approvals", "list", "--json"))["approvals"]
    indelible(url, "approvals", "approve", waiting["id"], "--digest", waiting["digest"], "--by", "ana")
    for _ in range(2):
        told = stage.play(act, **asks)
        assert told is not None
        assert told["said"] == "done"
        assert stage.charges() == 1


def indelible(url: str, *words: str) -> str:
    command = [sys.executable, "-m", "indelible.cli", *words, "--url", url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout


def test_the_page_on_changing_frameworks_runs(forks: Forks, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "integrations" / "changing-frameworks.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert forks.play("page", folder=str(tmp_path), program=program)
