"""Runs on PostgreSQL: what their driver does takes one statement, and what it remembers never deceives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from indelible.core.commands import Claimed
from indelible.core.runs.commands import EndRun, RunMoved, RunNotMoved, StartRun, TakeRun, Tell
from indelible.core.runs.run import Happening, Run
from indelible.stores.postgres import PostgresStore
from tests.stores.postgres.disturbing import Traffic, check_chain
from tests.stores.postgres.making import TENANT, claim, do, finish, opening, stamp

NOTED = Happening(type="acme.noted", payload_json=b"1")
MAILED = Happening(type="execution_succeeded", side_effect="notification", side_effect_key="k1")
LEASE = timedelta(seconds=30)
Admin = psycopg.Connection[Any]


def start(store: PostgresStore, run_id: str = "run-1", lease: timedelta = LEASE) -> Any:
    now = datetime.now(UTC)
    run = Run(id=run_id, agent="scout", created_at=now, updated_at=now)
    return do(store, StartRun(tenant=TENANT, stamp=stamp(), run=run, token="t1", lease=lease))


def tell(store: PostgresStore, *happenings: Happening, token: str | None = "t1") -> Any:
    return do(store, Tell(tenant=TENANT, run_id="run-1", stamp=stamp(), token=token, happenings=happenings))


def call(store: PostgresStore, number: int, token: str | None = "t1") -> Any:
    return do(store, opening(number, "run-1", driver_token=token))


def take(store: PostgresStore, token: str = "t2") -> Any:
    return do(store, TakeRun(tenant=TENANT, run_id="run-1", stamp=stamp(), token=token, lease=LEASE))


def cancel(store: PostgresStore) -> Any:
    words = {"tenant": TENANT, "run_id": "run-1", "stamp": stamp()}
    return do(store, EndRun(**words, status="canceled", reason_json=b'"late"'))


def test_whoever_drives_a_run_needs_one_statement_for_a_call_and_for_a_fact(
    store: PostgresStore, admin: Admin, traffic: Traffic
) -> None:
    start(store)
    held: list[Any] = []
    assert traffic.of(lambda: held.append(call(store, 1))) == ["open_one"]
    assert traffic.of(lambda: do(store, finish(held[0].claim), held[0].claim.effect)) == ["move_one"]
    assert traffic.of(lambda: tell(store, NOTED)) == ["write_batch"]
    assert traffic.of(lambda: tell(store, NOTED, token=None)) == ["write_batch"]
    assert traffic.of(lambda: tell(store, MAILED)) == ["look_with_sheets", "write_batch_with_sheets"]
    assert traffic.of(lambda: tell(store, MAILED)) == ["look_with_sheets", "write_batch"], "it is skipped"
    assert check_chain(admin, "run-1")


def test_who_wrote_there_meanwhile_costs_a_look(
    store: PostgresStore, other: PostgresStore, admin: Admin, traffic: Traffic
) -> None:
    start(store)
    claim(other, 7, "run-1")
    assert traffic.of(lambda: call(store, 1)) == ["open_one", "look_with_sheets", "open_one"]
    assert traffic.of(lambda: call(store, 2)) == ["open_one"], "and is known from then on"
    tell(other, NOTED, token=None)
    assert isinstance(tell(store, NOTED), RunMoved)
    assert check_chain(admin, "run-1")


def test_a_run_that_was_taken_or_ended_elsewhere_is_lost_at_once(
    store: PostgresStore, other: PostgresStore, admin: Admin
) -> None:
    start(store, lease=timedelta(0))
    assert isinstance(call(store, 1), Claimed)
    assert isinstance(take(other), RunMoved)
    assert call(store, 2) == RunNotMoved("lost", "is driven by somebody else now; stop working on it")
    assert tell(store, NOTED).code == "lost"
    assert isinstance(call(other, 3, "t2"), Claimed)
    assert isinstance(cancel(store), RunMoved)
    assert call(other, 4, "t2").code == "over"
    assert tell(other, NOTED, token=None).code == "over"
    assert check_chain(admin, "run-1")
