"""Facts about no effect: recorded once, and erasing is one transaction with the fact that tells of it."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from indelible.core.commands import Command, Recorded
from indelible.core.journal.notes import log_name
from indelible.stores.postgres import PostgresStore
from tests.stores.postgres.disturbing import (
    Traffic,
    check_chain,
    cut_connection,
    lose_while_it_waits,
    writer_pid,
    writer_pid_when_waiting,
)
from tests.stores.postgres.making import TENANT, claim, do, opening, recording
from tests.waiting import PATIENCE


def test_a_fact_is_one_statement_and_one_that_erases_is_a_transaction(
    store: PostgresStore, other: PostgresStore, admin: psycopg.Connection[Any], traffic: Traffic
) -> None:
    assert traffic.of(lambda: do(store, recording())) == ["write_batch"], "of a new run"
    assert traffic.of(lambda: do(store, recording())) == ["write_batch"], "and of one we wrote to last"
    assert traffic.sent == ["read_origin", "write_batch", "write_batch"], "the journal's name is asked for once"
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
    is_new: bool, url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        contextlib.closing(PostgresStore(url, wakeups=False, patience=timedelta(seconds=PATIENCE))) as store,
        psycopg.connect(url) as blocker,
        ThreadPoolExecutor() as pool,
    ):
        if not is_new:
            do(store, recording())
        blocker.execute("LOCK TABLE indelible_pending IN EXCLUSIVE MODE")
        future = pool.submit(do, store, recording())
        stalled = lose_while_it_waits(monkeypatch, admin)
        blocker.rollback()
        assert future.result(timeout=PATIENCE) == Recorded("order-1", 0 if is_new else 1)
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
        assert future.result(timeout=PATIENCE) == Recorded("order-1", 1)
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
