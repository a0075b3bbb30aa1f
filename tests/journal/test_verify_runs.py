"""A ledger whose own rules of runs were broken signs what it wrote, and is caught all the same, at the very entry."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import indelible
from indelible import Ledger
from indelible.core.runs import driving
from indelible.core.runs.run import Run
from indelible.errors import RunOver
from tests.journal.exported import key_of

Patch = pytest.MonkeyPatch


def never_over(patch: Patch) -> None:
    patch.setattr(driving, "OVER", frozenset())


def one_number_for_all(patch: Patch) -> None:
    seat = driving._seat
    patch.setattr(driving, "_seat", lambda *words: replace(seat(*words), fence=1))


def saved_ahead(patch: Patch) -> None:
    sealed = driving._sealed
    patch.setattr(driving, "_sealed", lambda run_id, new, at, seq: sealed(run_id, replace(new, at=seq + 1), at, seq))


def allowed_more(patch: Patch) -> None:
    moved = Run.moved
    patch.setattr(Run, "moved", lambda run, *words: replace(moved(run, *words), allowed_tools=("*",)))


def told_after_the_end(ledger: Ledger) -> None:
    ledger.start_run("job", agent="x").complete()
    ledger.record("job", "plan_locked", {"goal": "more"})


def resumed_after_the_end(ledger: Ledger) -> None:
    ledger.start_run("job", agent="x").complete()
    ledger.resume_run("job").release()


def resumed(ledger: Ledger) -> None:
    ledger.start_run("job", agent="x", allowed_tools=["note"]).hand_off("bo")
    ledger.resume_run("job").release()


def saved(ledger: Ledger) -> None:
    ledger.start_run("job", agent="x").checkpoint({"n": 1})


@pytest.mark.parametrize(
    ("break_rule", "work", "why", "seq"),
    [
        (never_over, told_after_the_end, "something is told of a run that is completed", 2),
        (never_over, resumed_after_the_end, "no run_resumed follows in a run that is completed", 2),
        (one_number_for_all, resumed, "its driver's number is not higher than those before", 3),
        (saved_ahead, saved, "its checkpoint is of no earlier event", 1),
        (allowed_more, resumed, "its run is another one than before", 2),
    ],
)
def test_a_rule_of_runs_that_was_broken_is_named_at_its_entry(
    sqlite_url: str,
    tmp_path: Path,
    monkeypatch: Patch,
    break_rule: Callable[[Patch], None],
    work: Callable[[Ledger], Any],
    why: str,
    seq: int,
) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        with suppress(RunOver):  # by rules that hold
            work(ledger)
        ledger.export(tmp_path / "sound")
        assert indelible.verify(tmp_path / "sound", key=key_of(ledger)).verdict == "verified"
    broken = f"{sqlite_url}.broken"
    break_rule(monkeypatch)
    monkeypatch.setenv("INDELIBLE_WRITER_KEYS", "none")  # with writer keys the seal itself holds back some of it
    with Ledger.open(broken, seal=False) as ledger:
        work(ledger)
        ledger.export(tmp_path / "broken")
        report = indelible.verify(tmp_path / "broken", key=key_of(ledger))
    assert report.verdict == "tampered"
    assert report.flaw is not None
    assert (why in report.why, report.flaw.run, report.flaw.seq) == (True, "job", seq), report.why
    assert report.flaw.index is not None
