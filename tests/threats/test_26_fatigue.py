"""Threat 26: people are flooded with questions until they say yes to anything; and nobody can stop what goes wrong."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from indelible import Actor, AsyncLedger, Claimed, Ledger, Replayed, Succeeded, ToolCall
from indelible.core.effects.stops import STOPS_RUN
from indelible.errors import ApprovalPending, BadCall, BudgetExceeded, Stopped, TooManyPending
from indelible.stores import migrate, open_store
from tests.threats.exposed import Exposed
from tests.waiting import PATIENCE, eventually

ANA = Actor("ana")
AGENT = Actor("agent", "agent")
CAPPED = {
    "open_approvals": {"run": 3, "tenant": 5},
    "rules": [{"name": "ask", "match": {"tool": "pay"}, "then": "ask"}],
}


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as found:
        yield found


def pay(number: int, run: str = "r", **words: Any) -> ToolCall:
    return ToolCall(run_id=run, tool="pay", args={"n": number}, **words)


def ask(ledger: Ledger, number: int, run: str = "r", **words: Any) -> str:
    """Asks, and gives the id of the question."""
    with pytest.raises(ApprovalPending) as pending:
        ledger.run(pay(number, run), lambda effect: 1, wait=0, **words)
    return pending.value.approval.id


# Questions


def test_no_more_questions_are_open_than_the_policy_says(ledger: Ledger) -> None:
    ledger.apply_policy(CAPPED, by="root")
    first = [ask(ledger, number) for number in range(3)]
    with pytest.raises(TooManyPending):
        ledger.run(pay(3), lambda effect: 1, wait=0)
    assert issubclass(TooManyPending, BudgetExceeded)
    ask(ledger, 0)  # the same question again is no further one
    more = [ask(ledger, number, run="other") for number in range(2)]
    with pytest.raises(TooManyPending, match="tenant"):
        ledger.run(pay(9, "third"), lambda effect: 1, wait=0)
    assert {found.id for found in ledger.approvals(status="pending")} == {*first, *more}
    view = ledger.view_approval(first[0], by=ANA)
    ledger.deny(first[0], by=ANA, reason="no")
    ask(ledger, 3)  # there is room again
    assert view.approval.id == first[0]


def test_what_was_approved_and_done_makes_room(ledger: Ledger) -> None:
    ledger.apply_policy(CAPPED, by="root")
    questions = [ask(ledger, number) for number in range(3)]
    digest = ledger.get_approval(questions[0]).digest
    ledger.approve(questions[0], digest=digest, by=ANA)
    assert ledger.run(pay(0), lambda effect: 7) == 7
    time.sleep(0.01)  # what ended a moment ago still counts for a millisecond
    ask(ledger, 3)


def test_a_tool_that_wants_to_be_asked_about_is_counted_too(ledger: Ledger) -> None:
    ledger.apply_policy({"open_approvals": {"run": 1}, "defaults": "allow"}, by="root")
    ask(ledger, 0, approval="required")
    with pytest.raises(TooManyPending):
        ledger.run(pay(1), lambda effect: 1, wait=0, approval="required")


def test_a_repeat_that_is_asked_about_is_counted_too(ledger: Ledger) -> None:
    ledger.apply_policy({"open_approvals": {"run": 1}, "defaults": "allow"}, by="root")
    assert ledger.run(pay(0, call_id="a", dedupe="ask"), lambda effect: 1) == 1
    with pytest.raises(ApprovalPending):
        ledger.run(pay(0, call_id="b", dedupe="ask"), lambda effect: 1, wait=0)
    with pytest.raises(TooManyPending):
        ledger.run(pay(0, call_id="c", dedupe="ask"), lambda effect: 1, wait=0)


def test_of_many_who_ask_at_once_only_so_many_come_through(ledger: Ledger) -> None:
    ledger.apply_policy(CAPPED, by="root")

    def one(number: int) -> str:
        try:
            ledger.run(pay(number), lambda effect: 1, wait=0)
        except (ApprovalPending, TooManyPending) as refused:
            return type(refused).__name__
        raise AssertionError("nobody was asked")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, range(40)))
    assert found.count("ApprovalPending") == 3
    assert len(ledger.approvals(status="pending")) == 3


def test_over_http_it_is_too_many_requests(store_url: str) -> None:
    exposed = Exposed(store_url, seal=False)
    try:
        policy = {"content": CAPPED, "reason": "enough"}
        assert exposed.ask("PUT", "/v1/policy", "admin", policy).status_code == 200
        statuses = [exposed.begin(tool="pay", args={"n": number}).status_code for number in range(4)]
        assert statuses == [202, 202, 202, 429]
        refused = exposed.begin(tool="pay", args={"n": 4})
        assert refused.json()["type"] == "/problems/too-many-pending"
        with (
            Ledger.open(exposed.url, token=exposed.tokens["agent"]) as afar,
            pytest.raises((TooManyPending, BudgetExceeded)),
        ):
            afar.run(pay(5, "order-1"), lambda effect: 1, wait=0)
    finally:
        exposed.close()


# The brake


def test_a_stop_holds_for_every_process_at_once_and_is_on_the_record(ledger: Ledger, store_url: str) -> None:
    with Ledger.open(store_url, seal=False) as other:
        assert other.run(pay(0), lambda effect: "done") == "done"
        inside = other.begin(pay(1))
        assert isinstance(inside, Claimed)
        before = other.begin(pay(2))  # both have judged and claimed here before: everything is warm
        assert isinstance(before, Claimed)
        stopped = ledger.stop(by=ANA, reason="wrong accounts")
        assert (stopped.by, stopped.is_in_force) == ("ana", True)
        entered: list[int] = []
        with pytest.raises(Stopped, match=r"stopped since .* by ana: wrong accounts"):
            other.run(pay(3), lambda effect: entered.append(1))
        with pytest.raises(Stopped):
            ledger.begin(pay(3))
        assert entered == []
        assert other.commit(inside.claim, Succeeded("late")) == "late", "what is under way may finish"
        assert isinstance(other.begin(pay(0)), Replayed), "what was done is told"
        assert ledger.stopped() == stopped
        assert ledger.stop(by="bob", reason="me too") == stopped
        ledger.go(by=ANA, reason="mended")
        assert ledger.stopped() is None
        assert other.run(pay(3), lambda effect: "now") == "now"
    types = [event.type for event in ledger.events(STOPS_RUN)]
    assert types == ["effects_stopped", "effects_let_go"]


def test_whoever_judged_before_the_stop_does_not_claim_after_it(ledger: Ledger, store_url: str) -> None:
    """A process may be paused between its verdict and its claim, for any time."""
    from indelible.core.effects.requests import Judge
    from indelible.core.effects.walk import begin

    prepared = ledger._prepare(pay(5))
    walking = begin(prepared, ledger._mint)
    request = next(walking)
    assert isinstance(request, Judge)
    submit = walking.send(ledger._engine.judging.judge(prepared))
    store = open_store(store_url)
    try:
        with Ledger.open(store=store, seal=False) as other:
            other.stop(by=ANA, reason="now")
    finally:
        store.close()
    (answer,) = ledger._engine.store.apply(ledger.tenant, [submit.command], [None])  # type: ignore[union-attr]
    with pytest.raises(Stopped):
        walking.send(answer)


def test_a_batch_and_a_claim_after_an_approval_are_stopped_too(ledger: Ledger) -> None:
    question = ask(ledger, 0, approval="required")
    ledger.approve(question, digest=ledger.get_approval(question).digest, by=ANA)
    ledger.stop(by=ANA, reason="wait")
    with pytest.raises(Stopped):
        ledger.run(pay(0), lambda effect: 1, approval="required")
    with ThreadPoolExecutor(8) as pool:
        tried = [pool.submit(ledger.begin, pay(number, f"run-{number}")) for number in range(10, 40)]
        assert all(isinstance(each.exception(), Stopped) for each in tried)
    ledger.go(by=ANA)
    assert ledger.run(pay(0), lambda effect: 1, approval="required") == 1, "the approval was not used up"


def test_another_tenant_goes_on(ledger: Ledger, store_url: str) -> None:
    ledger.stop(by=ANA, reason="wait")
    with Ledger.open(store_url, tenant="other", seal=False) as other:
        assert other.run(pay(0), lambda effect: 1) == 1
        assert other.stopped() is None


def test_a_person_pulls_the_brake_and_says_why(ledger: Ledger) -> None:
    with pytest.raises(BadCall, match="say why"):
        ledger.stop(by=ANA, reason="")
    for verb in (ledger.stop, ledger.go):
        if verb == ledger.go:
            ledger.stop(by=ANA, reason="wait")
        with pytest.raises(BadCall, match="is an agent"):
            verb(by=AGENT, reason="I would rather not")
    assert ledger.go(by=ANA) is not None


def test_nothing_was_ever_stopped(ledger: Ledger) -> None:
    assert ledger.go(by=ANA) is None
    assert ledger.events(STOPS_RUN) == []


def test_under_load_the_last_claim_is_before_the_stop_returns(ledger: Ledger, store_url: str) -> None:
    """Not within a second: at once, but for claims whose statement was under way."""
    claimed: list[int] = []
    is_over = threading.Event()

    def work(name: str) -> None:
        with Ledger.open(store_url, seal=False) as own:
            number = 0
            while not is_over.is_set():
                number += 1
                try:
                    own.run(pay(number, name), lambda effect: claimed.append(1))
                except Stopped:
                    return

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(work, f"run-{number}") for number in range(4)]
        eventually(lambda: len(claimed) >= 40)
        ledger.stop(by=ANA, reason="now")
        claims = len(ledger.effects(limit=10_000))
        for each in working:
            each.result(PATIENCE)
        is_over.set()
    assert len(ledger.effects(limit=10_000)) <= claims + len(working)
    assert len(ledger.effects(status="processing")) == 0


def test_the_asynchronous_ledger_stops_and_is_stopped(store_url: str) -> None:
    migrate(store_url)

    async def scene() -> None:
        async with AsyncLedger.open(store_url, seal=False) as ledger:
            assert await ledger.stopped() is None
            await ledger.stop(by=ANA, reason="wait")
            with pytest.raises(Stopped):
                await ledger.run(pay(0), lambda effect: 1)
            found = await ledger.stopped()
            assert found is not None
            await ledger.go(by=ANA)
            assert await ledger.run(pay(0), lambda effect: 1) == 1

    asyncio.run(scene())


def test_over_http_administrators_stop_and_everybody_is_stopped(store_url: str) -> None:
    exposed = Exposed(store_url, seal=False)
    try:
        for who in ("agent", "ana", "auditor"):
            assert exposed.post("/v1/stop", {"reason": "x"}, who).status_code == 403
        shown = exposed.post("/v1/stop", {"reason": "wrong accounts"}, "admin")
        assert (shown.status_code, shown.json()["is_stopped"], shown.json()["by"]) == (200, True, "admin")
        assert exposed.ask("GET", "/v1/stop").json() == shown.json()
        refused = exposed.begin()
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/stopped")
        with Ledger.open(exposed.url, token=exposed.tokens["agent"]) as afar:
            with pytest.raises(Stopped):
                afar.run(pay(1), lambda effect: 1)
            assert exposed.post("/v1/stop/end", {}, "agent").status_code == 403
            assert exposed.post("/v1/stop/end", {"reason": "mended"}, "admin").json()["is_stopped"] is False
            assert afar.run(pay(1), lambda effect: 1) == 1
        assert exposed.begin().status_code == 201
    finally:
        exposed.close()


def test_a_claim_whose_answer_was_lost_is_not_handed_out_after_a_stop(store_url: str) -> None:
    """The client sends the same token again, and another process has stopped everything meanwhile."""
    exposed = Exposed(store_url, seal=False)
    try:
        token = "t" * 32
        assert exposed.begin(token=token).status_code == 201
        assert exposed.begin(token=token).status_code == 201
        with Ledger.open(store_url, tenant="acme", seal=False) as beside:
            beside.stop(by=ANA, reason="wrong accounts")
        refused = exposed.begin(token=token)
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/stopped")
    finally:
        exposed.close()
