"""Fault 49: a process that forks while another thread makes the ledger's first call."""

from __future__ import annotations

import subprocess
import sys

import pytest

from indelible import Ledger, migrate

_FORKS_IN_A_FIRST_CALL = """
import os, signal, sys, threading
from indelible import Ledger, ToolCall

begun, go_on = threading.Event(), threading.Event()

def slowly(event, args):  # a module is locked while its code is executed
    is_first = threading.current_thread() is first
    if is_first and event == "exec" and "/journal/keys/" in getattr(args[0], "co_filename", ""):
        begun.set()
        go_on.wait(60)

def call(number):
    return ledger.run(ToolCall(run_id="r", tool="x", args={"number": number}), lambda effect: number)

ledger = Ledger.open(sys.argv[1], seal=True)
first = threading.Thread(target=call, args=(1,))
sys.addaudithook(slowly)
first.start()
while first.is_alive() and not begun.wait(0.01):
    pass
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if call(2) == 2 else 1)
_, status = os.waitpid(child, 0)
go_on.set()
first.join()
ledger.close()
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def test_49_a_child_forked_during_the_first_call_of_another_thread_makes_its_calls(store_url: str) -> None:
    migrate(store_url)
    done = subprocess.run([sys.executable, "-c", _FORKS_IN_A_FIRST_CALL, store_url], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


_LOADS_NOTHING_IN_CALLS = """
import sys, threading
from datetime import timedelta
from indelible import Ledger, ToolCall
from indelible.errors import ApprovalPending

def call(number, **words):
    made = ToolCall(run_id="r", tool="x", args={"number": number})
    return ledger.run(made, lambda effect: number, side_effect="payment", **words)

def calls():
    assert call(1) == call(1) == 1
    assert call(2, timeout=timedelta(seconds=60)) == 2
    try:
        call(3, approval="required", wait=False)
    except ApprovalPending as asked:
        ledger.approve(asked.approval.id, digest=asked.approval.digest, by="ana")
    assert call(3, approval="required") == 3
    done.append(True)

ledger, done = Ledger.open(sys.argv[1], seal=False, await_inclusion=False), []
before = set(sys.modules)
first = threading.Thread(target=calls)
first.start()
first.join()
assert done
print(*sorted(name for name in set(sys.modules) - before if name.startswith(("indelible", "cryptography"))))
"""


def test_49_a_call_imports_nothing_so_that_a_fork_beside_it_locks_no_module(store_url: str) -> None:
    """A child that was forked while a thread imported a library of ciphers hung in its first call, for ever."""
    migrate(store_url)
    with Ledger.open(store_url, seal=True) as ledger:
        ledger.apply_policy({"rules": [{"name": "all", "then": "allow"}], "people": {"ana": {}}}, by="ana")
        ledger.seal()
    told = [sys.executable, "-c", _LOADS_NOTHING_IN_CALLS, store_url]
    done = subprocess.run(told, capture_output=True, check=False, text=True)
    assert (done.stdout.split(), done.returncode) == ([], 0), done.stderr


_FORKS_WHILE_LOCKS_ARE_HELD = """
import gc, os, signal, sys, threading
from indelible import Ledger, ToolCall

LOCKS = (type(threading.Lock()), type(threading.RLock()), threading.Condition)

def call(number):
    made = ToolCall(run_id="r", tool="x", args={"number": number, "secret": "s3cr3t"})
    return ledger.run(made, lambda effect: number, redact=["args.secret"])

def locks():
    for owner in gc.get_objects():
        # SQLite's store waits for its own locks before it forks.
        module = str(type(owner).__module__)
        if module.startswith("indelible.") and ".sqlite" not in module:
            for name, lock in getattr(owner, "__dict__", {}).items():
                if isinstance(lock, LOCKS):
                    yield f"{type(owner).__name__}.{name}", lock

def hold():
    held.extend(name for name, lock in locks() if lock.acquire(blocking=False))
    holding.set()
    go_on.wait(60)

ledger, held, holding, go_on = Ledger.open(sys.argv[1], seal=False), [], threading.Event(), threading.Event()
assert call(1) == 1
threading.Thread(target=hold, daemon=True).start()
holding.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if call(1) == 1 and call(2) == 2 else 1)
_, status = os.waitpid(child, 0)
print(" ".join(sorted(held)), flush=True)
os._exit(os.waitstatus_to_exitcode(status) != 0)
"""


def test_49_a_child_forked_while_other_threads_hold_any_lock_makes_its_calls(store_url: str) -> None:
    """A lock that a thread of the parent holds is never given back in the child."""
    migrate(store_url)
    words = [sys.executable, "-c", _FORKS_WHILE_LOCKS_ARE_HELD, store_url]
    done = subprocess.run(words, capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert {"NewestVersions._reading", "RedactionKey._lock", "Writer._busy"} <= {*done.stdout.split()}


_FORKS_INSIDE_A_RUN = """
import os, sys
from indelible import Ledger
from indelible.errors import RunLost

def is_lost(verb, *words):
    try:
        verb(*words)
    except RunLost:
        return True
    return False

ledger, how, parent = Ledger.open(sys.argv[1], seal=False), sys.argv[2], os.getpid()
pay = ledger.tool("pay", side_effect="payment")(lambda number: number)
try:
    with ledger.start_run(how, agent="billing") as run:
        pay(1)
        child = os.fork()
        if child == 0:
            verbs = [(run.record, "plan_locked"), (run.checkpoint,), (run.complete,), (run.release,), (run.check,)]
            if not (all(is_lost(*verb) for verb in verbs) and pay(1) == 1 and pay(2) == 2):
                os._exit(1)
            if how == "raises":
                raise ValueError("in the child")
            if how == "exits":
                sys.exit("in the child")
        else:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child"
            assert ledger.get_run(how).status == "active"
            run.checkpoint({"cursor": pay(2)})
            pay(3)
except (ValueError, SystemExit):
    os._exit(os.getpid() == parent)
if os.getpid() != parent:
    os._exit(0)
assert ledger.get_run(how).status == "completed"
assert ledger.verify_run(how).is_valid
ledger.close()
"""


@pytest.mark.parametrize("how", ["leaves", "raises", "exits"])
def test_49_a_forked_child_neither_drives_nor_ends_the_run_of_its_parent(store_url: str, how: str) -> None:
    migrate(store_url)
    done = subprocess.run([sys.executable, "-c", _FORKS_INSIDE_A_RUN, store_url, how], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
