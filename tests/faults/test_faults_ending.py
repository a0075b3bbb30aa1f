"""Fault 49: an interpreter that shuts down starts no thread, so a call made then held its claim and never returned."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from indelible import Ledger, NothingHappened, ToolCall, migrate

_ENDING = """
import atexit, sys, threading
from datetime import timedelta
from indelible import Ledger, ToolCall
from indelible.errors import BadCall
url, keys, at_exit, is_used = sys.argv[1:]
ledger = Ledger.open(url, keys=keys, seal=False)

def call(number, **words):
    ledger.run(ToolCall(tool="pay", args={"n": number}, run_id="r"), lambda effect: print("entered"), **words)

def last_call(**words):
    try:
        call(1, **words)
    except BadCall:
        print("refused")

def call_without_threads(**words):
    threading.stack_size(1 << 46)  # no system has as much: it starts no thread
    last_call(**words)

class Last:
    def __del__(self):
        last_call()

class Owner:
    def __init__(self):
        self.ledger = ledger

    def __del__(self):
        self.ledger.close()
        print("closed")

if is_used == "used":
    call(0)
if at_exit == "atexit":
    atexit.register(last_call)
elif at_exit == "no thread":
    atexit.register(call_without_threads)
elif at_exit == "no thread, timeout":
    atexit.register(call_without_threads, timeout=timedelta(seconds=9))
elif at_exit == "close":
    last = Owner()
else:
    last = Last()
"""


def _ended(store_url: str, keys: Path, when: str, is_used: str) -> tuple[list[str], str | None]:
    """Run a program whose last call comes when it ends; return what it printed last, and the status of that call."""
    words = [sys.executable, "-c", _ENDING, store_url, str(keys), when, is_used]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    with Ledger.open(store_url, keys=keys, seal=False) as ledger:
        found = {effect.args["n"]: effect.status for effect in ledger.effects()}
    print(done.stderr)
    return done.stdout.split()[-1:], found.get(1)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_used", ["used", "unused"])
@pytest.mark.parametrize(("when", "said", "status"), [("atexit", "entered", "succeeded"), ("del", "refused", None)])
def test_49_a_call_when_the_interpreter_shuts_down_is_made_or_refused(
    store_url: str, tmp_path: Path, is_used: str, when: str, said: str, status: str | None
) -> None:
    if when == "atexit" and sys.version_info[:2] == (3, 12):
        said, status = "refused", None  # this one starts no thread any more when it calls what is registered
    migrate(store_url, keys=tmp_path / "keys")
    assert _ended(store_url, tmp_path / "keys", when, is_used) == ([said], status)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_used", ["used", "unused"])
@pytest.mark.parametrize("when", ["no thread", "no thread, timeout"])
def test_49_a_call_after_the_main_thread_is_refused_if_no_thread_starts(
    store_url: str, tmp_path: Path, when: str, is_used: str
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    assert _ended(store_url, tmp_path / "keys", when, is_used) == (["refused"], None)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_used", ["used", "unused"])
def test_49_a_ledger_that_is_closed_when_the_interpreter_shuts_down_does_not_wait_for_its_threads(
    store_url: str, tmp_path: Path, is_used: str
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    said, _ = _ended(store_url, tmp_path / "keys", "close", is_used)
    assert said == ["closed"]


@pytest.mark.parametrize("side_effect", ["payment", "write"])
@pytest.mark.parametrize("how", ["awaited", "timeout"])
def test_56_a_call_for_which_no_thread_starts_was_not_entered(store_url: str, how: str, side_effect: str) -> None:
    """Where the system starts no more threads, it was in doubt, or failed for good."""
    entered: list[int] = []
    migrate(store_url)
    words: dict[str, Any] = {"side_effect": side_effect}

    async def awaited(ledger: Ledger, *given: Any) -> Any:
        return await ledger.awaited.run(*given, **words)

    def run(ledger: Ledger, number: int) -> Any:
        given = (ToolCall(tool="t", args={"n": number}, run_id="r"), lambda effect: entered.append(number) or "done")
        if how == "awaited":
            return asyncio.run(awaited(ledger, *given))
        return ledger.run(*given, **words, timeout=timedelta(seconds=20))

    with Ledger.open(store_url, seal=False) as ledger:
        run(ledger, 0)  # the ledger's own threads run now
        before = threading.stack_size(1 << 46)  # no system has room for the stack of such a thread
        try:
            with pytest.raises(NothingHappened):
                run(ledger, 1)
        finally:
            threading.stack_size(before)
        assert [effect.status for effect in ledger.effects() if effect.args["n"] == 1] == ["ready"]
        assert run(ledger, 1) == "done"
    assert entered == [0, 1]
