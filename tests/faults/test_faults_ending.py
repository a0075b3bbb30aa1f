"""Fault 49: an interpreter that shuts down starts no thread, so a call made then held its claim and never returned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indelible import Ledger, migrate

_ENDING = """
import atexit, sys
from indelible import Ledger, ToolCall
from indelible.errors import BadCall
url, keys, at_exit, is_used = sys.argv[1:]
ledger = Ledger.open(url, keys=keys, seal=False)

def call(number):
    ledger.run(ToolCall(tool="pay", args={"n": number}, run_id="r"), lambda effect: print("entered"))

class Last:
    def __del__(self):
        try:
            call(1)
        except BadCall:
            print("refused")

if is_used == "used":
    call(0)
if at_exit == "atexit":
    atexit.register(call, 1)
else:
    last = Last()
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_used", ["used", "unused"])
@pytest.mark.parametrize(("when", "said", "status"), [("atexit", "entered", "succeeded"), ("del", "refused", None)])
def test_49_a_call_when_the_interpreter_shuts_down_is_made_or_refused(
    store_url: str, tmp_path: Path, is_used: str, when: str, said: str, status: str | None
) -> None:
    migrate(store_url, keys=tmp_path / "keys")
    words = [sys.executable, "-c", _ENDING, store_url, str(tmp_path / "keys"), when, is_used]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.split()[-1:] == [said], done.stderr
    with Ledger.open(store_url, keys=tmp_path / "keys", seal=False) as ledger:
        found = {effect.args["n"]: effect.status for effect in ledger.effects()}
    assert found.get(1) == status
