"""Budgets: what is counted, when it is reserved, spent and given back, and that no race gets past the limit."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, wait
from datetime import timedelta
from decimal import Decimal
from multiprocessing.connection import Connection
from typing import Any

import pytest

from indelible import (
    AsyncLedger,
    Failed,
    GrantTerms,
    Ledger,
    MayHaveHappened,
    NothingHappened,
    Refused,
    Retry,
    RunningEffect,
    Succeeded,
)
from indelible.core.policy.budgets import read_budget
from indelible.core.sheets import SheetFilter
from indelible.errors import ApprovalPending, BudgetExceeded, PolicyRefused, VoteRefused
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child
from tests.scenarios.policies import limiting
from tests.scenarios.shells import LEASE, Count, Driver, Gate, Shell, approve, charge
from tests.scenarios.test_transactions import Table
from tests.waiting import PATIENCE, eventually

DAY = timedelta(days=1)


def costing(amount: Any, run_id: str = "order-1", **fields: Any) -> Any:
    return charge(args={"amount": amount}, run_id=run_id, **fields)


def state(ledger: Driver) -> tuple[int, int]:
    """Gives how much is reserved and how much was spent, over all budgets of the tenant."""
    sheets = ledger.engine.store.sheets(ledger.tenant, SheetFilter(kind="budget"))
    found = [read_budget(sheet) for sheet in sheets]
    reserved = sum((budget.reserved for budget in found), Decimal(0))
    return int(reserved), int(sum((sum(budget.spent.values()) for budget in found), Decimal(0)))


@pytest.fixture
def ledger(shell: Shell, clock: FakeClock) -> Driver:
    """A ledger that may spend five a day."""
    return shell.open(policy=limiting(5), clock=clock)


# ── reserving, spending, giving back ─────────────────────────────────────────────────────────────────────────────────


def test_what_succeeded_is_spent_and_what_would_be_too_much_is_refused(ledger: Driver) -> None:
    ledger.run(costing(3), Count())
    assert state(ledger) == (0, 3)
    handler = Count()
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.run(costing(2.5, "order-2"), handler)
    assert (refusal.value.charge.amount, handler.entries) == (Decimal("2.5"), 0)
    ledger.run(costing(2, "order-3"), Count())
    assert state(ledger) == (0, 5)


def test_a_replay_costs_nothing(ledger: Driver) -> None:
    handler = Count("once")
    for _ in range(3):
        assert ledger.run(costing(5), handler) == "once"
    assert state(ledger) == (0, 5)


def test_what_runs_is_reserved(ledger: Driver) -> None:
    gate = Gate()
    running = ledger.spawn("run", costing(4), gate)
    gate.await_entry()
    assert state(ledger) == (4, 0)
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(2, "order-2"), Count())
    gate.open()
    running.result(PATIENCE)
    assert state(ledger) == (0, 4)


def test_what_failed_is_given_back(ledger: Driver) -> None:
    with pytest.raises(Refused, match="declined"):
        ledger.run(costing(5), Count(Refused("declined")))
    assert state(ledger) == (0, 0)
    ledger.run(costing(5, "order-2"), Count())


def test_what_an_undeclared_exception_leaves_in_doubt_stays_reserved(ledger: Driver) -> None:
    with pytest.raises(ValueError, match="declined"):
        ledger.run(costing(5), Count(ValueError("declined")))
    assert state(ledger) == (5, 0)
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(5, "order-2"), Count())


def test_what_did_not_happen_is_given_back(ledger: Driver) -> None:
    with pytest.raises(NothingHappened):
        ledger.run(costing(5), Count(NothingHappened("no")))
    assert state(ledger) == (0, 0)
    ledger.run(costing(5), Count())
    assert state(ledger) == (0, 5)


def test_what_is_in_doubt_stays_reserved_until_somebody_knows(ledger: Driver) -> None:
    for run_id, outcome, after in (("a", Succeeded(1), (0, 4)), ("b", Failed("no"), (0, 4))):
        with pytest.raises(MayHaveHappened):
            ledger.run(costing(4 if run_id == "a" else 1, run_id), Count(MayHaveHappened("cut")))
        assert state(ledger)[0] > 0
        (doubtful,) = ledger.effects(status="in_doubt")
        with pytest.raises(BudgetExceeded):
            ledger.run(costing(2, f"{run_id}-other"), Count())
        ledger.settle(doubtful.id, outcome, by="ana", evidence="looked")
        assert state(ledger) == after


def test_what_crashed_stays_reserved_and_a_probe_frees_or_spends_it(shell: Shell, clock: FakeClock) -> None:
    ledger = shell.open(policy=limiting(5), clock=clock, reconcile=lambda effect: Failed("never arrived"))
    ledger.begin(costing(5))
    clock.advance(LEASE)
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(1, "order-2"), Count())
    assert [effect.status for effect in ledger.reconcile()] == ["failed"]
    assert state(ledger) == (0, 0)


def test_another_attempt_on_a_persons_word_is_charged_anew(ledger: Driver) -> None:
    with pytest.raises(Refused, match="no"):
        ledger.run(costing(4), Count(Refused("no")))
    ledger.run(costing(2, "order-2"), Count())
    ledger.retry(ledger.effects(status="failed")[0].id, by="ana")
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(4), Count())
    assert state(ledger) == (0, 2)


def test_retries_of_one_call_are_charged_once(ledger: Driver) -> None:
    entries: list[int] = []

    def handler(effect: RunningEffect) -> None:
        entries.append(effect.attempt)
        assert state(ledger) == (4, 0)
        if len(entries) < 3:
            raise ConnectionError

    ledger.run(costing(4), handler, retry=Retry(on=(ConnectionError,), attempts=3, backoff=timedelta(0)))
    assert (entries, state(ledger)) == ([1, 2, 3], (0, 4))


def test_the_window_moves_on(ledger: Driver, clock: FakeClock) -> None:
    ledger.run(costing(5), Count())
    clock.advance(DAY - timedelta(minutes=1))
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(1, "order-2"), Count())
    clock.advance(DAY)
    ledger.run(costing(5, "order-3"), Count())


def test_what_a_handler_writes_in_its_transaction_is_spent_in_the_same_commit(ledger: Driver) -> None:
    table = Table(ledger.url)

    def handler(effect: RunningEffect) -> None:
        table.book(effect, 4)

    ledger.run(costing(4), handler)
    assert (table.amounts(), state(ledger)) == ([4], (0, 4))

    def failing(effect: RunningEffect) -> None:
        table.book(effect, 1)
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        ledger.run(costing(1, "order-2"), failing)
    assert (table.amounts(), state(ledger)) == ([4], (0, 4))


@pytest.mark.parametrize("amount", [None, "5", True, -1, [5], {"value": 5}])
def test_an_amount_that_is_none_is_refused(ledger: Driver, amount: Any) -> None:
    handler = Count()
    with pytest.raises(PolicyRefused):
        ledger.run(costing(amount), handler)
    assert (handler.entries, state(ledger)) == (0, (0, 0))


def test_budgets_count_by_what_they_are_for(shell: Shell) -> None:
    ledger = shell.open(policy=limiting(5, per=["run", "tool"]))
    for run_id in ("order-1", "order-2"):
        for tool in ("charge", "refund"):
            ledger.run(costing(5, run_id, tool=tool), Count())
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(1, "order-1"), Count())


def test_a_budget_without_a_sum_counts_calls(shell: Shell) -> None:
    ledger = shell.open(policy={"budgets": [{"name": "calls", "limit": 2, "window": "1h"}]})
    for n in range(2):
        ledger.run(costing(n), Count())
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(2), Count())


# ── with approvals ───────────────────────────────────────────────────────────────────────────────────────────────────


def asking_about(ledger: Driver, amount: int, run_id: str = "order-1") -> Any:
    return ledger.begin(costing(amount, run_id), approval="required").approval


def test_what_waits_for_a_person_is_reserved_and_a_no_gives_it_back(ledger: Driver) -> None:
    question = asking_about(ledger, 4)
    assert state(ledger) == (4, 0)
    with pytest.raises(BudgetExceeded):
        ledger.begin(costing(2, "order-2"), approval="required")
    ledger.deny(question.id, by="ana", reason="no")
    assert state(ledger) == (0, 0)


def test_what_is_canceled_is_given_back(ledger: Driver) -> None:
    question = asking_about(ledger, 4)
    approve(ledger, question)
    ledger.cancel(question.effect_id, by="ana")
    assert state(ledger) == (0, 0)


def test_what_nobody_decided_in_time_is_given_back(ledger: Driver, clock: FakeClock) -> None:
    question = asking_about(ledger, 4)
    clock.advance(DAY)
    ledger.ledger._approving.attend(question)
    assert state(ledger) == (0, 0)
    again = asking_about(ledger, 4)
    assert (again.replaces, state(ledger)) == (question.id, (4, 0))


def test_an_approval_uses_what_was_reserved_for_it(ledger: Driver) -> None:
    approve(ledger, asking_about(ledger, 5))
    ledger.run(costing(5), Count(), approval="required")
    assert state(ledger) == (0, 5)


def test_an_edit_is_charged_for_what_it_is_about(ledger: Driver) -> None:
    question = asking_about(ledger, 2)
    with pytest.raises(VoteRefused) as refusal:
        ledger.edit_approval(question.id, {"amount": 6}, digest=question.digest, by="ana")
    assert (refusal.value.code, state(ledger)) == ("budget", (2, 0))
    edited = ledger.edit_approval(question.id, {"amount": 4}, digest=question.digest, by="ana")
    assert state(ledger) == (4, 0)
    approve(ledger, edited, by="bob")
    assert ledger.run(costing(2), lambda effect: effect.args["amount"], approval="required") == 4
    assert state(ledger) == (0, 4)


def test_a_granted_call_is_charged_like_any_other(ledger: Driver, clock: FakeClock) -> None:
    terms = GrantTerms(count=5, until=clock.now() + DAY)
    approve(ledger, asking_about(ledger, 2), grant=terms)
    ledger.run(costing(2), Count(), approval="required")
    ledger.run(costing(2, "order-2"), Count(), approval="required", wait=False)
    with pytest.raises(BudgetExceeded):
        ledger.run(costing(2, "order-3"), Count(), approval="required", wait=False)
    assert state(ledger) == (0, 4)
    assert ledger.grants()[0].uses_left == 4, "what a budget refuses uses no grant"


def test_of_questions_too_only_as_many_are_asked_as_the_budget_has(ledger: Driver) -> None:
    for n in range(2):
        asking_about(ledger, 2, f"order-{n}")
    with pytest.raises(BudgetExceeded):
        asking_about(ledger, 2, "order-3")
    with contextlib.suppress(ApprovalPending):
        ledger.run(costing(2, "order-0"), Count(), approval="required", wait=False)
    assert len(ledger.approvals()) == 2


# ── at once ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_three_calls_of_two_at_once_on_a_budget_of_five_two_run(shell: Shell) -> None:
    """Threads of the blocking ledger and tasks of the other, on three ledgers."""
    ledgers = [shell.open(policy=limiting(5)) for _ in range(3)]
    gate = Gate("ran")
    calls = [each.spawn("run", costing(2, f"order-{n}"), gate) for n, each in enumerate(ledgers)]
    first = wait(calls, PATIENCE, FIRST_COMPLETED).done
    assert [type(call.exception()) for call in first] == [BudgetExceeded], "the others are inside, or on their way"
    eventually(lambda: gate.entries == 2)
    gate.open()
    outcomes = Counter(type(call.exception(PATIENCE)) for call in calls)
    assert outcomes == {type(None): 2, BudgetExceeded: 1}
    assert state(ledgers[0]) == (0, 4)


def charge_elsewhere(line: Connection, url: str, tenant: str, number: int, is_async: bool) -> str:
    """Is one of several processes that spend from the same budget at the same time."""
    call = costing(2, f"order-{number}")

    def handler(effect: RunningEffect) -> str:
        line.send("inside")
        line.recv()
        return "ran"

    line.recv()
    try:
        if is_async:
            return str(asyncio.run(_run_async(url, tenant, call, handler)))
        with Ledger.open(url, tenant=tenant, policy=limiting(5)) as ledger:
            return str(ledger.run(call, handler))
    except BudgetExceeded:
        line.send("refused")
        line.recv()
        return "refused"


async def _run_async(url: str, tenant: str, call: Any, handler: Any) -> Any:
    async with AsyncLedger.open(url, tenant=tenant, policy=limiting(5)) as ledger:
        return await ledger.run(call, handler)


@pytest.mark.parametrize("is_async", [False, True])
def test_three_processes_that_spend_two_on_a_budget_of_five_two_run(place: dict[str, Any], is_async: bool) -> None:
    children = [Child(charge_elsewhere, place["url"], place["tenant"], n, is_async) for n in range(3)]
    for child in children:
        child.tell("go")
    said = Counter(child.hear(PATIENCE) for child in children)
    assert said == {"inside": 2, "refused": 1}, "all of them have come as far as they get"
    for child in children:
        child.tell("go on")
    assert Counter(child.result(PATIENCE) for child in children) == {"ran": 2, "refused": 1}


def test_a_batch_of_many_calls_at_once_spends_no_more_than_there_is(shell: Shell) -> None:
    ledgers = [shell.open(policy=limiting(20)) for _ in range(3)]
    calls = [ledgers[n % 3].spawn("run", costing(1, f"order-{n}"), Count("ran")) for n in range(60)]
    outcomes = Counter(type(call.exception(PATIENCE)) for call in calls)
    assert outcomes == {type(None): 20, BudgetExceeded: 40}
    assert state(ledgers[0]) == (0, 20)
