"""Fixtures for tests of programs that use Indelible; pytest finds them by itself. They load nothing until one is used.

def test_a_refund_happens_once(ledger, outside, effect_once): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from indelible import Ledger
    from indelible.testing.once import Outside


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """A ledger of this test alone: a SQLite file and keys in its folder."""
    from indelible import Ledger

    with Ledger.open(f"sqlite:///{tmp_path}/ledger.db", keys=tmp_path / "keys") as opened:
        yield opened


@pytest.fixture
def crash_at() -> Callable[..., None]:
    """Runs a body in a child process that is killed at a moment of a call: crash_at("after_handler", work)."""
    from indelible.testing.crashing import crash_at

    return crash_at


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    """The world outside of this test: outside.happens("refund 123"), and outside.times("refund 123")."""
    from indelible.testing.once import Outside

    folder = tmp_path / "outside"
    folder.mkdir()
    return Outside(folder)


@pytest.fixture
def effect_once(outside: Outside) -> Callable[..., None]:
    """Raises unless something happens once, whatever dies and whoever comes: effect_once(work, "refund 123")."""
    from indelible.testing.once import effect_once as once

    return partial(once, outside)
