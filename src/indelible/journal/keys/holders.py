"""Who signs: one Ed25519 key wherever it lives, and sets of such keys. A key in a KMS fits in here."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.errors import KeyUnusable


class KeyHolder(Protocol):
    """Signs with one Ed25519 key, wherever that key lives."""

    @property
    def raw(self) -> bytes:
        """Is the public key's 32 bytes."""

    def sign(self, message: bytes) -> bytes:
        """Gives the 64 bytes of a signature; MUST give the same bytes for the same message, as Ed25519 does."""


class SigningKeys(Protocol):
    """Says who signs."""

    def holders(self) -> Sequence[KeyHolder]:
        """Gives who signs new heads: one holder, or two while a rotation is under way."""

    def holder_of(self, raw: bytes) -> KeyHolder | None:
        """Gives the holder of a key that has signed, or None when that key may not or cannot sign any more."""


class Ring(SigningKeys, Protocol):
    """Is a set of keys that can change."""

    def rotating(self) -> AbstractContextManager[None]:
        """Keeps everybody else from rotating these keys; MUST raise `KeyUnusable` while somebody else does."""

    def begin_rotation(self) -> tuple[KeyHolder, KeyHolder]:
        """Makes a next key, or finds the one that a rotation left behind; gives the old and the new holder."""

    def finish_rotation(self, raw: bytes) -> None:
        """Makes the next key with these public bytes the current one; does nothing when it is that already."""


class HeldKey:
    """Holds a private key in this process's memory."""

    __slots__ = ("_private", "raw")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.raw = private.public_key().public_bytes_raw()

    @classmethod
    def fresh(cls) -> HeldKey:
        """Makes a new key that is written nowhere."""
        return cls(Ed25519PrivateKey.generate())

    def sign(self, message: bytes) -> bytes:
        """Signs a message."""
        return self._private.sign(message)


class FixedKeys:
    """Are keys that somebody else looks after, such as one in a KMS: all of them sign every head."""

    def __init__(self, *holders: KeyHolder) -> None:
        self._holders = holders

    def holders(self) -> Sequence[KeyHolder]:
        """Gives all of them."""
        return self._holders

    def holder_of(self, raw: bytes) -> KeyHolder | None:
        """Gives the one with these public bytes."""
        return next((holder for holder in self._holders if holder.raw == raw), None)


class MemoryRing:
    """Keeps keys in memory, for ledgers that live there too."""

    def __init__(self) -> None:
        # In the order they were made; the last one or two sign.
        self._held: list[KeyHolder] = [HeldKey.fresh()]
        self._is_rotating = False
        self._rotating = threading.Lock()

    @contextmanager
    def rotating(self) -> Iterator[None]:
        """Keeps every other thread from rotating these keys; raises `KeyUnusable` while another one does."""
        if not self._rotating.acquire(blocking=False):
            raise KeyUnusable("another thread rotates these keys now; nothing was changed")
        try:
            yield
        finally:
            self._rotating.release()

    def holders(self) -> Sequence[KeyHolder]:
        """Gives the current key, and the next one while a rotation is under way."""
        return self._held[-2:] if self._is_rotating else self._held[-1:]

    def holder_of(self, raw: bytes) -> KeyHolder | None:
        """Gives the one with these public bytes."""
        return FixedKeys(*self._held).holder_of(raw)

    def begin_rotation(self) -> tuple[KeyHolder, KeyHolder]:
        """Makes a next key, or finds the one that a rotation left behind; gives the old and the new holder."""
        if not self._is_rotating:
            self._held.append(HeldKey.fresh())
            self._is_rotating = True
        return self._held[-2], self._held[-1]

    def finish_rotation(self, raw: bytes) -> None:
        """Makes the next key with these public bytes the current one; does nothing when it is that already."""
        if self._held[-1].raw == raw:
            self._is_rotating = False
