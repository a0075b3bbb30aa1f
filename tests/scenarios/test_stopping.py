"""A stop holds for every process at once, also for one that has made calls and thinks that it knows of no stop."""

from __future__ import annotations

import pytest

from indelible import NothingHappened
from indelible.errors import Stopped
from tests.scenarios.shells import Count, Driver, Shell, charge
from tests.waiting import PATIENCE


@pytest.mark.parametrize("run_id", ["order-1", "order-2"], ids=["known", "new"])
def test_a_stop_by_another_process_holds_for_the_very_next_call(ledger: Driver, shell: Shell, run_id: str) -> None:
    handler, other = Count("ran"), shell.open()
    assert ledger.run(charge(), handler) == "ran"
    other.stop(by="ana", reason="wrong accounts")
    with pytest.raises(Stopped):
        ledger.run(charge(run_id=run_id, args={"amount": 6}), handler)
    assert handler.entries == 1
    other.go(by="ana")
    assert ledger.run(charge(run_id=run_id, args={"amount": 6}), handler) == "ran"
    assert handler.entries == 2


def test_a_stop_by_another_process_holds_for_calls_that_are_made_at_once(ledger: Driver, shell: Shell) -> None:
    handler = Count("ran")
    assert ledger.run(charge(), handler) == "ran"
    shell.open().stop(by="ana", reason="wrong accounts")
    calls = [ledger.spawn("run", charge(args={"amount": number}), handler) for number in range(100, 116)]
    for call in calls:
        with pytest.raises(Stopped):
            call.result(PATIENCE)
    assert handler.entries == 1


def test_a_stop_by_another_process_holds_for_a_call_that_is_made_again(ledger: Driver, shell: Shell) -> None:
    unsent, handler = Count(NothingHappened("no line")), Count("ran")
    with pytest.raises(NothingHappened):
        ledger.run(charge(), unsent)
    shell.open().stop(by="ana", reason="wrong accounts")
    with pytest.raises(Stopped):
        ledger.run(charge(), handler)
    assert handler.entries == 0
    assert [effect.status for effect in ledger.effects()] == ["ready"]
