"""Fault 78: a system without POSIX file locks imports the library, and is told what to do instead of a local ledger."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_WITHOUT = """
import os, sys
for name in ("mknod", "O_CLOEXEC", "fork"):
    delattr(os, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None  # as on Windows: importing it raises ImportError
import indelible, indelible.cli.root, indelible.connecting
from indelible.errors import Misconfigured
try:
    with indelible.Ledger.open(sys.argv[1]) as ledger:
        with ledger.in_run("order-1"):
            ledger.tool("pay", side_effect="payment")(lambda: print("entered"))()
except Misconfigured as error:
    print("refused:", "https://" in str(error))
"""


def test_78_without_posix_the_library_is_imported_and_a_local_ledger_is_refused(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _WITHOUT, f"sqlite:///{tmp_path / 'ledger.db'}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "refused: True\n"), done.stderr
