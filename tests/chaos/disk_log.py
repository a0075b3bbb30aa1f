"""Reads a strace log into what happened to a directory: writes, syncs, names, and what the world saw in between.

strace prints one line per call, or two when another thread got in between ("<unfinished ...>", "<... resumed>"). A
write may be on disk from the moment it is entered; a sync covers only writes that were over when it was entered, and
counts only once it has returned. So every call has two moments, entering and leaving.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.world import ACKS, EFFECTS, Ack, Touch, read_ack, read_touch

OPTIONS = ("-y", "-xx", "-s", "4000000")
CALLS = (
    "open", "openat", "creat", "pwrite64", "pwritev", "pwritev2", "write", "writev", "fsync", "fdatasync",
    "sync_file_range", "truncate", "ftruncate", "fallocate", "copy_file_range", "unlink", "unlinkat", "rename",
    "renameat", "renameat2", "link", "linkat",
)  # fmt: skip
_WHOLE = re.compile(rb"^(\d+) +(\w+)\((.*)\) += (-?\d+)", re.DOTALL)
_FIRST = re.compile(rb"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$", re.DOTALL)
_LAST = re.compile(rb"^(\d+) +<\.\.\. (\w+) resumed>(.*)$", re.DOTALL)
_FILE = re.compile(rb"^-?\w+<([^>]*)>")
_TEXT = re.compile(rb'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')


@dataclass(frozen=True, slots=True)
class Write:
    """Puts bytes at an offset of a file."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resize:
    """Gives a file another length; `only_grows` if it may not become shorter by it."""

    path: str
    size: int
    only_grows: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Opens a file that is made if it is not there, and emptied if so wanted."""

    path: str
    empties: bool


@dataclass(frozen=True, slots=True)
class Remove:
    """Takes a name away."""

    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Gives a file another name."""

    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Makes a file, or the names in a directory, durable."""

    path: str


Deed = Write | Resize | Create | Remove | Rename | Sync | Touch | Ack


@dataclass(frozen=True, slots=True)
class Moment:
    """One deed being entered or, later, over."""

    deed: Deed
    is_over: bool


def read_log(log: Path, folder: Path) -> list[Moment]:
    """Gives the moments of everything that concerns `folder`, in order."""
    moments: list[Moment | None] = []
    begun: dict[tuple[bytes, bytes], tuple[int, bytes]] = {}
    for line in log.read_bytes().splitlines():
        if whole := _WHOLE.match(line):
            deed = _deed(whole[2], whole[3], int(whole[4]), folder)
            moments += [Moment(deed, False), Moment(deed, True)] if deed else []
        elif first := _FIRST.match(line):
            begun[first[1], first[2]] = (len(moments), first[3])
            moments.append(None)
        elif (last := _LAST.match(line)) and (last[1], last[2]) in begun:
            place, text = begun.pop((last[1], last[2]))
            joined = _WHOLE.match(b"%s %s(%s%s" % (last[1], last[2], text, last[3]))
            deed = joined and _deed(joined[2], joined[3], int(joined[4]), folder)
            if deed:
                moments[place] = Moment(deed, False)
                moments.append(Moment(deed, True))
    return [moment for moment in moments if moment is not None]


def _deed(call: bytes, text: bytes, result: int, folder: Path) -> Deed | None:
    """Understands one call; None when it failed or is about something else."""
    if result < 0:
        return None
    file = _FILE.match(text)
    path = _plain(file[1]).decode() if file else ""
    names = [_plain(found[1]) for found in _TEXT.finditer(text)]
    numbers = [int(part) for part in re.findall(rb", (\d+)(?=[,)]|$)", text)]
    if call in (b"open", b"openat", b"creat"):
        name = names[0].decode()
        makes = b"O_CREAT" in text or call == b"creat"
        return Create(name, b"O_TRUNC" in text or call == b"creat") if makes and _is_in(name, folder) else None
    if call in (b"unlink", b"unlinkat"):
        return Remove(names[0].decode()) if _is_in(names[0].decode(), folder) else None
    if call in (b"rename", b"renameat", b"renameat2"):
        return Rename(names[0].decode(), names[1].decode()) if _is_in(names[0].decode(), folder) else None
    if not _is_in(path, folder):
        return None
    if call == b"write":
        return _world_line(path, names[0])
    if call == b"pwrite64":
        return Write(path, numbers[-1], names[0][:result])
    if call in (b"fsync", b"fdatasync"):
        return Sync(path)
    if call == b"ftruncate":
        return Resize(path, numbers[-1])
    if call == b"fallocate" and b"KEEP_SIZE" not in text and b"PUNCH" not in text:
        return Resize(path, numbers[-2] + numbers[-1], only_grows=True)
    raise ValueError(f"{call.decode()} on {path}: the disk model does not know this call")


def _world_line(path: str, data: bytes) -> Deed:
    if path.endswith(EFFECTS):
        return read_touch(data)
    if path.endswith(ACKS):
        return read_ack(data)
    raise ValueError(f"write() to {path}: the disk model expects offsets")


def _is_in(path: str, folder: Path) -> bool:
    # The -shm file is an index in memory: SQLite throws it away when the first connection opens. Lock and wake-up files
    # hold no data. The keys are on another disk.
    return (
        path.startswith(str(folder))
        and "/keys" not in path
        and not path.endswith(("-shm", "(deleted)", "-lock", "-wake"))
    )


def _plain(text: bytes) -> bytes:
    return bytes.fromhex(text.replace(b"\\x", b"").decode())


def world_so_far(moments: list[Moment]) -> Iterator[tuple[int, Touch | Ack]]:
    """Gives what the world saw and at which place in the log."""
    for place, moment in enumerate(moments):
        if not moment.is_over and isinstance(moment.deed, Touch | Ack):
            yield place, moment.deed
