"""Makes a running witness available to the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journal.watched import Running, running


@pytest.fixture
def witness(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "w") as one:
        yield one
