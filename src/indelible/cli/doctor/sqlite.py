"""What a ledger in a SQLite file needs."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import apsw

from indelible import Ledger
from indelible.cli.behind import store_behind
from indelible.cli.doctor import approvals, journal
from indelible.cli.doctor.command import Check, Verdict, check_added, check_effects, check_newest, told
from indelible.cli.opening import MAKE_ONE, Where, holds_ledger, open_to_read
from indelible.errors import IndelibleError, Misconfigured
from indelible.journal.keys.places import expected_in
from indelible.stores import check_sqlite_file, sqlite_path

# From this one on, SQLite does not lose acknowledged commits in WAL mode when two connections checkpoint.
SAFE_FOR_WAL = (3, 51, 3)
LITTLE_ROOM, TOO_LITTLE_ROOM = 1024**3, 64 * 1024**2
LOCK_PATIENCE = 2.0
NOT_YOURS = "run this as the user whose programs use the ledger"


def examine(place: Where) -> Iterator[Check]:
    """Looks at the library, the file and its folder, and what is in it."""
    yield check_library(apsw.sqlite_lib_version())
    name = sqlite_path(place.address)
    if name == ":memory:":
        yield Check("ledger", "ok", "in memory: gone with the program that opens it, so there is nothing to look at")
        return
    try:
        yield from examine_file(Path(name), place)
    except OSError as error:
        yield Check("permissions", "bad", str(error), NOT_YOURS)


def examine_file(path: Path, place: Where) -> Iterator[Check]:
    """Looks at the file, from the outside to the inside; stops where looking further makes no sense."""
    yield from check_disk(path)
    try:
        check_sqlite_file(str(path))
    except Misconfigured as error:
        yield told("ledger", error)
        return
    if not path.exists() or path.stat().st_size == 0:
        try:
            expected_in(None)(str(path), None)
        except IndelibleError as error:
            yield told("ledger", error)
            return
    if not path.exists():
        yield check_absent(path)
        return
    yield check_permissions(path)
    if not os.access(path, os.R_OK | os.W_OK):
        return
    if holds_ledger(str(path)) is False:
        fix = "name another with --url or INDELIBLE_URL"
        yield Check("ledger", "bad", f"{path} is a database, but no Indelible ledger", fix)
        return
    if is_locked(path):
        said = f"another process has held the write lock for {LOCK_PATIENCE:.0f} s: writers wait for it"
        fix = f"find it: fuser -v {quoted(path)}-lock; if it was stopped, let it go on: kill -CONT …"
        yield Check("write lock", "bad", said, fix)
        return
    yield from check_ledger(place)


def check_library(version: str) -> Check:
    """Can this SQLite be trusted with a write-ahead log?"""
    if tuple(map(int, version.split("."))) >= SAFE_FOR_WAL:
        return Check("SQLite library", "ok", f"{version} (apsw {apsw.apsw_version()}), safe for WAL")
    said = f"{version} may lose commits in WAL mode, so the slower TRUNCATE mode is used"
    return Check("SQLite library", "warn", said, "pip install --upgrade apsw")


def check_disk(path: Path) -> Iterator[Check]:
    """Is there room, where the ledger is or will be?"""
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    free = shutil.disk_usage(folder).free
    said = f"{free / 1024**3:.1f} GiB free in {folder}"
    if free >= LITTLE_ROOM:
        yield Check("disk", "ok", said)
    else:
        verdict: Verdict = "warn" if free >= TOO_LITTLE_ROOM else "bad"
        yield Check("disk", verdict, said, f"free some room; what is large: du -xh {quoted(folder)} | sort -h | tail")


def check_absent(path: Path) -> Check:
    """Could the first program make the ledger?"""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
        return Check("ledger", "ok", f"none yet at {path}: {MAKE_ONE}")
    return Check(
        "ledger",
        "bad",
        f"none at {path}, and {folder} cannot be written",
        f"chmod u+rwx {quoted(folder)}, or use --url",
    )


def check_permissions(path: Path) -> Check:
    """Is the file ours to write, and nobody else's to read?"""
    mode, name = stat.S_IMODE(path.stat().st_mode), "permissions"
    if not os.access(path, os.R_OK | os.W_OK):
        return Check(name, "bad", f"{mode:04o}: this user cannot write {path}", NOT_YOURS)
    if others := who_may(path, stat.S_IWGRP, stat.S_IWOTH):
        return Check(name, "bad", f"{mode:04o}: {others} can change the record", f"chmod 600 {quoted(path)}*")
    if others := who_may(path, stat.S_IRGRP, stat.S_IROTH):
        return Check(name, "warn", f"{mode:04o}: {others} can read arguments and results", f"chmod 600 {quoted(path)}*")
    return Check(name, "ok", f"{mode:04o}, for nobody else")


