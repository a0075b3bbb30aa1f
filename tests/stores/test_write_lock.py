"""Promises of the SQLite store's write lock: one at a time, nobody waits without end, nothing is held by mistake."""

from __future__ import annotations

import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from indelible.errors import StoreUnavailable
from indelible.stores.sqlite import write_lock
from indelible.stores.sqlite.write_lock import WriteLock
from tests.scenarios.shells import in_thread, interrupt_main, main_is_inside
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db-lock")


def is_free(path: str) -> bool:
    """Can somebody with a handle of his own take it now?"""
    lock = WriteLock(path, "here")
    try:
        with lock:
            return True
    except StoreUnavailable:
        return False
    finally:
        lock.close()


def test_two_handles_of_one_file_exclude_each_other(path: str) -> None:
    one, other = WriteLock(path, "one"), WriteLock(path, "other")
    inside = threading.Event()

    def enter() -> None:
        with other:
            inside.set()

    with one:
        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not inside.wait(0.05)
    assert inside.wait(PATIENCE)
    waiting.join()
    one.close()
    other.close()


def test_whoever_waits_too_long_is_told_and_gets_nothing_later(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lock, "PATIENCE", 0.05)
    holder, late = WriteLock(path, "holder"), WriteLock(path, "late")
    with holder:
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match=r"late has been locked for 0\.05 s"):
                late.__enter__()
    monkeypatch.setattr(write_lock, "PATIENCE", PATIENCE)
    # The thread that still waited for them gets the lock now, three times, and gives it back each time.
    for lock in (holder, late, holder):
        with lock:
            pass
    assert is_free(path)
    holder.close()
    late.close()


def test_an_interrupt_while_waiting_leaves_nothing_held(path: str) -> None:
    holder, waiting = WriteLock(path, "holder"), WriteLock(path, "waiting")
    with holder:

        def interrupt() -> None:
            eventually(lambda: main_is_inside("write_lock.py:wait") and waiting._queue and waiting._queue._thread)
            interrupt_main()

        interrupting = in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt), waiting:
            raise AssertionError("it was let in")
        interrupting.result(PATIENCE)
    assert is_free(path)
    with waiting:
        pass
    holder.close()
    waiting.close()


def _count(path: str, counter: str, times: int) -> None:
    write_lock.PATIENCE = PATIENCE
    lock = WriteLock(path, "counting")
    for _ in range(times):
        with lock:
            file = Path(counter)
            file.write_text(str(int(file.read_text()) + 1))
    lock.close()


def test_no_increment_of_many_processes_is_lost(path: str, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    context = multiprocessing.get_context("spawn")
    crew = [context.Process(target=_count, args=(path, str(counter), 200)) for _ in range(4)]
    for process in crew:
        process.start()
    for process in crew:
        process.join()
    assert counter.read_text() == "800"


def test_a_forked_child_holds_nothing_of_its_parents(path: str) -> None:
    lock, other = WriteLock(path, "parent"), WriteLock(path, "other")
    go_on, may_end = os.pipe()
    with other:  # so that the thread that waits, and its handle, are there
        waiting = threading.Thread(target=lambda: lock.__enter__())
        waiting.start()
    waiting.join()
    child = os.fork()
    if child == 0:
        os.read(go_on, 1)
        os._exit(0)
    lock.__exit__(None, None, None)
    assert is_free(path)
    os.write(may_end, b"!")
    os.waitpid(child, 0)
    for file in (go_on, may_end):
        os.close(file)
    lock.close()
    other.close()
