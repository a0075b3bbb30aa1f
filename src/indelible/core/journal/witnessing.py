"""Witnessing: what a witness is asked, when it may say yes, and when enough have. C2SP's tlog-witness. Pure.

A witness keeps the last head it cosigned of each journal. It cosigns another only if a proof shows that the new tree
begins with the old one. So whoever trusts a witness knows that no second history was shown to somebody else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from indelible.core.journal.merkle import EMPTY_ROOT, HASH_BYTES, is_consistent
from indelible.core.journal.notes import (
    COSIGNATURE,
    Note,
    PublicKey,
    Signature,
    TreeHead,
    parse_count,
    parse_head,
    parse_note,
    unbase64,
)
from indelible.errors import BadNote

SIZE_TYPE = "text/x.tlog.size"
MOST_REQUEST_BYTES = 256 * 1024
MOST_ANSWER_BYTES = 64 * 1024
_MOST_HASHES = 63


@dataclass(frozen=True, slots=True)
class Request:
    """Is what a witness is asked: to cosign this head, which grew out of the tree of `old_size` that it knows."""

    old_size: int
    proof: tuple[bytes, ...]
    note: Note

    def __bytes__(self) -> bytes:
        hashes = [b64encode(one).decode() for one in self.proof]
        return "\n".join([f"old {self.old_size}", *hashes, "", str(self.note)]).encode()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Is a witness's no: its HTTP status and why. `size` is what it cosigned last, for a caller who did not know."""

    status: int
    why: str
    size: int | None = None
    is_fork: bool = False

    def __bytes__(self) -> bytes:
        return f"{self.why if self.size is None else self.size}\n".encode()

    @property
    def content_type(self) -> str:
        """Is how its bytes are to be read."""
        return "text/plain; charset=utf-8" if self.size is None else SIZE_TYPE


# ── what a witness does ──────────────────────────────────────────────────────────────────────────────────────────────


def parse_request(body: bytes) -> Request:
    """Reads a request strictly; raises `BadNote` for anything that is not exactly one."""
    above, gap, below = body.partition(b"\n\n")
    lines = above.decode("ascii", "replace").split("\n")
    if not gap or not lines[0].startswith("old "):
        raise BadNote("this is no request: the line `old SIZE`, a proof, an empty line and a signed head are expected")
    old_size = parse_count(lines[0].removeprefix("old "), "size of a tree")
    if len(lines) - 1 > _MOST_HASHES:
        raise BadNote(f"a proof has at most {_MOST_HASHES} hashes, not {len(lines) - 1}")
    proof = tuple(unbase64(line, "a hash of the proof") for line in lines[1:])
    if any(len(one) != HASH_BYTES for one in proof):
        raise BadNote(f"each hash of the proof has {HASH_BYTES} bytes")
    return Request(old_size, proof, parse_note(below))


def recognise(request: Request, logs: Sequence[PublicKey]) -> TreeHead | Refusal:
    """Gives the head that a request is about if one of these logs signed it; a log's key has the log's name."""
    try:
        head = parse_head(request.note.text)
    except BadNote as problem:
        return Refusal(400, str(problem))
    keys = [key for key in logs if key.name == head.origin]
    if not keys:
        return Refusal(404, "this log is not known here; its operator asks for it with its public key")
    try:
        # All of them: a bad signature in the name of a known key spoils the note, whatever else stands there.
        is_signed = [request.note.signed_by(key) for key in keys]
    except BadNote as problem:
        return Refusal(403, str(problem))
    if not any(is_signed):
        return Refusal(403, "no signature by a key of this log that is known here")
    if request.old_size > head.size:
        return Refusal(400, f"a tree of {head.size} does not begin with one of {request.old_size}")
    return head


