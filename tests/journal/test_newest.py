"""The file that knows the newest version of each right and budget: it grows, and each process reads what was added."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indelible.core.sheets import SheetRef
from indelible.errors import KeyUnusable
from indelible.journal.keys.newest import NewestVersions

ONE, TWO, GRANT = SheetRef("budget", "one"), SheetRef("budget", "two"), SheetRef("grant", "one")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rights" / "default"


def test_what_one_keeps_the_others_know(path: Path) -> None:
    mine, theirs = NewestVersions(path), NewestVersions(path)
    mine.keep({ONE: 3, GRANT: 1})
    assert (theirs.version(ONE), theirs.version(TWO), theirs.version(GRANT)) == (3, 0, 1)
    theirs.keep({ONE: 2, TWO: 5})  # an older version takes nothing back
    assert (mine.version(ONE), mine.version(TWO)) == (3, 5)
    mine.note(ONE, 9)
    assert mine.versions("budget") == {ONE: 9, TWO: 5}
    assert theirs.versions("budget") == {ONE: 3, TWO: 5}
    assert NewestVersions(path).versions("grant") == {GRANT: 1}
    assert mine.kept(["budget", "grant"]) == {ONE: 3, TWO: 5, GRANT: 1}, "and what is noted is not kept"


def test_a_process_reads_only_what_was_added(path: Path) -> None:
    mine, theirs = NewestVersions(path), NewestVersions(path)
    mine.keep({ONE: 3})
    mine.keep({TWO: 4})
    assert theirs.version(TWO) == 4
    read = path.read_bytes()
    path.write_bytes(read.replace(b"budget", b"unread"))
    mine.keep({GRANT: 7})
    assert path.read_bytes().startswith(read.replace(b"budget", b"unread")), "written anew"
    assert (theirs.version(ONE), theirs.version(GRANT)) == (3, 7)


@pytest.mark.parametrize("torn", [b'[["budget", "tw', b"\0" * 700])
def test_half_a_line_is_not_read_and_the_next_one_takes_its_place(path: Path, torn: bytes) -> None:
    mine = NewestVersions(path)
    mine.keep({ONE: 3})
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    theirs = NewestVersions(path)
    assert (theirs.version(ONE), theirs.version(TWO)) == (3, 0)
    theirs.keep({TWO: 4})
    assert path.read_bytes().startswith(whole + b"[[")
    assert (mine.version(TWO), NewestVersions(path).version(TWO)) == (4, 4)


def test_what_was_kept_is_on_the_disk_when_keep_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = NewestVersions(path)
    mine.keep({ONE: 3})
    synced: list[bytes] = []
    fsync = os.fsync

    def seen_fsync(descriptor: int) -> None:
        fsync(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            synced.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", seen_fsync)
    mine.keep({TWO: 4})
    assert synced == [path.read_bytes()]


def test_a_file_of_outdated_lines_is_written_anew_and_nothing_is_forgotten(path: Path) -> None:
    mine, theirs = NewestVersions(path), NewestVersions(path)
    theirs.note(TWO, 6)
    sizes = []
    for version in range(1, 2500):
        mine.keep({ONE: version})
        sizes.append(path.stat().st_size)
        if version % 700 == 0:
            assert theirs.version(ONE) == version
    assert max(sizes) < 40_000
    assert (theirs.version(ONE), theirs.version(TWO)) == (2499, 6), "what was seen stays known"


def test_what_a_person_lets_go_is_forgotten_by_all(path: Path) -> None:
    mine, theirs = NewestVersions(path), NewestVersions(path)
    mine.keep({ONE: 3})
    theirs.note(TWO, 4)
    assert theirs.version(ONE) == 3
    mine.reset()
    mine.keep({ONE: 1})
    assert (theirs.version(ONE), theirs.version(TWO)) == (1, 0)


def test_an_older_file_that_is_put_back_takes_nothing_back_from_those_who_know_better(path: Path) -> None:
    mine = NewestVersions(path)
    mine.keep({ONE: 1})
    old = path.read_bytes()
    mine.keep({ONE: 2})
    path.write_bytes(old)
    mine.keep({TWO: 3})
    assert (mine.version(ONE), mine.version(TWO)) == (2, 3)
    assert (NewestVersions(path).version(ONE), NewestVersions(path).version(TWO)) == (1, 3)


@pytest.mark.parametrize("is_replaced", [True, False])
def test_98_kept_is_what_the_file_says_also_where_an_older_one_grew_past_what_was_read(
    path: Path, is_replaced: bool
) -> None:
    mine = NewestVersions(path)
    mine.keep({ONE: 1})
    old = path.read_bytes()
    mine.keep({ONE: 2})
    if is_replaced:
        path.rename(path.with_name("newer"))
    path.write_bytes(old)
    path.chmod(0o600)
    if is_replaced:
        NewestVersions(path).keep({TWO: 3})
        NewestVersions(path).keep({GRANT: 4})
    assert mine.kept(["budget"]) == ({ONE: 1, TWO: 3} if is_replaced else {ONE: 1})
    mine.keep({ONE: 2})
    assert NewestVersions(path).version(ONE) == 2, "it is told anew"


@pytest.mark.parametrize("content", [b"", b"{}\n", b"[0, 1]\nno json\n", b'[0, 1]\n[["budget"]]\n'])
def test_a_file_that_cannot_be_read_stops_whoever_needs_it(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(KeyUnusable):
        NewestVersions(path).version(ONE)
    with pytest.raises(KeyUnusable):
        NewestVersions(path).keep({ONE: 1})


def test_without_a_file_versions_are_remembered_here_alone() -> None:
    mine = NewestVersions(None)
    mine.keep({ONE: 3})
    assert mine.versions("budget") == {ONE: 3}
    mine.reset()
    assert mine.version(ONE) == 0
