"""Whoever asks for a call that somebody else is executing waits for the winner's result, or says that it does not."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import Claimed, Failed, InFlight, Ledger, NothingHappened, Refused, Succeeded
from indelible.engine import waiting
from indelible.errors import ApprovalPending, EffectDenied, EffectFailed, EffectInDoubt, StillRunning, StoreUnavailable
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, approve, charge, somebody_waits
from tests.waiting import PATIENCE, eventually


def test_a_caller_beside_the_winner_gets_its_result(ledger: Driver) -> None:
    gate, second = Gate({"id": 1}), Count()
    winner = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    waiter = ledger.spawn("run", charge(), second)
    somebody_waits(ledger)
    gate.open()
    assert winner.result(PATIENCE) == waiter.result(PATIENCE) == {"id": 1}
    assert (gate.entries, second.entries) == (1, 0)


def test_a_caller_of_another_ledger_gets_the_winners_result(ledger: Driver, shell: Shell) -> None:
    gate, other = Gate([1]), shell.open()
    winner = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    waiter = other.spawn("run", charge(), Count())
    somebody_waits(other)
    gate.open()
    assert winner.result(PATIENCE) == waiter.result(PATIENCE) == [1]


def win_elsewhere(line: Connection, url: str, tenant: str, outcome: str) -> None:
    """Runs in another process: claims the call, says so, settles it when it is told to, and ends when it is told to.

    A ledger that closes may tell what it had kept to itself, so the caller has to be woken before.
    """
    with Ledger.open(url, tenant=tenant) as ledger:
        answer = ledger.begin(charge())
        assert isinstance(answer, Claimed)
        line.send("claimed")
        line.recv()
        ledger.commit(answer.claim, Succeeded(outcome))
        line.recv()


def test_a_caller_gets_the_result_of_a_winner_in_another_process(ledger: Driver) -> None:
    with Child(win_elsewhere, ledger.url, ledger.tenant, "from afar") as winner:
        assert winner.hear() == "claimed"
        waiter = ledger.spawn("run", charge(), Count())
        somebody_waits(ledger)
        winner.tell("go on")
        assert waiter.result(PATIENCE) == "from afar"
        winner.tell("end")
        winner.result()


def test_a_winner_in_another_process_wakes_a_caller_that_never_looks_by_itself(
    ledger: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_AT_LEAST_EVERY", "LOOK_EVERY_CHEAPLY", "LOOK_EVERY_REMOTELY"):
        monkeypatch.setattr(waiting, name, timedelta(hours=1))
    with Child(win_elsewhere, ledger.url, ledger.tenant, "from afar") as winner:
        assert winner.hear() == "claimed"
        waiter = ledger.spawn("run", charge(), Count(), wait=PATIENCE * 2)
        somebody_waits(ledger)
        eventually(lambda: not ledger.engine.waiting._unseen)
        winner.tell("go on")
        assert waiter.result(PATIENCE) == "from afar"
        winner.tell("end")
        winner.result()


def test_a_caller_of_the_same_ledger_is_told_without_asking_the_store(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    waiter = ledger.spawn("run", charge(), Count())
    somebody_waits(ledger)
    store = ledger.engine.store

    def refuse(refs: Any) -> Any:
        raise StoreUnavailable("nobody needs to ask")

    store.watch = store.look = refuse
    ledger.commit(claim, Succeeded("told"))
    assert waiter.result(PATIENCE) == "told"


def test_a_move_between_the_answer_and_the_waiting_is_not_missed(
    ledger: Driver, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the safety net of looking at times, which would find it a second later."""
    monkeypatch.setattr(waiting, "LOOK_AT_LEAST_EVERY", timedelta(hours=1))
    elsewhere = shell.open(wakeups=False)
    claim = elsewhere.begin(charge()).claim
    add = ledger.engine.waiting.add

    def add_too_late(effect: Any, waker: Any) -> None:
        elsewhere.commit(claim, Succeeded("quick"))
        add(effect, waker)

    monkeypatch.setattr(ledger.engine.waiting, "add", add_too_late)
    assert ledger.spawn("run", charge(), Count()).result(PATIENCE) == "quick"


def test_many_callers_get_the_one_result(ledger: Driver) -> None:
    gate = Gate("one")
    first = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    rest = [ledger.spawn("run", charge(), Count("another")) for _ in range(30)]
    somebody_waits(ledger, 30)
    gate.open()
    assert {call.result(PATIENCE) for call in [first, *rest]} == {"one"}


def test_a_waiting_caller_is_told_that_the_winner_failed(ledger: Driver) -> None:
    gate = Gate(Refused("declined"))
    winner = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    waiter = ledger.spawn("run", charge(), Count())
    somebody_waits(ledger)
    gate.open()
    with pytest.raises(Refused, match="declined"):
        winner.result(PATIENCE)
    with pytest.raises(EffectFailed, match="declined"):
        waiter.result(PATIENCE)


def test_a_waiting_caller_takes_over_when_nothing_happened(ledger: Driver) -> None:
    gate, second = Gate(NothingHappened("closed")), Count("second")
    winner = ledger.spawn("run", charge(), gate)
    gate.await_entry()
    waiter = ledger.spawn("run", charge(), second)
    somebody_waits(ledger)
    gate.open()
    with pytest.raises(NothingHappened):
        winner.result(PATIENCE)
    assert waiter.result(PATIENCE) == "second"
    assert second.entries == 1
    assert ledger.effects()[0].attempt == 2


