"""Writers that race on PostgreSQL: guards, locks, and whose clock counts."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from indelible.core.commands import Answer, Claimed, Command, Expire, InDoubt, InFlight, Late, Moved, Open
from indelible.core.effects.effect import Claim
from indelible.core.ports import Filter
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.connections import Session
from tests.stores.postgres.disturbing import Traffic, check_chain
from tests.stores.postgres.making import TENANT, claim, do, finish, opening, recording, settle, stamp


def test_two_stores_that_race_for_one_run_lose_no_event(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    def work(which: PostgresStore, start: int) -> None:
        for number in range(start, start + 60):
            settle(which, claim(which, number))

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, (store, other), (0, 1000)))
    assert check_chain(admin, "order-1") == 240


def test_batches_that_race_for_the_same_keys_and_runs_claim_each_once(url: str, admin: psycopg.Connection[Any]) -> None:
    stores = [PostgresStore(url, wakeups=False) for _ in range(4)]

    def work(which: int) -> list[Claim]:
        claims = []
        for round_ in range(12):
            numbers = [round_ * 8 + step for step in range(8)]
            order = numbers if which % 2 else numbers[::-1]
            commands = [opening(number, f"order-{number % 3}") for number in order]
            answers = stores[which].apply(TENANT, commands, [None] * 8)
            claims += [answer.claim for answer in answers if isinstance(answer, Claimed)]
        stores[which].apply(TENANT, [finish(held) for held in claims], [None] * len(claims))
        return claims

    with ThreadPoolExecutor() as pool:
        claimed = [held.effect.key for claims in pool.map(work, range(4)) for held in claims]
    for one in stores:
        one.close()
    assert len(claimed) == len(set(claimed)) == 96
    assert sum(check_chain(admin, f"order-{run}") for run in range(3)) == 192


def test_writers_never_wait_for_each_other_in_a_circle(url: str, admin: psycopg.Connection[Any]) -> None:
    """Keys are shared by runs here, and single commands, batches and locks get in each other's way."""
    stores = [PostgresStore(url, wakeups=False) for _ in range(6)]

    def work(which: int) -> float:
        chance = random.Random(which)
        slowest = 0.0
        for round_ in range(60):
            numbers = [round_ * 10 + step for step in range(chance.choice((1, 1, 1, 4)))]
            chance.shuffle(numbers)
            commands: list[Command] = [shared(number, f"order-{chance.randrange(2)}") for number in numbers]
            if chance.random() < 0.3:
                gone = tuple((chance.randrange(20), "args") for _ in range(chance.choice((0, 0, 3))))
                commands.append(recording(f"order-{chance.randrange(2)}", erased=gone))
            began = time.monotonic()
            answers = stores[which].apply(TENANT, commands, [None] * len(commands))
            slowest = max(slowest, time.monotonic() - began)
            reports = [finish(answer.claim) for answer in answers if isinstance(answer, Claimed)]
            stores[which].apply(TENANT, reports, [None] * len(reports))
        return slowest

    def shared(number: int, run: str) -> Open:
        command = opening(number, run)
        return replace(command, ref=command.ref._replace(scope="everywhere", key=f"{number:064x}"))

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(6)))
    for one in stores:
        one.close()  # a session reports its statistics when it ends
    time.sleep(1)
    assert admin.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").fetchone() == (0,)
    counts = [check_chain(admin, f"order-{run}") for run in range(2)]
    (facts,) = admin.execute("SELECT count(*) FROM indelible_events WHERE effect_id IS NULL").fetchone() or (0,)
    assert facts > 0
    assert admin.execute("SELECT 2 * count(*) FROM indelible_effects").fetchone() == (sum(counts) - facts,)


def test_two_stores_that_race_for_one_key_claim_it_once(url: str, admin: psycopg.Connection[Any]) -> None:
    stores = [PostgresStore(url, wakeups=False) for _ in range(4)]
    for number in range(25):
        start = threading.Barrier(4)

        def ask(which: PostgresStore, number: int = number, start: threading.Barrier = start) -> type[Answer]:
            start.wait()
            return type(do(which, opening(number, f"order-{number}")))

        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(ask, stores))
        assert sorted(kind.__name__ for kind in answers) == ["Claimed", "InFlight", "InFlight", "InFlight"]
    for one in stores:
        one.close()
    assert admin.execute("SELECT count(*) FROM indelible_events").fetchone() == (25,)


