"""What Go computed, kept as a file: our trees, proofs and notes are the same, byte for byte, wherever the tests run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from indelible.core.journal.merkle import inclusion_proof
from indelible.core.journal.notes import parse_note, parse_vkey
from tests.core.journals import Holder, MemoryTree

GO: dict[str, Any] = json.loads((Path(__file__).parents[1] / "core" / "vectors" / "go.json").read_text("utf-8"))
TREE = MemoryTree([b"entry %d" % number for number in range(len(GO["roots"]))])


def joined(proof: Sequence[bytes]) -> bytes:
    return bytes([len(proof)]) + b"".join(proof)


def test_our_roots_are_gos() -> None:
    assert [TREE.head(size).root.hex() for size in range(1, TREE.size + 1)] == GO["roots"]


@pytest.mark.parametrize("size", [*range(1, 20), 63, 64, 65, 100, 127, 128, 129, 130])
def test_our_proofs_are_gos(size: int) -> None:
    read = TREE.reader()
    included = b"".join(joined(inclusion_proof(index, size, read)) for index in range(size))
    consistent = b"".join(joined(TREE.consistency(old, size)) for old in range(1, size + 1))
    assert sha256(included).hexdigest() == GO["inclusion"][str(size)]
    assert sha256(consistent).hexdigest() == GO["consistency"][str(size)]


def test_our_keys_and_notes_are_gos() -> None:
    holder = Holder("ledger-0123456789ab/default", bytes.fromhex(GO["secret"])[0])
    assert holder.key.vkey == GO["vkey"]
    assert str(TREE.signed(holder)) == GO["signed"]
    assert parse_note(GO["signed"]).signed_by(parse_vkey(GO["vkey"]))
