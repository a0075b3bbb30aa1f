"""Each entry of the tree is examined once, whoever put it there: nothing is gained by what is hidden meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import GrantTerms, Ledger, NothingHappened, ToolCall
from indelible.core.commands import Record
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import facts_json
from indelible.core.macs import Known
from indelible.core.privacy.forgetting import HOLD_LIFTED
from indelible.engine.mint import SystemMint
from indelible.errors import IndelibleError, OnHold, RecordForged, SignerRefused
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify
from indelible.journal.examining import EXAMINED
from indelible.journal.keys.newest import NewestVersions
from indelible.migrating.moving import move_tenant
from indelible.server.signin.credentials import Credentials
from indelible.stores import open_store
from tests.journal.attacked_world import POLICY, charge, mail
from tests.journal.decided import approve, ask, refund
from tests.journal.exported import key_of
from tests.journal.sql_attacks import take_in
from tests.journal.tampering import Database
from tests.journal.test_98_remembered import HOW, ROOT, Place, revoked
from tests.lending import lend_writer_keys

Rows = list[dict[str, Any]]


@pytest.fixture
def place(store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "keys"))
    return Place(store_url, tmp_path / "keys")


def replace(place: Place, table: str, rows: Rows) -> None:
    database = Database(place.url)
    database.replace(table, rows)
    database.close()


def sheets_of(place: Place, *kinds: str) -> Rows:
    return [row for row in place.rows("sheets") if row["kind"] in kinds]


def put_back(place: Place, old: Rows, *kinds: str) -> None:
    replace(place, "sheets", [row for row in place.rows("sheets") if row["kind"] not in kinds] + old)


def why_stopped(place: Place) -> str:
    with place.opened() as ledger:
        stop = ledger.stopped()
    return "" if stop is None else stop.reason


def verdict(place: Place) -> str:
    with place.opened() as ledger:
        seal = ledger._engine.notary.seal_with_own_key
        return verify(LiveEvidence(ledger._engine.store, "default", seal), [key_of(ledger)]).verdict


# What is hidden while it is sealed


@pytest.mark.parametrize("table", ["payloads", "events", "pending"])
def test_98_a_revocation_of_which_something_is_hidden_while_it_is_sealed_lets_nobody_in(
    place: Place, table: str
) -> None:
    with place.opened() as sealing:
        token, old = revoked(place)
        rows = place.rows(table)
        newest = max(row["seq"] for row in rows if row["run_id"] == "indelible:credentials")
        hidden = [row for row in rows if (row["run_id"], row["seq"]) == ("indelible:credentials", newest)]
        replace(place, table, [row for row in rows if row not in hidden])
        sealing.seal()
        now = place.rows(table)
        replace(place, table, now + [row for row in hidden if row not in now])
        place.put_back([row for row in old if row["kind"] == "credential"])
        for _ in range(2):
            assert not place.lets_in(token)
            with place.opened() as ledger, suppress(IndelibleError):
                ledger.seal()


def hide_its_effect(rows: Rows, effect_id: str) -> Rows:
    its = [row for row in rows if row["effect_id"] == effect_id and row["seq"] > 1]
    return [{**row, "effect_id": "eff_hidden"} if row in its else row for row in rows]


def hide_it(rows: Rows, effect_id: str) -> Rows:
    return [row for row in rows if row["effect_id"] != effect_id or row["seq"] <= 1]


def change_it(rows: Rows, effect_id: str) -> Rows:
    bodies = {row["seq"]: row["body"] for row in rows if row["effect_id"] == effect_id}
    return [{**row, "body": bodies[1]} if row["effect_id"] == effect_id and row["seq"] > 1 else row for row in rows]


@pytest.mark.parametrize("hide", [hide_its_effect, hide_it, change_it])
def test_98_a_call_whose_old_row_is_put_back_is_named_whatever_its_events_say_meanwhile(
    place: Place, hide: Callable[[Rows, str], Rows]
) -> None:
    entered: list[int] = []
    call = ToolCall(tool="pay", args={"n": 1}, run_id="order-1")

    def nothing(effect: Any) -> None:
        raise NothingHappened("no")

    with place.opened() as ledger:
        with suppress(NothingHappened):
            ledger.run(call, nothing)
        ledger.seal()
        ready = place.rows("effects")
        ledger.run(call, lambda effect: entered.append(1))
        ledger.seal()
        signed = place.rows("events")
    replace(place, "effects", ready)
    with place.opened() as ledger:
        ledger.run(call, lambda effect: entered.append(1))
        added = [row for row in place.rows("events") if row not in signed]
        replace(place, "events", hide(signed, ready[0]["id"]) + added)
        ledger.seal()
        told = [row for row in place.rows("events") if row["run_id"] != "order-1"]
        replace(place, "events", [row for row in signed + added if row["run_id"] == "order-1"] + told)
        stop = ledger.stopped()
    assert entered == [1, 1]
    assert stop is not None
    assert "run order-1" in stop.reason


@pytest.mark.parametrize("how", ["gone for a moment", "in another order"])
def test_98_no_seal_takes_an_event_without_the_one_before_it(place: Place, how: str) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        for number in range(3):
            ledger.record("notes", "acme.noted", {"n": number})
        waiting = place.rows("pending")
        replace(place, "pending", [row for row in waiting if row["seq"] != 0])
        if how == "gone for a moment":
            ledger.seal()
        replace(place, "pending", place.rows("pending") + [row for row in waiting if row["seq"] == 0])
        ledger.seal()
        entries = ledger._engine.store.journal.entries("default", 0, 1000)
        seqs = [entry.seq for entry in entries if entry.run_id == "notes"]
    assert seqs == list(range(len(seqs)))
    assert bool(why_stopped(place)) or len(seqs) == 3
    assert verdict(place) == "verified"


# What is remembered of budgets and grants


def taken_in_by_another(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    state = place.state()
    take_in(state)
    place.set_back(state)
    with place.opened() as ledger:
        ledger.seal()


@pytest.mark.parametrize("how", [*HOW, taken_in_by_another])
def test_98_a_spent_budget_and_a_used_grant_stay_so(place: Place, monkeypatch: pytest.MonkeyPatch, how: Any) -> None:
    done: list[str] = []
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        ledger.run(charge(1), lambda effect: done.append("charge"))
        terms = GrantTerms(count=2, until=datetime.now(UTC) + timedelta(days=1))
        approve(ledger, ask(ledger, refund("order-8")), "ana", grant=terms)
        ledger.run(refund("order-8"), lambda effect: done.append("refund"))
        ledger.seal()
    shutil.copytree(place.keys, place.keys.with_name("backup"))
    old = sheets_of(place, "budget", "grant")
    with place.opened() as ledger:
        ledger.run(charge(90), lambda effect: done.append("charge"))
        ledger.run(refund("order-9"), lambda effect: done.append("refund"))
    how(place, monkeypatch)
    put_back(place, old, "budget", "grant")
    for call in (charge(91), refund("order-10")):
        with place.opened() as ledger, suppress(IndelibleError):
            ledger.run(call, lambda effect: done.append(effect.tool), wait=False)
    assert sorted(done) == ["charge", "charge", "refund", "refund"]
    assert not why_stopped(place)


def test_98_the_use_of_a_grant_that_is_put_back_between_two_calls_stops_effects(place: Place) -> None:
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        terms = GrantTerms(count=2, until=datetime.now(UTC) + timedelta(days=1))
        approve(ledger, ask(ledger, refund("order-8")), "ana", grant=terms)
        ledger.seal()
    old = sheets_of(place, "grant")
    for number in (9, 10):
        put_back(place, old, "grant")
        with place.opened() as ledger:
            ledger.run(refund(f"order-{number}"), lambda effect: "refunded")
    with place.opened() as ledger:
        ledger.seal()
    assert "of grant" in why_stopped(place)


def test_98_what_another_took_into_the_tree_is_examined_by_the_rules(place: Place) -> None:
    call = ToolCall(tool="pay", args={"n": 1}, run_id="order-1")
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        head = ledger.seal()
        ledger.run(call, lambda effect: "paid")
        ledger.run(mail(2), lambda effect: "sent")
    state = place.state()
    of_call = [row for row in state["pending"] if row["run_id"] == "order-1"]
    state["pending"] = [row for row in state["pending"] if row not in of_call[:1]]
    take_in(state)
    place.set_back(state)
    with place.opened() as ledger:
        with pytest.raises(SignerRefused):
            ledger.seal()
        assert ledger._engine.store.journal.heads("default", 1) == [str(head)]
    assert "changed without the keys" in why_stopped(place)


# What is found is not forgotten


@pytest.mark.parametrize("by", ["an old row", "a person"])
def test_98_a_forgery_stops_effects_also_while_another_stop_stands(place: Place, by: str) -> None:
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        ledger.stop(by=ROOT, reason="look")
        ledger.seal()
        stopped = sheets_of(place, "stop")
        ledger.go(by=ROOT)
        ledger.run(charge(1), lambda effect: "paid")
        ledger.seal()
    budget = sheets_of(place, "budget")
    for amount in (90, 91):
        put_back(place, budget, "budget")
        with place.opened() as ledger:
            ledger.run(charge(amount), lambda effect: "paid")
    going = sheets_of(place, "stop")
    with place.opened() as ledger:
        if by == "a person":
            ledger.stop(by=ROOT, reason="a drill")
        else:
            put_back(place, stopped, "stop")
        ledger.seal()
    assert "changed without the keys" in why_stopped(place)
    put_back(place, going, "stop")
    with pytest.raises(IndelibleError), place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")


# Holds


def renamed(place: Place) -> None:
    rows = place.rows("events")
    replace(place, "events", [{**row, "type": "noted"} if row["type"] == "hold_placed" else row for row in rows])


def lifted_without_a_key(place: Place) -> None:
    (placed,) = (row for row in place.rows("events") if row["type"] == "hold_placed")
    hold = ledger_fact(place, placed)
    attacker = open_store(place.url)
    stamp = SystemMint().stamp(SYSTEM)
    facts = facts_json({"hold": hold})
    lifting = Record(tenant="default", run_id="order-1", stamp=stamp, event_type=HOLD_LIFTED, facts=facts)
    attacker.apply("default", [lifting], [None])
    attacker.close()


def ledger_fact(place: Place, row: dict[str, Any]) -> str:
    with place.opened() as ledger:
        (event,) = ledger._engine.store.events("default", row["run_id"], row["seq"] - 1, 1)
    return str(event.read()["facts"]["hold"])


@pytest.mark.parametrize("lift", [renamed, lifted_without_a_key])
def test_98_a_hold_is_not_lifted_without_a_key(place: Place, lift: Callable[[Place], None]) -> None:
    with place.opened() as ledger:
        ledger.run(mail(1, "order-1"), lambda effect: "secret evidence")
        ledger.hold(run_id="order-1", by="ana", reason="a lawsuit")
        ledger.seal()
    lift(place)
    with place.opened() as ledger:
        with suppress(RecordForged):
            assert [hold.run_id for hold in ledger.holds()] == ["order-1"]
        with pytest.raises((OnHold, RecordForged)):
            ledger.erase(run_id="order-1", by="ana", reason="asked by the customer")


def taken_into_the_tree(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.opened() as ledger:  # and killed before it signed the head
        ledger._engine.notary.sealer().integrate()


def another_seals_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seal while another process seals all of it, just after this one saw how far the tree was examined."""
    taken_into_the_tree(place, monkeypatch)
    real = NewestVersions.kept
    looks = iter([False, True])  # first when it begins, then when it reads on

    def kept(newest: NewestVersions, kinds: Iterable[str]) -> Known:
        found = real(newest, kinds)
        if kinds == (EXAMINED.kind,) and next(looks, False):
            with place.opened() as other:
                other.seal()
        return found

    with place.opened() as ledger:
        sealer = ledger._engine.notary.sealer()
        monkeypatch.setattr(NewestVersions, "kept", kept)
        sealer.seal()
        assert next(looks, None) is None


