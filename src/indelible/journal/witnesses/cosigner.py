"""A tiny witness without its wire: keeps the last head it cosigned of each journal, cosigns only what grew out of it.

The state is the cosigned head itself, one file per journal. It is durable before its cosignature leaves, so a kill at
any point loses at most an answer. It verifies with the witness's own key, so a torn or edited file is recognised.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import Lock
from time import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from indelible import file_lock
from indelible.core.journal.notes import (
    COSIGNATURE,
    ED25519,
    Note,
    PublicKey,
    Sign,
    TreeHead,
    cosign,
    parse_head,
    parse_note,
)
from indelible.core.journal.witnessing import (
    Refusal,
    compare,
    parse_request,
    recognise,
    signatures_of,
    signing_time,
)
from indelible.errors import BadNote, JournalError, KeyUnusable
from indelible.journal.keys.files import sync_folder

_log = logging.getLogger("indelible.witness")
_NAME_LINE = b"witness: "


# ── the key ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class WitnessKey:
    """Is a witness's key: what others know of it, and how it signs."""

    public: PublicKey
    sign: Sign


def hold_key(path: Path) -> int:
    """Takes a key for this process until the given handle is closed: two witnesses with one key could disagree."""
    return _locked(path, f"another witness signs with {path}; stop it, or make a key of its own")


def _locked(path: Path, why_not: str) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if not file_lock.take(handle):
        os.close(handle)
        raise JournalError(why_not)
    return handle


def open_key(path: Path, name: str | None = None) -> WitnessKey:
    """Reads a witness's key, or makes it when there is none yet. Its name stands in the file, above the key."""
    if not path.exists():
        secret = Ed25519PrivateKey.generate()
        made = _witness_key(secret, name)
        pem = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        new = path.with_name(f"{path.name}.{made.public.id.hex()}.new")
        _write_durably(new, _NAME_LINE + made.public.name.encode() + b"\n" + pem)
        with suppress(FileExistsError):  # another process made one meanwhile, and that one counts
            path.hardlink_to(new)
        new.unlink()
        sync_folder(path.parent)
    return read_key(path, name)


def read_key(path: Path, name: str | None = None) -> WitnessKey:
    """Reads a witness's key; raises `KeyUnusable` when others may read it, it is damaged or has another name."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(65_536)
    except OSError as problem:
        raise KeyUnusable(f"{path}: {problem.strerror}; make a key with: indelible witness key") from problem
    if status.st_mode & 0o077:
        raise KeyUnusable(f"{path} can be read by others ({status.st_mode & 0o777:o}); run: chmod 600 {path}")
    if status.st_uid not in (0, os.geteuid()):
        raise KeyUnusable(f"{path} belongs to another user; run: chown {os.geteuid()} {path}")
    try:
        secret = load_pem_private_key(content, None)
    except (ValueError, TypeError) as problem:
        raise KeyUnusable(f"{path} holds no private key that can be read ({problem}); restore it") from problem
    if not isinstance(secret, Ed25519PrivateKey):
        raise KeyUnusable(f"{path} holds a key of another kind; a witness signs with Ed25519")
    line, _, _ = content.partition(b"\n")
    written = line.removeprefix(_NAME_LINE).decode("utf-8", "replace") if line.startswith(_NAME_LINE) else None
    if None not in (name, written) and name != written:
        raise KeyUnusable(f"{path} is the key of {written}, not of {name}; leave the name out, or name another file")
    return _witness_key(secret, written or name)


def _witness_key(secret: Ed25519PrivateKey, name: str | None) -> WitnessKey:
    raw = secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return WitnessKey(PublicKey(name or f"witness-{sha256(raw).hexdigest()[:12]}", raw, COSIGNATURE), secret.sign)


# ── the state ────────────────────────────────────────────────────────────────────────────────────────────────────────


class HeadFolder:
    """Keeps the last cosigned head of each journal in a folder that one process holds at a time."""

    def __init__(self, folder: Path, key: PublicKey) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o022:
            raise JournalError(f"others may change what is remembered in {folder}; run: chmod 700 {folder}")
        self._folder = folder
        self._key = key
        self._lock = _locked(folder / "lock", f"another witness works with {folder}; stop it, or name another folder")

    def close(self) -> None:
        """Lets another process have the folder."""
        os.close(self._lock)

    def read(self, origin: str) -> Note | None:
        """Gives the head cosigned last, or None for a journal never seen; raises `JournalError` for a damaged file."""
        path = self._path(origin)
        try:
            note = parse_note(path.read_bytes())
            if parse_head(note.text).origin != origin or note.cosigned_by(self._key) is None:
                raise BadNote("it is not a head of this log that this key cosigned")
        except FileNotFoundError:
            return None
        except BadNote as problem:
            raise JournalError(
                f"{path}: {problem}. Without it nobody knows what was cosigned of {origin}, so nothing more is. "
                "Restore the file as it was last, or start over as another witness: a new key and a new folder"
            ) from problem
        return note

    def write(self, origin: str, note: Note) -> None:
        """Keeps a cosigned head; it is durable when this returns."""
        path = self._path(origin)
        _write_durably(path.with_suffix(".new"), str(note).encode())
        path.with_suffix(".new").rename(path)
        sync_folder(self._folder)

    def keep_fork(self, origin: str, note: Note) -> Path:
        """Keeps a head that proves, beside the one that was cosigned, that a log has two histories."""
        path = self._path(origin).with_suffix(".fork")
        if not path.exists():
            _write_durably(path, str(note).encode())
        return path

    def _path(self, origin: str) -> Path:
        return self._folder / f"{origin_hash(origin)}.head"


def origin_hash(origin: str) -> str:
    """Gives the name under which a log's head is kept and served."""
    return sha256(origin.encode()).hexdigest()


