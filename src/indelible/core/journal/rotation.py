"""Changing the journal's key on the record: what old and new key sign, and what an auditor checks. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from indelible.core.journal.notes import ED25519, Note, PublicKey, Sign, Signature, parse_vkey, unbase64
from indelible.errors import BadNote

_TAG = b"indelible/rotate/v1\0"
_MEMBERS = frozenset({"new", "new_signature", "old", "old_signature"})
_SIGNATURE_BYTES = 64
_KEY_BYTES = 32
# A type of signature that the format leaves to everybody: this byte, then a name that is nobody else's.
_LINE_TYPE = b"\xffindelible/rotation/v1\0"


def rotation_message(old_vkey: str, new_vkey: str) -> bytes:
    """Gives what both keys sign."""
    return _TAG + old_vkey.encode() + b"\n" + new_vkey.encode()


def rotation_facts(old: PublicKey, new: PublicKey, sign_old: Sign, sign_new: Sign) -> dict[str, Any]:
    """Gives what a `key_rotated` event says; raises `BadNote` when a signature does not fit its key."""
    message = rotation_message(old.vkey, new.vkey)
    facts = {
        "new": new.vkey,
        "new_signature": b64encode(sign_new(message)).decode(),
        "old": old.vkey,
        "old_signature": b64encode(sign_old(message)).decode(),
    }
    check_rotation(facts)
    return facts


def check_rotation(facts: Mapping[str, Any]) -> tuple[PublicKey, PublicKey]:
    """Gives the old and the new key; raises `BadNote` unless both signed that the one follows the other."""
    if facts.keys() != _MEMBERS or not all(type(value) is str for value in facts.values()):
        raise BadNote("a rotation names an old and a new key and a signature of each, and nothing else")
    old, new = _log_key(facts["old"]), _log_key(facts["new"])
    if old.name != new.name:
        raise BadNote(f"a key of {old.name} cannot be followed by one of {new.name}")
    if old.raw == new.raw:
        raise BadNote(f"{old.name}: a key cannot follow itself")
    message = rotation_message(old.vkey, new.vkey)
    for key, word in ((old, "old"), (new, "new")):
        signature = unbase64(facts[f"{word}_signature"], f"the {word} key's signature")
        if len(signature) != _SIGNATURE_BYTES or not key.verifies(signature, message):
            raise BadNote(f"{key.name}: the {word} key {key.id.hex()} did not sign this rotation")
    return old, new


def rotation_line(facts: Mapping[str, Any]) -> Signature:
    """Return a rotation as a line to stand under a head: by it, whoever pinned the old key trusts the new one.

    So every export of a part of a journal, down to one receipt, verifies with a key from before the rotation. Verifiers
    that do not know such lines pass over them, as over every signature by a key that they do not know.
    """
    old, new = check_rotation(facts)
    signatures = b"".join(unbase64(facts[f"{word}_signature"], "a signature") for word in ("old", "new"))
    return Signature(old.name, _line_id(old), new.raw + signatures)


def followed(note: Note, keys: Iterable[PublicKey]) -> list[PublicKey]:
    """Return these keys, and those that follow them by rotations that stand under a note.

    Raises:
        BadNote: A line says that it is a rotation of one of them, and it is not.
    """
    found = list(dict.fromkeys(keys))
    for old in found:  # which grows meanwhile
        for line in note.signatures:
            if (line.name, line.key_id) == (old.name, _line_id(old)):
                new = _next_key(old, line.content)
                if new not in found:
                    found.append(new)
    return found


def _line_id(old: PublicKey) -> bytes:
    return sha256(old.name.encode() + b"\n" + _LINE_TYPE + old.raw).digest()[:4]


def _next_key(old: PublicKey, content: bytes) -> PublicKey:
    if len(content) != _KEY_BYTES + 2 * _SIGNATURE_BYTES:
        raise BadNote(f"{old.name}: a rotation of {old.id.hex()} has another length than it should")
    new = PublicKey(old.name, content[:_KEY_BYTES])
    signatures = (content[_KEY_BYTES:-_SIGNATURE_BYTES], content[-_SIGNATURE_BYTES:])
    told = {"old": old.vkey, "new": new.vkey}
    told |= {f"{word}_signature": b64encode(one).decode() for word, one in zip(("old", "new"), signatures, strict=True)}
    return check_rotation(told)[1]


def _log_key(vkey: str) -> PublicKey:
    """Reads the key of a log, written in its one way."""
    key = parse_vkey(vkey)
    if key.vkey != vkey or key.kind != ED25519:
        raise BadNote(f"{key.name}: a rotation is about keys that sign tree heads, written in one way only")
    return key


def revocation_facts(key: PublicKey, size: int) -> dict[str, Any]:
    """Gives what a `key_revoked` event says: this key's signatures on heads larger than `size` count for nothing."""
    if size < 0:
        raise BadNote(f"no tree head has the size {size}")
    return {"key": key.vkey, "size": size}
