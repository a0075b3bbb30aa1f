"""Makes what the judges are asked about: good files, of the core alone and of a real ledger, and changed ones."""

from __future__ import annotations

import random
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from indelible import Ledger, ToolCall
from indelible.core.effects.effect import SYSTEM
from indelible.core.events import NO_EVENTS, Head, Provenance, event_hash, fact_event, facts_json
from indelible.core.journal.merkle import HASH_BYTES
from indelible.core.journal.notes import COSIGNATURE, Note, log_name
from indelible.core.journal.tiles import WIDTH, entries_path, pack_entries, tile_path, tiles_of
from indelible.journal.keys.ring import KeyRing
from tests.core.journals import ORIGIN, Holder, MemoryTree
from tests.core.making import NOON

LOG = Holder(ORIGIN, 1)
NEXT = Holder(ORIGIN, 2)
WITNESSES = (Holder("witness.example/one", 3, COSIGNATURE), Holder("witness.example/two", 4, COSIGNATURE))
STRANGER = Holder(ORIGIN, 5)
RUNS = 16
SIZES = (1, 2, 3, 255, 256, 257, 1000, 65_536, 70_000)
"""Around the edges of tiles, and up to three levels of them; tlog-tiles itself counts the tiles of 70,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Is one question to a judge; `good` is the number of the file this one was made of by a change."""

    number: int
    kind: str
    told: dict[str, Any]
    good: int | None = None
    change: str = ""

    @property
    def line(self) -> dict[str, Any]:
        """Is the question as a judge gets it: it is not told what we expect."""
        return {"id": self.number, "kind": self.kind, **self.told}


def events(count: int) -> list[bytes]:
    """Gives bodies of events as a journal holds them: of several runs, each a chain."""
    heads = [NO_EVENTS] * RUNS
    bodies = []
    by = Provenance(log=ORIGIN, writer="00112233445566778899aabbccddeeff")
    for number in range(count):
        run = number * 7 % RUNS
        body = fact_event(
            run_id=f"run-{run}",
            head=heads[run],
            event_type="journal_heartbeat",
            at=NOON + timedelta(microseconds=number),
            actor=SYSTEM,
            commits={},
            facts=facts_json({"number": number}),
            by=by,
        )
        heads[run] = Head(heads[run].length + 1, event_hash(body))
        bodies.append(body)
    return bodies


