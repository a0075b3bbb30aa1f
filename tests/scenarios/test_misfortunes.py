"""What befalls a process at the worst moment: no thread to be had, a cancel that comes just too late, a lost file."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import random
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

import indelible
from indelible import AsyncLedger, Claimed, Ledger, NothingHappened, RunningEffect, ToolCall
from indelible.core.effects.identity import Ref
from indelible.engine import engine, writer
from indelible.engine.heartbeats import Heartbeats
from indelible.errors import (
    BadCall,
    EffectInDoubt,
    LeaseLost,
    Misconfigured,
    ResultNotRecorded,
    StillRunning,
    StoreUnavailable,
)
from indelible.stores.sqlite import connections
from indelible.stores.sqlite.connections import connect
from tests.core.effects.test_walk_outcomes import Unbound
from tests.scenarios.shells import Count, Driver, charge, in_thread, interrupt_main, main_is_inside
from tests.scenarios.test_living import Beats, HeldStore, in_fork, until
from tests.stores.database import open_file
from tests.waiting import PATIENCE, eventually


def numbered(number: int) -> ToolCall:
    return charge(args={"amount": number})


# ── cancelling ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_cancelled_just_after_its_result_was_written_does_not_wait_for_ever(place: dict[str, Any]) -> None:
    """The loop is busy while the result is written; then it cancels before it hears of that."""

    async def scenario() -> None:
        async with AsyncLedger.open(**place) as ledger:
            loop: Any = asyncio.get_running_loop()
            is_told = threading.Event()
            tell = loop.call_soon_threadsafe

            def noted(*args: Any, **words: Any) -> Any:
                try:
                    return tell(*args, **words)
                finally:
                    is_told.set()

            def cancel() -> None:
                assert is_told.wait(PATIENCE)
                task.cancel()

            async def handler(effect: RunningEffect) -> str:
                loop.call_soon_threadsafe = noted
                loop.call_soon(cancel)
                return "done"

            task = asyncio.create_task(ledger.run(charge(), handler))
            await asyncio.wait([task], timeout=PATIENCE)
            assert task.cancelled()
            assert await ledger.run(charge(), Count()) == "done"

    asyncio.run(scenario())


def test_the_claim_of_a_task_cancelled_while_the_ledger_closes_is_given_back(place: dict[str, Any]) -> None:
    async def scenario() -> None:
        ledger = AsyncLedger.open(**place, seal=False)
        held = HeldStore(ledger)
        task = asyncio.create_task(ledger.run(charge(), Count()))
        await asyncio.to_thread(held.is_held.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        closing = asyncio.create_task(ledger.close())
        await until(lambda: ledger._engine.writer._is_closed)
        held.may_go_on.set()
        await asyncio.wait_for(closing, PATIENCE)

    asyncio.run(scenario())
    with Ledger.open(**place, seal=False) as ledger:
        assert [effect.status for effect in ledger.effects()] == ["ready"]


# ── interrupting ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_interrupt_while_a_transaction_begins_does_not_leave_it_open(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        other = open_file(sqlite_url)
        other.execute("BEGIN IMMEDIATE")

        def interrupt() -> None:
            eventually(lambda: main_is_inside("store.py:_transact", deepest="_transact"))
            interrupt_main()
            other.execute("COMMIT")

        interrupting = in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.run(charge(), Count())
        interrupting.result(PATIENCE)
        other.execute("BEGIN IMMEDIATE")
        other.execute("COMMIT")
        other.close()
        assert ledger.run(numbered(6), Count()) == "done"


# ── no thread to be had ──────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def no_new_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Has the system refuse threads of ours, as it does when there are too many."""
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith("indelible-"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        yield


def test_everybody_is_answered_when_no_thread_can_be_started(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the writer's thread, which sees to those who queue, nor the one that seals."""
    with Ledger.open(**place, seal=True) as ledger, no_new_threads(monkeypatch):
        held = HeldStore(ledger)
        first = in_thread(lambda: ledger.begin(numbered(0)))
        assert held.is_held.wait(PATIENCE)
        others = [in_thread(partial(ledger.begin, numbered(number))) for number in (1, 2, 3)]
        eventually(lambda: len(ledger._engine.writer._queue) == 3)
        held.may_go_on.set()
        claims = [call.result(PATIENCE).claim for call in (first, *others)]
        assert sorted(claim.effect.args["amount"] for claim in claims) == [0, 1, 2, 3]


def test_leases_are_renewed_as_soon_as_there_is_a_thread_again(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = Beats(True, True)
    heartbeats = Heartbeats(beats)
    claim: Any = SimpleNamespace(token="t")
    with no_new_threads(monkeypatch), pytest.raises(RuntimeError):
        heartbeats.keep(claim, timedelta(milliseconds=15))
    heartbeats.keep(claim, timedelta(milliseconds=15))
    assert beats.is_over.wait(PATIENCE)
    heartbeats.close()


def test_no_error_of_one_heartbeat_ends_the_others() -> None:
    beats = Beats(True, ValueError("whatever it is"), True, True)
    heartbeats = Heartbeats(beats)
    claim: Any = SimpleNamespace(token="t")
    heartbeats.keep(claim, timedelta(milliseconds=15))
    assert beats.is_over.wait(PATIENCE)
    heartbeats.close()


def test_a_call_on_a_stack_that_is_full_leaves_the_ledger_usable(sqlite_url: str) -> None:
    """Wherever there is no room for one function more, nothing stays locked and nothing is entered twice."""

    def deep(frames: int, body: Callable[[], Any]) -> Any:
        return body() if frames <= 0 else deep(frames - 1, body)

    limit = sys.getrecursionlimit()
    room = len(inspect.stack(0)) + 150
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(charge(), Count())
        for left in range(8, 32):
            handler = Count()
            sys.setrecursionlimit(room)
            try:
                with contextlib.suppress(RecursionError):
                    deep(150 - left, partial(ledger.run, numbered(left), handler, lease=timedelta(seconds=60)))
            finally:
                sys.setrecursionlimit(limit)
            assert ledger.run(numbered(left + 1000), Count()) == "done"
            before = handler.entries
            with contextlib.suppress(EffectInDoubt, StillRunning):
                ledger.run(numbered(left), handler, wait=False)
            assert handler.entries == 1 or (before == 0 and handler.entries == 0)


# ── too much at once ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_fine_alone_is_not_too_much_together(place: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seventy results of 16 MiB each in one statement are more than PostgreSQL takes: 69 were left in doubt by that."""
    monkeypatch.setattr(writer, "MOST_BYTES_AT_ONCE", 100)
    with Ledger.open(**place, seal=False) as ledger:
        held = HeldStore(ledger)
        calls = [in_thread(lambda: ledger.begin(numbered(0)))]
        assert held.is_held.wait(PATIENCE)
        for number, text in enumerate(["x" * 30, "y" * 30, "z" * 200, "z" * 20]):
            calls.append(in_thread(partial(ledger.begin, charge(args={"text": text}))))
            eventually(lambda: len(ledger._engine.writer._queue) == number + 1)  # noqa: B023
        sizes: list[int] = []
        ledger._engine.writer.listeners.append(lambda answers: sizes.append(len(answers)))
        held.may_go_on.set()
        assert all(isinstance(call.result(PATIENCE), Claimed) for call in calls)
        assert sizes == [1, 2, 1, 1]


def test_names_that_are_too_long_for_the_database_are_one_callers_fault_alone(postgres_url: str) -> None:
    """They came in one statement with the calls of others, who were told that the store is away."""
    indelible.migrate(postgres_url)
    long = "".join(chr(random.Random(seed).randint(0x4E00, 0x9FFF)) for seed in range(500))
    with Ledger.open(postgres_url, seal=False, tenant=long) as ledger:
        held = HeldStore(ledger)
        first = in_thread(lambda: ledger.begin(numbered(0)))
        assert held.is_held.wait(PATIENCE)
        bad = in_thread(lambda: ledger.begin(charge(run_id=long)))
        good = in_thread(lambda: ledger.begin(numbered(1)))
        eventually(lambda: len(ledger._engine.writer._queue) == 2)
        held.may_go_on.set()
        assert all(isinstance(call.result(PATIENCE), Claimed) for call in (first, good))
        with pytest.raises(BadCall, match="cannot keep"):
            bad.result(PATIENCE)


# ── clocks and forks ─────────────────────────────────────────────────────────────────────────────────────────────────


class HeldAfterwards(HeldStore):
    """Holds a ledger back as soon as it has written."""

    def _held(self, *args: Any) -> Any:
        answers = self._apply(*args)
        self.is_held.set()
        assert self.may_go_on.wait(PATIENCE)
        return answers


def test_a_clock_that_is_set_back_does_not_hide_that_a_lease_is_over(
    place: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process was stopped between its claim and its handler; meanwhile somebody looked, and another one ran it."""

    class AnHourAgo(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) - timedelta(hours=1)

    handler = Count("late")
    with Ledger.open(**place, seal=False) as ledger, Ledger.open(**place, seal=False) as other:
        held = HeldAfterwards(ledger)
        running = in_thread(lambda: ledger.run(charge(), handler, lease=timedelta(milliseconds=40)))
        assert held.is_held.wait(PATIENCE)
        (doubtful,) = eventually(lambda: [one for one in other.reconcile() if one.status == "in_doubt"])
        other.retry(doubtful, by="ada")
        assert other.run(charge(), Count("in time")) == "in time"
        monkeypatch.setattr(engine, "datetime", AnHourAgo)
        held.may_go_on.set()
        with pytest.raises(LeaseLost, match="nothing was run"):
            running.result(PATIENCE)
    assert handler.entries == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("ending", [SystemExit(0), ValueError("in the child"), None])
def test_a_child_that_a_handler_forked_does_not_speak_for_its_parent(
    sqlite_url: str, ending: BaseException | None
) -> None:
    parent = os.getpid()

    def handler(effect: RunningEffect) -> str:
        child = os.fork()
        if child == 0:
            if ending is not None:
                raise ending
            return "child"
        os.waitpid(child, 0)
        return "parent"

    with Ledger.open(sqlite_url, seal=False) as ledger:
        try:
            assert ledger.run(charge(), handler) == "parent"
        finally:
            if os.getpid() != parent:
                os._exit(0)
        assert ledger.run(charge(), Count()) == "parent"


# ── what one effect says of another ──────────────────────────────────────────────────────────────────────────────────


def test_that_nothing_happened_in_one_effect_says_nothing_of_the_one_that_called_it(ledger: Driver) -> None:
    entered: list[str] = []

    def outer(effect: RunningEffect) -> None:
        entered.append("charged the card")
        ledger.run(charge(tool="mail"), Count(NothingHappened("no connection")))

    with pytest.raises(NothingHappened):
        ledger.run(charge(), outer)
    with pytest.raises(EffectInDoubt, match="no connection"):
        ledger.run(charge(), outer)
    assert entered == ["charged the card"]
    assert {effect.tool: effect.status for effect in ledger.effects()} == {"charge": "in_doubt", "mail": "ready"}


def test_a_result_that_cannot_even_be_looked_at_leaves_doubt(ledger: Driver) -> None:
    with pytest.raises(ResultNotRecorded):
        ledger.run(charge(), lambda effect: Unbound())
    assert [effect.status for effect in ledger.effects()] == ["in_doubt"]


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def deleted(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


@pytest.mark.parametrize("lost", [deleted, replaced])
def test_nothing_is_entered_on_a_file_that_is_no_longer_there(sqlite_url: str, lost: Callable[[Path], None]) -> None:
    """Whoever opens the address now opens another file, and enters the same handlers."""
    handler = Count()
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(charge(), handler)
        lost(Path(sqlite_url.removeprefix("sqlite:///")))
        with pytest.raises(StoreUnavailable, match="replaced"):
            ledger.run(numbered(6), handler)
        with pytest.raises(StoreUnavailable, match="replaced"), ledger._engine.store.transaction(ledger.tenant):
            raise AssertionError("it was begun")
        assert handler.entries == 1
    if lost is deleted:
        with pytest.raises(Misconfigured, match="belongs there"):
            Ledger.open(sqlite_url, seal=False)
        return
    with Ledger.open(sqlite_url, seal=False) as ledger:
        assert ledger.run(numbered(6), handler) == "done"


def test_a_file_that_is_not_alone_in_its_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under each of two names it has a log of its own, and so it has where only the file itself is mounted."""
    folder = tmp_path / "a folder"
    url = f"sqlite:///{folder / 'ledger.db'}"
    Ledger.open(url, seal=False).close()
    (folder / "other.db").hardlink_to(folder / "ledger.db")
    with pytest.raises(Misconfigured, match="hard link"):
        Ledger.open(url, seal=False)
    (folder / "other.db").unlink()
    mounts = tmp_path / "mountinfo"
    escaped = str(folder / "ledger.db").replace(" ", "\\040")
    mounts.write_text(
        f"27 1 254:0 / / rw - ext4 /dev/vda rw\n42 27 254:0 /srv/ledger.db {escaped} rw - ext4 /dev/vda rw\n"
    )
    monkeypatch.setattr(connections, "_MOUNTS", mounts)
    with pytest.raises(Misconfigured, match="mount its folder"):
        Ledger.open(url, seal=False)
    monkeypatch.setattr(connections, "_MOUNTS", tmp_path / "not there")
    Ledger.open(url, seal=False).close()


def test_where_memory_cannot_be_shared_a_commit_survives_the_power_all_the_same(tmp_path: Path) -> None:
    """Then SQLite refuses WAL mode, and what it is in by itself undoes a commit if a directory was not on the disk."""
    usual = apsw.vfs_names()[0]
    alone = apsw.VFS("alone", base="unix-dotfile", makedefault=True)
    try:
        connection = connect(str(tmp_path / "ledger.db"), is_memory=False)
        assert connection.pragma("journal_mode") == "truncate"
        connection.close()
    finally:
        alone.unregister()
        apsw.set_default_vfs(usual)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_no_thread_of_a_forked_child_uses_what_its_parent_opened(sqlite_url: str) -> None:
    with Ledger.open(sqlite_url, seal=False) as ledger:
        ledger.run(charge(), Count())
        store: Any = ledger._engine.store

        def child() -> None:
            is_connecting, has_looked = threading.Event(), threading.Event()
            make = store._connection

            def slow() -> Any:
                is_connecting.set()
                assert not has_looked.wait(0.1), "somebody looked, through what the parent opened"
                return make()

            store._connection = slow
            first = in_thread(lambda: store.look([Ref("t", "s", "00" * 32)]))
            assert is_connecting.wait(PATIENCE)

            def look_too() -> None:
                store.look([Ref("t", "s", "00" * 32)])
                has_looked.set()

            second = in_thread(look_too)
            first.result(PATIENCE)
            second.result(PATIENCE)

        assert in_fork(child) == 0
    assert os.getpid() == store._pid
