"""What a bundle says about itself, compared with what is in it. Pure. Nothing here is trusted."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

from indelible.core.journal.notes import TreeHead
from indelible.core.journal.tiles import WIDTH, entries_path, tile_path, tiles_of
from indelible.core.values.canonical import parse_strict
from indelible.core.verifying.findings import Caught
from indelible.errors import BadCall

FORMAT = "indelible/bundle/v1"
MANIFEST, NEWEST, VALUES, SIGNATURES = "manifest.json", "checkpoint", "payloads.ndjson", "signatures.ndjson"
FOR_PEOPLE = frozenset({"README.txt", "verify.py"})
_MOST_DIGITS = 19
_KINDS = ("journal", "run", "period")
_TEXTS = frozenset({"format", "kind", "origin", "root", "made_at", "indelible"})
_NUMBERS = frozenset({"size", "first", "last", "events", "payloads", "withheld"})
_MEMBERS = _TEXTS | _NUMBERS | {"run", "keys"}


@dataclass(slots=True)
class Contents:
    """Counts what was really found in a bundle, to compare with its manifest."""

    events: int = 0
    payloads: int = 0
    first: int | None = None
    last: int | None = None
    runs: set[str] = field(default_factory=set)

    def meet(self, index: int, count: int = 1) -> None:
        """Takes in that so many entries from an index on are here."""
        self.first = index if self.first is None else self.first
        self.last = index + count - 1
        self.events += count


def read_manifest(data: bytes) -> dict[str, Any]:
    """Reads a manifest strictly; raises `Caught` for anything that is not exactly one."""
    try:
        content = parse_strict(data)
    except BadCall as problem:
        raise Caught(f"{MANIFEST}: {problem}") from problem
    if not isinstance(content, dict) or content.keys() != _MEMBERS:
        raise Caught(f"{MANIFEST}: members are missing or unknown")
    run, keys = content["run"], content["keys"]
    is_good = (
        all(type(content[name]) is str for name in _TEXTS)
        and all(type(content[name]) is int and content[name] >= 0 for name in _NUMBERS)
        and (type(run) is str) == (content["kind"] == "run")
        and (run is None or type(run) is str)
        and type(keys) is list
        and all(type(key) is str for key in keys)
    )
    if not is_good or content["format"] != FORMAT or content["kind"] not in _KINDS:
        raise Caught(f"{MANIFEST}: it is no manifest of the format {FORMAT}")
    return content


def check_manifest(manifest: dict[str, Any], head: TreeHead, found: Contents) -> None:
    """Raises `Caught` when a manifest contradicts what is in its bundle."""
    truth: dict[str, Any] = {
        "origin": head.origin,
        "size": head.size,
        "root": b64encode(head.root).decode(),
        "events": found.events,
        "payloads": found.payloads,
        "first": found.first,
        "last": found.last,
    }
    for name, value in truth.items():
        if manifest[name] != value:
            what = f"{MANIFEST}: it contradicts the bundle about {name}"
            raise Caught(what, expected=str(value), found=str(manifest[name]))
    if manifest["run"] is not None and found.runs != {manifest["run"]}:
        raise Caught(f"{MANIFEST}: the bundle holds events of another run than {manifest['run']}")


def expected_files(kind: str, size: int) -> set[str]:
    """Names the files that a bundle of this kind must have, apart from heads, receipts, values and signatures."""
    always = {MANIFEST, NEWEST, *FOR_PEOPLE}
    if kind != "journal":
        return always
    tiles = {tile_path(level, number, width) for level, number, width in tiles_of(size)}
    entries = {entries_path(number, width) for level, number, width in tiles_of(size) if level == 0}
    return always | tiles | entries


def check_files(names: set[str], kind: str, size: int) -> None:
    """Raises `Caught` when a file is missing, or is here that does not belong to a bundle of this kind."""
    # Before anything is listed by a size that a stranger wrote down: are there so many files at all?
    rows, given = -(-size // WIDTH), sum(name.startswith("tile/entries/") for name in names)
    if kind == "journal" and rows != given:
        what = "files of entries are missing, or there are too many"
        raise Caught(what, expected=f"{rows} for {size} entries", found=str(given))
    expected = expected_files(kind, size)
    folder = "heads/" if kind == "journal" else "receipts/"
    missing = expected - names
    if missing:
        raise Caught(f"{min(missing)} is missing")
    for name in sorted(names - expected - {VALUES, SIGNATURES}):
        if not _is_numbered(name, folder, "" if kind == "journal" else ".tlog-proof"):
            raise Caught(f"{name} does not belong to a bundle of kind {kind}")


def _is_numbered(name: str, folder: str, ending: str) -> bool:
    digits = name.removeprefix(folder).removesuffix(ending)
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS
    return name == f"{folder}{digits}{ending}" and is_number and str(int(digits)) == digits


def number_in(name: str) -> int:
    """Gives the number that a head's or receipt's file name ends in."""
    return int(name.rpartition("/")[2].removesuffix(".tlog-proof"))
