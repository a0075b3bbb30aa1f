"""How tests wait: for a state, never for a time; and ports that nobody takes away meanwhile."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 100.0
"""Is how many seconds a test waits for what should come: long for a slow machine, and shorter than pytest's timeout."""

# Below the range from which the system gives connections theirs, and above where the tests' PostgreSQL servers are.
_FIRST, _LAST = 30_000, 32_700
_WORKERS = 90


def eventually(is_so: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits until something is so that rings no bell, and gives what it found."""
    ends = time.monotonic() + patience
    while True:
        found = is_so()
        if found:
            return found
        assert time.monotonic() < ends, f"it never became so: {is_so}"
        time.sleep(0.003)


def free_port() -> int:
    """Gives a port for a server that another process is about to start; no other worker of pytest is given it."""
    for port in _PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("not reached")


def _own_ports() -> range:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    return range(_FIRST + worker % _WORKERS, _LAST, _WORKERS)


_PORTS = itertools.cycle(_own_ports())


@contextmanager
def refusing() -> Iterator[int]:
    """Keeps a port at which nobody listens, so that whoever connects there is refused."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
