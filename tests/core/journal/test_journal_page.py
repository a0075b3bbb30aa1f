"""Promises of docs/reference/journal.md: its vectors are what the code computes, and all of them stand on the page."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from indelible.core.events import event_hash, signed_message
from indelible.core.journal.merkle import is_consistent
from indelible.core.journal.notes import PublicKey, cosigned_message, log_name, parse_head, parse_note, parse_vkey
from indelible.core.journal.receipts import parse_receipt
from indelible.core.journal.tiles import entries_path, pack_entries, tile_path, tiles_of
from tests.core.journals import Holder, MemoryTree

HERE = Path(__file__).parents[1]
VECTORS: dict[str, Any] = json.loads((HERE / "vectors" / "journal.json").read_text(encoding="utf-8"))
EVENTS: dict[str, Any] = json.loads((HERE / "vectors" / "events.json").read_text(encoding="utf-8"))
PAGE = (HERE.parents[1] / "docs" / "reference" / "journal.md").read_text(encoding="utf-8")
BODIES = {vector["hash"]: vector["body"].encode() for vector in (*EVENTS["events"], *EVENTS["facts"])}
TREE = MemoryTree([BODIES[hash_] for hash_ in VECTORS["entries"]])
OLD, NEW, WITNESS = (Holder(key["key_name"], bytes.fromhex(key["secret"])[0], key["kind"]) for key in VECTORS["keys"])
SIGNERS = {6: [OLD], 7: [OLD, NEW], 10: [NEW]}


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda vector: vector["name"])
def test_keys_are_those_of_the_page(vector: dict[str, Any]) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["secret"]))
    key = PublicKey(vector["key_name"], secret.public_key().public_bytes_raw(), vector["kind"])
    preimage = f"{vector['key_name']}\n".encode() + bytes([vector["kind"]]) + bytes.fromhex(vector["public"])
    assert (key.raw.hex(), key.id.hex(), key.vkey) == (vector["public"], vector["id"], vector["vkey"])
    assert sha256(preimage).hexdigest()[:8] == vector["id"]
    assert parse_vkey(vector["vkey"]) == key
    assert vector["vkey"] in PAGE


def test_entries_and_roots_are_those_of_the_page() -> None:
    assert [event_hash(entry) for entry in TREE.entries] == VECTORS["entries"]
    assert [b64encode(TREE.head(size).root).decode() for size in range(11)] == VECTORS["roots"]
    for index, hash_ in enumerate(VECTORS["entries"]):
        assert f"| {index} | `{hash_}` | `{VECTORS['roots'][index + 1]}` |" in PAGE
    assert VECTORS["roots"][0] in PAGE


@pytest.mark.parametrize("vector", VECTORS["heads"], ids=lambda vector: vector["name"])
def test_heads_are_those_of_the_page(vector: dict[str, Any]) -> None:
    size = vector["size"]
    first, *others = SIGNERS[size]
    note = TREE.signed(first, size)
    for other in others:
        note = note.with_signatures(TREE.signed(other, size).signatures)
    assert str(note) == vector["note"]
    assert vector["note"] in PAGE
    found = parse_note(vector["note"])
    assert parse_head(found.text) == TREE.head(size)
    assert [found.signed_by(holder.key) for holder in (OLD, NEW)] == [OLD in SIGNERS[size], NEW in SIGNERS[size]]


def test_the_cosigned_head_is_that_of_the_page() -> None:
    vector = VECTORS["cosigned"]
    note = WITNESS.cosigned(TREE.signed(NEW), vector["at"])
    assert str(note) == vector["note"]
    assert cosigned_message(vector["at"], note.text).decode() == vector["message"]
    assert parse_note(vector["note"]).cosigned_by(WITNESS.key) == vector["at"]
    assert vector["note"] in PAGE
    assert f"at second {vector['at']}" in PAGE


@pytest.mark.parametrize("vector", VECTORS["receipts"], ids=lambda vector: str(vector["index"]))
def test_receipts_are_those_of_the_page(vector: dict[str, Any]) -> None:
    receipt = TREE.receipt(vector["index"], TREE.signed(NEW), vector["size"])
    assert str(receipt) == vector["text"]
    assert parse_receipt(vector["text"]).covers(TREE.entries[vector["index"]])
    assert vector["text"] in PAGE


@pytest.mark.parametrize("vector", VECTORS["consistency"], ids=lambda vector: str(vector["old"]))
def test_consistency_proofs_are_those_of_the_page(vector: dict[str, Any]) -> None:
    old, new = (TREE.head(vector[name]) for name in ("old", "new"))
    proof = [b64decode(part) for part in vector["proof"]]
    assert TREE.consistency(old.size, new.size) == proof
    assert is_consistent(old.size, old.root, new.size, new.root, proof)
    assert "\n".join(vector["proof"]) in PAGE


def test_files_are_those_of_the_page() -> None:
    ((level, number, width),) = tiles_of(TREE.size)
    files = {
        tile_path(level, number, width): TREE.tiles[level, number],
        entries_path(number, width): pack_entries(TREE.entries),
    }
    assert [{"path": path, "sha256": sha256(content).hexdigest()} for path, content in files.items()] == VECTORS[
        "files"
    ]
    for vector in VECTORS["files"]:
        assert f"| `{vector['path']}` | `{vector['sha256']}` |" in PAGE


def test_signatures_of_events_are_those_of_the_page() -> None:
    told = VECTORS["writer"]
    writer = Holder("writer", bytes.fromhex(told["secret"])[0])
    assert writer.key.raw.hex() == told["public"]
    for text in (told["writer"], told["public"]):
        assert text in PAGE
    registered = VECTORS["entries"].index(
        next(vector["hash"] for vector in EVENTS["facts"] if '"writer_registered"' in vector["body"])
    )
    assert [vector["hash"] for vector in VECTORS["event_signatures"]] == VECTORS["entries"][registered:]
    for vector in VECTORS["event_signatures"]:
        message = b"indelible/event/v1\0" + bytes.fromhex(vector["hash"])
        assert signed_message(vector["hash"]) == message == bytes.fromhex(vector["message"])
        assert b64encode(writer.sign(message)).decode() == vector["signature"]
        assert f"| `{vector['hash']}` | `{vector['signature']}` |" in PAGE


def test_the_rotation_is_that_of_the_page() -> None:
    vector = VECTORS["rotation"]
    message = f"indelible/rotate/v1\0{OLD.key.vkey}\n{NEW.key.vkey}".encode()
    assert message.hex() == vector["message"]
    for holder, which in ((OLD, "old"), (NEW, "new")):
        assert b64encode(holder.sign(message)).decode() == vector[f"{which}_signature"]
        assert vector[f"{which}_signature"] in PAGE
    rotated = next(body for body in BODIES.values() if b'"key_rotated"' in body)
    facts = json.loads(rotated)["facts"]
    assert (facts["old_signature"], facts["new_signature"]) == (vector["old_signature"], vector["new_signature"])
    assert TREE.entries.index(rotated) == 6, "as the page says"


def test_the_tiles_that_the_page_counts_are_there() -> None:
    listed = list(tiles_of(70_000))
    assert [sum(level == wanted for level, _, _ in listed) for wanted in range(3)] == [274, 2, 1]
    assert tile_path(0, 1_234_067) == "tile/0/x001/x234/067"
    assert log_name("ledger-0123456789ab", "a b") == "ledger-0123456789ab/a%20b"
    for text in ("274 tiles", "x001/x234/067", "ledger-0123456789ab/a%20b"):
        assert text in PAGE
