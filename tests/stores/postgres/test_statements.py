"""What a call costs on PostgreSQL: how many statements, which plans, which writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from indelible.core.commands import Answer, Cancel, Claimed, Command, Moved, Relinquish, Replayed
from indelible.core.effects.effect import Claim
from indelible.stores.postgres import PostgresStore
from indelible.stores.postgres.statements import SQL
from tests.stores.postgres.disturbing import Traffic, check_chain
from tests.stores.postgres.making import TENANT, claim, do, finish, opening, settle, stamp
from tests.waiting import eventually

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
    found = [
        (last_column, condition)
        for index, last_column in last_columns.items()
        for condition in re.findall(rf"Scan.* using indelible_{index} .*\n\s*Index Cond: (.*)", plan)
    ]
    assert found or name in ("has_pending", "lock_sheets"), plan  # any row that waits will do; the other inserts
    for last_column, condition in found:
        assert f"({last_column} " in condition, plan


def test_settling_changes_no_index(store: PostgresStore, admin: psycopg.Connection[Any]) -> None:
    for number in range(50):
        settle(store, claim(store, number))
    with store._writing.lock:
        store._writing.drop()  # a session reports its statistics when it ends
    counted = "SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = %s AND n_tup_upd = %s"
    for table, updated in (("indelible_effects", 50), ("indelible_runs", 99)):
        (without_index,) = eventually(lambda: admin.execute(counted, (table, updated)).fetchone())  # noqa: B023
        assert without_index >= updated - 3  # a page that is just full moves its row once


# ── PgBouncer ────────────────────────────────────────────────────────────────────────────────────────────────────────


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
