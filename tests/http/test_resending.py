"""A provider that honours our key is asked again with the same key, within its window and never after."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from indelible import Idempotent, Ledger, ToolCall, migrate
from indelible.engine.mint import SystemMint
from indelible.errors import ApprovalPending, BudgetExceeded, EffectInDoubt
from indelible.testing.clock import FakeClock
from tests.chaos.procs import Child, ChildDied
from tests.http.clients import OURS, RETRYING
from tests.http.conftest import BUDGET
from tests.http.killed import pay_in_child
from tests.http.provider import Provider
from tests.http.test_lost_answers import DOORS
from tests.waiting import refusing

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
AT_ONCE = timedelta(milliseconds=1)
CALL = ToolCall(run_id="order-1", tool="pay", args={"amount": 5})


def test_an_answer_that_is_lost_resolves_by_itself_in_the_same_call(ledger: Ledger, provider: Provider) -> None:
    for door, (name, post) in ((door, client) for door in DOORS for client in OURS.items()):
        case = f"{name}: {door}"

        def handler(amount: int, post: Any = post) -> Any:
            return post(f"{provider.url}/v1/charges", {"amount": amount})

        call = DOORS[door](ledger, handler, downstream=Idempotent(window=HOUR, backoff=AT_ONCE))
        provider.script = ["swallow"] * (3 if name in RETRYING else 1)  # more than the client tries by itself
        provider.charges.clear()
        provider.requests.clear()
        assert call(case, 5)["id"] == "ch_1", case
        assert (len(provider.charges), len(set(provider.keys))) == (1, 1), (case, provider.keys)
        effect = ledger.effects(run_id=case)[0]
        assert (effect.status, effect.attempt) == ("succeeded", 2), case


@pytest.mark.parametrize("proof", [{"marks_sending": True}, {"nothing_on": httpx.ConnectError}])
def test_a_second_attempt_that_sends_nothing_says_nothing_of_the_first(
    proof: dict[str, Any], ledger: Ledger, provider: Provider
) -> None:
    """The first one may have happened, so the budget stays taken; the next call sends again with the same key."""
    provider.script = ["swallow"]
    with refusing() as port:
        where = [provider.url, f"http://127.0.0.1:{port}", provider.url]

        def handler(amount: int) -> Any:
            return OURS["httpx"](f"{where.pop(0)}/v1/charges", {"amount": amount})

        downstream = Idempotent(window=HOUR, attempts=2, backoff=AT_ONCE)
        call = DOORS["tool"](ledger, handler, downstream=downstream, **proof)
        with pytest.raises(httpx.ConnectError):
            call("order-1", 5)
    assert ledger.effects()[0].status == "in_doubt"
    with pytest.raises(BudgetExceeded):
        call("order-1", 1)
    assert call("order-1", 5)["id"] == "ch_1"
    assert len(provider.charges) == 1


def test_a_provider_that_never_answers_is_asked_so_often_and_then_it_is_in_doubt(
    ledger: Ledger, provider: Provider
) -> None:
    provider.always = "swallow"
    downstream = Idempotent(window=HOUR, attempts=3, backoff=AT_ONCE)
    with pytest.raises(httpx.RemoteProtocolError):
        ledger.run(CALL, post_to(provider), side_effect="payment", downstream=downstream)
    assert (len(provider.requests), len(provider.charges)) == (3, 1)
    assert ledger.effects()[0].status == "in_doubt"


@pytest.mark.parametrize("is_within", [True, False])
def test_it_is_sent_again_within_the_window_and_never_after(
    is_within: bool, store_url: str, provider: Provider
) -> None:
    migrate(store_url)
    clock, words = (
        FakeClock(datetime.now(UTC)),
        {"side_effect": "payment", "downstream": Idempotent(window=HOUR, attempts=1)},
    )
    provider.script = ["swallow"]
    with Ledger.open(store_url, seal=False, policy=BUDGET, clock=clock) as ledger:
        with pytest.raises(httpx.RemoteProtocolError):
            ledger.run(CALL, post_to(provider), **words)
        clock.advance(HOUR + (-MINUTE if is_within else MINUTE))
        if is_within:
            assert ledger.run(CALL, post_to(provider), **words)["id"] == "ch_1"
            assert (len(provider.requests), len(provider.charges)) == (2, 1)
        else:
            provider.forget()
            with pytest.raises(EffectInDoubt):
                ledger.run(CALL, post_to(provider), **words)
            assert (len(provider.requests), len(provider.charges)) == (1, 1)


def test_a_window_that_ends_between_two_attempts_of_one_call_ends_them(ledger: Ledger, provider: Provider) -> None:
    provider.script = ["swallow"]
    downstream = Idempotent(window=timedelta(microseconds=1), backoff=AT_ONCE)
    with pytest.raises(httpx.RemoteProtocolError):
        ledger.run(CALL, post_to(provider), side_effect="payment", downstream=downstream)
    assert ledger.effects()[0].status == "in_doubt"
    assert (len(provider.requests), len(provider.charges)) == (1, 1)


def post_to(provider: Provider) -> Any:
    return lambda effect: OURS["httpx"](f"{provider.url}/v1/charges", {"amount": effect.args["amount"]})


def test_a_process_that_is_killed_in_its_handler_is_followed_by_one_that_finds_the_same_charge(
    store_url: str, provider: Provider
) -> None:
    migrate(store_url)
    with pytest.raises(ChildDied):
        Child(pay_in_child, store_url, provider.url, True).result()
    assert len(provider.charges) == 1
    assert Child(pay_in_child, store_url, provider.url, False).result() == "ch_1"
    assert (len(provider.requests), len(provider.charges), len(set(provider.keys))) == (2, 1, 1)
    with Ledger.open(store_url, seal=False) as ledger:
        assert ledger.effects()[0].status == "succeeded"


def test_a_caller_whose_clock_is_fast_does_not_stretch_the_window(
    sqlite_url: str, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its effect was recorded two hours ahead of the store's clock; 90 minutes later the window of one hour is over."""
    clock, real, ahead = FakeClock(datetime.now(UTC)), SystemMint.stamp, [2 * HOUR]

    def stamp(self: SystemMint, *args: Any) -> Any:
        made = real(self, *args)
        return replace(made, at=made.at + ahead[0])

    monkeypatch.setattr(SystemMint, "stamp", stamp)
    words: Any = {"side_effect": "payment", "downstream": Idempotent(window=HOUR, attempts=1)}
    provider.script = ["swallow"]
    with Ledger.open(sqlite_url, seal=False, policy=BUDGET, clock=clock) as ledger:
        with pytest.raises(httpx.RemoteProtocolError):
            ledger.run(CALL, post_to(provider), **words)
        clock.advance(1.5 * HOUR)
        ahead[0] += 1.5 * HOUR
        with pytest.raises(EffectInDoubt):
            ledger.run(CALL, post_to(provider), **words)
    assert len(provider.requests) == 1


def test_what_is_in_doubt_is_not_asked_about_anew_for_the_answer_may_come_after_the_window(
    sqlite_url: str, provider: Provider
) -> None:
    def asking(why: str) -> dict[str, Any]:
        return {"rules": [{"name": "pay", "match": {"tool": "pay"}, "then": "ask", "why": why}]}

    provider.script = ["swallow"]
    words: Any = {"side_effect": "payment", "downstream": Idempotent(window=HOUR, attempts=1), "wait": False}
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.apply_policy(asking("large"), by="ana")
        with pytest.raises(ApprovalPending) as pending:
            ledger.run(CALL, post_to(provider), **words)
        ledger.approve(pending.value.approval, digest=pending.value.approval.digest, by="ana")
        with pytest.raises(httpx.RemoteProtocolError):
            ledger.run(CALL, post_to(provider), **words)
        ledger.apply_policy(asking("larger"), by="ana")
        with pytest.raises(EffectInDoubt):
            ledger.run(CALL, post_to(provider), **words)
        assert ledger.approvals(status="pending") == []
