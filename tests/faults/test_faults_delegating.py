"""A run that delegates: resumed, it gets its child back; forked, its child is dry; limited, so is its child."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger
from indelible.errors import BadCall, PolicyRefused, RunRefused
from tests.scenarios.shells import prepare_store


@pytest.fixture
def ledger(store_url: str, tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(prepare_store(store_url), keys=tmp_path / "keys", seal=False) as opened:
        yield opened


class Till:
    """Pays in a run that another one delegates to."""

    def __init__(self, ledger: Ledger) -> None:
        self.paid: list[str] = []

        @ledger.tool("pay", side_effect="payment")
        def pay(order: str) -> str:
            self.paid.append(order)
            return order

        self.pay = pay

    def work(self, run: Any, dies: str = "", **words: Any) -> None:
        child = run.delegate("clerk", "pay order 1", **words)
        if dies == "inside":
            child.__enter__()
            self.pay("o1")
            child.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
            return
        with child:
            self.pay("o1")
        if dies != "after":
            run.finish_delegation(child, "paid")


@pytest.mark.parametrize("dies", ["inside", "after"])
@pytest.mark.parametrize("words", [{}, {"run_id": "clerk-1"}])
def test_29_a_resumed_run_gets_the_child_back_that_it_delegated_to(
    ledger: Ledger, dies: str, words: dict[str, str]
) -> None:
    till = Till(ledger)
    run = ledger.start_run("boss", agent="boss")
    till.work(run, dies, **words)
    run.release()
    till.work(ledger.resume_run("boss"), **words)
    assert till.paid == ["o1"]
    assert [run.parent for run in ledger.runs() if run.id != "boss"] == ["boss"]
    assert ledger.verify_run("boss").is_valid


def test_29_in_a_child_that_has_ended_nothing_new_is_done(ledger: Ledger) -> None:
    till = Till(ledger)
    run = ledger.start_run("boss", agent="boss")
    till.work(run, "after")
    run.release()
    again = ledger.resume_run("boss")
    child = again.delegate("clerk", "pay order 1")
    with child, pytest.raises(RunRefused):
        till.pay("o2")
    assert till.paid == ["o1"]
    with again.delegate("clerk", "pay order 1"):  # the second time it means another child
        till.pay("o2")
    assert till.paid == ["o1", "o2"]


@pytest.mark.parametrize("words", [{}, {"run_id": "clerk-1"}])
def test_29_what_a_fork_delegates_is_as_dry_as_the_fork(ledger: Ledger, words: dict[str, str]) -> None:
    till = Till(ledger)
    with ledger.start_run("boss", agent="boss") as run:
        till.work(run, **words)
    with ledger.fork_run("boss") as fork:
        till.work(fork, **words)  # all of it replays
        with fork.delegate("clerk", "pay order 2"), pytest.raises(PolicyRefused):
            till.pay("o2")
    assert till.paid == ["o1"]


def test_29_a_limited_run_gives_its_child_no_more_than_it_has(ledger: Ledger) -> None:
    till = Till(ledger)
    with ledger.start_run("boss", agent="boss", allowed_tools=["crm.*"]) as run:
        with run.delegate("clerk"), pytest.raises(PolicyRefused):
            till.pay("o1")
        with pytest.raises(BadCall):
            run.delegate("clerk", allowed_tools=["crm.read", "pay"])
        assert run.delegate("clerk", allowed_tools=["crm.read"]).run.allowed_tools == ("crm.read",)
    assert till.paid == []
