"""Keys that sign tree heads, kept as files: one folder for each ledger, one ring of keys in it.

    current.pem         signs every head
    next.pem            signs beside it while a rotation is under way
    retired-<id>.pem    has signed; its old signatures still count
    revoked-<id>.pem    never signs again
    heads/              what was signed last (see `signer`)
    lock                is held by whoever changes the folder
    rotating/lock       is held during a whole rotation

Each change is one rename, so that a crash leaves the ring as it was or as it should be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from indelible.core.effects.calls import DEFAULT_TENANT
from indelible.core.journal.notes import PublicKey, log_name, parse_vkey
from indelible.errors import BadCall, KeyUnusable
from indelible.journal.keys.files import (
    is_private_folder,
    locked,
    move_durably,
    read_private,
    ring_folder,
    write_private,
)
from indelible.journal.keys.holders import KeyHolder
from indelible.journal.keys.pem import Passphrase, StoredKey, given_passphrase, new_key, read_key, unlock

log = logging.getLogger("indelible.journal")

_ELDEST = datetime.min.replace(tzinfo=UTC)

Status = Literal["current", "next", "retired", "revoked"]


@dataclass(frozen=True, slots=True)
class RingKey:
    """Is one key of a ring and the file it was found in."""

    status: Status
    path: Path
    stored: StoredKey

    @property
    def id(self) -> str:
        """Is the key's name in its ring."""
        return key_id(self.raw)

    @property
    def raw(self) -> bytes:
        """Is the public key's 32 bytes."""
        return self.stored.raw

    @property
    def created(self) -> datetime | None:
        """Is when it was made, None when its file does not tell."""
        return self.stored.created


def key_id(raw: bytes) -> str:
    """Gives the name of a key in its ring: 16 hexadecimal digits, the same for all tenants."""
    return sha256(raw).hexdigest()[:16]


