"""A bundle: everything needed to verify a journal, a run or a stretch of the journal offline.

The whole journal is laid out in tiles, as tlog-tiles prescribes. A part of it comes as receipts, one for each event,
that all lead to the same head: so nobody else's events are disclosed.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from importlib import metadata
from typing import IO, Any

from indelible.core.events import instant
from indelible.core.journal.journal import JOURNAL_RUN, Entry
from indelible.core.journal.merkle import HASH_BYTES, ReadNode, inclusion_proof
from indelible.core.journal.notes import parse_head, parse_note
from indelible.core.journal.receipts import Receipt
from indelible.core.journal.tiles import WIDTH, entries_path, node_reader, pack_entries, tile_path, tiles_of
from indelible.core.paging import every_event
from indelible.core.ports import Store
from indelible.errors import JournalError
from indelible.journal.exports.excerpt import PAGE, Excerpt, Shown
from indelible.journal.exports.outlet import BUNDLE_FORMAT, Files
from indelible.journal.exports.standalone import standalone_verifier

_HEADS_AT_ONCE = 500
_NODES_KEPT = 1 << 14
README = """\
This is a bundle of an Indelible journal: a record of what an AI agent's tools did, that shows if it was changed.
Verify it offline, with the public key you got from its owner by another way than this bundle:
    python verify.py --key 'name+0123abcd+…' .        (needs Python 3.11 and: pip install cryptography)
or, with the library:  indelible verify THIS --key 'name+0123abcd+…'
manifest.json says what is inside; nothing in it, and no key in it, is to be trusted before that.
"""


def write_bundle(excerpt: Excerpt, files: Files, made_at: datetime) -> None:
    """Writes a bundle's files."""
    files.put("checkpoint", str(excerpt.note).encode())
    payloads, signatures = files.stream("payloads.ndjson"), _Signatures(files)
    shown = _disclosed(excerpt, payloads, signatures)
    if excerpt.kind == "journal":
        _put_heads(excerpt, files)
        _put_tiles(excerpt, files)
        _put_entries(shown, files)
    else:
        _put_receipts(excerpt, shown, files)
    files.put("manifest.json", json_line(manifest(excerpt, BUNDLE_FORMAT, made_at)))
    files.put("README.txt", README.encode())
    files.put("verify.py", standalone_verifier())


def manifest(excerpt: Excerpt, form: str, made_at: datetime) -> dict[str, Any]:
    """Says what an export holds, for people and for cross-checks; to be asked after the excerpt was read."""
    tally, head = excerpt.tally, excerpt.head
    return {
        "events": tally.events,
        "first": tally.first,
        "format": form,
        "indelible": metadata.version("indelible"),
        "keys": claimed_keys(excerpt.store, excerpt.tenant),
        "kind": excerpt.kind,
        "last": tally.last,
        "made_at": instant(made_at),
        "origin": head.origin,
        "payloads": tally.payloads,
        "root": b64encode(head.root).decode(),
        "run": excerpt.run_id,
        "size": head.size,
        "withheld": tally.withheld,
    }


def claimed_keys(store: Store, tenant: str) -> list[str]:
    """Lists the keys that the journal says it was signed with; for information, never to be trusted."""
    keys: list[str] = []
    for event in every_event(store, tenant, JOURNAL_RUN, page=PAGE):
        if event.type in ("key_registered", "key_rotated"):
            with suppress(ValueError, AttributeError):  # altered behind the ledger's back: the verifier's to tell
                facts = json.loads(event.body).get("facts")
                keys += [key for key in (facts.get("key"), facts.get("new")) if isinstance(key, str)]
    return list(dict.fromkeys(keys))


class Prover:
    """Gives inclusion proofs of entries in rising order; remembers what neighbours share, and no more."""

    def __init__(self, excerpt: Excerpt) -> None:
        self._excerpt = excerpt
        self._made = 0
        self._read = self._reader()

    def _reader(self) -> ReadNode:
        journal, tenant = self._excerpt.store.journal, self._excerpt.tenant
        return lru_cache(_NODES_KEPT)(node_reader(lambda level, number: journal.tile(tenant, level, number)))

    def proof(self, index: int) -> list[bytes]:
        """Gives the way from an entry to the head's root."""
        self._made += 1
        if self._made % PAGE == 0:  # a reader keeps every tile it saw
            self._read = self._reader()
        try:
            return inclusion_proof(index, self._excerpt.head.size, self._read)
        except (LookupError, ValueError) as problem:
            raise JournalError(
                f"the tree cannot prove entry {index}: {problem}. A part of it is gone from the database; restore a "
                "backup that has it"
            ) from problem


def receipt_for(excerpt: Excerpt, entry: Entry, prover: Prover) -> Receipt:
    """Makes the receipt of an entry, with the entry inside."""
    return Receipt(entry.index, tuple(prover.proof(entry.index)), excerpt.note, entry.body)


def json_line(content: object) -> bytes:
    """Gives one line of JSON, members sorted."""
    return json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"


class _Signatures:
    """Makes `signatures.ndjson` when the first signature comes."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stream: IO[bytes] | None = None

    def add(self, entry: Entry) -> None:
        if entry.signature is None:
            return
        if self._stream is None:
            self._stream = self._files.stream("signatures.ndjson")
        self._stream.write(json_line({"index": entry.index, "signature": b64encode(entry.signature).decode()}))


def _disclosed(excerpt: Excerpt, payloads: IO[bytes], signatures: _Signatures) -> Iterator[Shown]:
    """Gives what the excerpt holds, and writes payloads and signatures on the way."""
    for shown in excerpt.read():
        index = shown.entry.index
        for payload in shown.payloads:
            value = b64encode(payload.value).decode()
            line = {"field": payload.field, "index": index, "salt": payload.salt.hex(), "value": value}
            payloads.write(json_line(line))
        signatures.add(shown.entry)
        yield shown


def _put_heads(excerpt: Excerpt, files: Files) -> None:
    """Writes all older signed heads that the store has."""
    older = excerpt.head.size - 1
    while older >= 0 and (notes := excerpt.store.journal.heads(excerpt.tenant, _HEADS_AT_ONCE, older)):
        for note in notes:
            older = parse_head(parse_note(note).text).size
            files.put(f"heads/{older}", note.encode())
        older -= 1


def _put_tiles(excerpt: Excerpt, files: Files) -> None:
    for level, number, width in tiles_of(excerpt.head.size):
        try:
            tile = excerpt.store.journal.tile(excerpt.tenant, level, number)
        except LookupError as problem:
            raise JournalError(f"{problem}: it is gone from the database; restore a backup that has it") from problem
        files.put(tile_path(level, number, width), tile[: width * HASH_BYTES])


def _put_entries(shown: Iterator[Shown], files: Files) -> None:
    number, bodies = 0, list[bytes]()
    for one in shown:
        bodies.append(one.entry.body)
        if len(bodies) == WIDTH:
            files.put(entries_path(number), pack_entries(bodies))
            number, bodies = number + 1, []
    if bodies:
        files.put(entries_path(number, len(bodies)), pack_entries(bodies))


def _put_receipts(excerpt: Excerpt, shown: Iterator[Shown], files: Files) -> None:
    prover = Prover(excerpt)
    for one in shown:
        receipt = receipt_for(excerpt, one.entry, prover)
        files.put(f"receipts/{one.entry.index}.tlog-proof", str(receipt).encode())
