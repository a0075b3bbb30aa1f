"""Many writers, several sealers, all of them killed again and again: the journal loses nothing and never forks.

Writers are killed from outside, at any moment. Sealers kill themselves at the three gaps that matter: after the events
are in the tree and before they are signed, after the signer has saved its state and before it signs, after it has
signed and before the head is kept. Every note that ever left the signer is kept aside by the harness, so that a head
that was signed and lost counts too.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from indelible import AsyncLedger, Ledger, ToolCall
from indelible.core.journal.journal import Signer
from indelible.core.journal.merkle import consistency_proof, is_consistent, root_of
from indelible.core.journal.notes import Note, TreeHead, log_name, parse_head, parse_note
from indelible.core.journal.tiles import node_reader
from indelible.journal.keys.ring import KeyRing
from indelible.journal.keys.signer import FileHeadState, Remembered, StatefulSigner
from indelible.journal.sealing import Sealer
from tests.chaos import mutants, procs
from tests.chaos.oracle import Violation
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.subject import lent

WRITERS = 16
SEALERS = 3
# One seal in so many ends in a kill at each of the gaps.
ODDS = 12
PATIENCE = 600.0
TASKS = 16
PAUSE = 0.2  # seconds after each call: writers that take every core leave the sealers none
FEWEST_HEADS = 30
PAGE = 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Says where everything is that the processes share."""

    url: str
    tenant: str
    keys: Path
    acks: Path
    notes: Path
    mutant: str | None
    seed: int


def kill_journal(order: Order) -> Report:
    """Writes so many events while everybody dies; points are events."""
    report = Report("journal-kills", order)
    where = order.where / f"{order.label}-journal"
    place = Place(
        url=order.bench.lay_out(where),
        tenant=f"{order.label}-journal",
        keys=where / "keys",
        acks=where / "acks",
        notes=where / "notes",
        mutant=order.mutant,
        seed=order.seed,
    )
    for folder in (place.keys, place.acks, place.notes):
        folder.mkdir(parents=True, mode=0o700)
    procs.ask(_make_key, place)
    _run_crew(place, order.points, report)
    report.points, violations = procs.ask(judge, place)
    report.add(violations)
    return report.finish()


def _run_crew(place: Place, events: int, report: Report) -> None:
    """Keeps writers and sealers at work, and kills a writer now and then, until enough is acknowledged."""
    rng = random.Random(place.seed)
    number = 0

    def start(function: Callable[..., Any]) -> Child:
        nonlocal number
        number += 1
        return Child(function, place, number)

    writers = [start(write) for _ in range(WRITERS)]
    sealers = [start(seal) for _ in range(SEALERS)]
    ends = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < ends and (_lines(place.acks) * 2 < events or _lines(place.notes) < FEWEST_HEADS):
            time.sleep(0.05)
            if rng.random() < 0.5:
                victim = rng.randrange(WRITERS)
                writers[victim].kill()
                report.note("writers killed")
                writers[victim] = start(write)
            for which, sealer in enumerate(sealers):
                if sealer.is_over:
                    sealer.kill()
                    report.note("sealers killed")
                    sealers[which] = start(seal)
    finally:
        for child in (*writers, *sealers):
            child.kill()


def _make_key(place: Place) -> None:
    with Ledger.open(place.url, tenant=place.tenant, keys=lent(place.keys), seal=False) as ledger:
        KeyRing.open(ledger._engine.store.ledger_name, place.keys).create()


def write(line: Connection, place: Place, number: int) -> None:
    """Calls tools without end; what was acknowledged goes into a file before the next call."""
    mutants.plant(place.mutant)
    asyncio.run(_write(place, number))


