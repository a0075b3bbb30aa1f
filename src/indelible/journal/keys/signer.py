"""Signers that remember: what was signed last lives outside the ledger's database, beside the key.

A head is saved before a signature leaves, so whatever was ever signed is remembered. A crash after that heals by
itself: the same head is signed again, to the same bytes.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from indelible.core.journal.journal import Prove, check_growth
from indelible.core.journal.notes import Note, PublicKey, Signature, TreeHead, parse_head
from indelible.errors import BadNote, KeyUnusable, SignerRefused
from indelible.journal.keys.files import file_name, locked, make_private_folder, read_private, text_of, write_private
from indelible.journal.keys.holders import KeyHolder, MemoryRing, SigningKeys
from indelible.journal.keys.ring import KeyRing

_FIRST_LINE = "indelible/signed-head/v1"
_MOST_SEEN = 1000


@dataclass(frozen=True, slots=True)
class Remembered:
    """Is the head that was signed last, and the public bytes of the keys that signed it."""

    head: TreeHead
    signers: tuple[bytes, ...]


class HeadState(Protocol):
    """Remembers the newest head of each journal, outside the ledger's database."""

    def lock(self) -> AbstractContextManager[None]:
        """Keeps everybody else who signs from this state waiting."""

    def load(self, origin: str) -> Remembered | None:
        """Gives what was saved last, None when nothing ever was. MUST raise `SignerRefused` when it cannot tell."""

    def save(self, remembered: Remembered) -> None:
        """Replaces what was saved for this journal. MUST be durable when it returns; MUST NOT leave a torn state."""


class StatefulSigner:
    """Signs heads that continue what was signed before, and nothing else."""

    def __init__(self, keys: SigningKeys, state: HeadState) -> None:
        self.ring = keys
        self._state = state

    def keys(self, origin: str) -> list[PublicKey]:
        """Gives the keys that sign for this journal now: one, or two while a rotation is under way."""
        return [PublicKey(origin, holder.raw) for holder in self.ring.holders()]

    def last(self, origin: str) -> TreeHead | None:
        """Gives the head it signed last for this journal."""
        remembered = self._state.load(origin)
        return None if remembered is None else remembered.head

    def sign(self, head: TreeHead, prove: Prove) -> Note:
        """Signs a head; the same head again gives the same note."""
        with self._state.lock():
            last = self._state.load(head.origin)
            check_growth(None if last is None else last.head, head, prove)
            holders = self.ring.holders() if last is None or last.head != head else self._holders_again(last)
            wanted = Remembered(head, tuple(holder.raw for holder in holders))
            if wanted != last:
                self._state.save(wanted)
        # Outside the lock: a saved head may be signed at any later time, and a holder may be slow.
        return Note(head.text, tuple(_signature(head, holder) for holder in holders))

    def continue_from(self, head: TreeHead) -> TreeHead | None:
        """Forgets on purpose what was signed and goes on from this head; gives the lost one, if anybody can tell."""
        with self._state.lock():
            try:
                lost = self._state.load(head.origin)
            except SignerRefused:
                lost = None  # damaged: going on in spite of that is what was asked for
            self._state.save(Remembered(head, tuple(holder.raw for holder in self.ring.holders())))
        return None if lost is None else lost.head

    def _holders_again(self, last: Remembered) -> list[KeyHolder]:
        """Gives those who signed it before, as far as they still can, and those who should by now."""
        before = [self.ring.holder_of(raw) for raw in last.signers]
        holders = [*(holder for holder in before if holder is not None), *self.ring.holders()]
        return list({holder.raw: holder for holder in holders}.values())


def _signature(head: TreeHead, holder: KeyHolder) -> Signature:
    key = PublicKey(head.origin, holder.raw)
    content = holder.sign(head.text.encode())
    if not key.verifies(content, head.text.encode()):
        raise KeyUnusable(f"the holder of {key.vkey} gave a signature that does not fit; has it another key?")
    return Signature(key.name, key.id, content)