def test_a_stale_claim_is_late_and_its_report_is_kept(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    held = claim(store, 1, lease=0.05, on_crash="retry")
    time.sleep(0.1)
    newer = claim(other, 1, on_crash="retry")
    assert newer.attempt == 2
    answers: list[Answer] = []
    sent = traffic.of(lambda: answers.append(do(store, finish(held), held.effect)))
    assert sent[:2] == ["move_one", "look"]
    assert "lock_effects" in sent, "an event without a move is guarded by locks alone"
    assert isinstance(answers[0], Late)
    assert answers[0].effect.token_hash == newer.token_hash
    settle(other, newer)
    assert check_chain(admin, "order-1") == 4


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_stale_claim_is_late_even_when_the_run_is_as_we_know_it(
    is_batch: bool, store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    held = claim(store, 1, lease=0.05, on_crash="retry")
    time.sleep(0.1)
    newer = claim(other, 1, on_crash="retry")
    claim(store, 2)
    commands: list[Command] = [finish(held), *([opening(3)] if is_batch else [])]
    assert isinstance(store.apply(TENANT, commands, [held.effect, None][: len(commands)])[0], Late)
    assert settle(other, newer) == store.look([held.effect.ref]).effects[0]
    assert check_chain(admin, "order-1") == 5 + is_batch


def test_a_lease_is_counted_by_the_clock_of_the_database(
    store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._lane, "_now", lambda: datetime.now(UTC) - timedelta(days=3))
    held = claim(store, 1, lease=600)
    left = admin.execute("SELECT lease_until - clock_timestamp() FROM indelible_effects").fetchone()
    assert left is not None
    assert timedelta(0) < left[0] <= timedelta(seconds=600)
    monkeypatch.setattr(store._lane, "_now", lambda: datetime.now(UTC) + timedelta(days=3))
    seen = store.look([held.effect.ref]).effects[0]
    assert seen is not None
    assert isinstance(do(store, opening(1)), InFlight)
    assert isinstance(do(store, opening(1), seen), InFlight), "not even when the caller knows the lease"
    assert do(store, Expire(ref=held.effect.ref, stamp=stamp()), seen) == Moved(seen)


def test_a_lease_that_ran_out_is_not_renewed_while_another_takes_over(
    store: PostgresStore, other: PostgresStore, traffic: Traffic
) -> None:
    held = claim(store, 1, lease=0.05)
    time.sleep(0.1)
    run = Session.run
    beaten: list[bool] = []

    def run_and_beat(session: Session, statement: Any, values: Any, until: float) -> Any:
        if statement.name.endswith(b"lock_effects") and not beaten:
            beaten.append(store.heartbeat(held, timedelta(seconds=30)))
        return run(session, statement, values, until)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "run", run_and_beat)
        answer = do(other, opening(1))
    assert isinstance(answer, InDoubt)
    assert beaten == [False]
    assert "lock_effects" in traffic.sent


def test_an_abandoned_effect_is_held_in_doubt(store: PostgresStore, other: PostgresStore) -> None:
    claim(store, 1, lease=0.05)
    time.sleep(0.1)
    assert [effect.status for effect in other.abandoned(TENANT, 10)] == ["processing"]
    assert isinstance(do(other, opening(1)), InDoubt)
    assert [effect.status for effect in store.effects(TENANT, Filter(status="in_doubt"))] == ["in_doubt"]


def test_a_given_clock_replaces_that_of_the_database(url: str) -> None:
    class Stopped:
        at = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)

        def now(self) -> datetime:
            return self.at

    clock = Stopped()
    with contextlib.closing(PostgresStore(url, clock=clock, wakeups=False)) as store:
        held = claim(store, 1)
        seen = store.look([held.effect.ref])
        assert seen.now == clock.at
        assert seen.effects == [held.effect]
        clock.at += timedelta(seconds=29)
        assert store.heartbeat(held, timedelta(seconds=5))
        clock.at += timedelta(seconds=4)
        assert store.abandoned(TENANT, 10) == []
        clock.at += timedelta(seconds=2)
        assert [effect.id for effect in store.abandoned(TENANT, 10)] == [held.effect.id]
        assert not store.heartbeat(held, timedelta(seconds=5))
        assert isinstance(do(store, opening(1)), InDoubt)
