"""Examines a journal's entries one after the other: its rules, its keys, its values, its writers' signatures. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indelible.core.events import signed_message
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import TreeHead
from indelible.core.journal.receipts import Receipt
from indelible.core.verifying.bodies import (
    EffectBody,
    FactBody,
    commits_of,
    quoted,
    read_effect_body,
    read_fact_body,
    time_of,
)
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.lives import Before, Lives, commitments, placed
from indelible.core.verifying.one_key import OneKey
from indelible.core.verifying.payloads import Disclosed, PayloadTally
from indelible.core.verifying.permissions import Permissions
from indelible.core.verifying.run_lives import RunLives
from indelible.core.verifying.trees import TreeWalk, leaf_hashes
from indelible.core.verifying.trust import JOURNAL_MEMBERS, KeyChain, SignedHead

# A body ends with its type, `","v":1,"writer":"`, 32 digits and `"}`: so the end of its type lies at a fixed place.
_TYPE_END = -52
_TELLING = frozenset(type_.encode()[-5:] for type_ in JOURNAL_MEMBERS if type_ != "journal_heartbeat")


@dataclass(frozen=True, slots=True)
class Row:
    """Is a row of entries as they were handed over, with the values and signatures that came with them, by index."""

    bodies: Sequence[bytes]
    shown: Mapping[int, Mapping[str, Disclosed]] = field(default_factory=dict)
    signatures: Mapping[int, bytes] = field(default_factory=dict)


class Claimed(NamedTuple):
    """Is an event's own signature, to be checked: of which entry, by which key, over what."""

    entry: int
    key: bytes
    signature: bytes
    message: bytes


Shown = Mapping[str, Disclosed]
"""Holds the values of one event that were handed over, by field."""
Watch = Callable[[EffectBody | FactBody, Shown], None]
"""Is told every event that the rules allow, with the values that came with it."""


@dataclass(slots=True, kw_only=True)
class Scope:
    """Says what to look at beyond the tree: rules and values, and signatures of writers.

    `has_every_run` says that what runs tell about each other can be compared.
    """

    has_semantics: bool = True
    is_deep: bool = False
    has_every_run: bool = True
    watch: Watch | None = None


