"""What is special to the PostgreSQL store: how many statements, which plans, and the truth after a lost connection."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from indelible.core.commands import (
    Answer,
    AwaitingApproval,
    Cancel,
    CastVote,
    Claimed,
    Command,
    Decided,
    Expire,
    Finish,
    Illegal,
    InDoubt,
    InFlight,
    Late,
    Moved,
    Open,
    Record,
    Recorded,
    Relinquish,
    Replayed,
    Stamp,
)
from indelible.core.effects.calls import ToolCall
from indelible.core.effects.effect import Actor, Claim, Effect
from indelible.core.effects.identity import identify
from indelible.core.events import event_hash, facts_json
from indelible.core.journal.journal import Tree
from indelible.core.journal.notes import log_name
from indelible.core.policy.verdicts import ALLOWED
from indelible.core.ports import Filter
from indelible.errors import BadCall, Misconfigured, OutcomeUnknown, SchemaOutdated, StoreError, StoreUnavailable
from indelible.stores.postgres import PostgresStore, durability, migrate
from indelible.stores.postgres.connections import Lost, Session
from indelible.stores.postgres.schema import MIGRATIONS
from indelible.stores.postgres.statements import SQL
from indelible.testing.commands import asking
from indelible.testing.journal_conformance import check_journal
from tests.postgres import PostgresServer, unprivileged

TENANT = "default"
NAMES = [f"{migration.number:04}_{migration.name}" for migration in MIGRATIONS]
AGENT = Actor("billing", "agent")


# ── making commands ──────────────────────────────────────────────────────────────────────────────────────────────────


def stamp(actor: Actor = AGENT) -> Stamp:
    return Stamp(at=datetime.now(UTC), actor=actor, salts=os.urandom(256))


def opening(number: int, run: str = "order-1", *, lease: float = 30.0, **changed: Any) -> Open:
    call = ToolCall(tool="stripe.charge", args={"number": number}, run_id=run)
    identity = identify(call, TENANT)
    fields: dict[str, Any] = {
        "ref": identity.ref,
        "stamp": stamp(),
        "effect_id": f"eff_{time.time_ns():016x}{os.urandom(4).hex()}",
        "token": os.urandom(16).hex(),
        "run_id": run,
        "tool": call.tool,
        "side_effect": "payment",
        "on_crash": "hold",
        "call_id": None,
        "dedupe": "args",
        "digest": identity.digest,
        "args_json": identity.args_json,
        "lease": timedelta(seconds=lease),
        "verdict": ALLOWED,
        "has_key_fields": False,
    }
    return Open(**(fields | changed))


def finish(claim: Claim, result: str = "paid") -> Finish:
    return Finish(claim=claim, stamp=stamp(), status="succeeded", detail_json=json.dumps(result).encode())


def recording(run: str = "order-1", **changed: Any) -> Record:
    fact = Record(tenant=TENANT, run_id=run, stamp=stamp(), event_type="noted", facts=facts_json({"n": 1}))
    return replace(fact, **changed)


def do(store: PostgresStore, command: Any, known: Effect | None = None) -> Answer:
    (answer,) = store.apply(TENANT, [command], [known])
    return answer


def ask(store: PostgresStore, number: int, run: str = "order-1", **changed: Any) -> AwaitingApproval:
    answer = do(store, opening(number, run, **{"verdict": asking(), **changed}))
    assert isinstance(answer, AwaitingApproval)
    return answer


def approval(asked: AwaitingApproval, by: str = "ada", **changed: Any) -> CastVote:
    vote = CastVote(
        ref=asked.effect.ref,
        stamp=stamp(Actor(by)),
        approval_id=asked.approval.id,
        digest=asked.approval.digest,
        is_approval=True,
        detail_json=b'"yes"',
    )
    return replace(vote, **changed)


def claim(store: PostgresStore, number: int, run: str = "order-1", **changed: Any) -> Claim:
    answer = do(store, opening(number, run, **changed))
    assert isinstance(answer, Claimed)
    return answer.claim


def settle(store: PostgresStore, claim: Claim) -> Effect:
    answer = do(store, finish(claim), claim.effect)
    assert isinstance(answer, Moved)
    return answer.effect


# ── fixtures ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def url(postgres_url: str) -> str:
    migrate(postgres_url)
    return postgres_url


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        yield store


@pytest.fixture
def other(url: str) -> Iterator[PostgresStore]:
    """Another process's store, as far as the database can tell."""
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        yield store


