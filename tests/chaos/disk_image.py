"""A disk that loses power: what was synced is there; of the rest, any part may be, torn at sectors.

Names (create, remove, rename) reach the disk in order, as journaling file systems do it, but not before a sync of the
directory or of the new file itself. Data that was not synced reaches it in any order and in any part.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from tests.chaos.disk_log import Create, Moment, Remove, Rename, Resize, Sync, Write

SECTOR = 512


@dataclass(slots=True)
class _Inode:
    """One file's durable bytes and what may or may not have reached the disk after them."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write | Resize] = field(default_factory=list)


@dataclass(slots=True)
class _Naming:
    """One change of a directory that is not durable yet."""

    path: str
    inode: _Inode | None


class Disk:
    """Follows the log and can show what might be left at any moment."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._names = {path: _Inode(bytearray(data)) for path, data in files.items()}
        self._durable_names = dict(self._names)
        self._namings: list[_Naming] = []
        self._open_writes: list[int] = []
        self._covered: dict[int, list[Write | Resize]] = {}

    def follow(self, moment: Moment) -> None:
        """Goes one moment further."""
        match moment.deed, moment.is_over:
            case (Write() | Resize()) as deed, False:
                self._inode(deed.path).pending.append(deed)
                self._open_writes.append(id(deed))
            case (Write() | Resize()) as deed, True:
                self._open_writes.remove(id(deed))
            case Sync() as sync, False:
                inode = self._names.get(sync.path)
                pending = inode.pending if inode else []
                self._covered[id(sync)] = [deed for deed in pending if id(deed) not in self._open_writes]
            case Sync() as sync, True:
                self._make_durable(sync.path, self._covered.pop(id(sync)))
            case Create() as deed, True:
                self._create(deed)
            case Remove() as deed, False:
                self._names.pop(deed.path, None)
                self._namings.append(_Naming(deed.path, None))
            case Rename() as deed, False:
                inode = self._names.pop(deed.path)
                self._names[deed.to] = inode
                self._namings += [_Naming(deed.to, inode), _Naming(deed.path, None)]
            case _:
                pass

    def has_pending(self) -> bool:
        """Is anything not durable yet?"""
        return bool(self._namings) or any(inode.pending for inode in self._names.values())

    def images(self, rng: random.Random) -> Iterator[dict[str, bytes]]:
        """Gives possible contents: first nothing and everything of what is pending, then random parts, without end."""
        yield self._image(len(self._namings), _nothing)
        yield self._image(len(self._namings), _everything)
        while True:
            yield self._image(rng.randint(0, len(self._namings)), _part(rng))

    def _image(self, namings: int, choose: Choice) -> dict[str, bytes]:
        names = dict(self._durable_names)
        for naming in self._namings[:namings]:
            if naming.inode is None:
                names.pop(naming.path, None)
            else:
                names[naming.path] = naming.inode
        return {path: _rebuild(inode, choose) for path, inode in names.items()}

    def _inode(self, path: str) -> _Inode:
        return self._names[path]

    def _create(self, deed: Create) -> None:
        inode = self._names.get(deed.path)
        if inode is None:
            inode = self._names[deed.path] = _Inode()
            self._namings.append(_Naming(deed.path, inode))
        elif deed.empties:
            inode.pending.append(Resize(deed.path, 0))

    def _make_durable(self, path: str, covered: list[Write | Resize]) -> None:
        inode = self._names.get(path)
        if inode is None:
            is_done = [PurePath(naming.path).parent == PurePath(path) for naming in self._namings]
        else:
            for deed in covered:
                _apply(inode.durable, deed)
            inode.pending = [deed for deed in inode.pending if not any(deed is done for done in covered)]
            is_done = [naming.path == path for naming in self._namings]
        for naming, done in zip(self._namings, is_done, strict=True):
            if done and naming.inode is None:
                self._durable_names.pop(naming.path, None)
            elif done and naming.inode is not None:
                self._durable_names[naming.path] = naming.inode
        self._namings = [naming for naming, done in zip(self._namings, is_done, strict=True) if not done]


class Choice:
    """Says which parts of what is pending reached the disk: per deed, and per sector of a write."""

    def __init__(self, rng: random.Random, of_deeds: float, of_sectors: float, first: float = 1.0) -> None:
        self._rng, self._of_deeds, self._of_sectors, self._first = rng, of_deeds, of_sectors, first

    def takes(self, place: int, count: int) -> bool:
        """Did this deed reach the disk, at least in part?"""
        return place < self._first * count and self._rng.random() < self._of_deeds

    def takes_sector(self) -> bool:
        """Did the next sector of it?"""
        return self._of_sectors == 1.0 or self._rng.random() < self._of_sectors


_nothing = Choice(random.Random(0), 0.0, 0.0)
_everything = Choice(random.Random(0), 1.1, 1.0)


def _part(rng: random.Random) -> Choice:
    """Draws a manner of tearing: in order up to a point, whole writes in any order, or single sectors."""
    manner = rng.randrange(4)
    if manner == 0:
        return Choice(rng, 1.1, 1.0, first=rng.random())
    if manner == 1:
        return Choice(rng, rng.random(), 1.0)
    if manner == 2:
        return Choice(rng, 1.1, rng.random())
    return Choice(rng, rng.random(), rng.random(), first=rng.random())


def _rebuild(inode: _Inode, choose: Choice) -> bytes:
    if not inode.pending:
        return bytes(inode.durable)
    data = bytearray(inode.durable)
    for place, deed in enumerate(inode.pending):
        if not choose.takes(place, len(inode.pending)):
            continue
        if isinstance(deed, Resize):
            _apply(data, deed)
            continue
        for piece in _sectors(deed):
            if choose.takes_sector():
                _apply(data, piece)
    return bytes(data)


def _sectors(deed: Write) -> Iterator[Write]:
    """Cuts a write where the disk's sectors end: each piece is on disk whole or not at all."""
    start, end = deed.offset, deed.offset + len(deed.data)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Write(deed.path, start, deed.data[start - deed.offset : stop - deed.offset])
        start = stop


def _apply(data: bytearray, deed: Write | Resize) -> None:
    if isinstance(deed, Resize):
        if deed.size < len(data) and not deed.only_grows:
            del data[deed.size :]
        data.extend(bytes(max(0, deed.size - len(data))))
        return
    data.extend(bytes(max(0, deed.offset - len(data))))
    data[deed.offset : deed.offset + len(deed.data)] = deed.data