class Examination:
    """Takes in entries in their order, and raises `Caught` at the first that is not as it should be."""

    def __init__(
        self, newest: TreeHead, tally: PayloadTally, scope: Scope, *, is_whole: bool, has_values: bool
    ) -> None:
        self.chain = KeyChain(newest.origin)
        self.tally = tally
        self.newest_at: str | None = None
        """Is the time of the newest event that was signed."""
        self.claimed: list[Claimed] = []
        """Holds signatures that are to be checked; whoever checks them empties it."""
        self._held_back: dict[str, list[tuple[int, str, bytes]]] = {}
        self._unsigned: dict[str, int] = {}
        self.lives = Lives(quoted(newest.origin), is_whole=is_whole)
        self.runs = RunLives(is_whole=is_whole)
        self.permissions = Permissions(is_whole=is_whole and scope.has_every_run)
        self._one_key = OneKey()
        self._scope = scope
        self._watch, self._is_deep = scope.watch, scope.is_deep
        self._has_values = has_values
        self._signed = newest.size

    def take_row(self, row: Row, walk: TreeWalk) -> None:
        """Hashes a row into the tree, and examines it while every hash so far is the tree's."""
        start, hashes = walk.size, leaf_hashes(row.bodies)
        walk.extend(hashes)
        if walk.suspect is not None:
            return
        if self._scope.has_semantics:
            for index, body, hash_ in zip(range(start, walk.size), row.bodies, hashes, strict=True):
                self.take(index, body, hash_.hex(), row.shown.get(index), row.signatures.get(index))
        else:
            self.skim(start, row)

    def take(
        self, index: int, body: bytes, hash_: str, shown: Mapping[str, Disclosed] | None, signature: bytes | None
    ) -> None:
        """Examines one entry."""
        run, seq, at, commits, writer, fact, values, before = event = self.lives.follow(index, body, hash_)
        if index < self._signed:
            self.newest_at = at
        if fact is not None:
            self._learn(index, fact)
            self._let_go()
        if shown or self._has_values:
            try:
                self.tally.take(run, seq, commitments(event), shown or {})
                if values is not None:
                    key = (shown or {}).get("key")
                    self._one_key.take(values[4], int(values[2]), values[11], None if key is None else key.value)
            except Caught as caught:
                raise placed(caught, index, run, seq) from None
        else:
            self.tally.count_absent(commits.count(":") if isinstance(commits, str) else len(commits))
        if before is not None or fact is not None:
            self._check_told(index, body, fact or EffectBody(*values or ()), before, shown or {})
        if self._watch is not None:
            self._watch(fact or EffectBody(*values or ()), shown or {})
        if self._is_deep:
            self._claim(index, writer, hash_, signature)

    def _check_told(
        self, index: int, body: bytes, event: EffectBody | FactBody, before: Before | None, shown: Shown
    ) -> None:
        """Checks what an event says of a run or of a permission."""
        values = {name: one.value for name, one in shown.items()}
        try:
            if isinstance(event, FactBody):
                self.permissions.take_fact(index, event, values)
                self.runs.take(event, values, self.lives.runs[event.run][2])
            else:
                assert before is not None
                self.permissions.take(index, body.decode(), event, before, values)
        except Caught as caught:
            raise placed(caught, index, event.run, int(event.seq)) from None

    def _learn(self, index: int, fact: FactBody) -> None:
        is_signed = index < self._signed  # what is not says nothing of keys and losses that heads could rest on
        try:
            if fact.run == JOURNAL_RUN and (is_signed or fact.type == "writer_registered"):
                self.chain.learn(index, fact.type, fact.facts)
            if fact.type == "payload_erased":
                self.tally.erase(fact.run, fact.facts, is_signed=is_signed)
        except Caught as caught:
            raise placed(caught, index, fact.run, fact.seq) from None

    def _claim(self, index: int, writer: str, hash_: str, signature: bytes | None) -> None:
        """Notes a signature to be checked; a writer's key may stand in the journal after its first events.

        Runs are taken into the tree side by side, so only within a run does the order of entries say what came first.
        """
        key = self.chain.writers.get(writer)
        if signature is None:
            if key is not None:
                raise Caught(_unsigned_by(writer), index=index)
            self._unsigned.setdefault(writer, index)
        elif key is not None:
            self.claimed.append(Claimed(index, key, signature, signed_message(hash_)))
        else:
            self._held_back.setdefault(writer, []).append((index, hash_, signature))

    def _let_go(self) -> None:
        """Takes up what was held back for a writer whose key is known by now."""
        for writer in [writer for writer in self._held_back if writer in self.chain.writers]:
            key = self.chain.writers[writer]
            for index, hash_, signature in self._held_back.pop(writer):
                self.claimed.append(Claimed(index, key, signature, signed_message(hash_)))

    @property
    def unchecked(self) -> int:
        """Is how many signatures are here whose writers' keys are not."""
        return sum(map(len, self._held_back.values()))

    def check_writers(self) -> None:
        """Raises `Caught` when a writer with a key left an event unsigned, or one without a key signed."""
        for writer, index in self._unsigned.items():
            if writer in self.chain.writers:
                raise Caught(_unsigned_by(writer), index=index)
        for writer, held in self._held_back.items():
            raise Caught(f"it carries a signature of writer {writer}, which never told its key", index=held[0][0])

    def skim(self, start: int, row: Row) -> None:
        """Looks only at what is needed without the rules: what the journal says of its keys, and values shown."""
        begin, end = _TYPE_END - 5, _TYPE_END
        for index, body in enumerate(row.bodies[: max(0, self._signed - start)], start):
            if body[begin:end] in _TELLING:
                fact = read_fact_body(body.decode("utf-8", "replace"))
                if fact is not None and fact.run == JOURNAL_RUN:
                    self.chain.learn(index, fact.type, fact.facts)
        if start < self._signed:
            newest = row.bodies[: self._signed - start][-1]
            self.newest_at = time_of(newest.decode("utf-8", "replace"))
        for index, shown in row.shown.items():
            commits = _commits_in(row.bodies[index - start])
            try:
                self.tally.take("", index, {name: value for name, value in commits.items() if name in shown}, shown)
            except Caught as caught:
                raise Caught(
                    caught.flaw.what, index=index, expected=caught.flaw.expected, found=caught.flaw.found
                ) from None

    def take_receipt(self, receipt: Receipt, newest: SignedHead) -> bytes:
        """Gives the entry that a receipt proves to be under the newest head; raises `Caught` when it does not."""
        index, body = receipt.index, receipt.extra
        if body is None:
            raise Caught("this receipt does not hold the entry it is about", index=index)
        if str(receipt.head) != str(newest.note):
            raise Caught("this receipt leads to another head than the newest", index=index)
        if not receipt.covers(body):
            raise Caught("the proof does not lead from this entry to the head", index=index)
        return body


def _unsigned_by(writer: str) -> str:
    return f"its writer {writer} signs every event, and this one has no signature"


def _commits_in(body: bytes) -> dict[str, str]:
    text = body.decode("utf-8", "replace")
    values = read_effect_body(text)
    if values is not None:
        return commits_of(values[3])
    fact = read_fact_body(text)
    return {} if fact is None else fact.commits


def first_bad_signature(claims: Iterable[Claimed]) -> int | None:
    """Gives the index of the first event whose signature is not its writer's, or None."""
    for entry, key, signature, message in claims:
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except InvalidSignature:
            return entry
    return None


def check_root(walk: TreeWalk, newest: SignedHead, known_good: int) -> None:
    """Raises `Caught` unless the entries lead to the head; names the entry, or where to look for it."""
    head, root = newest.head, walk.roots.get(newest.head.size)
    if root == head.root:
        if walk.suspect is not None:
            index, given, own = walk.suspect
            raise Caught("a tile has another hash for this entry", index=index, expected=own.hex(), found=given.hex())
        if walk.bad_tile is not None:
            raise Caught(f"{walk.bad_tile} is not what the entries below it give")
        return
    if walk.suspect is not None:
        index, given, own = walk.suspect
        raise Caught("its content is not what the tree says", index=index, expected=given.hex(), found=own.hex())
    if root is None:
        raise Caught("entries are missing", expected=f"{head.size} entries", found=str(walk.size))
    where = f"an entry from {known_good} to {head.size - 1} was changed"
    raise Caught(f"the entries do not lead to the signed root: {where}", expected=head.root.hex(), found=root.hex())