async def _write(place: Place, number: int) -> None:
    acks = os.open(place.acks / str(number), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    async with AsyncLedger.open(place.url, tenant=place.tenant, seal=False) as ledger:

        async def task(which: int) -> None:
            run_id, count = f"w{number}-{which}", 0
            while True:
                await ledger.run(ToolCall(tool="note", args={"n": count}, run_id=run_id), _give_number)
                count += 1
                os.write(acks, f"{run_id} {count}\n".encode())
                await asyncio.sleep(PAUSE)

        await asyncio.gather(*(task(which) for which in range(TASKS)))


async def _give_number(effect: Any) -> Any:
    return effect.args["n"]


def _lines(folder: Path) -> int:
    """Counts what all files of a folder hold: acknowledged calls, each with two events, or signed heads."""
    return sum(file.read_bytes().count(b"\n") for file in folder.iterdir())


def seal(line: Connection, place: Place, number: int) -> None:
    """Seals without end, and dies at a gap now and then."""
    mutants.plant(place.mutant)
    rng = random.Random(f"{place.seed}-{number}")

    def may_die() -> None:
        if rng.randrange(ODDS) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with Ledger.open(place.url, tenant=place.tenant, seal=False) as ledger:
        store = ledger._engine.store
        ring = KeyRing.open(store.ledger_name, place.keys)
        signer = Publishing(StatefulSigner(ring, DyingState(ring.folder, may_die)), place.notes / str(number), may_die)
        sealer = Sealer(store, place.tenant, signer, lambda: ledger._mint.stamp(ledger._actor))
        integrate = sealer.integrate

        def integrate_or_die() -> None:
            integrate()
            may_die()

        sealer.integrate = integrate_or_die  # type: ignore[method-assign]
        while True:
            sealer.seal()


class DyingState(FileHeadState):
    """Saves, and may die before anything is signed."""

    def __init__(self, folder: Path, may_die: Callable[[], None]) -> None:
        super().__init__(folder)
        self._may_die = may_die

    def save(self, remembered: Remembered) -> None:
        super().save(remembered)
        self._may_die()


class Publishing:
    """Keeps every note that leaves the signer aside, as a witness would, and may die before the ledger has it."""

    def __init__(self, signer: Signer, file: Path, may_die: Callable[[], None]) -> None:
        self._signer = signer
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._may_die = may_die

    def keys(self, origin: str) -> Any:
        return self._signer.keys(origin)

    def last(self, origin: str) -> TreeHead | None:
        return self._signer.last(origin)

    def continue_from(self, head: TreeHead) -> TreeHead | None:
        return self._signer.continue_from(head)

    def sign(self, head: TreeHead, prove: Any) -> Note:
        note = self._signer.sign(head, prove)
        os.write(self._file, json.dumps(str(note)).encode() + b"\n")
        self._may_die()
        return note


def judge(place: Place) -> tuple[int, list[Violation]]:
    """Seals what is left, then compares the journal with what was acknowledged and with every head ever signed."""
    mutants.plant(place.mutant if place.mutant == "cursor-skips" else None)
    with Ledger.open(place.url, tenant=place.tenant, keys=lent(place.keys), seal=False) as ledger:
        ledger.seal()
        return _judge(ledger, place)


def _judge(ledger: Ledger, place: Place) -> tuple[int, list[Violation]]:
    store = ledger._engine.store
    size = store.journal.tree(place.tenant).size
    entries = [
        entry
        for start in range(0, size, PAGE)
        for entry in store.journal.entries(place.tenant, start, min(PAGE, size - start))
    ]
    found: list[Violation] = []
    if [entry.index for entry in entries] != list(range(size)):
        found.append(Violation("broken chain", "journal", f"{len(entries)} entries for {size} places, not dense"))
    found += _lost_and_doubled(entries, place)
    found += _out_of_order(entries)
    if root_of([bytes.fromhex(entry.hash) for entry in entries]) != store.journal.tree(place.tenant).root:
        found.append(Violation("broken chain", "journal", "the root is not that of the entries"))
    found += _bad_heads(ledger, place)
    return size, found


def _lost_and_doubled(entries: list[Any], place: Place) -> Iterator[Violation]:
    times = Counter((entry.run_id, entry.seq) for entry in entries)
    for at, count in times.items():
        if count > 1:
            yield Violation("broken chain", str(at), f"is in the journal {count} times")
    for file in place.acks.iterdir():
        for line in file.read_text().splitlines():
            run_id, count = line.split(" ")
            for seq in (2 * int(count) - 2, 2 * int(count) - 1):
                if (run_id, seq) not in times:
                    yield Violation("lost ack", run_id, f"event {seq} was acknowledged and is not in the journal")


def _out_of_order(entries: list[Any]) -> Iterator[Violation]:
    expected: Counter[str] = Counter()
    for entry in entries:
        if entry.seq != expected[entry.run_id]:
            due = expected[entry.run_id]
            yield Violation("broken chain", entry.run_id, f"event {entry.seq} came when {due} was due")
        expected[entry.run_id] += 1


def _bad_heads(ledger: Ledger, place: Place) -> Iterator[Violation]:
    """Checks every head against the one before: consistency is transitive, so then every two are consistent."""
    store = ledger._engine.store
    (key,) = ledger._engine.notary.signer().keys(log_name(store.ledger_name, place.tenant))
    texts = [json.loads(line) for file in place.notes.iterdir() for line in _whole_lines(file)]
    texts += store.journal.heads(place.tenant, 10**9)
    read = node_reader(lambda level, number: store.journal.tile(place.tenant, level, number))
    before: TreeHead | None = None
    for note in sorted({parse_note(text) for text in texts}, key=lambda note: parse_head(note.text).size):
        head = parse_head(note.text)
        if not note.signed_by(key):
            yield Violation("broken chain", f"head {head.size}", "is not signed by the key")
        if before is not None:
            proof = [] if before.size == head.size else consistency_proof(before.size, head.size, read)
            if not is_consistent(before.size, before.root, head.size, head.root, proof):
                roots = f"{b64encode(before.root).decode()} then {b64encode(head.root).decode()}"
                yield Violation("broken chain", f"head {head.size}", f"does not continue head {before.size}: {roots}")
        before = head


def _whole_lines(file: Path) -> list[str]:
    return [line for line in file.read_text().splitlines() if line.endswith('"')]


TEETH = ("cursor-skips", "forgetful-signer")
JOB = Job(
    name="journal-kills",
    run=kill_journal,
    points={"sqlite": 100_000, "postgres": 100_000},
    teeth={"sqlite": TEETH, "postgres": TEETH},
)
