"""Errors of the ledger cross from one process to another: a pool of processes raises what its worker raised."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from indelible import IndelibleError, Ledger, NothingHappened, Refused, ToolCall, errors, migrate
from indelible.compat.agent_ledger import errors as agent_ledger
from indelible.errors import ApprovalPending, BudgetExceeded, EffectFailed, EffectInDoubt, LeaseLost, PolicyRefused
from tests.waiting import PATIENCE

RUN = "order-1"
POLICY: dict[str, Any] = {
    "rules": [
        {"name": "no", "match": {"args": {"n": {"eq": 4}}}, "then": "refuse"},
        {"name": "ask", "match": {"args": {"n": {"eq": 3}}}, "then": "ask"},
        {"name": "rest", "then": "allow"},
    ],
    "budgets": [{"name": "b", "match": {"args": {"n": {"gt": 4}}}, "limit": 1, "window": "1h"}],
}
FAILED, ASKED, REFUSED, TAKEN, TOO_MUCH, DOUBTED = 2, 3, 4, 5, 6, 1
RAISED: dict[int, type[IndelibleError]] = {
    FAILED: EffectFailed,
    ASKED: ApprovalPending,
    REFUSED: PolicyRefused,
    TOO_MUCH: BudgetExceeded,
    DOUBTED: EffectInDoubt,
}


def pay(url: str, n: int) -> int:
    """Open the ledger and make one call, as a worker of a pool does."""

    def handler(effect: Any) -> int:
        if effect.args["n"] == FAILED:
            raise Refused("card declined")
        if effect.args["n"] == DOUBTED:
            raise TimeoutError
        return int(effect.args["n"])

    with Ledger.open(url, seal=False) as ledger:
        call = ToolCall(tool="pay", args={"n": n}, run_id=RUN)
        return int(ledger.run(call, handler, side_effect="payment", wait=False))


@pytest.fixture
def url(store_url: str, own_keys: Path) -> str:
    """Give a ledger with a call that failed, one in doubt, and one that took all of the budget."""
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as ledger:
        ledger.apply_policy(POLICY, by="root")
    with pytest.raises(Refused):
        pay(store_url, FAILED)
    with pytest.raises(TimeoutError):
        pay(store_url, DOUBTED)
    assert pay(store_url, TAKEN) == TAKEN
    return store_url


@pytest.fixture
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("n", RAISED)
def test_37_a_pool_of_processes_raises_what_a_call_raised(url: str, processes: ProcessPoolExecutor, n: int) -> None:
    with pytest.raises(RAISED[n]) as here:
        pay(url, n)
    with pytest.raises(RAISED[n]) as there:
        processes.submit(pay, url, n).result(PATIENCE)
    assert str(there.value) == str(here.value)
    assert vars(there.value).keys() == vars(here.value).keys()
    effect = getattr(here.value, "effect", None)
    assert effect is None or there.value.effect.id == effect.id


@pytest.mark.parametrize(("side_effect", "status"), [("write", "in_doubt"), ("read", "ready"), ("payment", "in_doubt")])
def test_37_a_call_whose_inner_call_waits_in_another_process_is_no_failed_one(
    url: str, processes: ProcessPoolExecutor, side_effect: Any, status: str
) -> None:
    with Ledger.open(url, seal=False) as ledger:
        call = ToolCall(tool="batch", args={}, run_id=RUN)
        with pytest.raises(ApprovalPending):
            ledger.run(call, lambda effect: processes.submit(pay, url, ASKED).result(PATIENCE), side_effect=side_effect)
        (outer,) = [effect for effect in ledger.effects() if effect.tool == "batch"]
        assert outer.status == status


def _all_below(kind: type[Exception]) -> Iterator[type[Exception]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_below(below)


ALL = [*_all_below(IndelibleError), *_all_below(agent_ledger.EffectLedgerError)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_37_an_error_is_copied_with_all_that_it_carries(kind: type[Exception]) -> None:
    error = kind.__new__(kind, "what happened")
    error.__dict__.update(effect=None, code="late", differing={"amount": (1, 2)})
    error.add_note("what to do")
    for made in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(made), made.args, vars(made)) == (kind, error.args, vars(error))


def test_37_there_are_errors_to_copy() -> None:
    assert {LeaseLost, errors.TooLarge, agent_ledger.EffectTimeoutError} <= set(ALL)


def test_37_what_an_error_said_of_a_call_is_copied_too(url: str) -> None:
    """A handler raised it, so it speaks of that call, also in the process where another handler raises it anew."""
    word = NothingHappened("not sent")
    with Ledger.open(url, seal=False) as ledger:

        def inner(effect: Any) -> None:
            raise word

        with pytest.raises(NothingHappened):
            ledger.run(ToolCall(tool="inner", args={}, run_id=RUN), inner, side_effect="payment")

        def outer(effect: Any) -> None:
            raise pickle.loads(pickle.dumps(word))

        with pytest.raises(NothingHappened):
            ledger.run(ToolCall(tool="outer", args={}, run_id=RUN), outer, side_effect="payment")
        statuses = {effect.tool: effect.status for effect in ledger.effects()}
    assert (statuses["inner"], statuses["outer"]) == ("ready", "in_doubt")
