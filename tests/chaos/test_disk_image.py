"""The disk model: what was synced is there, what was not may be there in any part, and the log is read rightly."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

import pytest

from tests.chaos.disk_image import SECTOR, Disk
from tests.chaos.disk_log import Create, Deed, Moment, Remove, Rename, Resize, Sync, Write, read_log
from tests.chaos.world import Ack, Touch

FILE = "/disk/file"


def done(*deeds: Deed) -> list[Moment]:
    return [Moment(deed, is_over) for deed in deeds for is_over in (False, True)]


def images(files: dict[str, bytes], moments: list[Moment], many: int = 300) -> list[dict[str, bytes]]:
    disk = Disk(files)
    for moment in moments:
        disk.follow(moment)
    return list(islice(disk.images(random.Random(1)), many))


def test_what_was_synced_is_in_every_image() -> None:
    got = images({FILE: b""}, done(Write(FILE, 0, b"kept"), Sync(FILE)))
    assert {image[FILE] for image in got} == {b"kept"}


def test_what_was_not_synced_is_there_in_whole_in_part_or_not() -> None:
    old, new = bytes(2 * SECTOR), b"x" * (2 * SECTOR)
    got = {image[FILE] for image in images({FILE: old}, done(Write(FILE, 0, new)))}
    assert got == {old, new, old[:SECTOR] + new[SECTOR:], new[:SECTOR] + old[SECTOR:]}


def test_a_later_write_may_be_there_without_an_earlier_one() -> None:
    got = {image[FILE] for image in images({FILE: b"ab"}, done(Write(FILE, 0, b"A"), Write(FILE, 1, b"B")))}
    assert got == {b"ab", b"Ab", b"aB", b"AB"}


def test_a_sync_does_not_cover_a_write_that_was_under_way() -> None:
    write, sync = Write(FILE, 0, b"new"), Sync(FILE)
    moments = [Moment(write, False), Moment(sync, False), Moment(write, True), Moment(sync, True)]
    assert {image[FILE] for image in images({FILE: b"old"}, moments)} == {b"old", b"new"}


def test_a_sync_counts_only_when_it_has_returned() -> None:
    write, sync = Write(FILE, 0, b"new"), Sync(FILE)
    moments = [*done(write), Moment(sync, False)]
    assert {image[FILE] for image in images({FILE: b"old"}, moments)} == {b"old", b"new"}


def test_a_sync_of_one_file_says_nothing_about_another() -> None:
    got = images({FILE: b"", "/disk/other": b""}, done(Write(FILE, 0, b"x"), Sync("/disk/other")))
    assert {image[FILE] for image in got} == {b"", b"x"}


def test_a_new_name_is_durable_with_its_file_or_its_directory() -> None:
    assert {FILE in image for image in images({}, done(Create(FILE, False)))} == {True, False}
    assert {FILE in image for image in images({}, done(Create(FILE, False), Sync(FILE)))} == {True}
    assert {FILE in image for image in images({}, done(Create(FILE, False), Sync("/disk")))} == {True}


def test_a_removed_name_may_come_back_until_the_directory_is_synced() -> None:
    assert {FILE in image for image in images({FILE: b""}, done(Remove(FILE)))} == {True, False}
    assert {FILE in image for image in images({FILE: b""}, done(Remove(FILE), Sync("/disk")))} == {False}


def test_a_file_made_anew_under_a_name_does_not_inherit() -> None:
    deeds = (Remove(FILE), Create(FILE, False), Write(FILE, 0, b"new"), Sync(FILE))
    assert {image[FILE] for image in images({FILE: b"older"}, done(*deeds))} == {b"new"}


def test_renaming_and_resizing() -> None:
    deeds = (Rename(FILE, "/disk/to"), Sync("/disk"), Resize("/disk/to", 2), Sync("/disk/to"), Resize("/disk/to", 4))
    assert {image["/disk/to"] for image in images({FILE: b"abc"}, done(*deeds))} == {b"ab", b"ab\0\0"}


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def test_a_log_with_threads_is_put_together(tmp_path: Path) -> None:
    file, world = f"3<{hexed('/d/db')}>", f"5<{hexed('/d/world/acks.log')}>"
    ack = '{"call":"c","result":"7"}'
    lines = [
        f'7 openat(AT_FDCWD<{hexed("/")}>, "{hexed("/d/db")}", O_RDWR|O_CREAT, 0644) = {file}',
        f'7 pwrite64({file}, "{hexed("ab")}", 2, 4096 <unfinished ...>',
        f"8 fdatasync({file}) = 0",
        "7 <... pwrite64 resumed>) = 2",
        f'7 pwrite64({file}, "{hexed("ab")}", 2, 0) = -1 EIO (Input/output error)',
        f'7 pwrite64(9<{hexed("/elsewhere")}>, "{hexed("ab")}", 2, 0) = 2',
        f"7 ftruncate({file}, 0) = 0",
        f'7 write({world}, "{hexed(ack)}", {len(ack)}) = {len(ack)}',
        f'7 unlink("{hexed("/d/db")}") = 0',
        "7 +++ exited with 0 +++",
    ]
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    write, sync = Write("/d/db", 4096, b"ab"), Sync("/d/db")
    assert read_log(log, Path("/d")) == [
        *done(Create("/d/db", False)),
        Moment(write, False),
        *done(sync),
        Moment(write, True),
        *done(Resize("/d/db", 0), Ack(call="c", result=b"7"), Remove("/d/db")),
    ]


def test_a_call_the_model_does_not_know_is_not_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(f"7 copy_file_range(3<{hexed('/d/db')}>, NULL, 4, NULL, 5, 0) = 5")
    with pytest.raises(ValueError, match="copy_file_range"):
        read_log(log, Path("/d"))


def test_effects_are_read_as_what_the_world_saw(tmp_path: Path) -> None:
    log = tmp_path / "log"
    line = '{"attempt":1,"call":"c","key":"k"}'
    log.write_text(f'7 write(5<{hexed("/d/world/effects.log")}>, "{hexed(line)}", {len(line)}) = {len(line)}')
    assert read_log(log, Path("/d")) == done(Touch(call="c", key="k", attempt=1))
