"""What locus says of its idempotent tools holds here, with the import changed and a line around the loop; and more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indelible import AsyncLedger, Ledger, connect, migrate
from indelible.compat import locus
from indelible.compat.locus import Execution, agent_run, tool
from indelible.errors import BadCall, EffectFailed, EffectInDoubt, IllegalMove, NotPermitted, NotRun
from indelible.testing.crashing import crash_at
from indelible.testing.once import Outside, effect_once
from tests.docs.following import Reader
from tests.docs.pages import DOCS
from tests.docs.terminal import Terminal
from tests.server.places import Place


@pytest.fixture
def ledger(store_url: str) -> Iterator[Ledger]:
    migrate(store_url)
    with Ledger.open(store_url, seal=False) as opened:
        yield opened


class Bank:
    """Does what it is asked, and counts it."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def transfer(self, *order: Any) -> dict[str, Any]:
        self.done.append(order)
        return {"receipt": len(self.done)}


def transfers(bank: Bank, **words: Any) -> Any:
    @tool(idempotent=True, **words)
    def transfer(from_acct: str, to_acct: str, amount: float, note: str = "") -> dict[str, Any]:
        """Transfer funds. Re-fires within a run return the recorded receipt."""
        return bank.transfer(from_acct, to_acct, amount)

    return transfer


def test_the_same_call_in_a_run_skips_the_body_and_another_call_does_not(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank)
    with agent_run("order-123", ledger=ledger):
        assert transfer("A", "B", 100) == {"receipt": 1}
        assert transfer("A", "B", 100) == {"receipt": 1}
        assert transfer(amount=100, note="", to_acct="B", from_acct="A") == {"receipt": 1}, "order and defaults"
        assert transfer("A", "B", 200) == {"receipt": 2}
    assert len(bank.done) == 2
    assert (transfer.name, transfer.idempotent) == ("transfer", True)
    assert transfer.description.startswith("Transfer funds.")


def test_the_vendors_order_ships_once_and_the_mail_lands_once(ledger: Ledger) -> None:
    """The agent iterates ten times; in the middle its process is gone, and a new one begins again."""
    sent: list[Any] = []

    def loop() -> None:
        @tool(idempotent=True)
        def submit_po(vendor_id: str, line_items: list[dict[str, Any]]) -> dict[str, Any]:
            sent.append(line_items)
            return {"po_id": f"po-{vendor_id}"}

        @tool(idempotent=True)
        def email_cfo(po_id: str, summary: str) -> str:
            sent.append(po_id)
            return "sent"

        with agent_run("vendor-7", ledger=ledger):
            for _ in range(10):
                order = submit_po("7", [{"item": "paper", "count": 3}])
                assert email_cfo(order["po_id"], "paper") == "sent"

    loop()
    loop()
    assert sent == [[{"item": "paper", "count": 3}], "po-7"]


def test_two_runs_are_two_and_so_are_two_agents(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank)
    for run, agent in [("one", None), ("two", None), ("one", "billing"), ("one", "audit"), ("one", "billing")]:
        with agent_run(run, ledger=ledger, agent=agent):
            transfer("A", "B", 100)
    assert len(bank.done) == 4


@pytest.mark.parametrize("agent", [None, "billing"])
def test_45_a_fork_replays_the_calls_of_an_agent(ledger: Ledger, agent: str | None) -> None:
    bank = Bank()
    transfer = transfers(bank)
    ledger.start_run("one", agent="billing", intent="pay").release()
    for run in ("one", None):
        with agent_run(run or ledger.fork_run("one").id, ledger=ledger, agent=agent):
            assert transfer("A", "B", 100) == {"receipt": 1}
    assert len(bank.done) == 1


def test_45_no_two_places_share_a_scope(ledger: Ledger) -> None:
    """A bar in a name made two agents, or an agent and a run, one."""
    bank = Bank()
    transfer = transfers(bank)
    places = [("a|b", "c"), ("a", "b|c"), ("a|b|c", None), ('["a","b"]', None), ("a", "b"), ("across runs", None)]
    for run, agent in places:
        with agent_run(run, ledger=ledger, agent=agent):
            transfer("A", "B", 100)
    with agent_run("one", ledger=ledger):
        transfers(bank, across_runs=True)("A", "B", 100)
    assert len(bank.done) == len(places) + 1
    assert len({effect.scope for effect in ledger.effects()}) == len(places) + 1
    for scope in {effect.scope for effect in ledger.effects()} - {run for run, _ in places}:
        with pytest.raises(BadCall), agent_run(scope, ledger=ledger):
            transfer("A", "B", 100)


