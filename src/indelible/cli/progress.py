"""A bar that shows how far something is, where somebody sits and looks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(doing: str) -> Iterator[Callable[[int, int | None], None]]:
    """Gives what tells the bar how much is done, and of how much; where nobody looks it tells nobody."""
    if not sys.stderr.isatty():
        yield lambda done, size: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=None)
        yield lambda done, size: bar.update(task, completed=done, total=size)