class Samples:
    """Makes all cases over one tree; folders of tiles go under `place`."""

    def __init__(self, place: Path, sizes: Sequence[int] = SIZES) -> None:
        self._place = place
        self._sizes = sizes
        self._tree = MemoryTree(events(sizes[-1]))
        self._random = random.Random(6962)
        self._cases: list[Case] = []

    def cases(self) -> list[Case]:
        """Lists every case, each good one before its changes."""
        if not self._cases:
            self._heads()
            self._receipts()
            self._consistency()
            self._trees()
            self._exports()
        return self._cases

    def _add(self, kind: str, told: dict[str, Any], good: int | None = None, change: str = "") -> int:
        number = len(self._cases)
        self._cases.append(Case(number=number, kind=kind, told=told, good=good, change=change))
        return number

    def _signed(self, size: int) -> Note:
        return self._tree.signed(LOG, size)

    # ── heads ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _heads(self) -> None:
        largest = self._sizes[-1]
        for size in (0, *self._sizes):
            self._add("head", head_of(self._signed(size)))
        good = self._add("head", head_of(self._signed(largest)))
        self._flips("head", good)
        self._add("head", {**self._told_of(good), "keys": [STRANGER.key.vkey]}, good, "another key is trusted")
        self._add("head", head_of(self._tree.signed(STRANGER, largest)), good, "signed by another key of the same name")
        self._many_signatures(largest)

    def _many_signatures(self, size: int) -> None:
        """Adds heads with more lines than the log's one; who reads only that one line gets them unchanged."""
        cosigned = rotated = self._signed(size)
        for witness in WITNESSES:
            cosigned = witness.cosigned(cosigned)
        rotated = rotated.with_signatures(self._tree.signed(NEXT, size).signatures)
        for note in (cosigned, rotated):
            self._add("head", head_of(note))
        self._add("head", head_of(rotated, NEXT))
        witnesses = [witness.key.vkey for witness in WITNESSES]
        for told in ({**head_of(cosigned), "witnesses": witnesses}, head_of(rotated, LOG, NEXT)):
            self._flips("cosigned", self._add("cosigned", told))

    def _flips(self, kind: str, good: int) -> None:
        told = self._told_of(good)
        for change, note in flips(decoded(told["note"])):
            self._add(kind, {**told, "note": encoded(note)}, good, change)

    def _told_of(self, number: int) -> dict[str, Any]:
        return self._cases[number].told

    # ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _receipts(self) -> None:
        for size in self._sizes:
            head = self._signed(size)
            for index in sorted({0, size // 3, size // 2, size - 2, size - 1} - {-1}):
                self._add("receipt", self._told(index, size, head))
        size = self._sizes[-1]
        index = size // 3
        told = self._told(index, size, self._signed(size))
        good = self._add("receipt", told)
        for change, receipt in flips(decoded(told["receipt"])):
            self._add("receipt", {**told, "receipt": encoded(receipt)}, good, change)
        for change, other in (("index + 1", (index + 1, size)), ("an older head", (index, self._sizes[-2]))):
            moved = decoded(told["receipt"]).decode().split("\n\n", 1)
            head = str(self._signed(other[1]))
            text = moved[0].replace(f"index {index}\n", f"index {other[0]}\n") + "\n\n" + head
            self._add("receipt", {**told, "receipt": encoded(text.encode())}, good, change)

    def _told(self, index: int, size: int, head: Note) -> dict[str, Any]:
        receipt = self._tree.receipt(index, head, size)
        return {"receipt": encoded(str(receipt).encode()), "keys": [LOG.key.vkey]}

    # ── consistency ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _consistency(self) -> None:
        for new in self._sizes:
            for old in (size for size in self._sizes if size <= new):
                proof = [encoded(part) for part in self._tree.consistency(old, new)]
                told = {"old": self._note(old), "new": self._note(new), "proof": proof, "keys": [LOG.key.vkey]}
                good = self._add("consistency", told)
                for number in range(len(proof)):
                    changed = [*proof[:number], encoded(self._flipped(decoded(proof[number]))), *proof[number + 1 :]]
                    self._add("consistency", {**told, "proof": changed}, good, f"a bit of hash {number}")
                    fewer = [*proof[:number], *proof[number + 1 :]]
                    self._add("consistency", {**told, "proof": fewer}, good, f"without hash {number}")
                more = [*proof, encoded(self._tree.root)]
                self._add("consistency", {**told, "proof": more}, good, "one hash more")
                if old != new:
                    self._add("consistency", {**told, "old": told["new"], "new": told["old"]}, good, "old for new")
                    self._add("consistency", {**told, "old": self._lied(old)}, good, "another past")

    def _note(self, size: int) -> str:
        return encoded(str(self._signed(size)).encode())

    def _lied(self, size: int) -> str:
        """Gives a head that was really signed, over a tree with one other entry."""
        entries = [*self._tree.entries[: size - 1], b"another"]
        return encoded(str(MemoryTree(entries).signed(LOG)).encode())

    # ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _trees(self) -> None:
        for size in self._sizes:
            files = self._files(size)
            folder = self._place / str(size)
            write(folder, files)
            told = {"folder": str(folder), "changed": {}, "keys": [LOG.key.vkey]}
            good = self._add("tree", told)
            names = [name for name in files if name != "checkpoint"]
            chosen = names if len(names) < 20 else [*names[:3], *names[-6:], *self._random.sample(names, 3)]
            for name in dict.fromkeys(chosen):
                for change, content in self._changes(files[name]):
                    changed = {name: None if content is None else encoded(content)}
                    self._add("tree", {**told, "changed": changed}, good, f"{name}: {change}")

    # ── what a real ledger exports ───────────────────────────────────────────────────────────────────────────────────

    def _exports(self) -> None:
        """Adds a whole journal and the bundle of one run, as `indelible export` writes them."""
        place = self._place / "exported"
        key = export(place, calls=150)
        whole = place / "tiles"  # of the bundle, what the judges know: the layout that others use too
        shutil.copytree(place / "whole" / "tile", whole / "tile")
        shutil.copy(place / "whole" / "checkpoint", whole)
        self._flips("head", self._add("head", {"note": _read(whole / "checkpoint"), "witnesses": [], "keys": [key]}))
        told = {"folder": str(whole), "changed": {}, "keys": [key]}
        good = self._add("tree", told)
        for file in sorted(path for path in (whole / "tile").rglob("*") if path.is_file()):
            name = file.relative_to(whole).as_posix()
            for change, content in self._changes(file.read_bytes()):
                changed = {name: None if content is None else encoded(content)}
                self._add("tree", {**told, "changed": changed}, good, f"{name}: {change}")
        receipts = sorted((place / "run" / "receipts").iterdir())
        for receipt in receipts:
            good = self._add("receipt", {"receipt": _read(receipt), "keys": [key]})
        for change, content in flips(receipts[-1].read_bytes()):
            self._add("receipt", {"receipt": encoded(content), "keys": [key]}, good, change)

    def _files(self, size: int) -> dict[str, bytes]:
        """Gives the files of the tree as it was at a size, by their names in the tlog-tiles layout."""
        files = {"checkpoint": str(self._signed(size)).encode()}
        for level, number, width in tiles_of(size):
            files[tile_path(level, number, width)] = self._tree.tiles[level, number][: width * HASH_BYTES]
            if level == 0:
                entries = self._tree.entries[number * WIDTH : number * WIDTH + width]
                files[entries_path(number, width)] = pack_entries(entries)
        return files

    def _changes(self, content: bytes) -> Iterator[tuple[str, bytes | None]]:
        yield "a bit", self._flipped(content)
        yield "the first bit", bytes([content[0] ^ 0x80]) + content[1:]
        yield "the last bit", content[:-1] + bytes([content[-1] ^ 1])
        yield "without its last 32 bytes", content[:-HASH_BYTES]
        yield "with 32 bytes more", content + bytes(HASH_BYTES)
        yield "missing", None

    def _flipped(self, content: bytes) -> bytes:
        place, bit = self._random.randrange(len(content)), self._random.randrange(8)
        return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def export(place: Path, calls: int) -> str:
    """Runs a ledger, exports its journal and one run of it, and gives the key to trust."""
    with Ledger.open(f"sqlite:///{place / 'ledger.db'}", keys=place / "keys") as ledger:
        for number in range(calls):
            call = ToolCall(tool="note", args={"number": number}, run_id=f"run-{number % RUNS}")
            ledger.run(call, lambda effect: effect.args["number"])
        ledger.export(place / "whole")
        ledger.export(place / "run", run_id="run-1")
        name = ledger._engine.store.ledger_name
    return KeyRing.open(name, place / "keys").export_public(log_name(name, "default"))


def _read(file: Path) -> str:
    return encoded(file.read_bytes())


def head_of(note: Note, *holders: Holder) -> dict[str, Any]:
    """Tells a judge of a head and of the keys to trust."""
    keys = [holder.key.vkey for holder in holders or (LOG,)]
    return {"note": encoded(str(note).encode()), "witnesses": [], "keys": keys}


def flips(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Changes every byte, by its lowest and by its highest bit; and cuts and doubles the whole."""
    for place in range(len(content)):
        for bit in (0x01, 0x80):
            yield f"byte {place} ^ {bit:02x}", content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :]
    yield "cut in half", content[: len(content) // 2]
    yield "empty", b""


def encoded(content: bytes) -> str:
    """Gives bytes as a question carries them."""
    return b64encode(content).decode()


def decoded(text: str) -> bytes:
    """Gives the bytes back."""
    return b64decode(text)


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Writes files under a folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
