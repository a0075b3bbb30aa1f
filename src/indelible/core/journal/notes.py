"""Signed notes, tree heads and their keys, as C2SP fixes them. Pure: texts in, texts and verdicts out.

A tree head is a note of three lines (origin, size, root) with Ed25519 signatures below. Witnesses add signatures of
their own that carry the time. Everything is parsed strictly: what two readers could understand differently is refused.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from urllib.parse import unquote

from indelible.core.journal.curve import why_weak
from indelible.core.journal.merkle import HASH_BYTES
from indelible.errors import BadNote

ED25519 = 1
COSIGNATURE = 4
_KEY_BYTES = 32
_DASH = "\u2014 "
MOST_NOTE_BYTES = 1_000_000
_MOST_SIGNATURES = 100
LARGEST_NUMBER = 2**63 - 1
"""Is the largest size, index or time that every reader of these formats can hold."""

Sign = Callable[[bytes], bytes]
"""Signs a message with Ed25519."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """Is a key under the name it signs with; `kind` is ED25519 for a log's head and COSIGNATURE for a witness's."""

    name: str
    raw: bytes
    kind: int = ED25519

    def __post_init__(self) -> None:
        if not is_key_name(self.name):
            raise BadNote(f"{self.name!r} cannot name a key: no spaces, no plus sign, not empty")
        if self.kind not in (ED25519, COSIGNATURE):
            raise BadNote(f"{self.name}: keys of type {self.kind} are not known here")
        why = why_weak(self.raw)
        if why is not None:
            raise BadNote(f"{self.name}: {why}")

    @property
    def id(self) -> bytes:
        """Is the four bytes by which a signature line names its key."""
        return sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.raw).digest()[:4]

    @property
    def vkey(self) -> str:
        """Is the key as a line that other tools read too."""
        return f"{self.name}+{self.id.hex()}+{_base64(bytes([self.kind]) + self.raw)}"

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Is this a signature of the message by this key?"""
        # Here and not above: a process that only calls tools need not load a library of ciphers.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


def parse_vkey(text: str) -> PublicKey:
    """Reads a key from its line; raises `BadNote` for anything that is not exactly one."""
    parts = text.strip().split("+", 2)
    if len(parts) != 3:
        raise BadNote("a public key looks like name+0123abcd+base64; get it from: indelible keys export-public")
    name, key_id, encoded = parts
    content = unbase64(encoded, "the key")
    if len(content) != 1 + _KEY_BYTES:
        raise BadNote(f"{name!r}: the key has {len(content)} bytes, not {1 + _KEY_BYTES}")
    key = PublicKey(name, content[1:], content[0])
    if key.id.hex() != key_id:
        raise BadNote(f"{name}: the key does not fit its id {key_id}; it was damaged on the way, get it again")
    return key


@dataclass(frozen=True, slots=True)
class Signature:
    """Is one signature line: whose it says it is, and its bytes."""

    name: str
    key_id: bytes
    content: bytes

    @property
    def line(self) -> str:
        """Is the signature as it stands in a note."""
        return f"{_DASH}{self.name} {_base64(self.key_id + self.content)}\n"


@dataclass(frozen=True, slots=True)
class Note:
    """Is a text and the signatures under it, none of them checked."""

    text: str
    signatures: tuple[Signature, ...]

    def __str__(self) -> str:
        return self.text + "\n" + "".join(signature.line for signature in self.signatures)

    def with_signatures(self, more: Iterable[Signature]) -> Note:
        """Gives the note with more signatures; one that is there already is not added again."""
        return Note(self.text, tuple(dict.fromkeys((*self.signatures, *more))))

    def signed_by(self, key: PublicKey) -> bool:
        """Has it a signature by this key? Raises `BadNote` when one claims to be and is not."""
        claimed = self._claimed_by(key)
        for found in claimed:
            _check_signature(self, found, key)
        return bool(claimed)

    def cosigned_by(self, key: PublicKey) -> int | None:
        """Gives the newest time, in seconds since 1970, at which this witness cosigned it, or None."""
        return max((_checked_time(self, found, key) for found in self._claimed_by(key)), default=None)

    def _claimed_by(self, key: PublicKey) -> list[Signature]:
        return [found for found in self.signatures if found.name == key.name and found.key_id == key.id]


def _check_signature(note: Note, found: Signature, key: PublicKey) -> None:
    if key.kind != ED25519 or not key.verifies(found.content, note.text.encode()):
        raise BadNote(f"the signature of {key.name} ({key.id.hex()}) does not fit the text above it")


def _checked_time(note: Note, found: Signature, key: PublicKey) -> int:
    at, signature = int.from_bytes(found.content[:8], "big"), found.content[8:]
    if key.kind != COSIGNATURE or at > LARGEST_NUMBER or not key.verifies(signature, cosigned_message(at, note.text)):
        raise BadNote(f"the cosignature of {key.name} ({key.id.hex()}) does not fit the text above it")
    return at


def sign_note(text: str, key: PublicKey, sign: Sign) -> Note:
    """Signs a text as the holder of a log's key; raises `BadNote` for a text that no note can hold."""
    if not _text_of(text).endswith("\n"):
        raise BadNote("a note's text ends with a line feed")
    return Note(text, (Signature(key.name, key.id, sign(text.encode())),))


