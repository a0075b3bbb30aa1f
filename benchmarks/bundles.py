"""Makes a bundle of a journal of any size, without a ledger: entries, tiles, signed heads, a manifest.

The journal is what 16 writers leave behind: runs of ten calls each, which take turns, and a head every 4,096 events.
Bodies are made by the functions that a ledger uses, so a verifier finds nothing to complain about.
"""

from __future__ import annotations

import itertools
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.calls import RESULT, TOOL, args_of
from indelible.core.effects.effect import SYSTEM, Actor, Effect
from indelible.core.events import (
    NO_EVENTS,
    Head,
    Provenance,
    commitment,
    effect_event,
    event_hash,
    fact_event,
    facts_json,
    instant,
    signed_message,
)
from indelible.core.journal.journal import JOURNAL_RUN
from indelible.core.journal.notes import Note, PublicKey, TreeHead, sign_note
from indelible.core.journal.tiles import WIDTH, entries_path, grow, pack_entries, tile_path, tiles_of
from indelible.core.values.canonical import encode
from indelible.journal.exports.bundle import README, json_line, standalone_verifier
from indelible.journal.exports.outlet import BUNDLE_FORMAT

ORIGIN = "ledger-0123456789ab/default"
CALLS_IN_A_RUN = 10
RUNS_AT_ONCE = 16
BETWEEN_HEADS = 16 * WIDTH
AT = datetime(2030, 1, 2, 12, tzinfo=UTC)
AGENT = Actor("agent", "agent")
BY = Provenance(log=ORIGIN, writer="00112233445566778899aabbccddeeff")
SALT = bytes(32)
ARGS, FINISHING = {"args": encode(args_of(200, 0))}, {"result": encode(RESULT)}
COMMITS = {name: commitment(SALT, name, value) for name, value in (ARGS | FINISHING).items()}
STARTED = Effect(
    tenant="default",
    scope="",
    key="",
    id="",
    run_id="",
    tool=TOOL,
    side_effect="external_mutation",
    on_crash="hold",
    call_id=None,
    digest="",
    status="processing",
    attempt=1,
    version=1,
    token_hash="",
    lease_until=None,
    opened_seq=0,
    detail_seq=None,
    created_at=AT,
    updated_at=AT,
    args_json=None,
    detail_json=None,
)


