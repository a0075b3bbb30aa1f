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
    with again.delegate("clerk", "pay order 1", run_id="clerk-2"):  # another child has a name
        till.pay("o2")
    assert till.paid == ["o1", "o2"]


def pay_orders(till: Till, run: Any, first: int, dies: bool = False) -> None:
    """Delegates each order by the same words; the child of the first fails, and the last one may die after it paid."""
    for number in range(first, 2):
        child = run.delegate("clerk", "pay an order", run_id=f"{run.id}-{number}")
        child.__enter__()
        error: BaseException | None = None
        if number == 0:
            error = ValueError("no address")
        else:
            till.pay(f"o{number}")
            error = KeyboardInterrupt() if dies else None
        child.__exit__(None if error is None else type(error), error, None)
        if isinstance(error, KeyboardInterrupt):
            return
        run.checkpoint({"next": number + 1})


def test_29_a_run_that_goes_on_from_its_checkpoint_gets_the_right_one_of_its_children(ledger: Ledger) -> None:
    till = Till(ledger)
    run = ledger.start_run("boss", agent="boss")
    pay_orders(till, run, 0, dies=True)
    run.release()
    again = ledger.resume_run("boss")
    assert again.context is not None
    pay_orders(till, again, again.context.state["next"])
    assert till.paid == ["o1"]


def test_29_a_fork_that_goes_on_from_its_checkpoint_gets_the_right_one_of_its_children(ledger: Ledger) -> None:
    till = Till(ledger)
    ledger.start_run("boss", agent="boss").complete()
    fork = ledger.fork_run("boss", new_id="fork", dry_run=False)
    pay_orders(till, fork, 0, dies=True)
    fork.release()
    again = ledger.resume_run("fork")
    assert again.context is not None
    pay_orders(till, again, again.context.state["next"])
    assert till.paid == ["o1"]


@pytest.mark.parametrize("ends", [True, False])
def test_29_a_second_child_of_the_same_words_needs_a_name(ledger: Ledger, ends: bool) -> None:
    """A number that each process counts anew would give a run that is resumed in the middle another child."""
    run = ledger.start_run("boss", agent="boss")
    child = run.delegate("clerk", "pay an order")
    if ends:
        child.complete()
    with pytest.raises(BadCall):
        run.delegate("clerk", "pay an order")
    assert run.delegate("clerk", "pay an order", run_id="second").id == "second"
    assert run.delegate("clerk", "pay another order").id not in (child.id, "second")
    assert len(ledger.runs()) == 4


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
        assert run.delegate("reader", allowed_tools=["crm.read"]).run.allowed_tools == ("crm.read",)
    assert till.paid == []
