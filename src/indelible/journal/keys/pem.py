"""One private key as a file's content: PKCS#8 in PEM, with a few lines above it that tell what needs no secret."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from indelible.core.events import instant
from indelible.errors import KeyUnusable
from indelible.journal.keys.holders import HeldKey

Passphrase = bytes | None
_KEY_BYTES = 32
_LOCKED = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """Is what a key file says; the private part may be locked."""

    raw: bytes
    created: datetime | None
    content: bytes = field(repr=False)


def given_passphrase(passphrase: str | bytes | None) -> Passphrase:
    """Gives the passphrase that was handed over, else $INDELIBLE_KEY_PASSPHRASE, else None."""
    given = os.environ.get("INDELIBLE_KEY_PASSPHRASE") if passphrase is None else passphrase
    if given is not None and not given:
        # An empty variable is a mistake in a script; a key without protection would be a silent answer to it.
        raise KeyUnusable("the passphrase is empty; unset INDELIBLE_KEY_PASSPHRASE to keep keys without one")
    return given.encode() if isinstance(given, str) else given


def new_key(ledger_name: str, created: datetime, passphrase: Passphrase) -> bytes:
    """Makes a key and gives the content of its file."""
    private = Ed25519PrivateKey.generate()
    encryption: KeySerializationEncryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    public = b64encode(private.public_key().public_bytes_raw()).decode()
    above = (
        f"Indelible signs the journals of {ledger_name!r} with this key. Keep it secret and keep a copy.\n"
        f"created: {instant(created)}\npublic: {public}\n"
    )
    return above.encode("ascii", "backslashreplace") + pem


def read_key(content: bytes, path: Path, passphrase: Passphrase) -> StoredKey:
    """Reads what a key file tells; a file with no lines above the key, as other tools make them, has to be unlocked."""
    told = _told_above(content)
    try:
        created = datetime.fromisoformat(told["created"]) if "created" in told else None
        raw = b64decode(told["public"], validate=True) if "public" in told else None
    except ValueError as problem:
        raise KeyUnusable(f"{path} is damaged: {problem}; put it back from your backup") from problem
    if raw is not None and len(raw) != _KEY_BYTES:
        raise KeyUnusable(f"{path} is damaged: its public key is cut; put it back from your backup")
    if raw is None:
        raw = _private_of(content, path, passphrase).public_key().public_bytes_raw()
    return StoredKey(raw, created, content)


def _told_above(content: bytes) -> dict[str, str]:
    above = content.partition(b"-----BEGIN ")[0].decode("ascii", "replace")
    pairs = (line.partition(": ") for line in above.splitlines())
    return {name: value for name, gap, value in pairs if gap and name in ("created", "public")}


def unlock(stored: StoredKey, path: Path, passphrase: Passphrase) -> HeldKey:
    """Gives the key's holder; raises `KeyUnusable` when the passphrase is missing or wrong, or the file damaged."""
    held = HeldKey(_private_of(stored.content, path, passphrase))
    if held.raw != stored.raw:
        raise KeyUnusable(f"{path} is damaged: the key is not the one it says; put it back from your backup")
    return held


def _private_of(content: bytes, path: Path, passphrase: Passphrase) -> Ed25519PrivateKey:
    pem = content[content.find(b"-----BEGIN ") :]
    is_locked = pem.startswith(_LOCKED)
    if is_locked and passphrase is None:
        raise KeyUnusable(f"{path} is locked; give its passphrase in INDELIBLE_KEY_PASSPHRASE")
    try:
        private = load_pem_private_key(pem, passphrase if is_locked else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as problem:
        if is_locked:
            why = "the passphrase is wrong, or the file is damaged: mend INDELIBLE_KEY_PASSPHRASE, or"
        else:
            why = "it is damaged or holds no key;"
        raise KeyUnusable(f"{path} cannot be used: {why} put the file back from your backup") from problem
    if not isinstance(private, Ed25519PrivateKey):
        raise KeyUnusable(f"{path} holds no Ed25519 key; put back the one that was there")
    return private
