"""Starts witnesses that die at the N-th line they execute. Run as a program, which forks one for each line it reads.

Forking from a process that has imported everything makes a witness in milliseconds, so that every line can have its
turn. It says the address of each. One lives at a time: the next line, or the end of them, kills the one before.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

from indelible.core.journal.notes import PublicKey
from indelible.journal.witnesses.cosigner import Cosigner, HeadFolder, read_key
from indelible.journal.witnesses.server import WitnessServer
from tests.chaos.linekill import LineKill
from tests.journal.watched import LOG


class Knife(LineKill):
    """Counts only lines that touch the disk or the wire: between those of pure rules nothing changes.

    Looking for slow connections is left out: how often that happens depends on the time.
    """

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.endswith(("/journal/witnesses/cosigner.py", "/journal/witnesses/server.py")):
            return None
        return None if code.co_name in ("service_actions", "_cut") else super()._on_call(frame, event, argument)


def serve(folder: Path, logs: list[PublicKey], number: int | None) -> None:
    key = read_key(folder / "key.pem")
    with closing(HeadFolder(folder / "state", key.public)) as heads:
        server = WitnessServer(("127.0.0.1", 0), Cosigner(key, logs, heads))
        with Knife(number, lambda where: None) as knife, server:
            print(server.url, flush=True)
            if number is not None:
                knife.arm()
            server.serve_forever(0.05)


def main() -> None:
    folder = Path(sys.argv[1])
    child = 0
    for line in sys.stdin:
        _end(child)
        child = os.fork()
        if child == 0:
            try:
                serve(folder, [LOG], int(line) or None)
            except Exception:
                print("http://could.not.start.invalid", flush=True)
                raise
            finally:
                os._exit(1)
    _end(child)


def _end(child: int) -> None:
    """Kills a child that nobody has waited for yet, so that its number is still its own."""
    if child:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