class FileHeadState:
    """Remembers heads in files beside the keys, one for each journal."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._heads = folder / "heads"
        self._paths: dict[str, str] = {}
        self._seen: dict[str, tuple[tuple[int, ...], TreeHead]] = {}

    def lock(self) -> AbstractContextManager[None]:
        """Keeps every other thread and process waiting that signs with this folder or changes its keys."""
        return locked(self._folder)

    def load(self, origin: str) -> Remembered | None:
        """Gives what was saved last; raises `SignerRefused` for anything but a whole file or none."""
        path = self._path(origin)
        try:
            content = read_private(path)
        except OSError as problem:
            raise _cannot_tell(path, problem.strerror or "it cannot be read") from problem
        if content is None:
            return None
        try:
            remembered = _parsed(content)
        except ValueError as problem:
            raise _cannot_tell(path, str(problem)) from problem
        if remembered.head.origin != origin:
            raise _cannot_tell(path, f"it is about {remembered.head.origin}")
        return remembered

    def last(self, origin: str) -> TreeHead | None:
        """Return the head that was signed last for this journal; the file is read again only if it changed."""
        path = self._paths.get(origin)
        if path is None:
            if len(self._paths) >= _MOST_SEEN:
                self._paths.clear()
            path = self._paths[origin] = str(self._path(origin))
        try:
            found = os.stat(path)  # noqa: PTH116 - asked before every claim, and a path takes longer
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise _cannot_tell(self._path(origin), problem.strerror or "it cannot be read") from problem
        mark = (found.st_ino, found.st_size, found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns)
        seen = self._seen.get(origin)
        if seen is not None and seen[0] == mark:
            return seen[1]
        remembered = self.load(origin)
        if remembered is None:
            return None
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[origin] = (mark, remembered.head)
        return remembered.head

    def origins(self) -> Iterator[str]:
        """Yield the journals of which a head is remembered; raises `SignerRefused` as `load` does."""
        for path in self._heads.glob("*.head"):
            origin = text_of(path.stem) or self._named_in(path)
            if origin is not None:
                yield origin

    def _named_in(self, path: Path) -> str | None:
        content = read_private(path)
        try:
            return None if content is None else _parsed(content).head.origin
        except ValueError as problem:
            raise _cannot_tell(path, str(problem)) from problem

    def save(self, remembered: Remembered) -> None:
        """Replaces what was saved for this journal, durably, in one step."""
        path = self._path(remembered.head.origin)
        make_private_folder(self._heads)
        try:
            write_private(path, _written(remembered))
        except OSError as problem:
            raise SignerRefused(
                f"{path} cannot be written: {problem.strerror}. Nothing was signed; make room, or make it writable"
            ) from problem

    def _path(self, origin: str) -> Path:
        return self._heads / f"{file_name(origin)}.head"


def _cannot_tell(path: Path, why: str) -> SignerRefused:
    return SignerRefused(
        f"{path} does not tell what was signed last: {why}. Nothing was signed. Put the file back from your backup. "
        "Without one, see that the database has all that others have of it (indelible verify --after HEAD), then: "
        f"mv {shlex.quote(str(path))} {shlex.quote(f'{path}.damaged')}; docs/keys.md says more, on a lost memory"
    )


def _written(remembered: Remembered) -> bytes:
    signers = " ".join(raw.hex() for raw in remembered.signers)
    content = f"{_FIRST_LINE}\nsigners {signers}\n{remembered.head.text}"
    return f"{content}sha256 {sha256(content.encode()).hexdigest()}\n".encode()


def _parsed(content: bytes) -> Remembered:
    """Reads a state strictly; raises `ValueError`, saying what is wrong, for anything that `_written` did not write."""
    try:
        first, signers, *head = content.decode().split("\n")
        remembered = Remembered(
            parse_head("\n".join([*head[:3], ""])),
            tuple(bytes.fromhex(signer) for signer in signers.removeprefix("signers ").split(" ")),
        )
    except (ValueError, BadNote) as problem:
        raise ValueError("it is empty" if not content else "it is torn or damaged") from problem
    if first != _FIRST_LINE:
        raise ValueError("another version of Indelible wrote it, or it is damaged")
    if _written(remembered) != content:
        raise ValueError("it is torn or damaged")
    return remembered


class MemoryHeadState:
    """Remembers heads as long as the process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._remembered: dict[str, Remembered] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other threads waiting."""
        with self._lock:
            yield

    def load(self, origin: str) -> Remembered | None:
        """Gives what was saved last."""
        return self._remembered.get(origin)

    def save(self, remembered: Remembered) -> None:
        """Replaces what was saved for this journal."""
        self._remembered[remembered.head.origin] = remembered


def file_signer(ring: KeyRing) -> StatefulSigner:
    """Gives the signer that uses the keys of a ring and remembers heads beside them."""
    return StatefulSigner(ring, FileHeadState(ring.folder))


class MemorySigner(StatefulSigner):
    """Signs for a ledger in memory: its keys and what it signed live and end with the process."""

    def __init__(self) -> None:
        self.ring = MemoryRing()
        super().__init__(self.ring, MemoryHeadState())