@dataclass(slots=True)
class _Journal:
    """A journal as far as it has been written into a folder."""

    folder: Path
    is_disclosed: bool
    operator: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    writer: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)
    size: int = 0
    root: bytes = b""
    tiles: dict[tuple[int, int], bytes] = field(default_factory=dict)
    payloads: int = 0
    commits: int = 0

    @property
    def key(self) -> PublicKey:
        return PublicKey(ORIGIN, self.operator.public_key().public_bytes_raw())

    def put(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def head(self) -> Note:
        return sign_note(TreeHead(ORIGIN, self.size, self.root).text, self.key, self.operator.sign)


def make_bundle(folder: Path, events: int, *, is_disclosed: bool = False) -> str:
    """Writes a bundle of so many events and returns the key to verify it with.

    A disclosed one holds every value that its events commit to, and a signature of its writer beside each event.
    """
    journal = _Journal(folder, is_disclosed)
    folder.mkdir(parents=True)
    with ExitStack() as streams:
        values, signatures = (
            streams.enter_context((folder / name).open("wb")) if is_disclosed else None
            for name in ("payloads.ndjson", "signatures.ndjson")
        )
        for row in _in_rows(_bodies(journal, events)):
            _extend(journal, row, values, signatures)
    _finish(journal)
    return journal.key.vkey


def _bodies(journal: _Journal, events: int) -> Iterator[tuple[bytes, dict[str, bytes]]]:
    """Yields bodies and the values that they commit to, in the order of the journal."""
    introductions = list(_introductions(journal))
    yield from ((body, {}) for body in introductions)
    numbers = itertools.count()
    left = events - len(introductions)
    while left > 0:
        runs = [_run(next(numbers)) for _ in range(RUNS_AT_ONCE)]
        for turn in zip(*runs, strict=True):
            yield from turn[:left]
            left -= len(turn[:left])


def _introductions(journal: _Journal) -> Iterator[bytes]:
    raw = b64encode(journal.writer.public_key().public_bytes_raw()).decode()
    said = (("key_registered", {"key": journal.key.vkey}), ("writer_registered", {"key": raw, "writer": BY.writer}))
    head = NO_EVENTS
    for kind, facts in said if journal.is_disclosed else said[:1]:
        body = fact_event(
            run_id=JOURNAL_RUN,
            head=head,
            event_type=kind,
            at=AT,
            actor=SYSTEM,
            commits={},
            facts=facts_json(facts),
            by=BY,
        )
        head = Head(head.length + 1, event_hash(body))
        yield body


def _run(number: int) -> Iterator[tuple[bytes, dict[str, bytes]]]:
    """Yields the events of one run: each call has a key of its own, and begins and ends before the next."""
    head = NO_EVENTS
    for call in range(CALLS_IN_A_RUN):
        started = replace(STARTED, id=f"eff_{number:016x}{call:010x}", run_id=f"{number:012x}-run")
        opening = {**ARGS, "key": (number * CALLS_IN_A_RUN + call).to_bytes(32)}
        for effect, kind, values in (
            (started, "tool_call_started", opening),
            (replace(started, status="succeeded"), "tool_call_finished", FINISHING),
        ):
            commits = {name: COMMITS.get(name) or commitment(SALT, name, value) for name, value in values.items()}
            body = effect_event(effect=effect, head=head, event_type=kind, at=AT, actor=AGENT, commits=commits, by=BY)
            head = Head(head.length + 1, event_hash(body))
            yield body, values


def _in_rows(bodies: Iterator[tuple[bytes, dict[str, bytes]]]) -> Iterator[list[tuple[bytes, dict[str, bytes]]]]:
    while row := list(itertools.islice(bodies, BETWEEN_HEADS)):
        yield row


def _extend(
    journal: _Journal,
    row: list[tuple[bytes, dict[str, bytes]]],
    values: IO[bytes] | None,
    signatures: IO[bytes] | None,
) -> None:
    start, ids = journal.size, [event_hash(body) for body, _ in row]
    grown = grow(start, [bytes.fromhex(id_) for id_ in ids], lambda *place: journal.tiles[place])
    if start:
        journal.put(f"heads/{start}", str(journal.head()).encode())
    journal.size, journal.root = grown.size, grown.root
    journal.tiles |= grown.tiles
    for offset in range(0, len(row), WIDTH):
        part = [body for body, _ in row[offset : offset + WIDTH]]
        journal.put(entries_path((start + offset) // WIDTH, len(part)), pack_entries(part))
    journal.commits += sum(len(committed) for _, committed in row)
    if values is not None and signatures is not None:
        for index, ((_, committed), id_) in enumerate(zip(row, ids, strict=True), start):
            _disclose(journal, index, committed, values)
            signature = b64encode(journal.writer.sign(signed_message(id_))).decode()
            signatures.write(json_line({"index": index, "signature": signature}))


def _disclose(journal: _Journal, index: int, committed: dict[str, bytes], values: IO[bytes]) -> None:
    for name in sorted(committed):
        value = b64encode(committed[name]).decode()
        values.write(json_line({"field": name, "index": index, "salt": SALT.hex(), "value": value}))
        journal.payloads += 1


def _finish(journal: _Journal) -> None:
    for level, number, width in tiles_of(journal.size):
        journal.put(tile_path(level, number, width), journal.tiles[level, number])
    manifest = {
        "events": journal.size,
        "first": 0,
        "format": BUNDLE_FORMAT,
        "indelible": "0",
        "keys": [journal.key.vkey],
        "kind": "journal",
        "last": journal.size - 1,
        "made_at": instant(AT),
        "origin": ORIGIN,
        "payloads": journal.payloads,
        "root": b64encode(journal.root).decode(),
        "run": None,
        "size": journal.size,
        "withheld": journal.commits - journal.payloads,
    }
    journal.put("manifest.json", json_line(manifest))
    journal.put("checkpoint", str(journal.head()).encode())
    journal.put("README.txt", README.encode())
    journal.put("verify.py", standalone_verifier())