def _write_durably(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


# ── the witness ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Cosigner:
    """Answers requests for some logs: one head after the other for each log, never back, never two roots of a size."""

    def __init__(
        self, key: WitnessKey, logs: Sequence[PublicKey], heads: HeadFolder, clock: Callable[[], float] = time
    ) -> None:
        for log in logs:
            if log.kind != ED25519:
                raise BadNote(f"{log.name} is the key of a witness, not of a log")
        self._key = key
        self._logs = tuple(logs)
        self._heads = heads
        self._clock = clock
        self._locks = {log.name: Lock() for log in logs}
        self._last = {log.name: heads.read(log.name) for log in logs}
        self._names = {origin_hash(log.name): log.name for log in logs}
        self._stuck: set[str] = set()

    def answer(self, body: bytes) -> bytes | Refusal:
        """Gives the cosignature's line, or why there is none."""
        try:
            request = parse_request(body)
        except BadNote as problem:
            return Refusal(400, str(problem))
        head = recognise(request, self._logs)
        if isinstance(head, Refusal):
            return head
        # From reading the last head until the new one is durable: else a smaller head could overtake a larger one.
        with self._locks[head.origin]:
            last = self._last[head.origin]
            refusal = compare(request, head, None if last is None else parse_head(last.text))
            if refusal is None:
                return self._cosign(request.note, head.origin, last)
            if refusal.is_fork:
                self._keep_fork(request.note, head)
        return refusal

    def _keep_fork(self, note: Note, head: TreeHead) -> None:
        try:
            kept = self._heads.keep_fork(head.origin, note)
        except OSError:
            _log.exception("%s signed two histories, and the proof cannot be written down: %s", head.origin, note)
        else:
            _log.error("%s signed two histories: its second head of size %d is in %s", head.origin, head.size, kept)

    def _cosign(self, note: Note, origin: str, last: Note | None) -> bytes | Refusal:
        if origin in self._stuck:
            return Refusal(500, "a head could not be written down; the witness has to be started again")
        before = None if last is None else last.cosigned_by(self._key.public)
        cosignature = cosign(note, self._key.public, self._key.sign, signing_time(int(self._clock()), before))
        known = signatures_of(note, [log for log in self._logs if log.name == origin])
        cosigned = Note(note.text, (*known, cosignature))
        # Until it is known what the disk holds, nothing is cosigned: an exception on the way leaves the log stuck.
        self._stuck.add(origin)
        self._heads.write(origin, cosigned)
        self._stuck.discard(origin)
        self._last[origin] = cosigned
        return cosignature.line.encode()

    def latest(self, name: str) -> bytes | None:
        """Gives the head cosigned last of the log whose origin has this hash."""
        note = self._last.get(self._names.get(name, ""))
        return None if note is None else str(note).encode()
