"""A bundle as evidence, and a published log, which is a bundle without a manifest: files in, rows of entries out."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

from indelible.core.journal.notes import MOST_NOTE_BYTES
from indelible.core.journal.tiles import FULL_TILE_BYTES, WIDTH, entries_path, tile_path, unpack_entries
from indelible.core.verifying.examination import Row
from indelible.core.verifying.findings import CannotTell, Caught, Kind
from indelible.core.verifying.manifests import (
    MANIFEST,
    NEWEST,
    SIGNATURES,
    VALUES,
    check_files,
    number_in,
    read_manifest,
)
from indelible.core.verifying.payloads import Disclosed
from indelible.core.verifying.trees import GivenTile
from indelible.journal.evidence.evidence import Evidence, Proven
from indelible.journal.evidence.files import Files

MOST_ENTRIES_BYTES = WIDTH * (2 + 65_535)
_VALUE_LINE = re.compile(
    rb'\{"field":"([a-z_]+)","index":(0|[1-9][0-9]{0,18}),"salt":"([0-9a-f]{64})","value":"([A-Za-z0-9+/]*={0,2})"\}\n'
)
_SIGNATURE_LINE = re.compile(rb'\{"index":(0|[1-9][0-9]{0,18}),"signature":"([A-Za-z0-9+/]{86}==)"\}\n')


class FileEvidence(Evidence):
    """Reads a bundle of any kind from its files."""

    def __init__(self, files: Files, source: str) -> None:
        self.source = source
        self.kind: Kind = "journal"
        self.manifest: dict[str, Any] | None = None
        self.has_values = False
        self.given_tile: GivenTile | None = None
        self._files = files
        self._names: set[str] = set()

    def prepare(self) -> None:
        """Reads the manifest and compares the names of all files with what belongs to such a bundle."""
        self._names = self._files.names() or set()
        if not self._names & {MANIFEST, NEWEST}:
            raise CannotTell(f"{self.source} is no bundle: neither {MANIFEST} nor {NEWEST} is there")
        self.manifest = read_manifest(self._files.read(MANIFEST, MOST_NOTE_BYTES))
        self.kind, self.withheld = self.manifest["kind"], self.manifest["withheld"]
        check_files(self._names, self.kind, self.manifest["size"])
        self.has_values = VALUES in self._names and (self.manifest["payloads"] > 0 or self.manifest["withheld"] == 0)
        if self.kind == "journal":
            self.given_tile = self._tile

    def newest(self) -> tuple[str, bytes]:
        """Reads the newest head."""
        return NEWEST, self._files.read(NEWEST, MOST_NOTE_BYTES)

    def older(self) -> Iterator[tuple[str, bytes]]:
        """Reads older heads; each is named after its size."""
        for name in sorted(self._names):
            if name.startswith("heads/"):
                yield name, self._files.read(name, MOST_NOTE_BYTES)

    def _tile(self, level: int, number: int, width: int) -> bytes:
        return self._files.read(tile_path(level, number, width), FULL_TILE_BYTES)

    def rows(self, size: int) -> Iterator[Row]:
        """Reads entries with the values and signatures that belong to them."""
        if self.manifest is not None and self.manifest["size"] != size:
            what = f"{MANIFEST}: it contradicts the bundle about size"
            raise Caught(what, expected=str(size), found=str(self.manifest["size"]))
        values, signatures = _Merged(self._values()), _Merged(self._signatures())
        for start in range(0, size, WIDTH):
            width = min(WIDTH, size - start)
            name = entries_path(start // WIDTH, width)
            bodies = _unpacked(self._files.read(name, MOST_ENTRIES_BYTES), name, width)
            shown: dict[int, dict[str, Disclosed]] = {}
            for _, one in values.up_to(start + width):
                shown.setdefault(one.entry, {})[one.field] = one
            yield Row(bodies, shown, dict(signatures.up_to(start + width)))
        values.check_ended(VALUES)
        signatures.check_ended(SIGNATURES)

    def receipts(self) -> Iterator[Proven]:
        """Reads receipts in the order of their entries."""
        values, signatures = _Merged(self._values()), _Merged(self._signatures())
        for name in sorted((name for name in self._names if name.startswith("receipts/")), key=number_in):
            index = number_in(name)
            values.skip_to(index, VALUES)
            signatures.skip_to(index, SIGNATURES)
            shown = {one.field: one for _, one in values.up_to(index + 1)}
            signature = dict(signatures.up_to(index + 1)).get(index)
            yield Proven(name, self._files.read(name, 2 * MOST_NOTE_BYTES), shown, signature)
        values.check_ended(VALUES)
        signatures.check_ended(SIGNATURES)

    def _values(self) -> Iterator[tuple[int, Disclosed]]:
        before = (-1, "")
        for number, line in enumerate(self._files.lines(VALUES) if VALUES in self._names else (), 1):
            match = _VALUE_LINE.fullmatch(line)
            if match is None:
                raise Caught(f"{VALUES}, line {number}: it is not one value, or not written canonically")
            one = Disclosed(
                int(match[2]), match[1].decode(), bytes.fromhex(match[3].decode()), decoded(match[4], VALUES)
            )
            if (one.entry, one.field) <= before:
                raise Caught(f"{VALUES}, line {number}: values come once each, in the order of entries and fields")
            before = (one.entry, one.field)
            yield one.entry, one

    def _signatures(self) -> Iterator[tuple[int, bytes]]:
        before = -1
        for number, line in enumerate(self._files.lines(SIGNATURES) if SIGNATURES in self._names else (), 1):
            match = _SIGNATURE_LINE.fullmatch(line)
            if match is None or int(match[1]) <= before:
                raise Caught(f"{SIGNATURES}, line {number}: it is not one signature, or not in the order of entries")
            before = int(match[1])
            yield before, decoded(match[2], SIGNATURES)

    def close(self) -> None:
        """Closes the files."""
        self._files.close()


class LogEvidence(FileEvidence):
    """Reads a journal that is published as a tlog-tiles log: no manifest, no values."""

    def prepare(self) -> None:
        """Needs nothing: the newest head says what there is."""
        self.given_tile = self._tile


class _Merged:
    """Takes numbered things out of a stream as their numbers come up."""

    def __init__(self, stream: Iterator[tuple[int, Any]]) -> None:
        self._stream = stream
        self._next = next(stream, None)

    def up_to(self, end: int) -> Iterator[tuple[int, Any]]:
        """Gives those with numbers below `end`."""
        while self._next is not None and self._next[0] < end:
            found, self._next = self._next, next(self._stream, None)
            yield found

    def skip_to(self, start: int, name: str) -> None:
        if self._next is not None and self._next[0] < start:
            raise Caught(f"{name} holds something for an entry that is not here", index=self._next[0])

    def check_ended(self, name: str) -> None:
        if self._next is not None:
            raise Caught(f"{name} holds something for an entry that is not here", index=self._next[0])


def _unpacked(packed: bytes, name: str, width: int) -> list[bytes]:
    try:
        bodies = unpack_entries(packed)
    except ValueError as problem:
        raise Caught(f"{name}: {problem}") from problem
    if len(bodies) != width:
        raise Caught(f"{name} holds another number of entries", expected=str(width), found=str(len(bodies)))
    return bodies


def decoded(encoded: bytes, name: str) -> bytes:
    try:
        content = b64decode(encoded, validate=True)
    except ValueError:
        content = b""
    if b64encode(content) != encoded:
        raise Caught(f"{name} holds base64 that is not canonical")
    return content
