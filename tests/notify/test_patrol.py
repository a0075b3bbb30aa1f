"""A patrol goes on its round at once when called, else ever more seldom, and nothing that goes wrong ends it."""

from __future__ import annotations

import threading
import time

import pytest

from indelible.errors import StoreUnavailable
from indelible.notify import patrol as patrols
from indelible.notify.patrol import Patrol, where
from tests.waiting import PATIENCE, eventually


def ended(patrol: Patrol) -> bool:
    patrol.close()
    return patrol.join(time.monotonic() + PATIENCE)


def test_it_goes_at_once_when_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patrols, "SHORTEST_PAUSE", 3600.0)
    rounds = threading.Semaphore(0)
    patrol = Patrol("p", lambda: rounds.release() is not None)
    patrol.start()
    assert rounds.acquire(timeout=PATIENCE)
    patrol.call()
    assert rounds.acquire(timeout=PATIENCE)
    assert ended(patrol)


def test_it_goes_on_while_there_is_something_and_pauses_longer_and_longer_when_there_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [3]
    pauses: list[float] = []
    patrol = Patrol("p", lambda: left.append(left.pop() - 1) or left[0] >= 0)  # type: ignore[func-returns-value]

    def note(seconds: float) -> bool:
        pauses.append(seconds)
        if len(pauses) == 6:
            patrol.close()
        return len(pauses) == 4  # somebody calls

    monkeypatch.setattr(patrol, "_wait", note)
    patrol.start()
    assert patrol.join(time.monotonic() + PATIENCE)
    assert left == [-6]
    assert pauses == [1.0, 2.0, 4.0, 5.0, 1.0, 2.0]


def test_nothing_that_goes_wrong_ends_it(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patrols, "SHORTEST_PAUSE", 0.001)
    problems: list[Exception] = [StoreUnavailable("away"), StoreUnavailable("away"), ValueError("hidden")]
    well = threading.Event()

    def go() -> bool:
        if problems:
            raise problems.pop(0)
        well.set()
        return False

    patrol = Patrol("p", go)
    patrol.start()
    assert well.wait(PATIENCE)
    eventually(lambda: "well again" in caplog.text)
    assert ended(patrol)
    assert caplog.text.count("StoreUnavailable: away") == 1  # said once
    assert "ValueError in" in caplog.text
    assert "hidden" not in caplog.text


def test_it_makes_one_more_round_if_it_was_called_before_it_was_closed() -> None:
    rounds: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def go() -> bool:
        rounds.append(1)
        first.set()
        go_on.wait(PATIENCE)
        return False

    patrol = Patrol("p", go)
    patrol.start()
    assert first.wait(PATIENCE)
    patrol.call()
    patrol.close()
    go_on.set()
    assert patrol.join(time.monotonic() + PATIENCE)
    assert len(rounds) == 2


def test_a_pause_ends_when_it_is_closed() -> None:
    patrol = Patrol("p", lambda: False)
    assert patrol.pause(0.001)
    patrol.close()
    assert not patrol.pause(3600)
    assert patrol.join(0)
    patrol.start()
    assert patrol.join(0)  # it does not begin any more


def test_where_names_the_line_and_no_value() -> None:
    assert where(ValueError("hidden")) == "(nowhere)"
