"""Fault 49: a process that forks while another thread makes the ledger's first call."""

from __future__ import annotations

import subprocess
import sys

from indelible import migrate

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