@pytest.fixture
def admin(url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


class Traffic:
    """Writes down every statement that the store sends, as one line of its text."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sent: list[str] = []
        run, command = Session.run, Session.command

        def counted_run(session: Session, statement: Any, values: Any, until: float) -> Any:
            self.sent.append(statement.name.decode().removeprefix("indelible_"))
            return run(session, statement, values, until)

        def counted_command(session: Session, sql: bytes, until: float) -> None:
            self.sent.append(sql.split()[0].decode())
            command(session, sql, until)

        patch.setattr(Session, "run", counted_run)
        patch.setattr(Session, "command", counted_command)

    def of(self, work: Callable[[], object]) -> list[str]:
        before = len(self.sent)
        work()
        return self.sent[before:]


@pytest.fixture
def traffic(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> Traffic:
    assert store.ledger_name, "connected before the counting begins"
    return Traffic(monkeypatch)


def writer_pid(store: PostgresStore) -> int:
    with store._writing.lock:
        session = store._writing._session
        assert session is not None
        return session.backend_pid


def check_chain(admin: psycopg.Connection[Any], run: str) -> int:
    """Checks that a run's events are numbered without gaps and linked, end at its head, and await the journal once."""
    rows = admin.execute(
        "SELECT seq, hash, body FROM indelible_events WHERE run_id = %s ORDER BY seq", (run,)
    ).fetchall()
    previous = "0" * 64
    for expected, (seq, digest, body) in enumerate(rows):
        content = json.loads(body)
        assert (seq, content["seq"], content["prev"]) == (expected, expected, previous)
        assert digest.hex() == event_hash(body)
        previous = digest.hex()
    assert admin.execute("SELECT count, head FROM indelible_runs WHERE run_id = %s", (run,)).fetchone() == (
        len(rows),
        bytes.fromhex(previous),
    )
    pending = admin.execute("SELECT seq, hash FROM indelible_pending WHERE run_id = %s ORDER BY seq", (run,)).fetchall()
    assert pending == [(seq, digest) for seq, digest, _ in rows]
    return len(rows)


# ── one statement ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_is_two_statements_and_a_replay_one(store: PostgresStore, traffic: Traffic) -> None:
    held: list[Claim] = []
    assert traffic.of(lambda: held.append(claim(store, 1))) == ["open_one"]
    assert traffic.of(lambda: settle(store, held[0])) == ["move_one"]
    assert traffic.of(lambda: do(store, opening(1))) == ["open_one"]
    answer = do(store, opening(1))
    assert isinstance(answer, Replayed)
    assert answer.value == "paid"
    assert answer.effect.args == {"number": 1}
    assert traffic.of(lambda: claim(store, 2)) == ["look", "open_one"], "after two repeats it looks first"
    assert traffic.of(lambda: claim(store, 3)) == ["open_one"]


def test_a_run_of_repeats_is_looked_up(store: PostgresStore, traffic: Traffic) -> None:
    settle(store, claim(store, 1))
    assert [traffic.of(lambda: do(store, opening(1)))[0] for _ in range(4)] == ["open_one", "open_one", "look", "look"]


def test_a_batch_is_one_statement(store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic) -> None:
    commands = [opening(number, f"order-{number % 7}") for number in range(64)]
    answers: list[Answer] = []
    assert traffic.of(lambda: answers.extend(store.apply(TENANT, commands, [None] * 64))) == ["write_batch"]
    claims = [answer.claim for answer in answers if isinstance(answer, Claimed)]
    assert len(claims) == 64
    reports: list[Command] = [*map(finish, claims), *(opening(number, "order-3") for number in range(100, 110))]
    assert traffic.of(lambda: store.apply(TENANT, reports, [None] * len(reports))) == ["write_batch"]
    assert [check_chain(admin, f"order-{run}") for run in (0, 3)] == [20, 28]


def test_a_replay_writes_no_wal_and_takes_no_transaction_id(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    settle(store, claim(store, 1))

    def used(work: Callable[[], object]) -> tuple[int, int]:
        mark = "SELECT pg_current_wal_insert_lsn() - '0/0', pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        before, after = admin.execute(mark).fetchone(), (work(), admin.execute(mark).fetchone())[1]
        assert before is not None
        assert after is not None
        return int(after[0] - before[0]), after[1] - before[1]

    # The server writes a little of its own at times; five tries tell the two apart.
    assert (0, 0) in [used(lambda: [do(store, opening(1)) for _ in range(4)]) for _ in range(5)]
    assert used(lambda: claim(store, 2))[0] > 500, "the measure sees a write"


def test_known_replays_need_no_statement(store: PostgresStore, traffic: Traffic) -> None:
    effect = settle(store, claim(store, 1))
    answers: list[Answer] = []
    assert traffic.of(lambda: answers.append(do(store, opening(1), effect))) == []
    assert isinstance(answers[0], Replayed)


def test_a_run_known_to_others_costs_one_more_statement(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    claim(other, 1)
    assert traffic.of(lambda: claim(store, 2)) == ["open_one", "open_one"]
    held = claim(other, 3)
    assert traffic.of(lambda: settle(other, held)) == ["move_one"]
    mine = claim(store, 4)
    claim(other, 5)
    assert traffic.of(lambda: settle(store, mine)) == ["move_one", "look", "move_one"]
    assert check_chain(admin, "order-1") == 7


def test_a_refused_batch_is_decided_on_a_look_and_the_next_ones_look_first(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    settle(store, claim(store, 1))
    mixed = [opening(1), opening(2), opening(3)]
    answers: list[Answer] = []
    assert traffic.of(lambda: answers.extend(store.apply(TENANT, mixed, [None] * 3))) == [
        *("write_batch", "look", "write_batch")
    ]
    assert [type(answer) for answer in answers] == [Replayed, Claimed, Claimed]
    again = [opening(1), opening(4), opening(5)]
    assert traffic.of(lambda: store.apply(TENANT, again, [None] * 3)) == ["look", "write_batch"]
    assert check_chain(admin, "order-1") == 6


@pytest.mark.parametrize(
    "name",
    [
        "open_one",
        "move_one",
        "write_batch",
        "write_batch_with_sheets",
        "move_one_with_sheets",
        "look",
        "look_with_sheets",
        "heartbeat",
        "lock_effects",
        "lock_sheets",
        "give_up_sheets",
        "lock_runs",
        "has_event",
        "mark_awaited",
        "erase_payloads",
        "has_pending",
        "lock_tree",
        "take_pending",
        "grow_tree",
        "tile",
        "list_entries",
        "leaf_of",
        "list_heads",
    ],
)
def test_plans_made_on_empty_tables_find_every_row_by_its_whole_key(
    name: str, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    del store
    admin.execute("SELECT " + re.findall(r"(set_config\('plan.*)", SQL["settle_in"].sql.decode(), re.DOTALL)[0])
    admin.execute(b"PREPARE probe AS " + SQL[name].sql)
    nulls = ", ".join(["NULL"] * len(SQL[name].parameters))
    plan = "\n".join(row[0] for row in admin.execute(f"EXPLAIN EXECUTE probe ({nulls})"))
    assert "Seq Scan" not in plan
    assert "effects_by_id" not in plan
    assert "sheets_by" not in plan
    last_columns = {
        "effects_pkey": "key =",
        "runs_pkey": "run_id =",
        "events_pkey": "seq =",
        "payloads_pkey": "field =",
        "sheets_pkey": "id =",
        "trees_pkey": "tenant =",
        "tiles_pkey": "number =",
        "leaves_pkey": "leaf <",
        "leaves_by_event": "seq =",
        "heads_pkey": "size <=",
    }
    for index, last_column in last_columns.items():
        for condition in re.findall(rf"Scan.* using indelible_{index} .*\n\s*Index Cond: (.*)", plan):
            assert f"({last_column} " in condition, plan


def test_settling_changes_no_index(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    for number in range(50):
        settle(store, claim(store, number))
    with store._writing.lock:
        store._writing.drop()  # a session reports its statistics when it ends
    deadline = time.monotonic() + 10
    counts: Any = None
    while time.monotonic() < deadline and (counts is None or [updated for updated, _ in counts] != [50, 99]):
        time.sleep(0.05)
        counts = admin.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
            "WHERE relname IN ('indelible_effects', 'indelible_runs') ORDER BY relname"
        ).fetchall()
    assert [updated for updated, _ in counts] == [50, 99]
    for updated, without_index in counts:  # a page that is just full moves its row once
        assert without_index >= updated - 3


# ── guards, locks, clocks ────────────────────────────────────────────────────────────────────────────────────────────


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
    held = claim(store, 1)
    left = admin.execute("SELECT lease_until - clock_timestamp() FROM indelible_effects").fetchone()
    assert left is not None
    assert timedelta(seconds=25) < left[0] <= timedelta(seconds=30)
    monkeypatch.setattr(store._lane, "_now", lambda: datetime.now(UTC) + timedelta(days=3))
    seen = store.look([held.effect.ref]).effects[0]
    assert seen is not None
    assert isinstance(do(store, opening(1)), InFlight)
    assert isinstance(do(store, opening(1), seen), InFlight), "not even when the caller knows the lease"
    assert do(store, Expire(ref=held.effect.ref, stamp=stamp()), seen) == Moved(seen)


def test_taking_over_waits_for_the_heartbeat_that_came_first(
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
    assert isinstance(answer, InFlight), "the renewed lease was seen under the lock"
    assert beaten == [True]
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
        clock.at += timedelta(seconds=31)
        assert store.abandoned(TENANT, 10) == [held.effect]
        assert store.heartbeat(held, timedelta(seconds=5))
        assert store.abandoned(TENANT, 10) == []
        clock.at += timedelta(seconds=6)
        assert isinstance(do(store, opening(1)), InDoubt)


# ── lost connections and lost answers ────────────────────────────────────────────────────────────────────────────────


def test_a_connection_that_died_while_idle_goes_unnoticed(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    held = claim(store, 1)
    for work in (lambda: claim(store, 2), lambda: settle(store, held), lambda: store.look([held.effect.ref])):
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'indelible'")
        assert work() is not None
    assert check_chain(admin, "order-1") == 3


def test_a_backend_killed_in_the_middle_of_a_statement_has_written_nothing(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    claim(store, 1)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("LOCK TABLE indelible_payloads IN EXCLUSIVE MODE")
        future = pool.submit(claim, store, 2)
        pid = writer_pid_when_waiting(admin)
        admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
        blocker.rollback()
        held = future.result(timeout=20)
    assert settle(store, held).status == "succeeded"
    assert check_chain(admin, "order-1") == 3


def writer_pid_when_waiting(admin: psycopg.Connection[Any]) -> int:
    """Gives the backend of a store that waits for a lock, once there is one."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'indelible' AND wait_event_type = 'Lock'"
        ).fetchone()
        if found is not None:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no backend waits for a lock")


def test_a_late_commit_by_the_lost_backend_is_the_one_that_counts(url: str, admin: psycopg.Connection[Any]) -> None:
    with (
        contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=3))) as store,
        psycopg.connect(url) as blocker,
        ThreadPoolExecutor() as pool,
    ):
        first = claim(store, 1)
        asked = ask(store, 2)
        blocker.execute("LOCK TABLE indelible_pending IN EXCLUSIVE MODE")
        future = pool.submit(do, store, approval(asked), asked.effect)
        stalled = writer_pid_when_waiting(admin)
        # The store stops waiting after half its patience, and looks for the truth on a new connection. There it waits
        # for the old backend, which holds the effect and gets through in the end.
        time.sleep(1.8)
        blocker.rollback()
        answer = future.result(timeout=20)
        assert isinstance(answer, Decided)
        assert answer.effect.status == "ready"
        assert writer_pid(store) != stalled
        settle(store, first)
    assert check_chain(admin, "order-1") == 4


def cut_connection(patch: pytest.MonkeyPatch, statement: str, *, is_carried_out: bool, times: int = 1) -> list[str]:
    """Cuts the connection at a statement: before the server got it, or after it has carried it out."""
    cuts: list[str] = []
    run, command = Session.run, Session.command

    def cut(session: Session, name: str, send: Callable[[], Any]) -> Any:
        if name != statement or len(cuts) >= times:
            return send()
        if is_carried_out:
            send()
        cuts.append(name)
        session.close()
        raise Lost("cut by the test", may_have_run=True)

    def cut_run(session: Session, asked: Any, values: Any, until: float) -> Any:
        name = asked.name.decode().removeprefix("indelible_")
        return cut(session, name, lambda: run(session, asked, values, until))

    def cut_command(session: Session, sql: bytes, until: float) -> Any:
        return cut(session, sql.decode(), lambda: command(session, sql, until))

    patch.setattr(Session, "run", cut_run)
    patch.setattr(Session, "command", cut_command)
    return cuts


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_every_command_gets_the_answer_of_what_was_committed_when_the_answer_was_lost(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    def lossy(statement: str, command: Any, known: Effect | None) -> Answer:
        with pytest.MonkeyPatch.context() as patch:
            cuts = cut_connection(patch, statement, is_carried_out=is_carried_out)
            answer = do(store, command, known)
            assert cuts == [statement]
            return answer

    opened = lossy("open_one", opening(1), None)
    assert isinstance(opened, Claimed)
    assert isinstance(lossy("move_one", finish(opened.claim), opened.claim.effect), Moved)
    gone = Cancel(ref=opening(2).ref, stamp=stamp(), detail_json=b'"changed my mind"')
    given_back = Relinquish(claim=claim(store, 2), stamp=stamp(), status="ready", detail_json=b'"not now"')
    ready = lossy("move_one", given_back, given_back.claim.effect)
    assert isinstance(ready, Moved)
    canceled = lossy("move_one", gone, ready.effect)
    assert isinstance(canceled, Moved), "deciding again on the new state would say that it cannot be canceled"
    assert isinstance(do(store, gone), Illegal)
    assert check_chain(admin, "order-1") == 5


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_batch_whose_answer_was_lost_is_written_once(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = [opening(number, f"order-{number % 2}") for number in range(10)]
    cuts = cut_connection(monkeypatch, "write_batch", is_carried_out=is_carried_out)
    answers = store.apply(TENANT, commands, [None] * 10)
    assert cuts
    assert [type(answer) for answer in answers] == [Claimed] * 10
    assert [check_chain(admin, run) for run in ("order-0", "order-1")] == [5, 5]


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_lost_commit_under_locks_is_found_again(
    is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store, 1, lease=0.05)
    time.sleep(0.1)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out, times=2)
    assert isinstance(do(store, opening(1)), InDoubt)
    assert len(cuts) == 2
    assert check_chain(admin, "order-1") == 2


def test_the_answer_stands_even_when_others_moved_on_meanwhile(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = claim(store, 1)
    given_back = Relinquish(claim=held, stamp=stamp(), status="ready", detail_json=b'"not now"')
    run = Session.run
    done: list[Answer] = []

    def cut_and_let_another_go_on(session: Session, statement: Any, values: Any, until: float) -> Any:
        found = run(session, statement, values, until)
        if statement.name.endswith(b"move_one") and not done:
            done.append(InFlight(held.effect))
            done.append(do(other, opening(1)))
            session.close()
            raise Lost("cut by the test", may_have_run=True)
        return found

    monkeypatch.setattr(Session, "run", cut_and_let_another_go_on)
    answer = do(store, given_back, held.effect)
    assert isinstance(done[1], Claimed)
    assert isinstance(answer, Moved)
    assert answer.effect.status == "ready", "what was committed, not what became of it"
    assert check_chain(admin, "order-1") == 3


def test_an_outcome_that_cannot_be_learnt_is_called_unknown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=0.5))
    cut_connection(monkeypatch, "open_one", is_carried_out=True)
    monkeypatch.setattr("indelible.stores.postgres.connections.open_session", _nobody_answers)
    with pytest.raises(OutcomeUnknown, match="could not be learnt"):
        do(store, opening(1))
    monkeypatch.undo()
    assert isinstance(do(store, opening(1)), InFlight)
    store.close()


def _nobody_answers(*_: object) -> None:
    raise Lost("nobody answers", may_have_run=False)


def test_a_server_that_is_away_is_told_and_found_again(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"away_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=1))
    held = claim(store, 1)
    postgres_server.kill()
    time.sleep(0.5)  # until its sessions have noticed: a statement sent to one of them would be in doubt
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        claim(store, 2)
    assert time.monotonic() - began < 4
    began = time.monotonic()
    for work in (lambda: claim(store, 2), lambda: store.look([held.effect.ref])):
        with pytest.raises(StoreUnavailable):
            work()
    assert time.monotonic() - began < 2, "once it is known to be away, callers are told sooner"
    postgres_server.start()
    assert settle(store, held).status == "succeeded"
    store.close()


def test_a_restart_in_between_is_waited_for(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"restart_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False)
    held = claim(store, 1)
    postgres_server.kill()
    with ThreadPoolExecutor() as pool:
        future = pool.submit(settle, store, held)
        time.sleep(0.3)
        postgres_server.start()
        assert future.result(timeout=20).status == "succeeded"
    store.close()


def test_an_interrupt_closes_the_connection_and_leaves_the_store_usable(
    store: PostgresStore, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(store, 1)
    before = writer_pid(store)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Session, "_wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            do(store, opening(2))
    assert isinstance(do(store, opening(3)), Claimed)
    assert writer_pid(store) != before
    assert check_chain(admin, "order-1") in (2, 3)


def test_serialisation_failures_and_deadlocks_are_tried_again(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    claim(store, 1)
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET default_transaction_isolation = 'serializable'")
    stores = [PostgresStore(admin.info.dsn, wakeups=False) for _ in range(3)]

    def work(which: int) -> int:
        return len([settle(stores[which], claim(stores[which], 100 * (which + 1) + step)) for step in range(20)])

    with ThreadPoolExecutor() as pool:
        assert list(pool.map(work, range(3))) == [20] * 3
    for one in stores:
        one.close()
    assert check_chain(admin, "order-1") == 121


# ── synchronous replication ──────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def a_standby_that_never_answers(server: PostgresServer) -> Iterator[Callable[[], None]]:
    """Makes every commit wait for a standby that is not there, until the given function is called."""

    def set_names(names: str) -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = local")
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            connection.execute("SELECT pg_reload_conf()")
            time.sleep(0.2)

    set_names("ghost")
    try:
        yield lambda: set_names("")
    finally:
        set_names("")


def cancel_waiting_commit(server: PostgresServer) -> int:
    with psycopg.connect(server.url, autocommit=True) as connection:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = connection.execute(
                "SELECT pid, pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            ).fetchone()
            if found is not None:
                return int(found[0])
            time.sleep(0.01)
    raise AssertionError("no commit waits for a standby")


def test_a_commit_whose_wait_for_the_standby_was_cancelled_is_made_sure_before_it_is_told(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.create_database(f"sync_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=20))
    claim(store, 1)
    with a_standby_that_never_answers(postgres_server) as relent, ThreadPoolExecutor() as pool:
        future = pool.submit(claim, store, 2)
        cancel_waiting_commit(postgres_server)
        cancel_waiting_commit(postgres_server)  # the second one is the commit that was to make sure
        time.sleep(0.3)
        assert not future.done(), "the server said COMMIT, and the standby has nothing"
        relent()
        held = future.result(timeout=20)
    assert settle(store, held).status == "succeeded"
    with psycopg.connect(url) as connection:
        assert check_chain(connection, "order-1") == 3
    store.close()


def test_a_commit_that_no_standby_ever_confirms_is_called_unknown(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"sync_{os.urandom(4).hex()}")
    migrate(url)
    store = PostgresStore(url, wakeups=False, patience=timedelta(seconds=1))
    claim(store, 1)
    with a_standby_that_never_answers(postgres_server), ThreadPoolExecutor() as pool:
        future = pool.submit(claim, store, 2)
        cancel_waiting_commit(postgres_server)
        with pytest.raises(OutcomeUnknown):
            future.result(timeout=20)
    store.close()


def test_a_server_that_answers_before_the_disk_has_it_is_told_to_wait(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET synchronous_commit = off")
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        session = store._writing._session
        assert session is not None
        assert session.connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        with store.transaction(TENANT) as transaction:
            assert transaction.connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    with pytest.raises(Misconfigured, match="synchronous_commit"):
        PostgresStore(with_option(url, "pooler=transaction"))


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


def test_durability_is_graded(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(name := f"graded_{os.urandom(4).hex()}")
    report = durability(url)
    assert (report["grade"], report["fsync"], report["standbys"]) == ("single", "on", [])
    assert report["server_version"].split(".")[0].isdigit()
    with a_standby_that_never_answers(postgres_server):
        assert durability(url)["grade"] == "quorum"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    assert durability(url)["grade"] == "unsafe"


# ── processes, threads, wake-ups ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_connects_anew_and_leaves_the_parent_alone(url: str, admin: psycopg.Connection[Any]) -> None:
    store = PostgresStore(url)
    held = claim(store, 1)
    store._ring([held.effect.key])
    parent_pid = writer_pid(store)
    with store._reading.lock:  # as if another thread held it at the moment of the fork
        child = os.fork()
        if child == 0:
            try:
                settle(store, claim(store, 2))
                found = store.look([held.effect.ref]).effects[0]
                store._ring([held.effect.key])
                is_fine = writer_pid(store) != parent_pid and found is not None
                store.close()
                os._exit(0 if is_fine else 1)
            except BaseException:
                os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert settle(store, held).status == "succeeded"
    assert writer_pid(store) == parent_pid
    store.close()
    assert check_chain(admin, "order-1") == 4
    writers = {json.loads(body)["writer"] for (body,) in admin.execute("SELECT body FROM indelible_events")}
    assert len(writers) == 2


def test_a_ring_wakes_other_processes_and_not_ourselves(url: str) -> None:
    with contextlib.closing(PostgresStore(url)) as here, contextlib.closing(PostgresStore(url)) as there:
        held = claim(here, 1)
        here._ring([held.effect.key])
        wait_until(lambda: here._ringer.backend_pid != 0)
        own, others = here.alarm(), there.alarm()
        assert own is not None
        assert others is not None
        here._ring([held.effect.key])
        assert select.select([others], [], [], 5)[0]
        assert others.drain() == {held.effect.key[:16]}
        assert select.select([own], [], [], 5)[0]
        assert own.drain() == set()
        here._ring([os.urandom(32).hex() for _ in range(1000)])
        assert select.select([others], [], [], 5)[0]
        assert others.drain() is None, "too many to name"
        own.close()
        others.close()


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_only_what_somebody_waits_for_is_told(url: str, traffic: Traffic) -> None:
    with contextlib.closing(PostgresStore(url)) as here, contextlib.closing(PostgresStore(url)) as there:
        claims = [claim(here, number) for number in range(4)]
        alarm = there.alarm()
        assert alarm is not None
        seen = there.watch([claims[number].effect.ref for number in (3, 1)])
        assert [effect and effect.id for effect in seen.effects] == [claims[3].effect.id, claims[1].effect.id]
        assert traffic.of(lambda: there.watch([claims[1].effect.ref])) == ["mark_awaited", "look"]
        settle(here, claims[0])
        assert here._ringer._thread is None, "nobody waits for this one"
        settle(here, claims[1])
        here.apply(TENANT, [finish(claims[2]), finish(claims[3])], [None, None])
        told = {claims[number].effect.key[:16] for number in (1, 3)}
        heard: set[str] = set()
        while heard != told:
            assert select.select([alarm], [], [], 5)[0]
            heard |= alarm.drain() or set()
            assert heard <= told
        alarm.close()


def test_many_rings_are_few_notifications(url: str) -> None:
    with contextlib.closing(PostgresStore(url)) as here, contextlib.closing(PostgresStore(url)) as there:
        claim(here, 1)
        alarm = there.alarm()
        assert alarm is not None
        keys = [os.urandom(32).hex() for _ in range(200)]
        told = 0
        heard: set[str] = set()
        for key in keys:
            here._ring([key])
        while len(heard) < 200:
            assert select.select([alarm], [], [], 5)[0]
            told += 1
            heard |= alarm.drain() or set()
        assert heard == {key[:16] for key in keys}
        assert told < 50
        alarm.close()


def test_an_alarm_that_lost_its_connection_says_look_at_everything(url: str, admin: psycopg.Connection[Any]) -> None:
    with contextlib.closing(PostgresStore(url)) as store:
        held = claim(store, 1)
        alarm = store.alarm()
        assert alarm is not None
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        heard: list[set[str] | None] = []
        while heard.count(None) < 2:
            assert select.select([alarm], [], [], 5)[0], "it connects again, and says that it may have missed something"
            heard.append(alarm.drain())
        assert all(one in (None, set()) for one in heard)
        with contextlib.closing(PostgresStore(url)) as there:
            there._ring([held.effect.key])
            assert select.select([alarm], [], [], 5)[0]
            assert alarm.drain() == {held.effect.key[:16]}
        alarm.close()


def test_without_wakeups_there_is_no_alarm_and_no_ring(store: PostgresStore, traffic: Traffic) -> None:
    assert store.alarm() is None
    effect = claim(store, 1).effect
    assert traffic.of(lambda: store._ring([effect.key])) == []
    assert store._ringer._thread is None


# ── a handler's own transaction ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def rows(admin: psycopg.Connection[Any]) -> Callable[[], list[int]]:
    admin.execute("CREATE TABLE handlers_own (number bigint)")
    return lambda: [number for (number,) in admin.execute("SELECT number FROM handlers_own ORDER BY number")]


def insert(connection: Any, number: int) -> None:
    connection.execute("INSERT INTO handlers_own VALUES (%s)", (number,))


def test_a_transaction_commits_the_handlers_writes_with_the_effect(
    store: PostgresStore, admin: psycopg.Connection[Any], rows: Callable[[], list[int]], traffic: Traffic
) -> None:
    held = claim(store, 1)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
        with transaction.connection.transaction():
            insert(transaction.connection, 2)
        assert rows() == []
        answer = transaction.settle(finish(held))
        assert isinstance(answer, Moved)
    assert rows() == [1, 2]
    assert store.look([held.effect.ref]).effects == [answer.effect]
    assert traffic.of(lambda: claim(store, 2)) == ["open_one"], "the head it left is known"
    assert check_chain(admin, "order-1") == 3


def test_a_transaction_that_is_not_settled_or_came_late_leaves_nothing(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], rows: Callable[[], list[int]]
) -> None:
    held = claim(store, 1, lease=0.05, on_crash="retry")
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 2)
        transaction.rollback()
    time.sleep(0.1)
    claim(other, 1)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 3)
        assert isinstance(transaction.settle(finish(held)), Late)
    assert rows() == []
    assert check_chain(admin, "order-1") == 2


def test_a_transaction_can_be_closed_while_its_handler_is_inside_a_statement(
    store: PostgresStore, rows: Callable[[], list[int]]
) -> None:
    with ThreadPoolExecutor() as pool:
        with store.transaction(TENANT) as transaction:
            insert(transaction.connection, 1)
            stuck = pool.submit(transaction.connection.execute, "SELECT pg_sleep(5)")
            wait_until(lambda: transaction.connection.lock.locked())
            time.sleep(0.1)
        with pytest.raises(psycopg.OperationalError):
            stuck.result(timeout=3)
    assert rows() == []
    assert transaction.connection.closed


def test_a_transaction_can_be_closed_while_its_handler_closes_the_connection(store: PostgresStore) -> None:
    """The connection's number may be given to another line at once: that one must not be cut."""
    with contextlib.ExitStack() as stack:
        with store.transaction(TENANT) as transaction:
            number = transaction.connection.fileno()
            transaction.connection.lock.acquire()  # as its thread holds it at the end of a last statement
            stack.callback(transaction.connection.lock.release)
            transaction.connection.close()
            here, there = map(stack.enter_context, socket.socketpair())
            assert number in (here.fileno(), there.fileno()), "the system gives the lowest free numbers"
        here.send(b"still there")
        assert there.recv(20) == b"still there"


@pytest.mark.parametrize("ending", ["commit", "commit and begin", "close", "failed statement"])
def test_a_handler_that_ends_the_transaction_itself_is_told(
    ending: str, store: PostgresStore, rows: Callable[[], list[int]]
) -> None:
    held = claim(store, 1)
    with store.transaction(TENANT) as transaction:
        connection = transaction.connection
        if ending == "failed statement":
            with contextlib.suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")
        elif ending == "close":
            connection.close()
        else:
            connection.commit()
            if ending == "commit and begin":
                connection.execute("BEGIN")
                insert(connection, 1)
        with pytest.raises(BadCall, match=r"effect.transaction\(\)"):
            transaction.settle(finish(held))
    assert rows() == []
    seen = store.look([held.effect.ref]).effects[0]
    assert seen is not None
    assert seen.status == "processing"


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_a_transaction_whose_commit_got_lost_says_what_became_of_it(
    is_carried_out: bool,
    store: PostgresStore,
    admin: psycopg.Connection[Any],
    rows: Callable[[], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = claim(store, 1)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out)
    with store.transaction(TENANT) as transaction:
        insert(transaction.connection, 1)
        if is_carried_out:
            assert isinstance(transaction.settle(finish(held)), Moved)
        else:
            with pytest.raises(StoreUnavailable, match="nothing was written"):
                transaction.settle(finish(held))
    assert cuts
    assert rows() == ([1] if is_carried_out else [])
    assert check_chain(admin, "order-1") == (2 if is_carried_out else 1)


# ── schema and address ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_empty_database_says_how_to_migrate(postgres_url: str) -> None:
    with pytest.raises(SchemaOutdated, match="run: indelible migrate, with the same URL"):
        PostgresStore(postgres_url)


def test_a_newer_schema_is_refused(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("INSERT INTO indelible_migrations VALUES (9999, 'of_the_future', now())")
    for work in (lambda: PostgresStore(url), lambda: migrate(url)):
        with pytest.raises(SchemaOutdated, match="upgrade Indelible"):
            work()


def test_migrators_that_race_apply_each_migration_once(postgres_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        applied = list(pool.map(migrate, [postgres_url] * 8))
    assert sorted(name for names in applied for name in names) == NAMES
    with psycopg.connect(postgres_url) as connection:
        noted = connection.execute("SELECT number, name FROM indelible_migrations ORDER BY number").fetchall()
        assert noted == [(migration.number, migration.name) for migration in MIGRATIONS]
        found = connection.execute("SELECT name FROM indelible_ledger").fetchall()
    assert len(found) == 1
    assert re.fullmatch("ledger-[0-9a-f]{12}", found[0][0])


def test_a_migration_that_fails_leaves_nothing(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE indelible_pending (in_the_way int)")
        with pytest.raises(StoreError, match="already exists"):
            migrate(postgres_url)
        assert connection.execute(
            "SELECT to_regclass('indelible_effects'), count(*) FROM indelible_migrations"
        ).fetchone() == (None, 0)
        connection.execute("DROP TABLE indelible_pending")
    assert migrate(postgres_url) == NAMES


def test_no_message_shows_the_password(postgres_server: PostgresServer) -> None:
    wrong = postgres_server.url_of("no_such_database", tcp=True)
    with pytest.raises(StoreUnavailable) as unreachable:
        PostgresStore(wrong)
    assert "no_such_database" in str(unreachable.value)
    shown = [str(unreachable.value)]
    for url in ("postgresql://u:s3cret@:x/y z?what=ever", "postgresql://u:s3cret@h/d?pooler=sometimes"):
        with pytest.raises(Misconfigured) as unreadable:
            PostgresStore(url)
        shown.append(str(unreadable.value))
    assert not any("s3cret" in text or postgres_server.password in text for text in shown)


def test_a_closed_store_says_so_and_closing_twice_is_fine(url: str) -> None:
    store = PostgresStore(url)
    store.close()
    store.close()
    with pytest.raises(StoreUnavailable, match="open it again"):
        claim(store, 1)


# ── PgBouncer ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pgbouncer(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A real PgBouncer in transaction mode, with fewer server connections than it has clients."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.fail("PgBouncer is not installed, and the store promises to work behind it: apt-get install pgbouncer")
    home = Path(str(postgres_server.socket_directory)).parent / f"bouncer-{os.urandom(4).hex()}"
    home.mkdir()
    settings = home / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = host={postgres_server.socket_directory} port={postgres_server.port} user=postgres\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {home}\nlisten_port = 6432\nauth_type = any\n"
        "pool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 100\n"
    )
    if owner := unprivileged():
        for path in (home, settings):
            os.chown(path, owner["user"], owner["group"])
    process = subprocess.Popen([program, "-q", str(settings)], **unprivileged(), cwd="/", stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: (home / ".s.PGSQL.6432").exists())
        yield lambda database: f"postgresql://postgres@/{database}?host={quote(str(home))}&port=6432"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(home)


@pytest.mark.parametrize("option", ["", "pooler=transaction", "pooler=none"])
def test_behind_pgbouncer_everything_works_but_listening(
    option: str, pgbouncer: Callable[[str], str], url: str, admin: psycopg.Connection[Any]
) -> None:
    pooled = pgbouncer(admin.info.dbname)
    where = with_option(pooled, option) if option else pooled
    stores = [PostgresStore(where) for _ in range(3)]

    def work(which: int) -> int:
        store = stores[which]
        for number in range(15):
            settle(store, claim(store, 100 * which + number))
            assert isinstance(do(store, opening(100 * which + number)), Replayed)
        batch = store.apply(TENANT, [opening(5000 + number) for number in range(8)], [None] * 8)
        held = [answer.claim for answer in batch if isinstance(answer, Claimed)]
        assert all(store.heartbeat(one, timedelta(seconds=30)) for one in held)
        store.apply(TENANT, [finish(one) for one in held], [None] * len(held))
        return len(held)

    with ThreadPoolExecutor() as pool:
        assert sum(pool.map(work, range(3))) == 8
    assert check_chain(admin, "order-1") == 2 * (3 * 15 + 8)
    if option == "pooler=none":
        assert all(store._target.is_pooled for store in stores), "missing prepared statements gave it away"
    assert all(store.alarm() is None for store in stores)
    with ThreadPoolExecutor() as pool:
        list(pool.map(integrate_everything, stores))
    assert len(check_journal(stores[0], TENANT)) == 2 * (3 * 15 + 8)
    held = claim(stores[0], 999)
    with stores[0].transaction(TENANT) as transaction:
        transaction.connection.execute("CREATE TABLE handlers_own (number bigint)")
        assert isinstance(transaction.settle(finish(held)), Moved)
    assert admin.execute("SELECT count(*) FROM handlers_own").fetchone() == (0,)
    for store in stores:
        store.close()


def test_behind_pgbouncer_no_session_is_left_changed(pgbouncer: Callable[[str], str], url: str) -> None:
    assert url
    pooled = pgbouncer(psycopg.conninfo.conninfo_to_dict(url)["dbname"])  # type: ignore[arg-type]
    with contextlib.closing(PostgresStore(pooled)) as store:
        settle(store, claim(store, 1))
        with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
            for name in ("enable_seqscan", "plan_cache_mode", "jit"):
                (value,) = connection.execute("SELECT source FROM pg_settings WHERE name = %s", (name,)).fetchone() or (
                    "",
                )
                assert value == "default"


def test_a_migration_can_be_run_behind_pgbouncer(pgbouncer: Callable[[str], str], postgres_url: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    assert migrate(pgbouncer(str(name))) == NAMES


def test_cancelling_is_a_move_like_any_other(store: PostgresStore, traffic: Traffic) -> None:
    held = claim(store, 1)
    given_back = Relinquish(claim=held, stamp=stamp(), status="ready", detail_json=b'"not now"')
    ready = do(store, given_back, held.effect).effect  # type: ignore[union-attr]
    command = Cancel(ref=ready.ref, stamp=stamp(), detail_json=b'"changed my mind"')
    answers: list[Answer] = []
    assert traffic.of(lambda: answers.append(do(store, command, ready))) == ["move_one"]
    assert isinstance(answers[0], Moved)
    assert store.get_effect(TENANT, ready.id[:-2]) == answers[0].effect
    assert store.find_by_key(TENANT, ready.key, None) == answers[0].effect


# ── facts about no effect ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fact_is_one_statement_and_one_that_erases_is_a_transaction(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    assert traffic.of(lambda: do(store, recording())) == ["write_batch"], "of a new run"
    assert traffic.of(lambda: do(store, recording())) == ["write_batch"], "and of one we wrote to last"
    assert traffic.of(lambda: do(other, recording())) == ["write_batch", "look", "write_batch"]
    mixed: list[Command] = [opening(1), recording(), opening(2), recording("order-2")]
    assert traffic.of(lambda: store.apply(TENANT, mixed, [None] * 4)) == ["write_batch", "look", "write_batch"]
    assert traffic.of(lambda: store.apply(TENANT, [opening(3), recording()], [None] * 2)) == ["write_batch"]
    erasing = traffic.of(lambda: do(store, recording(erased=((3, "args"),))))
    assert erasing[:6] == ["BEGIN", "lock_runs", "lock_effects", "look", "write_batch", "erase_payloads"]
    assert erasing[-1] == "COMMIT"
    assert [check_chain(admin, run) for run in ("order-1", "order-2")] == [9, 1]


@pytest.mark.parametrize("is_carried_out", [True, False])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_fact_whose_answer_was_lost_is_recorded_once(
    is_new: bool, is_carried_out: bool, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    if not is_new:
        claim(store, 1)
    for statement, command in (("write_batch", recording()), ("COMMIT", recording(erased=((0, "args"),)))):
        with pytest.MonkeyPatch.context() as patch:
            cuts = cut_connection(patch, statement, is_carried_out=is_carried_out, times=2)
            answer = do(store, command)
            assert isinstance(answer, Recorded)
            assert cuts
        assert answer.seq == check_chain(admin, "order-1") - 1
    assert check_chain(admin, "order-1") == (2 if is_new else 3)
    kept = [] if is_new else ["key"]
    assert [payload.field for payload in store.payloads(TENANT, "order-1", [0])] == kept


@pytest.mark.parametrize("is_new", [True, False])
def test_a_fact_that_the_lost_backend_commits_late_is_recorded_once(
    is_new: bool, url: str, admin: psycopg.Connection[Any]
) -> None:
    with (
        contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=3))) as store,
        psycopg.connect(url) as blocker,
        ThreadPoolExecutor() as pool,
    ):
        if not is_new:
            do(store, recording())
        blocker.execute("LOCK TABLE indelible_pending IN EXCLUSIVE MODE")
        future = pool.submit(do, store, recording())
        stalled = writer_pid_when_waiting(admin)
        time.sleep(1.8)  # half its patience: it looks for the truth on a new connection, behind the old backend
        blocker.rollback()
        assert future.result(timeout=20) == Recorded("order-1", 0 if is_new else 1)
        assert writer_pid(store) != stalled
    assert check_chain(admin, "order-1") == (1 if is_new else 2)


def test_erasing_and_the_fact_that_tells_of_it_are_one_transaction(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    claim(store, 1)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("SELECT FROM indelible_payloads WHERE field = 'args' FOR UPDATE")
        future = pool.submit(do, store, recording(erased=((0, "args"), (0, "key"))))
        writer_pid_when_waiting(admin)
        assert admin.execute("SELECT count(*) FROM indelible_events").fetchone() == (1,), "neither, while it waits"
        assert admin.execute("SELECT count(*) FROM indelible_payloads").fetchone() == (2,)
        blocker.rollback()
        assert future.result(timeout=20) == Recorded("order-1", 1)
    assert admin.execute("SELECT count(*) FROM indelible_payloads").fetchone() == (0,)
    assert check_chain(admin, "order-1") == 2


def test_the_journals_name_is_one_that_may_name_a_key(store: PostgresStore) -> None:
    tenant = "two words+a%"
    store.apply(tenant, [replace(recording(), tenant=tenant)], [None])
    (event,) = store.events(tenant, "order-1", -1, 1)
    assert event.read()["log"] == log_name(store.ledger_name, tenant) == f"{store.ledger_name}/two%20words%2Ba%25"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_name_of_its_own_and_does_not_sign_with_its_parents_key(
    url: str, admin: psycopg.Connection[Any]
) -> None:
    with contextlib.closing(PostgresStore(url, wakeups=False)) as store:
        store.sign_event = lambda _: b"parent"
        do(store, recording())
        parent = store.writer_id
        child = os.fork()
        if child == 0:
            try:
                is_fine = store.writer_id != parent and store.sign_event is None
                do(store, recording())
                store.sign_event = lambda _: b"child"
                do(store, recording())
                os._exit(0 if is_fine else 1)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        do(store, recording())
        events = store.events(TENANT, "order-1", -1, 10)
        assert [event.signature for event in events] == [b"parent", None, b"child", b"parent"]
        assert [event.read()["writer"] == parent for event in events] == [True, False, False, True]


# ── the journal ──────────────────────────────────────────────────────────────────────────────────────────────────────


def integrate_everything(store: PostgresStore, most: int = 7) -> None:
    while store.journal.integrate(TENANT, most) is not None:
        pass


def record(store: PostgresStore, count: int, run: str = "order-1") -> None:
    store.apply(TENANT, [recording(run) for _ in range(count)], [None] * count)


def test_integrating_nothing_is_one_statement_that_writes_nothing(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    record(store, 1)
    store.journal.integrate(TENANT, 10)
    before = admin.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone()
    assert traffic.of(lambda: store.journal.integrate(TENANT, 10)) == ["has_pending"]
    assert admin.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() == before


def test_nobody_waits_while_events_are_integrated(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    """Somebody holds the lock of the tree; calls, looks and lists go on meanwhile."""
    settle(store, claim(store, 1))
    store.journal.integrate(TENANT, 1)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("SELECT FROM indelible_trees FOR UPDATE")
        integrating = [pool.submit(which.journal.integrate, TENANT, 10) for which in (store, other)]
        writer_pid_when_waiting(admin)
        held = claim(store, 2)
        do(store, recording())
        assert settle(store, held).status == "succeeded"
        assert store.look([held.effect.ref]).effects[0] is not None
        assert len(store.events(TENANT, "order-1", -1, 10)) == 5
        assert not any(future.done() for future in integrating)
        blocker.rollback()
        grown = [future.result(timeout=20) for future in integrating]
    assert Tree(5, store.journal.tree(TENANT).root) in grown
    assert len(check_journal(store, TENANT)) == 5


@pytest.mark.parametrize("is_carried_out", [True, False])
def test_an_integration_whose_commit_got_lost_is_finished_and_told(
    is_carried_out: bool, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, 5)
    cuts = cut_connection(monkeypatch, "COMMIT", is_carried_out=is_carried_out, times=2)
    grown = store.journal.integrate(TENANT, 10)
    assert len(cuts) == 2
    assert grown is not None
    assert grown == store.journal.tree(TENANT)
    assert grown.size == 5, "what grew is told, even if nothing waited when it was tried again"
    assert len(check_journal(store, TENANT)) == 5


def test_an_integration_that_takes_too_long_takes_less_when_it_is_tried_again(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, 3000)
    cuts = cut_connection(monkeypatch, "grow_tree", is_carried_out=False, times=1)
    sizes = [tree and tree.size for tree in (store.journal.integrate(TENANT, 100_000) for _ in range(2))]
    assert (cuts, sizes) == (["grow_tree"], [3000, None]), "a quarter of what one transaction may take, at the most"
    record(store, 3000)
    cut_connection(monkeypatch, "grow_tree", is_carried_out=False, times=3)
    assert [tree and tree.size for tree in (store.journal.integrate(TENANT, 4000) for _ in range(2))] == [3500, 6000]


@pytest.mark.parametrize(("is_sent", "expected"), [(True, OutcomeUnknown), (False, StoreUnavailable)])
def test_an_integration_that_cannot_be_finished_says_whether_it_may_have_taken_place(
    is_sent: bool, expected: type[StoreError], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=0.5))) as store:
        record(store, 5)
        cut_connection(monkeypatch, "COMMIT" if is_sent else "take_pending", is_carried_out=True)
        monkeypatch.setattr("indelible.stores.postgres.connections.open_session", _nobody_answers)
        store.journal._line._session = store._writing._session  # the one connection there is
        with pytest.raises(expected):
            store.journal.integrate(TENANT, 10)
        store._writing._session = None
        monkeypatch.undo()
        integrate_everything(store)
        assert len(check_journal(store, TENANT)) == 5


@pytest.mark.parametrize("table", ["indelible_trees", "indelible_pending", "indelible_leaves", "indelible_tiles"])
def test_an_integrator_that_is_killed_in_the_middle_leaves_the_tree_as_it_was(
    table: str, store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    record(store, 300)
    store.journal.integrate(TENANT, 10)
    with psycopg.connect(admin.info.dsn) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        future = pool.submit(store.journal.integrate, TENANT, 1000)
        admin.execute("SELECT pg_terminate_backend(%s)", (writer_pid_when_waiting(admin),))
        assert admin.execute("SELECT size FROM indelible_trees").fetchone() == (10,)
        blocker.rollback()
        assert future.result(timeout=20) == store.journal.tree(TENANT)
    assert len(check_journal(store, TENANT)) == 300


def test_an_integrator_that_finds_a_wrong_tile_lets_go_of_the_tree(
    store: PostgresStore, admin: psycopg.Connection[Any]
) -> None:
    record(store, 10)
    store.journal.integrate(TENANT, 5)
    admin.execute("UPDATE indelible_tiles SET hashes = ''")
    with pytest.raises(ValueError, match="too short"):
        store.journal.integrate(TENANT, 5)
    admin.execute("SET lock_timeout = '5s'")  # for the server to notice that the connection is gone
    admin.execute("SELECT FROM indelible_trees FOR UPDATE")
    assert store.journal.waiting(TENANT) == 5


def test_a_refusal_that_may_pass_is_tried_again(url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET lock_timeout = '50ms'")
    admin.execute("ALTER DATABASE " + admin.info.dbname + " SET default_transaction_isolation = 'serializable'")
    stores = [PostgresStore(url, wakeups=False) for _ in range(3)]
    for run in range(20):
        record(stores[0], 3, f"order-{run}")
    with psycopg.connect(url) as blocker, ThreadPoolExecutor() as pool:
        blocker.execute("LOCK TABLE indelible_trees IN EXCLUSIVE MODE")
        integrating = [pool.submit(integrate_everything, which) for which in stores]
        writer_pid_when_waiting(admin)
        time.sleep(0.2)
        blocker.rollback()
        for future in integrating:
            future.result(timeout=20)
    assert len(check_journal(stores[0], TENANT)) == 60
    for one in stores:
        one.close()


def test_a_tree_is_not_told_before_the_standbys_have_it(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(f"sync_{os.urandom(4).hex()}")
    migrate(url)
    with contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=20))) as store:
        record(store, 3)
        with a_standby_that_never_answers(postgres_server) as relent, ThreadPoolExecutor() as pool:
            future = pool.submit(store.journal.integrate, TENANT, 10)
            cancel_waiting_commit(postgres_server)
            cancel_waiting_commit(postgres_server)  # the second one is the commit that was to make sure
            time.sleep(0.3)
            assert not future.done(), "the server said COMMIT, and the standby has nothing"
            relent()
            assert future.result(timeout=20) == store.journal.tree(TENANT)
        assert len(check_journal(store, TENANT)) == 3


def test_what_was_taken_is_cleared_away(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AFTER", 200)
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AT_MOST", 1e9)

    def go_on() -> None:
        for _ in range(20):
            record(store, 100)
            store.journal.integrate(TENANT, 1000)

    assert traffic.of(go_on).count("clear_pending") == 10
    (pages,) = admin.execute("SELECT pg_relation_size('indelible_pending') / 8192").fetchone() or (0,)
    assert pages < 10, "2,000 rows were written, and no more than 300 were ever there at once"
    assert len(check_journal(store, TENANT)) == 2000


def test_whoever_may_not_clear_away_integrates_all_the_same(
    store: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indelible.stores.postgres.journal._CLEAR_AFTER", 1)
    role = f"worker_{os.urandom(4).hex()}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    try:
        url = f"postgresql://{role}@/{admin.info.dbname}?host={quote(admin.info.host)}&port={admin.info.port}"
        with contextlib.closing(PostgresStore(url, wakeups=False)) as worker:
            for tries in (1, 0):
                record(worker, 1)
                assert traffic.of(lambda: worker.journal.integrate(TENANT, 5)).count("clear_pending") == tries
            assert len(check_journal(worker, TENANT)) == 2
    finally:
        admin.execute(f"DROP OWNED BY {role}")
        admin.execute(f"DROP ROLE {role}")


def test_an_entry_whose_event_is_gone_is_left_out(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    record(store, 3)
    store.journal.integrate(TENANT, 10)
    admin.execute("DELETE FROM indelible_events WHERE seq = 1")
    assert [entry.index for entry in store.journal.entries(TENANT, 0, 10)] == [0, 2]
    assert store.journal.tree(TENANT).size == 3


def test_a_closed_store_integrates_nothing_and_opens_no_connection(store: PostgresStore) -> None:
    record(store, 1)
    line = store.journal._line
    with ThreadPoolExecutor() as pool:
        with line.lock:  # it has passed the check and waits for its turn while the store is closed
            waiting = pool.submit(store.journal.integrate, TENANT, 1)
            closing = pool.submit(store.close)
            wait_until(lambda: store._is_closed)
        closing.result(timeout=10)
        with contextlib.suppress(StoreUnavailable):
            waiting.result(timeout=10)
    assert line._session is None
    with pytest.raises(StoreUnavailable, match="open it again"):
        store.journal.tree(TENANT)
