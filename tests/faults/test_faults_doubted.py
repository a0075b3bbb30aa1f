"""Faults of calls that are entered again: the doubt of an earlier attempt stays, and the rules of today hold."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from indelible import AsyncLedger, GrantTerms, Idempotent, Ledger, NothingHappened, Policy, Refused, Retry, rule
from indelible.core.approvals.approval import Need, Question
from indelible.core.policy.verdicts import Verdict
from indelible.errors import ApprovalPending, BudgetExceeded, EffectInDoubt
from tests.scenarios.policies import limiting
from tests.scenarios.shells import Driver, Shell, approve, charge
from tests.scenarios.test_doubt import leave_in_doubt
from tests.waiting import PATIENCE, eventually

AT_ONCE = Retry(on=(ConnectionError,), attempts=2, backoff=timedelta(0))


def _status(ledger: Driver) -> str:
    (effect,) = ledger.effects()
    return str(effect.status)


# ── 37: what a later attempt reports says nothing of the one before ──────────────────────────────────────────────────


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("late", [Refused("declined"), NothingHappened("not sent")], ids=["refused", "nothing"])
def test_37_a_late_report_of_the_second_attempt_leaves_the_doubt_of_the_first(
    ledger: Driver, gate: threading.Event, late: Exception
) -> None:
    """Charged, answer lost; tried again, timed out; then the second attempt says that it did nothing."""
    reported = threading.Event()

    def pay(effect: Any) -> str:
        if effect.attempt == 1:
            raise ConnectionError("answer lost")
        try:
            gate.wait(PATIENCE)
            raise late
        finally:
            reported.set()

    words: dict[str, Any] = {"side_effect": "payment", "timeout": timedelta(milliseconds=300), "retry": AT_ONCE}
    with pytest.raises(TimeoutError):
        ledger.run(charge(), pay, **words)
    gate.set()
    assert reported.wait(PATIENCE)
    eventually(lambda: not any(thread.name == "indelible-late" for thread in threading.enumerate()))
    assert _status(ledger) == "in_doubt"
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), pay, side_effect="payment")


def _forbid(ledger: Driver) -> None:
    ledger.apply_policy({"rules": [{"name": "closed", "then": "refuse"}]}, by="ana")
    ledger.engine.judging.forget()


def _spend(ledger: Driver) -> None:
    ledger.apply_policy(limiting(0), by="ana")
    ledger.engine.judging.forget()


def _stop(ledger: Driver) -> None:
    ledger.stop(by="ana", reason="refunds go wrong")


@pytest.mark.parametrize("side_effect", ["write", "payment"])
@pytest.mark.parametrize("keeps_out", [_stop, _forbid, _spend])
def test_37_a_refusal_does_not_tell_as_not_done_what_may_have_happened(
    ledger: Driver, keeps_out: Any, side_effect: Any
) -> None:
    """A call in doubt that may be repeated is refused its next attempt: the caller hears that it may have happened."""
    words = {"side_effect": side_effect, "on_crash": "retry"}
    leave_in_doubt(ledger, **words)
    keeps_out(ledger)
    with pytest.raises(EffectInDoubt):
        ledger.run(charge(), lambda effect: pytest.fail("it was entered"), **words)
    assert _status(ledger) == "in_doubt"


@pytest.mark.parametrize("words", [{"retry": AT_ONCE}, {"downstream": Idempotent(attempts=2, backoff=timedelta(0))}])
def test_37_a_refused_second_attempt_raises_what_the_first_raised(ledger: Driver, shell: Shell, words: Any) -> None:
    """The answer is lost, and a person stops all effects before the call is made once more."""
    beside, lost = shell.open(), ConnectionError("answer lost")

    def pay(effect: Any) -> None:
        beside.stop(by="ana", reason="refunds go wrong")
        raise lost

    with pytest.raises(ConnectionError) as raised:
        ledger.run(charge(), pay, side_effect="payment", **words)
    assert raised.value is lost
    assert any("in doubt" in note for note in lost.__notes__)
    assert _status(ledger) == "in_doubt"


@pytest.mark.parametrize("raised", [Refused("declined"), NothingHappened("not sent"), ValueError("x")])
@pytest.mark.parametrize("side_effect", ["write", "payment"])
def test_37_an_attempt_after_a_crash_does_not_end_the_doubt_of_the_one_before(
    ledger: Driver, side_effect: Any, raised: Exception
) -> None:
    """A handler that may be repeated was killed after the deed; the next attempt is refused or does nothing."""
    words = {"side_effect": side_effect, "on_crash": "retry"}
    leave_in_doubt(ledger, **words)

    def refuses(effect: Any) -> None:
        raise raised

    with pytest.raises(type(raised)):
        ledger.run(charge(), refuses, **words)
    assert _status(ledger) == "in_doubt"


def test_37_a_reading_tool_fails_after_a_crash_as_before(ledger: Driver) -> None:
    leave_in_doubt(ledger, side_effect="read")

    def refuses(effect: Any) -> None:
        raise Refused("no")

    with pytest.raises(Refused):
        ledger.run(charge(), refuses, side_effect="read")
    assert _status(ledger) == "failed"


def test_37_an_attempt_after_one_that_did_nothing_may_fail(ledger: Driver) -> None:
    """No doubt where none is: the first attempt proved that it did nothing."""
    words = {"side_effect": "payment", "on_crash": "retry"}
    for raised, status in ((NothingHappened("not sent"), "ready"), (Refused("declined"), "failed")):

        def pay(effect: Any, raised: Exception = raised) -> None:
            raise raised

        with pytest.raises(type(raised)):
            ledger.run(charge(), pay, **words)
        assert _status(ledger) == status


def test_37_a_person_who_allows_a_retry_ends_the_doubt_of_the_first_attempt(ledger: Driver) -> None:
    def refuses(effect: Any) -> None:
        raise Refused("declined")

    effect = leave_in_doubt(ledger, side_effect="payment", on_crash="retry")
    ledger.retry(effect.id, by="ana", reason="the provider has no charge")
    with pytest.raises(Refused):
        ledger.run(charge(), refuses, side_effect="payment", on_crash="retry")
    assert _status(ledger) == "failed"


@pytest.mark.parametrize("step", range(6))
def test_37_a_task_canceled_while_it_tries_again_leaves_the_doubt(shell: Shell, step: int) -> None:
    """Charged, answer lost, and the caller is canceled some steps later, also while attempt 2 is being claimed."""

    async def scenario() -> None:
        begun = asyncio.Event()
        async with AsyncLedger.open(shell.url, tenant=shell.tenant) as ledger:

            async def pay(effect: Any) -> None:
                begun.set()
                raise ConnectionError("answer lost")

            task = asyncio.create_task(ledger.run(charge(), pay, side_effect="payment", retry=AT_ONCE))
            await begun.wait()
            for _ in range(step * 5):
                await asyncio.sleep(0.0001)
            task.cancel()
            with pytest.raises((asyncio.CancelledError, ConnectionError)):
                await task
            # The claim may be on its way still: what stands at the end counts.
            deadline = asyncio.get_running_loop().time() + PATIENCE
            while (effect := (await ledger.effects())[0]).status == "processing":
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.001)
            assert effect.status == "in_doubt"

    asyncio.run(scenario())


# ── 23: the budgets of the policy in force hold at every entry ───────────────────────────────────────────────────────

TWICE = {
    "person": {},
    "on_crash": {"on_crash": "retry"},
    "downstream": {"downstream": Idempotent(window=timedelta(hours=1), attempts=1)},
}


def _under(*limits: int) -> dict[str, Any]:
    budgets = [{**limiting(limit)["budgets"][0], "name": f"budget {number}"} for number, limit in enumerate(limits)]
    return {"rules": [{"name": "all", "then": "allow"}], "budgets": budgets}


@pytest.mark.parametrize("way", TWICE)
def test_23_a_budget_that_came_since_holds_when_a_call_is_entered_again(shell: Shell, way: str) -> None:
    """A call in doubt held a share of an old budget, and was entered again without one of the new."""
    words: dict[str, Any] = {"side_effect": "payment", "wait": False, **TWICE[way]}
    deeds: list[int] = []

    def lost(effect: Any) -> None:
        raise TimeoutError("the answer was lost")

    def pay(effect: Any) -> None:
        deeds.append(effect.args["amount"])

    call = charge(args={"amount": 500})
    with pytest.raises(TimeoutError):
        shell.open(policy=_under(100_000)).run(call, lost, **words)
    tight = shell.open(policy=_under(100_000, 499))
    (effect,) = tight.effects()
    if way == "person":
        tight.retry(effect.id, by="ana")
    with pytest.raises(BudgetExceeded if way == "person" else EffectInDoubt):
        tight.run(call, pay, **words)
    assert deeds == []
    wide = shell.open(policy=_under(100_000, 600))
    wide.run(call, pay, **words)
    with pytest.raises(BudgetExceeded):  # 500 of the 600 are spent
        wide.run(charge(args={"amount": 101}), pay, side_effect="payment")
    assert deeds == [500]


def test_23_a_lowered_limit_holds_when_a_call_is_entered_again(shell: Shell) -> None:
    words = {"side_effect": "payment", "on_crash": "retry", "wait": False}
    leave_in_doubt(shell.open(policy=_under(5)), **words)
    with pytest.raises(EffectInDoubt):
        shell.open(policy=_under(4)).run(charge(), lambda effect: None, **words)
    shell.open(policy=_under(5)).run(charge(), lambda effect: None, **words)


# ── 39: a grant allows what its giver could allow alone ──────────────────────────────────────────────────────────────


@rule("charges", tool="charge", version="1")
def by_amount(asked: Any) -> Verdict:
    return Verdict(decision="ask", question=Question(rule="", needs=(Need(2 if asked.args["amount"] > 1000 else 1),)))


def _written(**approvals: Any) -> dict[str, Any]:
    large = {"args": {"amount": {"gt": 1000}}} if approvals.pop("large", False) else {}
    asks = {"name": "charges", "match": {"tool": "charge", **large}, "then": "ask", "approvals": approvals}
    people = {"ana": {}, "bob": {"roles": ["legal"]}}
    return {"people": people, "rules": [asks, {"name": "rest", "then": "allow"}]}


OTHER = {
    "in Python": (Policy.of(by_amount), None),
    "quorum": (_written(quorum=2, large=True), _written(quorum=1)),
    "other people": (_written(people=["bob"], large=True), _written(quorum=1)),
    "a role": (_written(needs=[{"role": "legal"}], large=True), _written(quorum=1)),
}


@pytest.mark.parametrize("way", OTHER)
def test_39_a_grant_does_not_answer_a_question_that_its_giver_cannot_answer_alone(shell: Shell, way: str) -> None:
    """One person granted small charges, and a large one that takes two people ran on it."""
    own, ledgers = OTHER[way]
    ledger = shell.open(policy=own, principal="dora")
    if ledgers is not None:
        ledger.apply_policy(ledgers, by="root")
    terms = GrantTerms(count=5, until=datetime.now(UTC) + timedelta(hours=1), pin=("order",))
    deeds: list[int] = []

    def call(amount: int) -> Any:
        return charge(args={"order": "7", "amount": amount})

    def pay(effect: Any) -> None:
        deeds.append(effect.args["amount"])

    approve(ledger, ledger.begin(call(5), side_effect="payment"), by="ana", grant=terms)
    for amount in (5, 6):
        ledger.run(call(amount), pay, side_effect="payment")
    with pytest.raises(ApprovalPending):
        ledger.run(call(1_000_000), pay, side_effect="payment", wait=False)
    assert deeds == [5, 6]


# ── 37: a canceled handler may raise another exception; a late proof frees the budget ────────────────────────────────


@pytest.mark.parametrize(
    "options", [{"failed_on": ValueError}, {"nothing_on": ValueError}, {}], ids=["failed_on", "nothing_on", "write"]
)
def test_37_a_handler_that_translates_its_cancellation_leaves_doubt(shell: Shell, options: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(shell.url, tenant=shell.tenant) as ledger:
            begun = asyncio.Event()

            async def pay(effect: Any) -> None:
                begun.set()
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    raise ValueError("the client's own word for it") from None

            task = asyncio.create_task(ledger.run(charge(), pay, side_effect="write", **options))
            await begun.wait()
            task.cancel()
            with pytest.raises((ValueError, asyncio.CancelledError)):
                await task
            (effect,) = await ledger.effects()
            assert effect.status == "in_doubt"

    asyncio.run(scenario())


@pytest.mark.parametrize("timeout", [None, timedelta(seconds=60)], ids=["no limit", "limit"])
def test_37_a_handler_that_translates_its_cancellation_is_not_tried_again(
    shell: Shell, timeout: timedelta | None
) -> None:
    async def scenario() -> None:
        async with AsyncLedger.open(shell.url, tenant=shell.tenant) as ledger:
            begun, entered = asyncio.Event(), []

            async def pay(effect: Any) -> str:
                entered.append(effect.attempt)
                begun.set()
                try:
                    if effect.attempt == 1:
                        await asyncio.Event().wait()
                except asyncio.CancelledError as canceled:
                    raise ConnectionError("the connection was closed") from canceled
                return "paid"

            words: Any = {"side_effect": "payment", "retry": AT_ONCE, "timeout": timeout}
            task = asyncio.create_task(ledger.run(charge(), pay, **words))
            await begun.wait()
            task.cancel()
            with pytest.raises((ConnectionError, asyncio.CancelledError)):
                await task
            (effect,) = await ledger.effects()
            assert (effect.status, entered) == ("in_doubt", [1])

    asyncio.run(scenario())


def test_37_a_limit_that_a_handler_translates_is_tried_again(shell: Shell) -> None:
    """The task goes on: only its attempt was ended, which `retry=` may repeat."""

    async def scenario() -> None:
        async with AsyncLedger.open(shell.url, tenant=shell.tenant) as ledger:

            async def pay(effect: Any) -> str:
                if effect.attempt == 1:
                    try:
                        await asyncio.Event().wait()
                    except asyncio.CancelledError as canceled:
                        raise ConnectionError("the connection was closed") from canceled
                return "paid"

            again = Retry(on=(TimeoutError,), attempts=2, backoff=timedelta(0))
            words: Any = {"side_effect": "payment", "retry": again, "timeout": timedelta(milliseconds=300)}
            assert await ledger.run(charge(), pay, **words) == "paid"

    asyncio.run(scenario())


def test_37_a_late_proof_that_nothing_happened_frees_the_budget(shell: Shell, gate: threading.Event) -> None:
    def pay(effect: Any) -> None:
        gate.wait(PATIENCE)
        raise NothingHappened("the connection was refused")

    with Ledger.open(shell.url, tenant=shell.tenant, policy=_under(5)) as ledger:
        with pytest.raises(TimeoutError):
            ledger.run(charge(), pay, side_effect="payment", timeout=timedelta(milliseconds=300))
        gate.set()
        eventually(lambda: ledger.effects()[0].status == "ready")
        ledger.run(charge(run_id="order-2"), lambda effect: None, side_effect="payment")


def test_37_a_probe_that_finds_nothing_done_frees_the_budget(shell: Shell) -> None:
    ledger = shell.open(policy=_under(5))
    leave_in_doubt(ledger, side_effect="payment")

    def nothing(effect: Any) -> None:
        raise NothingHappened("the provider knows no such charge")

    def other(effect: Any) -> None:
        raise NothingHappened("not now")

    with pytest.raises(NothingHappened):
        ledger.run(charge(), other, side_effect="payment", reconcile=nothing)
    ledger.run(charge(run_id="order-2"), lambda effect: None, side_effect="payment")
