"""A tool's own questions to people are asked after the ledger's, and none is answered by another's answer.

Each pass of an agent is a process of its own: what it goes on from is in a file, as after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Approval, Ledger, migrate
from tests.integrations.forking import Forks, forking


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking("tests.integrations.pausing_acts") as forks:
        yield forks


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


class Play:
    """Plays the passes of one agent, and tells how each ended."""

    def __init__(self, forks: Forks, framework: str, url: str, folder: Path) -> None:
        self._forks = forks
        self._framework = framework
        self._words = {"url": url, "folder": str(folder)}
        self.entered = 0

    def __call__(self, **words: Any) -> Any:
        assert self._forks.play(self._framework, **self._words, **words)
        end = json.loads(Path(self._words["folder"], "end.json").read_text())
        self.entered += end["entered"]
        return end


def approve(ledger: Ledger) -> Approval:
    (approval,) = ledger.approvals(status="pending")
    return ledger.approve(approval, digest=approval.digest, by="ana")


def kind(end: Any) -> str | None:
    """Tells what an agent stands at: the type of our question, or that of the tool's."""
    (question,) = end["asked"]
    return question.get("type", "the tool's") if isinstance(question, dict) else str(question)


def test_85_langgraph_over_restarts(forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path) -> None:
    play = Play(forks, "langgraph", store_url, tmp_path)
    assert kind(play(first=True)) == "indelible.approval"
    assert kind(play(resume="go on")) == "indelible.approval"
    approve(ledger)
    assert kind(play()) == "which colour?"
    assert kind(play()) == "which colour?", "the old answer is no answer"
    assert kind(play(resume="blue")) == "which size?"
    end = play(resume="large")
    assert (end["asked"], end["said"]) == ([], ["blue large"])
    (effect,) = ledger.effects(tool="charge")
    assert effect.status == "succeeded"


def test_85_pydantic_ai_over_restarts(forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path) -> None:
    play = Play(forks, "pydantic", store_url, tmp_path)
    assert kind(play(first=True)) == "indelible.approval"
    assert kind(play(approve=True)) == "indelible.approval", "saying approved approves nothing"
    approve(ledger)
    assert (kind(play(approve=True)), play.entered) == ("the tool's", 0), "it has not been answered"
    end = play(approve=True)
    assert (end["asked"], end["said"], play.entered) == ([], "done", 1)
    (effect,) = ledger.effects(tool="charge")
    assert effect.status == "succeeded"


def test_85_openai_agents_over_restarts(forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path) -> None:
    play = Play(forks, "openai", store_url, tmp_path)
    assert play(first=True)["asked"] == ["c1"]
    assert play()["asked"] == ["c1"], "nobody has decided"
    approve(ledger)
    assert (play()["asked"], play.entered) == (["c1"], 0), "now the tool's own question is asked"
    assert (play()["asked"], play.entered) == (["c1"], 0), "and stays so until it is answered"
    end = play(approve=["c1"])
    assert (end["asked"], end["said"], play.entered) == ([], "done", 1)
    (effect,) = ledger.effects(tool="charge")
    assert effect.status == "succeeded"


def test_85_openai_agents_an_answer_to_ours_does_not_let_the_tool_run(
    forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path
) -> None:
    play = Play(forks, "openai", store_url, tmp_path)
    assert play(first=True)["asked"] == ["c1"]
    approve(ledger)
    end = play(approve=["c1"], unseen=True)
    assert (end["asked"], play.entered) == ([], 0), "the person who said yes was not shown the tool's question"


YES: dict[str, Any] = {"pydantic": {"approve": True}, "openai": {"approve": ["c1"]}}


@pytest.mark.parametrize("framework", YES)
def test_02_a_yes_to_our_question_is_none_to_the_tools_however_often_the_resume_is_repeated(
    forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path, framework: str
) -> None:
    play, yes = Play(forks, framework, store_url, tmp_path), YES[framework]
    play(first=True)
    approve(ledger)
    for _ in range(3):  # each process dies before anybody is shown what the tool asks
        assert (len(play(**yes, lost=True)["asked"]), play.entered) == (1, 0)
    assert (len(play(**yes)["asked"]), play.entered) == (1, 0)
    assert (play(**yes)["said"], play.entered) == ("done", 1)


def test_03_openai_agents_a_question_of_the_tools_that_a_killed_process_came_to_is_not_asked_yet(
    forks: Forks, ledger: Ledger, store_url: str, tmp_path: Path
) -> None:
    play = Play(forks, "openai", store_url, tmp_path)
    play(first=True)
    approve(ledger)
    assert play(lost=True)["asked"] == ["c1"]
    end = play(approve=["c1"], unseen=True)
    assert (end["asked"], play.entered) == ([], 0)