def test_a_run_without_a_name_is_a_new_one_each_time(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank)
    names = set()
    for _ in range(2):
        with agent_run(ledger=ledger) as name:
            names.add(name)
            transfer("A", "B", 100)
            transfer("A", "B", 100)
    assert (len(names), len(bank.done)) == (2, 2)


def test_across_runs_it_is_once_in_all_of_them(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank, across_runs=True)
    for run, agent in [("one", None), ("two", "billing"), (None, None)]:
        with agent_run(run, ledger=ledger, agent=agent):
            assert transfer("A", "B", 100) == {"receipt": 1}
    assert len(bank.done) == 1


def test_the_failure_of_the_first_call_is_its_result_until_an_argument_changes(ledger: Ledger) -> None:
    tries: list[str] = []

    @tool(idempotent=True)
    def book_flight(flight_id: str, customer_id: str) -> dict[str, Any]:
        tries.append(flight_id)
        if flight_id == "F1":
            raise LookupError("no seat is left")
        return {"booked": flight_id}

    with agent_run("trip", ledger=ledger):
        with pytest.raises(LookupError, match="no seat"):
            book_flight("F1", "ana")
        with pytest.raises(EffectFailed, match="no seat") as repeated:
            book_flight("F1", "ana")
        assert book_flight("F2", "ana") == {"booked": "F2"}
    assert repeated.value.error_type == "LookupError"
    assert tries == ["F1", "F2"]


def test_by_choice_a_body_that_raised_is_in_doubt(ledger: Ledger) -> None:
    def book(flight_id: str) -> None:
        raise ConnectionResetError("the answer was lost")

    book_flight: Any = tool(idempotent=True, failed_on=())(book)
    done = [Execution(tool=book_flight, arguments={"flight_id": "F0"}, error="no seat")]
    with agent_run("trip", ledger=ledger, tool_executions=done):
        with pytest.raises(ConnectionResetError):
            book_flight("F1")
        with pytest.raises(EffectInDoubt):
            book_flight("F1")
        with pytest.raises(EffectFailed):  # what was told of before is known to have failed
            book_flight("F0")


def test_by_choice_a_body_that_raised_has_done_nothing(ledger: Ledger) -> None:
    tries: list[str] = []

    @tool(idempotent=True, on_failure="again")
    def book_flight(flight_id: str) -> str:
        tries.append(flight_id)
        if len(tries) == 1:
            raise LookupError("no seat is left")
        return "booked"

    with agent_run("trip", ledger=ledger):
        with pytest.raises(LookupError, match="no seat"):
            book_flight("F1")
        assert book_flight("F1") == "booked"
        assert book_flight("F1") == "booked"
    assert len(tries) == 2