@pytest.mark.parametrize("how", [*HOW, taken_into_the_tree, another_seals_meanwhile])
def test_98_a_hold_is_counted_once_wherever_a_seal_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        ledger.run(mail(0, "order-1"), lambda effect: "secret evidence")
        ledger.seal()
    shutil.copytree(place.keys, place.keys.with_name("backup"))
    with place.opened() as ledger:
        ledger.run(charge(10), lambda effect: "charged")
        hold = ledger.hold(run_id="order-1", by="ana", reason="a lawsuit")
        ledger.lift_hold(hold.id, by="ana", reason="it ended")
    how(place, monkeypatch)
    for number in range(2):  # also a process that comes later
        with place.opened() as ledger:
            ledger.run(charge(20 + number), lambda effect: "charged")
            ledger.seal()
            assert (ledger.stopped(), ledger.holds()) == (None, [])
    with place.opened() as ledger:
        ledger.erase(run_id="order-1", by="ana", reason="asked by the customer")


# A move


def test_98_a_tenant_is_not_moved_with_what_cannot_be_signed(place: Place, tmp_path: Path) -> None:
    target = Place(f"sqlite:///{tmp_path / 'target.db'}", place.keys)
    with place.opened() as ledger:
        ledger.run(mail(1), lambda effect: "sent")
        ledger.seal()
        ledger.run(mail(2), lambda effect: "sent")
    replace(place, "events", [{**row, "mac": None} if row["seq"] == 2 else row for row in place.rows("events")])
    with pytest.raises(RecordForged):
        move_tenant(place.url, target.url, "default", by="ana")
    assert target.rows("events") == []


