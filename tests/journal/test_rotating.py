"""Rotating the keys of a real ledger: agents go on, every head is well signed, and a kill at any moment heals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, RunningEffect, ToolCall, migrate
from indelible.errors import KeyUnusable
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.keys.holders import MemoryRing
from indelible.journal.keys.ring import KeyRing
from indelible.journal.sealing import Sealer
from tests.journal.dying import check_journal, each_moment_kills
from tests.journal.exported import key_of, store_of


class Agent(threading.Thread):
    """Works and seals until it is told to stop."""

    def __init__(self, ledger: Ledger, name: str) -> None:
        super().__init__(name=name)
        self.error: BaseException | None = None
        self.stop = threading.Event()
        self.rounds = threading.Semaphore(0)
        self._ledger = ledger

    def run(self) -> None:
        number = 0
        try:
            while not self.stop.is_set():
                number += 1
                self._ledger.run(ToolCall(tool="t", args={"n": number}, run_id=self.name), self._act)
                self._ledger.seal()
                self.rounds.release()
        except BaseException as error:
            self.error = error
            self.rounds.release()

    def _act(self, effect: RunningEffect) -> None:
        pass


def test_agents_go_on_while_keys_are_rotated(store_url: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    migrate(store_url, keys=keys)
    ledgers = [Ledger.open(store_url, tenant=tenant, keys=keys) for tenant in ("default", "default", "acme")]
    agents = [Agent(ledger, f"agent-{number}") for number, ledger in enumerate(ledgers)]
    try:
        for ledger in ledgers:
            ledger.run(ToolCall(tool="t", args={}, run_id="first"), lambda effect: 1)
            ledger.seal()
        first = ledgers[0]._engine.notary.signer().keys("a/b")[0].raw
        for agent in agents:
            agent.start()
        for _ in range(3):
            ledgers[0].rotate_keys()
            for agent in agents:
                agent.rounds.acquire()
    finally:
        for agent in agents:
            agent.stop.set()
        for agent in agents:
            if agent.ident is not None:
                agent.join()
        found = [check_journal(ledger, first) for ledger in ledgers if ledger.seal()]
        for ledger in ledgers:
            ledger.close()
    assert [agent.error for agent in agents] == [None] * 3
    assert found == [3, 3, 3]


@pytest.mark.timeout(300)
def test_a_ledger_killed_at_any_moment_of_a_rotation_goes_on_with_it(tmp_path: Path) -> None:
    assert each_moment_kills("rotate_ledger", tmp_path) > 12


@pytest.mark.parametrize("kind", ["file", "memory"])
@pytest.mark.parametrize("step", ["begin_rotation", "record", "seal", "finish_rotation"])
def test_24_of_two_rotations_at_once_one_is_refused(
    kind: str, step: str, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one comes at each step of the first one, and would rotate twice."""
    place: dict[str, Any] = {"keys": tmp_path / "keys", "seal": False}
    url = store_url if kind == "file" else ":memory:"
    migrate(store_url, keys=place["keys"])
    with Ledger.open(url, **place) as ledger, Ledger.open(store_url, **place) as second:
        late = second if kind == "file" else ledger
        refused: list[str] = []

        def come() -> None:
            for _ in range(2):
                try:
                    late.rotate_keys()
                except KeyUnusable as problem:
                    refused.append(str(problem))

        ledger.run(ToolCall(tool="t", args={}, run_id="first"), lambda effect: 1)
        ledger.seal()
        key = key_of(ledger)
        owner: Any = Sealer if step in ("record", "seal") else KeyRing if kind == "file" else MemoryRing
        monkeypatch.setattr(owner, step, _once_before(getattr(owner, step), come))
        ledger.rotate_keys()
        monkeypatch.undo()
        assert len(refused) == 2
        ledger.rotate_keys()  # the next one is let in
        told = [event.type for event in ledger.events("indelible:journal")]
        assert told.count("key_rotated") == 2
        report = verify(LiveEvidence(store_of(ledger), "default"), [key])
        assert report.verdict == "verified", report.why


def _once_before(method: Callable[..., Any], act: Callable[[], None]) -> Callable[..., Any]:
    """Return a method before whose first call somebody else acts."""
    waiting = [act]

    def called(*args: Any, **words: Any) -> Any:
        if waiting:
            waiting.pop()()
        return method(*args, **words)

    return called
