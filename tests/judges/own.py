"""Our own parsers as one more judge, so that the table shows whether they are at least as strict as the others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from indelible.core.journal.merkle import is_consistent, leaf_hash
from indelible.core.journal.notes import Note, TreeHead, parse_head, parse_note, parse_vkey
from indelible.core.journal.receipts import parse_receipt
from indelible.core.journal.tiles import entries_path, grow, tile_path, tiles_of, unpack_entries
from tests.judges.samples import Case, decoded


class Refused(Exception):
    """The file is not what it should be."""


def judge(case: Case) -> str:
    """Gives what a file means; raises when it is to be refused."""
    return JUDGES[case.kind](case.told)


def _head(told: dict[str, Any]) -> str:
    note = parse_note(decoded(told["note"]))
    _checked(note, told)
    return str(note)


def _checked(note: Note, told: dict[str, Any]) -> TreeHead:
    """Gives the head under the signatures of every key and every witness."""
    if not all(note.signed_by(parse_vkey(key)) for key in told["keys"]):
        raise Refused("not signed by every key of the log")
    if not all(note.cosigned_by(parse_vkey(witness)) is not None for witness in told.get("witnesses", ())):
        raise Refused("not signed by every witness")
    return parse_head(note.text)


def _receipt(told: dict[str, Any]) -> str:
    receipt = parse_receipt(decoded(told["receipt"]))
    _checked(receipt.head, told)
    if receipt.extra is None or not receipt.covers(receipt.extra):
        raise Refused("not in the tree")
    return str(receipt)


def _consistency(told: dict[str, Any]) -> str:
    old, new = (_checked(parse_note(decoded(told[name])), told) for name in ("old", "new"))
    if not is_consistent(old.size, old.root, new.size, new.root, [decoded(part) for part in told["proof"]]):
        raise Refused("not consistent")
    return ""


def _tree(told: dict[str, Any]) -> str:
    def read(name: str) -> bytes:
        if name in told["changed"]:
            if told["changed"][name] is None:
                raise Refused(f"{name} is missing")
            return decoded(told["changed"][name])
        return (Path(told["folder"]) / name).read_bytes()

    head = _checked(parse_note(read("checkpoint")), told)
    widths = list(tiles_of(head.size))
    entries = [unpack_entries(read(entries_path(number, width))) for level, number, width in widths if level == 0]
    leaves = [leaf_hash(entry) for part in entries for entry in part]
    grown = grow(0, leaves, _nothing_before)
    if (grown.size, grown.root) != (head.size, head.root):
        raise Refused("the entries have another root")
    if any(read(tile_path(*place)) != grown.tiles[place[0], place[1]] for place in widths):
        raise Refused("a tile differs")
    return ""


def _nothing_before(level: int, number: int) -> bytes:
    raise AssertionError(f"an empty tree has no tile {level}/{number}")


JUDGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "head": _head,
    "cosigned": _head,
    "receipt": _receipt,
    "consistency": _consistency,
    "tree": _tree,
}
