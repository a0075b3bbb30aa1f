"""A proof for tests of programs: something happens once, whatever dies and whoever comes at the same time."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from indelible.errors import EffectInDoubt
from indelible.testing.crashing import Body, Point, crash_at, finish, start

_numbers = itertools.count()


class Outside:
    """Is the world outside of a test, where things happen that no crash undoes: it counts them across processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def happens(self, deed: str) -> None:
        """Lets something happen; call it where your tool would charge, send or write."""
        # A name of its own for each, and an entry in a folder is whole or not there.
        Path(self._folder, f"{_name_of(deed)} {os.getpid()} {next(_numbers)}").touch(exist_ok=False)

    def times(self, deed: str) -> int:
        """Counts how often it happened."""
        return len(list(self._folder.glob(f"{_name_of(deed)} *")))


def effect_once(
    outside: Outside, body: Body, deed: str, *, at: Point = "after_handler", tool: str | None = None
) -> None:
    """Raises unless a deed happens once, though a process is killed, two come at the same time, and one comes late.

    Each runs the same body, as a program that is started again does. Where the ledger says that it may have happened
    and a person has to look, that is no repeat; nothing else that a body raises is passed over.
    """
    crash_at(at, body, tool=tool)
    story = [f"killed at {at}: {outside.times(deed)}"]
    workers = [start(lambda: _resumed(body)) for _ in range(2)]
    for ended, told in [worker.end() for worker in workers]:
        if ended:
            raise AssertionError(f"{deed!r}: a second worker {told}")
    story.append(f"two workers: {outside.times(deed)}")
    in_doubt = _resumed(body)
    times = outside.times(deed)
    story.append(f"resumed: {times}{', in doubt' if in_doubt else ''}")
    if times != 1 and not (times == 0 and in_doubt):
        raise AssertionError(f"{deed!r} happened {times} times and not once ({'; '.join(story)})")


def _resumed(body: Body) -> bool:
    """Runs the body as a program that is started again; says whether the ledger asks for a person instead."""
    try:
        finish(body)
    except EffectInDoubt:
        return True
    return False


def _name_of(deed: str) -> str:
    return re.sub(r"[^\w.-]", "_", deed)
