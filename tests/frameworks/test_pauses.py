"""A tool's own questions to people are asked beside the ledger's, and none is answered by another's answer.

Each pass of an agent is a process of its own: what it goes on from is in a file, as after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, migrate
from tests.frameworks.conftest import decide
from tests.integrations.forking import Forks, forking

OURS = "indelible.approval"
YES, NO = {"confirmed": True}, {"confirmed": False}
BLUE = {"confirmed": True, "payload": {"colour": "blue"}}
RED = {"confirmed": True, "payload": {"colour": "red"}}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with forking("tests.frameworks.pausing_acts") as forks:
        yield forks


@pytest.fixture
def asking(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url) as opened:
        yield opened


class Play:
    """Plays the passes of one agent, and tells how each ended."""

    def __init__(self, forks: Forks, framework: str, folder: Path, url: str | None, **words: Any) -> None:
        folder.mkdir(exist_ok=True)
        self._forks = forks
        self._framework = framework
        self._words = {"folder": str(folder), "url": url, **words}
        self.entered: list[str] = []

    def __call__(self, **words: Any) -> Any:
        assert self._forks.play(self._framework, **self._words, **words)
        end = json.loads(Path(self._words["folder"], "end.json").read_text())
        self.entered += end["entered"]
        return end["asked"] or end["given"]


@pytest.mark.parametrize("say", [BLUE, NO])
def test_85_adk_a_tool_asks_after_the_ledger(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path, say: Any
) -> None:
    native = Play(forks, "adk", tmp_path / "native", None)
    play = Play(forks, "adk", tmp_path / "behind", store_url)
    assert play(first=True) == {"c1": OURS}
    decide(asking)
    question = native(first=True)
    assert (play(), play.entered) == (question, []), "what was answered to the ledger is no answer to the tool"
    assert question == {"c1": "which colour, o1?"}
    given = native(say={"c1": say})
    assert (play(say={"c1": say}), play.entered) == (given, native.entered)
    assert given["c1"] == (
        {"status": "charged", "heard": {"colour": "blue"}} if say is BLUE else {"status": "told not to"}
    )
    (effect,) = asking.effects(tool="charge")
    assert effect.status == "succeeded"


SHAPES = ["sub-agent", "single turn", "sequence", "agent in a workflow", "workflow"]


@pytest.mark.parametrize("shape", SHAPES)
def test_85_adk_wherever_the_tool_is(forks: Forks, asking: Ledger, store_url: str, tmp_path: Path, shape: str) -> None:
    native = Play(forks, "adk", tmp_path / "native", None, shape=shape)
    play = Play(forks, "adk", tmp_path / "behind", store_url, shape=shape)
    about = "node" if shape == "workflow" else "c1"
    assert play(first=True) == play() == {about: OURS}
    decide(asking)
    assert play() == native(first=True) == {about: "which colour, o1?"}
    assert play(say={about: BLUE}) == native(say={about: BLUE})
    assert play.entered == native.entered == ["o1"]


def test_85_adk_a_tool_asks_for_credentials_after_the_ledger(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path
) -> None:
    native = Play(forks, "adk", tmp_path / "native", None, asks="credentials")
    play = Play(forks, "adk", tmp_path / "behind", store_url, asks="credentials")
    assert play(first=True) == {"c1": OURS}
    decide(asking)
    assert play() == native(first=True) == {"c1": "credentials"}
    given = native(say={"c1": "key-1"})
    assert play(say={"c1": "key-1"}) == given == {"c1": {"status": "charged", "heard": "key-1"}}
    assert play.entered == native.entered == ["o1"]


@pytest.mark.parametrize("asks", ["framework", "callback"])
@pytest.mark.parametrize("ours", [YES, NO])
def test_85_adk_what_asks_before_the_tool_is_answered_once(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path, asks: str, ours: Any
) -> None:
    native = Play(forks, "adk", tmp_path / "native", None, asks=asks)
    play = Play(forks, "adk", tmp_path / "behind", store_url, asks=asks)
    assert play(first=True) == native(first=True)
    native(say={"c1": YES})
    assert play(say={"c1": YES}) == {"c1": OURS}
    assert play(say={"c1": ours}) == {"c1": OURS}, "a person has to decide at the ledger"
    decide(asking)
    assert play(say={"c1": ours})["c1"]["status"] == "charged", "what is answered to the ledger's pause decides nothing"
    assert play.entered == native.entered == ["o1"]


@pytest.mark.parametrize("asks", ["framework", "callback"])
def test_85_adk_what_a_person_said_no_to_does_not_reach_the_ledger(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path, asks: str
) -> None:
    native = Play(forks, "adk", tmp_path / "native", None, asks=asks)
    play = Play(forks, "adk", tmp_path / "behind", store_url, asks=asks)
    assert play(first=True) == native(first=True)
    assert play(say={"c1": NO}) == native(say={"c1": NO})
    assert (play.entered, asking.effects()) == ([], [])


def test_85_adk_answers_of_calls_beside_each_other_are_not_crossed(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path
) -> None:
    play = Play(forks, "adk", tmp_path / "behind", store_url, calls=2)
    assert play(first=True) == {"c1": OURS, "c2": OURS}
    decide(asking)
    assert play() == {"c1": "which colour, o1?", "c2": "which colour, o2?"}
    given = play(say={"c2": RED, "c1": BLUE})
    assert {call: one["heard"]["colour"] for call, one in given.items()} == {"c1": "blue", "c2": "red"}
    assert sorted(play.entered) == ["o1", "o2"]


def test_85_adk_an_app_that_is_resumed_too_early_is_asked_again(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path
) -> None:
    play = Play(forks, "adk", tmp_path / "behind", store_url)
    assert play(first=True) == play() == play() == {"c1": OURS}
    decide(asking)
    assert play() == {"c1": "which colour, o1?"}
    assert play(say={"c1": BLUE})["c1"]["heard"] == {"colour": "blue"}
    assert play.entered == ["o1"]


@pytest.mark.parametrize("is_inside", [False, True])
def test_85_strands_a_tool_asks_after_the_ledger(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path, is_inside: bool
) -> None:
    native = Play(forks, "strands", tmp_path / "native", None, is_inside=is_inside)
    play = Play(forks, "strands", tmp_path / "behind", store_url, is_inside=is_inside)
    assert play(first=True) == [OURS]
    assert play() == [OURS], "a person has to decide at the ledger"
    decide(asking)
    assert (play(), play.entered) == (native(first=True), [])
    assert play(say={"colour": "blue"}) == native(say={"colour": "blue"}) == ["size"]
    assert play(say={"size": "large"}) == native(say={"size": "large"})
    assert play.entered == native.entered == ["o1"]
    (effect,) = asking.effects(tool="charge")
    assert effect.status == "succeeded"


def test_85_strands_what_asks_before_the_tool_is_answered_once(
    forks: Forks, asking: Ledger, store_url: str, tmp_path: Path
) -> None:
    native = Play(forks, "strands", tmp_path / "native", None, asks="framework")
    play = Play(forks, "strands", tmp_path / "behind", store_url, asks="framework")
    (name,) = native(first=True)
    assert play(first=True) == [name]
    given = native(say={name: True})
    assert (play(say={name: True}), play.entered) == ([OURS], [])
    decide(asking)
    assert play() == given
    assert play.entered == native.entered == ["o1"]