def compare(request: Request, head: TreeHead, last: TreeHead | None) -> Refusal | None:
    """Says why a head may not be cosigned after the last one that was, or None when it may.

    The caller holds the log's lock from before it reads `last` until the new head is durable.
    """
    known = TreeHead(head.origin, 0, EMPTY_ROOT) if last is None else last
    if request.old_size != known.size:
        return Refusal(409, f"the last head cosigned here has size {known.size}", size=known.size)
    if head.size == known.size and head.root != known.root:
        # With the empty tree it is a wrong root; later two heads of one size are proof that the log has two histories.
        return Refusal(422, f"another root was cosigned here for size {head.size}", is_fork=head.size > 0)
    if not is_consistent(known.size, known.root, head.size, head.root, request.proof):
        return Refusal(422, f"the proof does not show that this tree begins with the {known.size} entries known here")
    return None


def signatures_of(note: Note, keys: Iterable[PublicKey]) -> tuple[Signature, ...]:
    """Gives the signatures under a note that claim to be by these keys, and drops those of strangers."""
    names = {(key.name, key.id) for key in keys}
    return tuple(one for one in note.signatures if (one.name, one.key_id) in names)


def signing_time(now: int, last: int | None) -> int:
    """Gives the time to cosign with: never before the last, or a clock set back would date a larger tree earlier."""
    return now if last is None else max(now, last)


# ── what a witness's caller does ─────────────────────────────────────────────────────────────────────────────────────


def parse_size(body: bytes) -> int:
    """Reads the size that a witness says it has; raises `BadNote` when it is none."""
    text = body.decode("ascii", "replace")
    if not text.endswith("\n"):
        raise BadNote("the witness's size does not end in a new line")
    return parse_count(text[:-1], "size of a tree")


def parse_cosignature(body: bytes, note: Note, key: PublicKey) -> Signature:
    """Finds the witness's cosignature in its answer and checks it; raises `BadNote` when there is none that holds.

    Lines by other keys are passed over: a witness may have more keys than the one that is trusted here.
    """
    answer = parse_note(note.text.encode() + b"\n" + body)
    if answer.text != note.text:
        raise BadNote("the witness's answer has more in it than signature lines")
    found = [Note(note.text, (one,)) for one in signatures_of(answer, [key])]
    # Each is checked, and the newest is taken.
    times = {one.cosigned_by(key) or 0: one.signatures[0] for one in found}
    if not times:
        raise BadNote(f"the witness's answer has no cosignature by {key.name} ({key.id.hex()})")
    newest = max(times)
    if newest == 0:
        raise BadNote(f"the cosignature of {key.name} says no time at which it was made")
    return times[newest]


def with_newest(note: Note, cosignatures: Iterable[Signature]) -> Note:
    """Gives the note with these cosignatures in place of older ones by the same keys."""
    newest = {(one.name, one.key_id): one for one in cosignatures}
    kept = tuple(one for one in note.signatures if (one.name, one.key_id) not in newest)
    return Note(note.text, (*kept, *newest.values()))


def cosigners(note: Note, keys: Iterable[PublicKey]) -> dict[PublicKey, int]:
    """Gives the witnesses among these that cosigned a note, with the time of each, in seconds since 1970.

    A key under two names is one witness: a cosignature does not cover the name. Raises `BadNote` when a cosignature
    claims to be by one of them and is not.
    """
    found: dict[bytes, tuple[PublicKey, int]] = {}
    for key in keys:
        if key.kind != COSIGNATURE:
            raise BadNote(f"{key.name} is the key of a log, not of a witness; a witness's: indelible witness key")
        at = note.cosigned_by(key)
        if at is not None and (key.raw not in found or at > found[key.raw][1]):
            found[key.raw] = (key, at)
    return dict(found.values())


def enough(note: Note, keys: Iterable[PublicKey], n: int) -> bool:
    """Did at least `n` of these witnesses cosign the note? Raises `BadNote` as `cosigners` does."""
    if n < 1:
        raise ValueError("a quorum is at least one witness; to ask for none, do not ask")
    return len(cosigners(note, keys)) >= n
