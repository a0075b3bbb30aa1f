"""docs/tutorial.md: a newcomer who does what it says sees what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.following import Reader
from tests.docs.pages import DOCS, Typed


def test_the_tutorial_is_true(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    reader = Reader(folder=folder, keys=tmp_path / "keys")
    reader.follow(DOCS / "tutorial.md")
    assert (folder / "audit.zip").exists()


def test_a_reader_notices_another_answer(tmp_path: Path) -> None:
    reader = Reader(folder=tmp_path, keys=tmp_path)
    reader.type(Typed(line=1, command="echo one two", answer=("one …",)), where="page")
    with pytest.raises(AssertionError, match="page:2"):
        reader.type(Typed(line=2, command="echo one two", answer=("one three",)), where="page")