def test_98_what_is_known_of_budgets_and_grants_is_known_where_the_tenant_is_moved(
    place: Place, tmp_path: Path
) -> None:
    done: list[str] = []
    target = Place(f"sqlite:///{tmp_path / 'target.db'}", place.keys)
    with Ledger.open(target.url, tenant="other", seal=False) as other:
        other.run(mail(1), lambda effect: "sent")
        other.seal()
    with place.opened() as ledger:
        ledger.apply_policy(POLICY, by="ana")
        ledger.run(charge(90), lambda effect: done.append("charge"))
        ledger.seal()
    move_tenant(place.url, target.url, "default", by="ana")
    put_back(target, [], "budget")
    with target.opened() as ledger, pytest.raises(RecordForged):
        ledger.run(charge(91), lambda effect: done.append("charge"))
    assert done == ["charge"]


def test_98_a_run_of_rights_that_is_not_listed_is_read_all_the_same(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with place.opened() as ledger:
        Credentials(ledger._engine.store, "default")
        ledger.stop(by=ROOT, reason="look")
        ledger.go(by=ROOT)
        going = sheets_of(place, "stop")
        ledger.stop(by=ROOT, reason="look again")
        ledger.seal()
        lend_writer_keys(monkeypatch, ledger)
    put_back(place, going, "stop")
    replace(place, "runs", [row for row in place.rows("runs") if row["run_id"] != "indelible:stops"])
    monkeypatch.setenv("INDELIBLE_KEYS", str(tmp_path / "far"))
    with pytest.raises(IndelibleError), place.opened() as worker:
        worker.run(mail(1), lambda effect: "sent")