def cosign(note: Note, key: PublicKey, sign: Sign, at: int) -> Signature:
    """Signs a head as a witness that saw it at a time, in seconds since 1970."""
    if not 0 <= at <= LARGEST_NUMBER:
        raise BadNote(f"{at} is no time of a cosignature: seconds since 1970 are expected")
    return Signature(key.name, key.id, at.to_bytes(8, "big") + sign(cosigned_message(at, note.text)))


def cosigned_message(at: int, text: str) -> bytes:
    """Gives what a witness signs."""
    return f"cosignature/v1\ntime {at}\n{text}".encode()


def parse_note(data: bytes | str) -> Note:
    """Reads a note strictly; raises `BadNote` for anything that is not exactly one."""
    text = _text_of(data)
    body, gap, below = text.rpartition("\n\n")
    if not gap or not below.endswith("\n"):
        raise BadNote("this is no signed note: a text, an empty line and signature lines are expected")
    lines = below[:-1].split("\n")
    if len(lines) > _MOST_SIGNATURES:
        raise BadNote(f"more than {_MOST_SIGNATURES} signatures stand under this note")
    return Note(body + "\n", tuple(_signature_of(line) for line in lines))


def _text_of(data: bytes | str) -> str:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    if len(data) > MOST_NOTE_BYTES:
        raise BadNote(f"a note of {len(data)} bytes is too long to be one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise BadNote("this note is no UTF-8") from problem
    if any(letter < " " and letter != "\n" for letter in text):
        raise BadNote("control characters stand in this note")
    return text


def _signature_of(line: str) -> Signature:
    if not line.startswith(_DASH):
        raise BadNote(f"this is no signature line: {line[:80]!r}")
    name, space, encoded = line[len(_DASH) :].partition(" ")
    if not space or not is_key_name(name):
        raise BadNote(f"this is no signature line: {line[:80]!r}")
    content = unbase64(encoded, f"the signature of {name}")
    if len(content) <= 4:
        raise BadNote(f"the signature of {name} is cut short")
    return Signature(name, content[:4], content[4:])


def is_key_name(name: str) -> bool:
    """May a key or a log be named so?"""
    return bool(name) and not any(_is_barred(letter) for letter in name)


def _is_barred(letter: str) -> bool:
    """Is it a plus sign, a space, a control character or half of a surrogate pair, which UTF-8 cannot hold?"""
    return letter == "+" or letter.isspace() or letter < " " or "\ud800" <= letter <= "\udfff"


@dataclass(frozen=True, slots=True)
class TreeHead:
    """Is the state of a journal: which journal, how many entries, and the root over all of them."""

    origin: str
    size: int
    root: bytes

    def __post_init__(self) -> None:
        if not self.origin or "\n" in self.origin:
            raise BadNote(f"{self.origin[:80]!r} is no origin of a journal: one line of text is expected")
        if not 0 <= self.size <= LARGEST_NUMBER:
            raise BadNote(f"{self.size} is no size of a tree")
        if len(self.root) != HASH_BYTES:
            raise BadNote(f"the root has {len(self.root)} bytes, not {HASH_BYTES}")

    @property
    def text(self) -> str:
        """Is the head as the text that is signed."""
        return f"{self.origin}\n{self.size}\n{_base64(self.root)}\n"


def parse_head(text: str) -> TreeHead:
    """Reads a tree head from a note's text; lines after the third belong to others and are covered by signatures."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] or not all(lines[:-1]):
        raise BadNote("this is no tree head: origin, size and root are expected, each on a line")
    origin, size, encoded = lines[:3]
    return TreeHead(origin, parse_count(size, "size of a tree"), unbase64(encoded, "the root"))


def parse_count(digits: str, what: str) -> int:
    """Reads a whole number that has only one way to be written, and that every reader can hold."""
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        raise BadNote(f"{digits[:40]!r} is no {what}")
    count = int(digits)
    if str(count) != digits or count > LARGEST_NUMBER:
        raise BadNote(f"{digits!r} is no {what}")
    return count


@lru_cache(maxsize=1024)  # asked for with every write
def log_name(ledger: str, tenant: str) -> str:
    """Gives the origin of a tenant's journal; what may not stand in a key's name is written as in an address."""
    return f"{ledger}/{''.join(letter if _is_plain(letter) else _escaped(letter) for letter in tenant)}"


def tenant_named(ledger: str, origin: str) -> str | None:
    """Return the tenant whose journal `log_name` gives this origin; None if it is another ledger's."""
    return unquote(origin[len(ledger) + 1 :]) if origin.startswith(f"{ledger}/") else None


def _is_plain(letter: str) -> bool:
    return letter not in "+%" and letter > " " and letter != "\x7f" and not letter.isspace()


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode())


def _base64(content: bytes) -> str:
    return b64encode(content).decode()


def unbase64(text: str, what: str) -> bytes:
    """Reads base64 that has only one way to be written."""
    try:
        content = b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise BadNote(f"{what} is no base64") from problem
    if _base64(content) != text:
        raise BadNote(f"{what} is no canonical base64")
    return content
