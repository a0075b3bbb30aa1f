"""Power loss on SQLite: rebuilds what a disk may hold at any moment of a recorded run, opens it, asks for every ack.

The worker runs once under strace. Its log tells each write, each sync, and each moment at which the world was touched
or a caller was answered. From that any number of possible disks follow.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import islice
from pathlib import Path

from tests.chaos import disk_log, procs, strace
from tests.chaos.disk_image import Disk
from tests.chaos.disk_log import Moment, Sync
from tests.chaos.oracle import Kind, Violation, examine
from tests.chaos.procs import Child
from tests.chaos.report import Job, Order, Report
from tests.chaos.strace import Strace
from tests.chaos.subject import Call, dump, sqlite_url
from tests.chaos.worker import Work, perform, perform_gated
from tests.chaos.world import Ack, Seen, Touch
from tests.stores.database import open_file

# What part of the disks comes from which workload. Those of a file that was just made are larger and slower.
SHARES = {"serial": 0.45, "threads": 0.3, "checkpoints": 0.23, "open": 0.02}
# How many different disks to try for at one moment before going on to the next.
PER_MOMENT = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One traced run: where it was, what was on disk before, and the log."""

    folder: Path
    database: Path
    before: dict[str, bytes]
    log: Path


def lose_power(order: Order) -> Report:
    """Explores as many distinct disks as ordered, over three workloads."""
    report = Report("power-loss", order)
    if not strace.is_available():
        raise FileNotFoundError("strace is missing or may not attach; power loss cannot be explored without it")
    for name, share in SHARES.items():
        recording = record(order, name)
        wanted = max(1, int(order.points * share))
        half = (wanted + 1) // 2
        slices = [(recording, order.seed * 1000 + part, half, order.proof) for part in range(2)]
        tried: set[bytes] = set()
        for images, violations in procs.ask_all(explore, slices):
            tried |= images
            report.add(violations, at=name)
        report.points += len(tried)
        report.note(f"images {name}", len(tried))
        if report.is_done:
            break
    return report.finish()


def record(order: Order, name: str) -> Recording:
    """Runs one workload under strace."""
    where = order.where / f"{order.label}-power-{name}"
    folder = where / "disk"
    url = order.bench.lay_out_bare(folder) if name == "open" else order.bench.lay_out(folder)
    database = folder / "ledger.db"
    before = {str(file): file.read_bytes() for file in folder.iterdir()}
    recording = Recording(folder=folder, database=database, before=before, log=where / "strace.log")
    work = Work(url=url, world=folder / "world", mutant=order.mutant)
    with Child(_perform_workload, work, name) as child:
        child.hear()
        options = (*disk_log.OPTIONS, *strace.only(*disk_log.CALLS))
        with Strace(child.pid, *options, log=recording.log):
            child.tell()
            child.result()
    return recording


def _perform_workload(line: object, work: Work, name: str) -> None:
    if name == "threads":
        calls = tuple(Call(name=f"t{number}", run_id=f"run-{number % 3}") for number in range(12))
        perform_gated(line, replace(work, calls=calls, manner="threads"), is_traced_from_open=True)  # type: ignore[arg-type]
    elif name == "checkpoints":
        # The write-ahead log is copied into the database and begun anew while calls go on.
        calls = tuple(Call(name=f"c{number}", run_id="run", padding=2000) for number in range(12))
        terms = replace(work.terms, checkpoint_pages=10)
        perform_gated(line, replace(work, calls=calls, terms=terms), is_traced_from_open=True)  # type: ignore[arg-type]
    else:
        # Closed and opened again in the middle: the last connection checkpoints and removes the log.
        calls = tuple(Call(name=f"s{number}", run_id=f"run-{number % 2}", fails=number == 2) for number in range(6))
        perform_gated(line, replace(work, calls=calls[:3]), is_traced_from_open=True)  # type: ignore[arg-type]
        perform(replace(work, calls=calls[2:]))


def explore(recording: Recording, seed: int, wanted: int, proof: frozenset[Kind]) -> tuple[set[bytes], list[Violation]]:
    """Tries distinct disks until there were as many as wanted; gives their fingerprints, and what was wrong."""
    moments = disk_log.read_log(recording.log, recording.folder)
    scratch = recording.folder.with_name(f"image-{seed}")
    tried: set[bytes] = set()
    found: list[Violation] = []
    for place, image in _possible_disks(recording, moments, random.Random(seed)):
        fingerprint = _fingerprint(place, image, moments)
        if fingerprint in tried:
            continue
        tried.add(fingerprint)
        found += _inspect(recording, image, _seen_by(moments, place), scratch)
        if len(tried) >= wanted or any(violation.kind in proof for violation in found):
            break
    shutil.rmtree(scratch, ignore_errors=True)
    return tried, found


def _possible_disks(
    recording: Recording, moments: list[Moment], rng: random.Random
) -> Iterator[tuple[int, dict[str, bytes]]]:
    """Goes through the log again and again, a handful of disks per moment, until nobody asks for more."""
    for _ in range(1000):
        disk = Disk(recording.before)
        for place, moment in enumerate(moments):
            if _is_worth_a_look(moment):
                many = PER_MOMENT if disk.has_pending() else 1
                yield from ((place, image) for image in islice(disk.images(rng), many))
            disk.follow(moment)


def _is_worth_a_look(moment: Moment) -> bool:
    """Just before a sync returns most is pending; just after an effect or an answer most is owed."""
    return moment.is_over and isinstance(moment.deed, Sync | Touch | Ack)


def _seen_by(moments: list[Moment], place: int) -> Seen:
    seen = [deed for at, deed in disk_log.world_so_far(moments) if at <= place]
    touches = tuple(deed for deed in seen if isinstance(deed, Touch))
    return Seen(touches=touches, acks=tuple(deed for deed in seen if isinstance(deed, Ack)))


def _fingerprint(place: int, image: dict[str, bytes], moments: list[Moment]) -> bytes:
    """Two disks are one if they hold the same and the same is owed."""
    owed = sum(at <= place for at, _ in disk_log.world_so_far(moments))
    digest = sha256(owed.to_bytes(4, "big"))
    for path in sorted(image):
        digest.update(path.encode() + sha256(image[path]).digest())
    return digest.digest()


def _inspect(recording: Recording, image: dict[str, bytes], seen: Seen, scratch: Path) -> list[Violation]:
    """Lays the image out, opens it as after a reboot, and asks SQLite and the oracle."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    for path, data in image.items():
        file = scratch / Path(path).relative_to(recording.folder)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(data)
    database = scratch / recording.database.name
    try:
        connection = open_file(database)
        health = str(connection.execute("PRAGMA integrity_check").get)
        connection.close()
        store = dump(sqlite_url(database))
    except Exception as error:
        return [Violation("store corrupt", database.name, f"{type(error).__name__}: {error}")]
    bad = [] if health == "ok" else [Violation("store corrupt", database.name, health)]
    # A success whose effect the world saw is all we ask for; the effects file itself is on another disk.
    return bad + examine(seen, store, leases_may_live=True)


JOB = Job(name="power-loss", run=lose_power, points={"sqlite": 100_000}, teeth={"sqlite": ("sync-normal",)})