class KeyRing:
    """Keeps the keys of one ledger in files that nobody else can read."""

    def __init__(self, ledger_name: str, folder: Path, passphrase: Passphrase) -> None:
        self.ledger_name = ledger_name
        self.folder = folder
        self._passphrase = passphrase
        # A head is signed several times a second; a file that did not change need not be unlocked again.
        self._unlocked: dict[bytes, KeyHolder] = {}

    @classmethod
    def open(cls, ledger_name: str, folder: Path | None = None, passphrase: str | bytes | None = None) -> KeyRing:
        """Opens the ring of a ledger, which may be empty; writes nothing. `folder` is where all ledgers' rings are."""
        return cls(ledger_name, ring_folder(ledger_name, folder), given_passphrase(passphrase))

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def all_keys(self) -> list[RingKey]:
        """Lists the keys: the current one, the next one, then those that have gone, oldest first."""
        if not is_private_folder(self.folder):
            return []
        gone = sorted(self.folder.glob("retired-*.pem")) + sorted(self.folder.glob("revoked-*.pem"))
        following, current = self._found("next"), self._found("current")
        found = [*(self._found(path.stem) for path in gone), following, current]
        keys = {key.id: key for key in found if key is not None}  # mid-change a key has two files: the last one holds
        order = ("current", "next", "retired", "revoked")
        return sorted(keys.values(), key=lambda key: (order.index(key.status), key.created or _ELDEST, key.id))

    def current(self) -> RingKey | None:
        """Gives the key that signs, None when there never was one; raises `KeyUnusable` when it went missing."""
        found = self._found("current") if is_private_folder(self.folder) else None
        if found is None and self._is_used():
            raise KeyUnusable(
                f"{self._path('current')} is missing, though keys were used here; put it back from your backup. "
                "Without one, see docs/keys.md, on lost keys"
            )
        return found

    def find(self, name: str) -> RingKey:
        """Finds a key by its id, the beginning of its id, or its public key."""
        sought = key_id(parse_vkey(name).raw) if "+" in name else name.strip().lower()
        found = [key for key in self.all_keys() if sought and key.id.startswith(sought)]
        if len(found) != 1:
            many = "more than one key of" if found else "no key of"
            raise BadCall(f"{many} {self.folder} has the id {name!r}; see: indelible keys list")
        return found[0]

    def export_public(self, origin: str, name: str | None = None) -> str:
        """Gives the line that auditors of this journal pin: its current key's, or that of the key with this name."""
        key = self._expect_current() if name is None else self.find(name)
        return PublicKey(origin, key.raw).vkey

    # ── signing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def holders(self) -> Sequence[KeyHolder]:
        """Gives who signs new heads: the current key, and the next one while a rotation is under way."""
        # The next one first: if a rotation ends between the two looks, both give the same key, never the old one alone.
        following = self._found("next") if is_private_folder(self.folder) else None
        keys = {key.raw: key for key in (self._expect_current(), following) if key is not None}
        return [self._unlock(key) for key in keys.values()]

    def holder_of(self, raw: bytes) -> KeyHolder | None:
        """Gives the holder of a key of this ring, or None when it is revoked or gone."""
        for key in self.all_keys():
            if key.raw == raw and key.status != "revoked":
                return self._unlock(key)
        return None

    def successors(self, raw: bytes | None) -> list[KeyHolder]:
        """Gives the holder of a key that has signed, or of the first, and of each key that followed it.

        It gives none if the key is not of this ring.

        Keys that were revoked are among them: what they signed of who follows them, they sign again to the same bytes.
        """
        signed = [key for key in self.all_keys() if key.status != "next"]
        signed.sort(key=lambda key: (key.status == "current", key.created or _ELDEST))
        place = next((place for place, key in enumerate(signed) if raw in (None, key.raw)), len(signed))
        return [self._unlock(key) for key in signed[place:]]

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, tenant: str = DEFAULT_TENANT, origin: str | None = None) -> RingKey:
        """Makes the first key and says where it is; one that is there already stays.

        `origin` is what the tenant's journal is called, if it came from another ledger.
        """
        with locked(self.folder):
            if (there := self.current()) is not None:
                return there
            made = self._make("current")
        vkey = PublicKey(origin or log_name(self.ledger_name, tenant), made.raw).vkey
        log.warning(
            "made the key that signs this ledger's journal: %s (back it up). Auditors verify with its public part, "
            "for tenant %s: %s",
            made.path,
            tenant,
            vkey,
        )
        return made

    @contextmanager
    def rotating(self, patience: float = 0) -> Iterator[None]:
        """Keeps every other process from rotating these keys; raises `KeyUnusable` while another one does.

        It is another lock than that of the folder, which whoever signs takes meanwhile.
        """
        why = f"another process rotates the keys of {self.folder} now; nothing was changed. See: indelible keys list"
        with locked(self.folder / "rotating", patience, why):
            yield

    def begin_rotation(self) -> tuple[KeyHolder, KeyHolder]:
        """Makes a next key, or finds the one that a rotation left behind; gives the old and the new holder."""
        with locked(self.folder):
            old = self._unlock(self._expect_current())
            following = self._found("next") or self._make("next")
            return old, self._unlock(following)

    def finish_rotation(self, raw: bytes) -> None:
        """Makes the next key with these public bytes the current one; does nothing when it is that already."""
        with locked(self.folder):
            following = self._found("next")
            if following is None or following.raw != raw:
                return
            old = self._expect_current()
            with _explained(self.folder):
                # A copy first, so that there is a current key at every moment.
                write_private(self._path(f"retired-{old.id}"), old.stored.content)
                move_durably(following.path, old.path)

    def revoke(self, name: str) -> RingKey:
        """Sees to it that a retired key never signs again; one that is revoked already stays so."""
        with locked(self.folder):
            key = self.revocable(name)
            if key.status == "retired":
                with _explained(self.folder):
                    move_durably(key.path, self._path(f"revoked-{key.id}"))
        return self.find(key.id)

    def revocable(self, name: str) -> RingKey:
        """Finds a key that may be revoked; raises `KeyUnusable` for one that still signs."""
        key = self.find(name)
        if key.status in ("current", "next"):
            raise KeyUnusable(
                f"{key.id} signs this ledger's journal now, and the record of its end needs a key that counts; "
                f"first run: indelible keys rotate; then: indelible keys revoke {key.id}"
            )
        return key

    # ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _path(self, stem: str) -> Path:
        return self.folder / f"{stem}.pem"

    def _expect_current(self) -> RingKey:
        found = self.current()
        if found is None:
            raise KeyUnusable(f"{self.folder} has no key yet; run: indelible keys create")
        return found

    def _is_used(self) -> bool:
        """Is there any trace of keys that signed?"""
        return (
            any(self.folder.glob("re*-*.pem")) or self._path("next").exists() or any(self.folder.glob("heads/*.head"))
        )

    def _make(self, stem: Literal["current", "next"]) -> RingKey:
        with _explained(self.folder):
            write_private(self._path(stem), new_key(self.ledger_name, datetime.now(UTC), self._passphrase))
        made = self._found(stem)
        assert made is not None
        return made

    def _found(self, stem: str) -> RingKey | None:
        path = self._path(stem)
        with _explained(path):
            content = read_private(path)
        if content is None:
            return None
        status: Any = stem.partition("-")[0]
        return RingKey(status, path, read_key(content, path, self._passphrase))

    def _unlock(self, key: RingKey) -> KeyHolder:
        held = self._unlocked.get(key.stored.content)
        if held is None:
            held = self._unlocked[key.stored.content] = unlock(key.stored, key.path, self._passphrase)
        return held


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turns a problem with files into one with keys."""
    try:
        yield
    except OSError as problem:
        message = f"{problem.filename or path}: {problem.strerror}; make room, or make it yours to read and write"
        raise KeyUnusable(message) from problem
