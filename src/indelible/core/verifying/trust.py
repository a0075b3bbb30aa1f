"""Whose signature counts on which head: pinned keys, rotations, revocations, continuations. Pure.

Trust begins at a key that the verifier was given. It follows a rotation because the old key signed it, and reaches back
over one because the newest head covers it. A key that only stands in the evidence is never trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from indelible.core.journal.merkle import HASH_BYTES
from indelible.core.journal.notes import Note, PublicKey, TreeHead, parse_head, parse_note, parse_vkey, unbase64
from indelible.core.journal.rotation import check_rotation, followed
from indelible.core.verifying.findings import Caught
from indelible.errors import BadNote

JOURNAL_MEMBERS = {
    "journal_heartbeat": set[str](),
    "key_registered": {"key"},
    "key_revoked": {"key", "size"},
    "key_rotated": {"new", "new_signature", "old", "old_signature"},
    "log_continued": {"lost", "size"},
    "writer_registered": {"key", "writer"},
}


@dataclass(frozen=True, slots=True)
class Rotation:
    """Says that heads larger than `index` are signed by the new key, smaller ones by the old."""

    index: int
    old: PublicKey
    new: PublicKey


@dataclass(frozen=True, slots=True)
class Continuation:
    """Says that a history of `lost_size` was signed once, and that the journal went on from `size` without the rest."""

    index: int
    size: int
    lost_size: int
    lost_root: bytes

    def explains(self, head: TreeHead) -> bool:
        """Can this head be one of the history that was lost?"""
        if head.size == self.lost_size:
            return head.root == self.lost_root
        return self.size < head.size < self.lost_size


@dataclass(frozen=True, slots=True)
class SignedHead:
    """Is a head with the note it stands in; `name` says where it came from."""

    name: str
    note: Note
    head: TreeHead


def read_head(name: str, data: bytes | str) -> SignedHead:
    """Reads a signed head strictly; raises `Caught` for anything that is not one."""
    try:
        note = parse_note(data)
        return SignedHead(name, note, parse_head(note.text))
    except BadNote as problem:
        raise Caught(f"{name}: {problem}") from problem


class KeyChain:
    """Collects what a journal says about its own keys and writers, and tells whose signature a head needs."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.rotations: list[Rotation] = []
        self.revoked: dict[bytes, int] = {}
        self.continuations: list[Continuation] = []
        self.writers: dict[str, bytes] = {}

    def learn(self, index: int, type_: str, facts: dict[str, Any]) -> None:
        """Takes in what an event of the journal's own run says; raises `Caught` when it does not hold."""
        members = JOURNAL_MEMBERS.get(type_)
        if members is None:
            return
        try:
            if facts.keys() != members:
                raise BadNote(f"a {type_} says {sorted(members)}, not {sorted(facts)}")
            self._learn(index, type_, facts)
        except BadNote as problem:
            raise Caught(str(problem), index=index) from problem

    def _learn(self, index: int, type_: str, facts: dict[str, Any]) -> None:
        match type_:
            case "key_rotated":
                self._rotate(index, facts)
            case "key_registered":
                self._key_of(facts)
            case "key_revoked":
                raw, size = self._key_of(facts).raw, _size(facts["size"])
                self.revoked[raw] = min(size, self.revoked.get(raw, size))
            case "log_continued":
                self._continue(index, facts)
            case "writer_registered":
                self._register(facts)
            case _:
                pass  # a heartbeat says nothing but its time

    def _rotate(self, index: int, facts: dict[str, Any]) -> None:
        old, new = check_rotation(facts)
        if old.name != self._origin:
            raise BadNote(f"this is a rotation of the keys of {old.name}")
        if self.rotations and self.rotations[-1].new.raw != old.raw:
            raise BadNote(
                f"the key before was {self.rotations[-1].new.id.hex()}, and this is a rotation of {old.id.hex()}"
            )
        self.rotations.append(Rotation(index, old, new))

    def _key_of(self, facts: dict[str, Any]) -> PublicKey:
        if type(facts["key"]) is not str:
            raise BadNote("a key is written as a text")
        return parse_vkey(facts["key"])

    def _continue(self, index: int, facts: dict[str, Any]) -> None:
        lost = facts["lost"]
        if type(lost) is not dict or lost.keys() != {"root", "size"} or type(lost["root"]) is not str:
            raise BadNote("a continuation names size and root of what was lost")
        root = unbase64(lost["root"], "the lost root")
        if len(root) != HASH_BYTES:
            raise BadNote(f"the lost root has {len(root)} bytes, not {HASH_BYTES}")
        self.continuations.append(Continuation(index, _size(facts["size"]), _size(lost["size"]), root))

    def _register(self, facts: dict[str, Any]) -> None:
        key, writer = facts["key"], facts["writer"]
        if type(key) is not str or type(writer) is not str:
            raise BadNote("a writer and its key are written as texts")
        raw = unbase64(key, "the writer's key")
        PublicKey("writer", raw)  # refuses a key that more than one person could hold
        if self.writers.setdefault(writer, raw) != raw:
            raise BadNote(f"writer {writer} has another key already")

    def signer_of(self, size: int) -> PublicKey | None:
        """Gives the key that must have signed a head of this size; None while no rotation tells."""
        for rotation in reversed(self.rotations):
            if rotation.index < size:
                return rotation.new
        return self.rotations[0].old if self.rotations else None

    def check_signed(self, signed: SignedHead, pinned: Sequence[PublicKey]) -> PublicKey:
        """Gives the key that signed a head and is trusted for its size; raises `Caught` when there is none."""
        if signed.head.origin != self._origin:
            raise Caught(
                f"{signed.name}: it is a head of another journal", expected=self._origin, found=signed.head.origin
            )
        expected = self.signer_of(signed.head.size)
        named = [key for rotation in self.rotations for key in (rotation.old, rotation.new)]
        known = {key.raw for key in named}
        try:
            pinned = followed(signed.note, pinned)
            keys = pinned if expected is None else followed(signed.note, [expected])
            if expected is not None:  # a part of a journal may hold some rotations, and later ones stand under its head
                known |= {key.raw for key in keys}
                keys = keys if any(key.raw in known and key.name == self._origin for key in pinned) else []
            # All of them: a bad signature by a known key spoils a note, whatever else stands under it. So does the old
            # key's line under a head that both sign while one follows the other.
            signers = [key for key in dict.fromkeys((*pinned, *named, *keys)) if signed.note.signed_by(key)]
        except BadNote as problem:
            raise Caught(f"{signed.name}: {problem}") from problem
        good = [key for key in signers if key in keys and self._is_in_force(key, signed.head.size)]
        if not good:
            raise Caught(f"{signed.name}: {self._why_unsigned(signers, keys, signed)}")
        return good[0]

    def _is_in_force(self, key: PublicKey, size: int) -> bool:
        return key.name == self._origin and size <= self.revoked.get(key.raw, size)

    def _why_unsigned(self, signers: list[PublicKey], keys: list[PublicKey], signed: SignedHead) -> str:
        size = signed.head.size
        if any(key in keys for key in signers):
            return f"its signature is by a key that was revoked, or is of another journal, for heads as large as {size}"
        found = ", ".join(f"{one.name} {one.key_id.hex()}" for one in signed.note.signatures)
        needed = ", ".join(f"{key.name} {key.id.hex()}" for key in keys)
        if not needed:
            return f"no rotation leads from a key you pinned to the one that signs now; it is signed by {found}"
        return (
            f"it is not signed by {needed}, but by {found}: somebody else signed it, you pinned another key, or the "
            "rotations between the two were left out"
        )


def _size(value: object) -> int:
    if type(value) is not int or value < 0:
        raise BadNote("a size is a whole number")
    return value