def test_a_waiting_caller_is_told_when_the_winners_lease_runs_out(ledger: Driver, clock: FakeClock) -> None:
    assert isinstance(ledger.begin(charge()), Claimed)
    waiter = ledger.spawn("run", charge(), Count())
    somebody_waits(ledger)
    clock.advance(LEASE)
    with pytest.raises(EffectInDoubt):
        waiter.result(PATIENCE)


def test_a_waiting_caller_takes_over_an_abandoned_call_that_may_be_repeated(ledger: Driver, clock: FakeClock) -> None:
    assert isinstance(ledger.begin(charge(), on_crash="retry"), Claimed)
    waiter = ledger.spawn("run", charge(), Count("again"), on_crash="retry")
    somebody_waits(ledger)
    clock.advance(LEASE)
    assert waiter.result(PATIENCE) == "again"


def test_a_caller_that_does_not_wait_is_told_at_once(ledger: Driver) -> None:
    claim = ledger.begin(charge()).claim
    handler = Count()
    for no_wait in (False, 0, timedelta(0)):
        with pytest.raises(StillRunning) as refusal:
            ledger.run(charge(), handler, wait=no_wait)
        assert refusal.value.effect.id == claim.effect.id
    assert handler.entries == 0


def test_a_caller_whose_wait_is_over_is_told_and_leaves_nothing_behind(ledger: Driver) -> None:
    assert isinstance(ledger.begin(charge()), Claimed)
    with pytest.raises(StillRunning):
        ledger.run(charge(), Count(), wait=0.05)
    assert ledger.engine.waiting._wakers == {}
    assert isinstance(ledger.begin(charge()), InFlight)


def test_the_wait_of_the_ledger_holds_unless_the_call_says_otherwise(shell: Shell) -> None:
    ledger = shell.open(wait=False)
    claim = ledger.begin(charge()).claim
    with pytest.raises(StillRunning):
        ledger.run(charge(), Count())
    waiter = ledger.spawn("run", charge(), Count(), wait=PATIENCE)
    somebody_waits(ledger)
    ledger.commit(claim, Succeeded("end"))
    assert waiter.result(PATIENCE) == "end"


def test_a_caller_waits_for_a_person_and_then_runs(ledger: Driver) -> None:
    handler = Count("approved")
    waiter = ledger.spawn("run", charge(), handler, approval="required")
    somebody_waits(ledger)
    effect = ledger.effects()[0]
    assert (effect.status, handler.entries) == ("requires_approval", 0)
    approve(ledger, ledger.approvals()[0])
    assert waiter.result(PATIENCE) == "approved"
    assert handler.entries == 1


def test_a_caller_waits_for_a_person_who_says_no(ledger: Driver) -> None:
    handler = Count()
    waiter = ledger.spawn("run", charge(), handler, approval="required")
    somebody_waits(ledger)
    ledger.deny(ledger.approvals()[0].id, by="ada", reason="not today")
    with pytest.raises(EffectDenied, match="not today"):
        waiter.result(PATIENCE)
    assert handler.entries == 0


def test_a_caller_that_does_not_wait_for_a_person_is_told_whom_to_ask(ledger: Driver) -> None:
    with pytest.raises(ApprovalPending) as refusal:
        ledger.run(charge(), Count(), approval="required", wait=False)
    assert f"indelible approvals show {refusal.value.approval.id}" in str(refusal.value)
    assert refusal.value.effect.status == "requires_approval"


def test_one_of_many_waiting_callers_runs_what_was_approved(ledger: Driver) -> None:
    handler = Count("one")
    waiters = [ledger.spawn("run", charge(), handler, approval="required") for _ in range(8)]
    somebody_waits(ledger, 8)
    approve(ledger, ledger.approvals()[0])
    assert {waiter.result(PATIENCE) for waiter in waiters} == {"one"}
    assert handler.entries == 1


def test_waiting_needs_no_wake_ups(shell: Shell) -> None:
    winner, loser = shell.open(wakeups=False), shell.open(wakeups=False)
    claim = winner.begin(charge()).claim
    waiter = loser.spawn("run", charge(), Count())
    somebody_waits(loser)
    winner.commit(claim, Failed("no", "E"))
    with pytest.raises(EffectFailed):
        waiter.result(PATIENCE)


def test_a_waiting_caller_of_a_process_with_very_many_open_files_is_woken(ledger: Driver, shell: Shell) -> None:
    """The classic select() cannot watch a descriptor above 1023; a busy server has many of those."""
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        other = shell.open()
        claim = ledger.begin(charge()).claim
        waiter = other.spawn("run", charge(), Count())
        somebody_waits(other)
        ledger.commit(claim, Succeeded("woken"))
        assert waiter.result(PATIENCE) == "woken"
        names = {thread.name for thread in threading.enumerate()}
        assert "indelible-waiting" in names
    finally:
        for number in held:
            os.close(number)


def test_a_caller_that_stops_waiting_is_forgotten(ledger: Driver) -> None:
    assert isinstance(ledger.begin(charge()), Claimed)
    waiters = [ledger.spawn("run", charge(), Count(), wait=0.05) for _ in range(5)]
    for waiter in waiters:
        with pytest.raises(StillRunning):
            waiter.result(PATIENCE)
    eventually(lambda: not ledger.engine.waiting._wakers)
