"""Waiting for many effects costs little, and whoever waits is woken when a question ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

import indelible
from indelible.core.approvals.approval import Approval
from indelible.core.commands import ApprovalEnded, AwaitingApproval
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.ports import Seen, Store
from indelible.engine import waiting
from indelible.engine.waiting import Waiting
from indelible.stores import open_store
from indelible.testing.clock import FakeClock
from indelible.testing.commands import LEASE, Commands, asking
from indelible.testing.suite import PATIENCE, apply_one, take_claim

TENANT = "default"
SOON = timedelta(seconds=0.3)
FAR = timedelta(hours=1)


class Watched:
    """Is a store that notes what is watched, and when a look is over."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.looks: list[set[Ref]] = []
        self.has_looked = threading.Condition()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def watch(self, refs: Sequence[Ref]) -> Seen:
        seen = self._store.watch(refs)
        with self.has_looked:
            self.looks.append(set(refs))
            self.has_looked.notify_all()
        return seen

    def await_looks(self, many: int) -> None:
        with self.has_looked:
            assert self.has_looked.wait_for(lambda: len(self.looks) >= many, PATIENCE)

    def await_looks_at(self, refs: set[Ref]) -> None:
        with self.has_looked:
            assert self.has_looked.wait_for(lambda: set().union(*self.looks) >= refs, PATIENCE)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    indelible.migrate(store_url)
    with contextlib.closing(open_store(store_url)) as store:
        yield store


@pytest.fixture
def only_when_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks by himself, so that what wakes is an alarm or the end of something."""
    for name in ("LOOK_AT_LEAST_EVERY", "LOOK_EVERY_CHEAPLY", "LOOK_EVERY_REMOTELY"):
        monkeypatch.setattr(waiting, name, FAR)


def ask(store: Store, name: str, expires: timedelta) -> tuple[Approval, Effect]:
    answer = apply_one(store, Commands(TENANT).ask(name, verdict=asking(expires=expires)))
    assert isinstance(answer, AwaitingApproval)
    return answer.approval, answer.effect


@pytest.mark.usefixtures("only_when_told")
def test_whoever_waits_is_woken_when_the_question_ends(store: Store) -> None:
    approval, effect = ask(store, "asked", SOON)
    waits = Waiting(store)
    newest = waits.wait(effect, timedelta(seconds=PATIENCE))
    waits.close()
    assert newest is not None
    assert newest.version == effect.version, "nobody has moved it; its time is over"
    again = Commands(TENANT).ask("asked", awaited_approval=approval.id)
    ended = apply_one(store, again, newest)
    assert isinstance(ended, ApprovalEnded)
    assert ended.approval.status == "expired"


@pytest.mark.usefixtures("only_when_told")
def test_when_a_question_ends_only_that_effect_is_looked_at(store: Store) -> None:
    waiting_long = [ask(store, f"long-{number}", FAR)[1] for number in range(20)]
    _, short = ask(store, "short", timedelta(seconds=1))
    watched = Watched(store)
    waits = Waiting(watched)  # type: ignore[arg-type]
    for effect in waiting_long:
        waits.add(effect, lambda _: None)
    watched.await_looks_at({effect.ref for effect in waiting_long})
    before = len(watched.looks)
    assert waits.wait(short, timedelta(seconds=PATIENCE)) is not None
    waits.close()
    assert all(looked == {short.ref} for looked in watched.looks[before:])
    assert len(watched.looks) > before


@pytest.mark.parametrize("callers", [1, 2])
@pytest.mark.usefixtures("only_when_told")
def test_whoever_is_woken_by_an_alarm_waits_for_no_write(callers: int, postgres_url: str) -> None:
    """Here to watch is a durable write, and would stand between an approval and the start of its handler.

    For several callers somebody looks once; one caller alone looks when it claims, and need not be told what is there.
    """
    indelible.migrate(postgres_url)
    heard: SimpleQueue[Effect] = SimpleQueue()
    with (
        contextlib.closing(open_store(postgres_url)) as store,
        contextlib.closing(open_store(postgres_url)) as elsewhere,
    ):
        approval, effect = ask(store, "asked", FAR)
        watched = Watched(store)
        with contextlib.closing(Waiting(watched)) as waits:  # type: ignore[arg-type]
            for _ in range(callers):
                before = len(watched.looks)
                waits.add(effect, partial(heard.put))
                watched.await_looks(before + 1)
            before = len(watched.looks)
            apply_one(elsewhere, Commands(TENANT).approve(approval))
            told = [heard.get(timeout=PATIENCE).status for _ in range(callers)]
            assert told == (["requires_approval"] if callers == 1 else ["ready"] * callers)
        assert watched.looks[before:] == []


def test_the_more_wait_the_less_often_all_are_looked_at(store: Store) -> None:
    waits, alarm = Waiting(store), store.alarm()
    _, effect = ask(store, "asked", FAR)
    assert alarm is not None
    pauses = []
    for count in (1, 100, 1000, 100_000):
        waits._wakers = {effect.ref._replace(key=f"{number:064x}"): {} for number in range(count)}
        pauses.append(waits._pause(alarm).total_seconds())
    assert pauses == [1, 1, 10, 60]
    assert waits._pause(None).total_seconds() == 60, "also where only looking helps"
    alarm.close()
    waits.close()


def test_looking_at_many_shows_every_change(store_url: str) -> None:
    """What was read before is not read again, unless it has changed in any way."""
    indelible.migrate(store_url)
    clock, make = FakeClock(), Commands(TENANT)
    store, elsewhere = open_store(store_url, clock=clock), open_store(store_url, clock=clock)
    refs = [make.ref(f"effect-{number}") for number in range(40)]

    def check() -> None:
        assert store.watch(refs) == store.look(refs)
        assert store.watch(refs[::-1]).effects == store.look(refs[::-1]).effects
        assert store.watch(refs[:3]).effects == store.look(refs[:3]).effects

    check()
    claims = [take_claim(store, make, f"effect-{number}") for number in range(20)]
    for number in range(20, 30):
        apply_one(store, make.ask(f"effect-{number}", args_json=b'{"n":"%s"}' % (b"x" * 9999 * (number % 2))))
    check()
    clock.advance(LEASE / 2)
    assert elsewhere.heartbeat(claims[3], LEASE * 9)
    check()
    apply_one(elsewhere, make.finish(claims[4]))
    apply_one(elsewhere, make.relinquish(claims[5]))
    check()
    apply_one(elsewhere, make.open("effect-5"))
    take_claim(elsewhere, make, "effect-35")
    check()
    clock.advance(LEASE * 2)
    apply_one(elsewhere, make.expire(refs[6]))
    check()
    store.close()
    elsewhere.close()
