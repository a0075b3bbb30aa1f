"""The row of a budget, or of a resource that a call keeps to itself, is put back with SQL alone."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import AwaitingApproval, GrantTerms, Ledger, Resource, ToolCall, migrate
from indelible.errors import RecordForged, ResourceBusy, Stopped
from tests.journal.attacked_world import POLICY, charge, dumped
from tests.journal.tampering import Database


class Place:
    """Is a ledger with a budget of 100, and what its handlers did."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.entered: list[Any] = []
        migrate(url)
        with self.opened() as ledger:
            ledger.apply_policy(POLICY, by="ana")
            ledger.run(charge(1), lambda effect: "paid")
            ledger.seal()

    def opened(self) -> Ledger:
        return Ledger.open(self.url, seal=False, wakeups=False)

    def call(self, call: ToolCall) -> None:
        """Make a call in a process of its own, as it were: nothing is remembered but by files."""
        with self.opened() as ledger:
            ledger.run(call, lambda effect: self.entered.append(effect.args))

    def seal(self) -> None:
        with self.opened() as ledger:
            ledger.seal()

    def budgets(self) -> list[Any]:
        with closing(Database(self.url)) as database:
            return [row for row in database.rows("sheets") if row["kind"] == "budget"]

    def put_back(self, old: list[Any]) -> None:
        with closing(Database(self.url)) as database:
            database.replace("sheets", [*(row for row in database.rows("sheets") if row["kind"] != "budget"), *old])

    def why_stopped(self) -> str:
        with self.opened() as ledger:
            stop = ledger.stopped()
        return "" if stop is None else stop.reason


@pytest.fixture
def place(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    return Place(store_url)


@pytest.mark.parametrize("is_deleted", [False, True])
@pytest.mark.parametrize("before_the_seal", [False, True])
def test_98_a_budget_that_is_put_back_at_each_seal_keeps_its_limit(
    place: Place, before_the_seal: bool, is_deleted: bool
) -> None:
    old = [] if is_deleted else place.budgets()
    place.call(charge(90))
    for number in range(3):
        if before_the_seal:
            place.put_back(old)
        place.seal()
        place.put_back(old)
        with pytest.raises(RecordForged):
            place.call(charge(91 + number))
    assert place.entered == [{"amount": 90}]


def test_98_a_budget_that_is_put_back_between_two_calls_stops_effects_at_the_next_seal(place: Place) -> None:
    old = place.budgets()
    place.call(charge(90))
    place.put_back(old)
    place.call(charge(91))  # a state younger than the newest head is not ruled out
    place.seal()
    assert "reservation 2 of budget money" in place.why_stopped()
    with pytest.raises(Stopped):
        place.call(charge(2))


def test_98_a_resource_that_is_put_back_beside_a_call_in_doubt_stops_effects(place: Place) -> None:
    def ship(number: int, *, is_lost: bool = False) -> None:
        def handler(effect: Any) -> None:
            place.entered.append(number)
            if is_lost:
                raise ConnectionResetError

        call = ToolCall(tool="ship", args={"number": number}, run_id=f"order-{number}")
        with place.opened() as ledger:
            ledger.run(call, handler, exclusive=Resource(namespace="shop", type="order", id="o-1"))

    with pytest.raises(ConnectionResetError):
        ship(1, is_lost=True)
    with pytest.raises(ResourceBusy):
        ship(2)
    place.put_back([row for row in place.budgets() if row["id"].startswith("money")])
    ship(3)
    place.seal()
    assert "resource" in place.why_stopped()
    assert place.entered == [1, 3]


def test_98_honest_reservations_stop_nothing(place: Place) -> None:
    """Two processes take turns, calls fail, wait and are given back, and each seals."""
    with place.opened() as one, place.opened() as other:
        for number in range(3):
            for ledger in (one, other, one):
                ledger.run(charge(1, f"order-{number}"), lambda effect: "paid")
            other.seal()
            one.run(charge(2 + number), lambda effect: "paid")
            one.seal()
    assert place.why_stopped() == ""


def test_98_calls_on_a_grant_that_take_from_a_budget_stop_nothing(place: Place) -> None:
    """One event tells of the grant and of the budget; it was taken for two."""

    def order(number: int) -> ToolCall:
        return ToolCall(tool="charge", args={"amount": 5, "order": number}, run_id="order-1")

    with place.opened() as ledger:
        asked = ledger.begin(order(1), approval="required")
        assert isinstance(asked, AwaitingApproval)
        terms = GrantTerms(count=9, until=datetime.now(UTC) + timedelta(hours=1), pin=("amount",))
        ledger.approve(asked.approval, digest=asked.approval.digest, by="ana", grant=terms)
        for number in (1, 2, 3):
            ledger.run(order(number), lambda effect: "paid", approval="required")
            ledger.seal()
    assert place.why_stopped() == ""


def test_59_a_program_that_runs_while_the_database_is_put_back_finds_no_forgery_after_the_loss_is_declared(
    place: Place,
) -> None:
    """Reservations of the lost part get their numbers again, and the program remembered them."""
    with place.opened() as ledger:
        sealer = ledger._engine.notary.sealer()
        with closing(Database(place.url)) as database:
            backup = dumped(database)
        for number in range(2, 6):
            ledger.run(charge(number), lambda effect: "paid")
        sealer.seal()
        with closing(Database(place.url)) as database:
            for table, rows in backup.items():
                database.replace(table, rows)
        with place.opened() as other:
            other.continue_journal()
        for number in range(6, 12):
            ledger.run(charge(number), lambda effect: "paid")
            sealer.seal()
    assert place.why_stopped() == ""


@pytest.mark.parametrize("is_open", [True, False])
def test_98_a_budget_is_not_spent_again_after_an_older_copy_of_the_keys_was_put_back(
    place: Place, tmp_path: Path, is_open: bool
) -> None:
    keys, copy = tmp_path / "keys", tmp_path / "copy"

    def put_keys_back() -> None:
        shutil.rmtree(keys)
        shutil.copytree(copy, keys)

    def mail(ledger: Ledger) -> None:
        ledger.run(ToolCall(tool="mail", args={}, run_id="mails"), lambda effect: "sent")
        ledger.seal()

    with place.opened() as ledger:
        shutil.copytree(keys, copy)
        old = place.budgets()
        for number in range(2, 5):
            ledger.run(charge(number), lambda effect: place.entered.append(effect.args))
        ledger.seal()
        if is_open:
            put_keys_back()
        mail(ledger)
    if not is_open:
        put_keys_back()
    place.put_back(old)
    for number in range(10, 14):
        with suppress(Stopped, RecordForged):
            place.call(charge(number))
        with suppress(RecordForged):
            place.seal()
    assert len(place.entered) <= 4, "the seal stops effects, for two events tell of one reservation"
    assert "another event took" in place.why_stopped() or len(place.entered) == 3