def who_may(path: Path, group_bit: int, other_bit: int) -> str:
    """Names who else may do something to a file: its own mode counts where its folders let them in."""
    folders = [parent.stat().st_mode for parent in path.absolute().parents]
    mode = path.stat().st_mode
    may_group = mode & group_bit and all(folder & stat.S_IXGRP for folder in folders)
    may_other = mode & other_bit and all(folder & stat.S_IXOTH for folder in folders)
    return " and ".join(who for who, may in (("the group", may_group), ("every user", may_other)) if may)


def quoted(path: Path) -> str:
    """Gives a path as a shell takes it."""
    return shlex.quote(str(path))


def is_locked(path: Path) -> bool:
    """Does another process hold the write lock, for longer than a write takes?"""
    try:
        import fcntl
    except ImportError:
        return False
    lock = Path(f"{path}-lock")
    if not lock.exists():
        return False
    end = time.monotonic() + LOCK_PATIENCE
    with lock.open("rb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > end:
                    return True
                time.sleep(0.02)
            else:
                return False


def check_ledger(place: Where) -> Iterator[Check]:
    """Opens the ledger as a program would, and looks inside."""
    try:
        with open_to_read(place) as ledger:
            yield from check_durability(ledger)
            yield from check_schema(Path(sqlite_path(place.address)))
            now = datetime.now(UTC)
            yield from check_newest(ledger, now)
            yield from check_effects(ledger, place, now, is_lost=journal.is_lost(ledger, place))
            yield from approvals.examine(ledger, place, now)
            yield from journal.examine(ledger, place, now)
    except (IndelibleError, OSError) as error:
        yield told("ledger", error)


def check_durability(ledger: Ledger) -> Iterator[Check]:
    """Is a commit on the disk before it is answered? Asked on the very connection that the ledger writes on."""
    with store_behind(ledger).transaction(ledger.tenant) as transaction:
        mode = str(transaction.connection.pragma("journal_mode")).upper()
        level = int(transaction.connection.pragma("synchronous"))
    said = f"journal mode {mode}, synchronous {['OFF', 'NORMAL', 'FULL', 'EXTRA'][level]}"
    is_safe_mode = mode in ("TRUNCATE", "PERSIST") or (
        mode == "WAL" and tuple(map(int, apsw.sqlite_lib_version().split("."))) >= SAFE_FOR_WAL
    )
    if is_safe_mode and level >= 2:
        yield Check("durability", "ok", f"{said}: a commit is on the disk before it is answered")
    else:
        fix = "close every program that uses this file, then open it with Indelible alone"
        yield Check("durability", "bad", f"{said}: an acknowledged commit may get lost", fix)


def check_schema(path: Path) -> Iterator[Check]:
    """Names the newest migration; opening the ledger brought it up to date, or refused."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        newest = "SELECT number, name FROM indelible_migrations ORDER BY number DESC LIMIT 1"
        row = connection.execute(newest).fetchone()
        triggers = "SELECT name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name GLOB 'indelible_*'"
        added = [f"trigger {name} on {table}" for name, table in connection.execute(f"{triggers} ORDER BY 1")]
    if row is not None:
        yield Check("schema", "ok", f"{row[0]:04d}_{row[1]}, up to date")
    yield from check_added(added)