def test_coroutine_functions_too(store_url: str) -> None:
    migrate(store_url)
    tries: list[int] = []

    @tool(idempotent=True, on_failure="again")
    async def page_oncall(who: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError("busy")
        return f"paged {who}"

    async def loop() -> None:
        async with AsyncLedger.open(store_url, seal=False) as ledger:
            with agent_run("night", ledger=ledger):
                with pytest.raises(TimeoutError):
                    await page_oncall("ana")
                for _ in range(2):
                    assert await page_oncall("ana") == "paged ana"

    asyncio.run(loop())
    assert len(tries) == 2


def test_what_was_done_before_is_not_done_again(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank)
    old = {"from_acct": "A", "to_acct": "B"}
    executions = [
        Execution(tool=transfer, arguments={**old, "amount": 1}, result={"receipt": "old"}),
        Execution(tool=transfer, arguments={**old, "amount": 2}, error="no funds"),
    ]
    for _ in range(2):  # a run that is resumed once more is told of them once more
        with agent_run("order-123", ledger=ledger, tool_executions=executions):
            assert transfer("A", "B", 1) == {"receipt": "old"}
            with pytest.raises(EffectFailed, match="no funds"):
                transfer("A", "B", 2)
    assert bank.done == []
    with (
        pytest.raises(TypeError),
        agent_run("x", ledger=ledger, tool_executions=[Execution(tool=transfer, arguments={})]),
    ):
        pass


def judging(ledger: Ledger, judge: str) -> None:
    if judge == "a stop":
        ledger.stop(by="ana", reason="halt")
    elif judge == "a policy":
        ledger.apply_policy({"rules": [{"name": "none", "then": "refuse"}]}, by="ana")
    elif judge == "a budget":
        one = {"name": "day", "limit": 1, "window": "1d", "sum": "cents", "match": {"tool": "pay"}}
        ledger.apply_policy({"defaults": "allow", "budgets": [one]}, by="ana")


@pytest.mark.parametrize("judge", ["an approval", "a stop", "a policy", "a budget"])
def test_54_what_was_done_or_failed_elsewhere_is_judged_by_no_rule(ledger: Ledger, judge: str) -> None:
    """What was done was asked about, could be denied, and was then on the record as denied."""
    made: list[int] = []
    words: dict[str, Any] = {"approval": "required"} if judge == "an approval" else {}

    @tool(idempotent=True, side_effect="payment", wait=False, **words)
    def pay(cents: int) -> dict[str, str]:
        made.append(cents)
        return {"receipt": "new"}

    judging(ledger, judge)
    executions = [
        Execution(tool=pay, arguments={"cents": 7}, result={"receipt": "old"}),
        Execution(tool=pay, arguments={"cents": 8}, error="TimeoutError: no answer"),
    ]
    for _ in range(2):
        with agent_run("order-7", ledger=ledger, tool_executions=executions):
            pass
    assert sorted(one.status for one in ledger.effects(run_id="order-7")) == ["failed", "succeeded"]
    assert list(ledger.approvals()) == []
    if judge == "a stop":
        ledger.go(by="ana")
    with agent_run("order-7", ledger=ledger):  # they are told of once, at the take-over
        assert pay(7) == {"receipt": "old"}
        with pytest.raises(EffectFailed) as failed:
            pay(8)
        assert failed.value.error_type == "FailedBefore"
        if judge != "a stop":
            with pytest.raises(NotRun):
                pay(9)
    assert made == []


def test_54_through_a_server_only_an_administrator_says_what_was_done_elsewhere(store_url: str, tmp_path: Path) -> None:
    bank = Bank()
    transfer = transfers(bank)
    order = {"from_acct": "A", "to_acct": "B", "amount": 1}
    done = [Execution(tool=transfer, arguments=order, result={"receipt": "old"})]
    place = Place(store_url, keys=tmp_path / "keys")
    try:
        with connect(place.served.url, token=place.tokens["agent"]) as ledger:
            resumed = agent_run("order-7", ledger=ledger, tool_executions=done)
            with pytest.raises(NotPermitted):
                resumed.__enter__()
        with (
            connect(place.served.url, token=place.tokens["admin"]) as ledger,
            agent_run("order-7", ledger=ledger, tool_executions=done),
        ):
            pass
        with connect(place.served.url, token=place.tokens["agent"]) as ledger, agent_run("order-7", ledger=ledger):
            assert transfer("A", "B", 1) == {"receipt": "old"}
    finally:
        place.close()
    assert bank.done == []


def test_54_what_was_done_elsewhere_and_is_in_doubt_here_lets_nothing_run(ledger: Ledger) -> None:
    @tool(idempotent=True, failed_on=())
    def pay(cents: int) -> None:
        raise TimeoutError("no answer")

    with agent_run("order-7", ledger=ledger), pytest.raises(TimeoutError):
        pay(7)
    done = agent_run("order-7", ledger=ledger, tool_executions=[Execution(tool=pay, arguments={"cents": 7}, result=1)])
    with pytest.raises(IllegalMove):
        done.__enter__()
    failed = [Execution(tool=pay, arguments={"cents": 7}, error="no")]
    with agent_run("order-7", ledger=ledger, tool_executions=failed), pytest.raises(EffectInDoubt):
        pay(7)


def test_54_what_was_done_elsewhere_is_recorded_without_its_secrets_and_verified(ledger: Ledger) -> None:
    @tool(idempotent=True, side_effect="payment", redact=["args.card", "result.iban"])
    def pay(card: str) -> dict[str, str]:
        raise AssertionError("it was done")

    done = [Execution(tool=pay, arguments={"card": "4111"}, result={"iban": "DE02", "id": "ch_1"})]
    with agent_run("order-7", ledger=ledger, tool_executions=done):
        assert pay("4111")["id"] == "ch_1"
    (effect,) = ledger.effects(run_id="order-7")
    assert "4111" not in str(effect.args)
    assert "DE02" not in str(effect.outcome)
    assert [event.type for event in ledger.events("order-7")] == ["tool_call_adopted"]


@pytest.mark.parametrize("encrypt", [False, True])
def test_95_what_was_done_elsewhere_is_erased_with_the_person_it_is_about(store_url: str, encrypt: bool) -> None:
    @tool(idempotent=True, side_effect="payment", subject="args.person")
    def pay(person: str, iban: str) -> dict[str, str]:
        raise AssertionError("it was done")

    done = [Execution(tool=pay, arguments={"person": who, "iban": "DE02"}, result={"to": who}) for who in ("ana", "bo")]
    migrate(store_url)
    with Ledger.open(store_url, encrypt=encrypt, seal=False) as ledger:
        with agent_run("order-7", ledger=ledger, tool_executions=done):
            assert pay("ana", "DE02") == {"to": "ana"}
        ledger.erase(subject="ana", reason="she asked", by="dpo")
        kept = [None if one.are_args_erased else one.args["person"] for one in ledger.effects(run_id="order-7")]
    assert sorted(kept, key=str) == [None, "bo"]


def test_a_process_that_dies_leaves_no_repeat_behind(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    outside = Outside(tmp_path / "outside")

    @tool(idempotent=True)
    def slack_alert(text: str) -> str:
        outside.happens(text)
        return "sent"

    def loop() -> None:
        with agent_run("alert", ledger=ledger):
            assert slack_alert("fire") == "sent"

    effect_once(outside, loop, "fire", at="after_record")
    with agent_run("other", ledger=ledger):
        crash_at("after_handler", lambda: slack_alert("flood"))
        with pytest.raises(EffectInDoubt):
            slack_alert("flood")
    assert outside.times("flood") == 1


def test_outside_of_a_run_it_is_refused(ledger: Ledger) -> None:
    bank = Bank()
    transfer = transfers(bank)
    for _ in range(2):
        with pytest.raises(BadCall, match=r"with agent_run\("):
            transfer("A", "B", 100)
        with agent_run("order-123", ledger=ledger):
            pass
    assert bank.done == []


def test_a_tool_that_is_not_idempotent_is_called_each_time() -> None:
    made: list[int] = []

    @tool
    def mint_uuid() -> int:
        made.append(1)
        return len(made)

    @tool(description="Looks a word up.")
    def look_up(word: str) -> str:
        return word

    assert [mint_uuid(), mint_uuid(), look_up("x")] == [1, 2, "x"]
    with pytest.raises(BadCall, match="say idempotent=True"):
        tool(across_runs=True)
    with pytest.raises(BadCall, match="choose keep or again"):
        tool(idempotent=True, on_failure="sometimes")  # type: ignore[call-overload]
    with pytest.raises(BadCall, match="labels: that is for locus's own agent"):
        tool(idempotent=True, labels=["money"])
    assert tool(idempotent=True, description="Mints.")(mint_uuid).description == "Mints."  # type: ignore[attr-defined]


def test_without_a_ledger_it_is_the_usual_one(sqlite_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INDELIBLE_URL", sqlite_url)
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.setattr(locus, "_opened", [])
    bank = Bank()
    transfer = transfers(bank)
    try:
        for _ in range(2):
            with agent_run("order-123"):
                transfer("A", "B", 100)
    finally:
        (opened,) = locus._opened
        opened.close()
    assert len(bank.done) == 1


def test_the_page(tmp_path: Path) -> None:
    """migrate/locus.md, from top to bottom, by somebody who types what stands there."""
    (tmp_path / "reader").mkdir()
    Reader(terminal=Terminal(folder=tmp_path / "reader")).follow(DOCS / "migrate" / "locus.md")
