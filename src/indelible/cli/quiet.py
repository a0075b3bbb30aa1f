"""Commands that say in their own words what the library would log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unlogged() -> Iterator[None]:
    """Say nothing of keys that are made: the command tells it in its own words, or it does not matter."""
    log = logging.getLogger("indelible.journal")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False
