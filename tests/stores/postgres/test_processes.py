"""Forked processes and wake-ups: nobody shares a connection, and nobody rings for nothing."""

from __future__ import annotations

import contextlib
import json
import os
import select
from typing import Any

import psycopg
import pytest

from indelible.stores.postgres import PostgresStore
from tests.stores.postgres.disturbing import Traffic, check_chain, writer_pid
from tests.stores.postgres.making import TENANT, claim, finish, settle
from tests.waiting import PATIENCE, eventually


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
        eventually(lambda: here._ringer.backend_pid != 0)
        own, others = here.alarm(), there.alarm()
        assert own is not None
        assert others is not None
        here._ring([held.effect.key])
        assert select.select([others], [], [], PATIENCE)[0]
        assert others.drain() == {held.effect.key[:16]}
        assert select.select([own], [], [], PATIENCE)[0]
        assert own.drain() == set()
        here._ring([os.urandom(32).hex() for _ in range(1000)])
        eventually(lambda: select.select([others], [], [], PATIENCE)[0] and others.drain() is None)  # too many to name
        own.close()
        others.close()


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
            assert select.select([alarm], [], [], PATIENCE)[0]
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
        for at in range(0, 200, 20):
            with here._ringer._line.lock:  # so that they come while it is still telling of others
                for key in keys[at : at + 20]:
                    here._ring([key])
        while len(heard) < 200:
            assert select.select([alarm], [], [], PATIENCE)[0]
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
            # It connects again, and says that it may have missed something.
            assert select.select([alarm], [], [], PATIENCE)[0]
            heard.append(alarm.drain())
        assert all(one in (None, set()) for one in heard)
        with contextlib.closing(PostgresStore(url)) as there:
            there._ring([held.effect.key])
            assert select.select([alarm], [], [], PATIENCE)[0]
            assert alarm.drain() == {held.effect.key[:16]}
        alarm.close()


def test_without_wakeups_there_is_no_alarm_and_no_ring(store: PostgresStore, traffic: Traffic) -> None:
    assert store.alarm() is None
    effect = claim(store, 1).effect
    assert traffic.of(lambda: store._ring([effect.key])) == []
    assert store._ringer._thread is None
