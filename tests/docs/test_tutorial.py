"""docs/tutorial.md: a newcomer who does what it says sees what it says."""

from __future__ import annotations

from pathlib import Path

from tests.docs.following import Reader
from tests.docs.pages import DOCS
from tests.docs.terminal import Terminal


def test_the_tutorial_is_true(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    reader = Reader(terminal=Terminal(folder=folder, is_hurried=False))
    reader.follow(DOCS / "tutorial.md")
    assert (folder / "audit.zip").exists()
