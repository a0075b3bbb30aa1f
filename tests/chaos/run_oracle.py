"""Judges runs: what somebody was told to be on the record is there, whole and once, and one process drove at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.oracle import Violation

# What an event makes of a run.
MADE = {
    "run_started": "active",
    "run_resumed": "active",
    "run_completed": "completed",
    "run_failed": "failed",
    "run_canceled": "canceled",
    "run_blocked": "blocked",
    "run_flagged": "manual_review_required",
}
TAKEN = ("run_started", "run_resumed")
# A checkpoint of one of these reasons is sealed with the end that it saves the run for, or not at all.
WITH_AN_END = frozenset({"failure", "explicit_handoff", "interruption", "approval_requested"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """What one process set out to record in one go, and whether it was told that it is done."""

    names: tuple[str, ...]
    is_done: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """A checkpoint that one process set out to seal, by a name in its state; `id` when it was told that it is done."""

    name: str
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """A right to drive that one process was given."""

    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """An end that one process was told to be on the record."""

    status: str


Noted = Telling | Saving | Taking | Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """One event of a run; `name` is the caller's own for what it tells, `checkpoint` the one it seals."""

    seq: int
    type: str
    status: str = "recorded"
    name: str | None = None
    fence: int | None = None
    checkpoint: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """One checkpoint as it is kept: the event that seals it, and the name in the agent's state."""

    id: str
    seq: int | None
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """What the store says of one run; `wrong` is what the library itself finds wrong with it."""

    run_id: str
    status: str
    fence: int
    is_released: bool
    events: Sequence[StoredEvent]
    checkpoints: Sequence[StoredCheckpoint] = ()
    wrong: str | None = None


def judge_run(run: StoredRun, noted: Sequence[Noted]) -> list[Violation]:
    """Gives every violation, an empty list when all promises hold."""
    return [
        *judge_tellings(run, [each for each in noted if isinstance(each, Telling)]),
        *_checkpoints(run, [each for each in noted if isinstance(each, Saving)]),
        *_endings(run, [each.status for each in noted if isinstance(each, Ending)]),
        *judge_fences(run, [each.fence for each in noted if isinstance(each, Taking)]),
        *_not_valid(run),
    ]


def judge_tellings(run: StoredRun, tellings: Sequence[Telling]) -> Iterator[Violation]:
    """Compares what was told with what is there: nothing is lost, nothing is there twice, nothing is there in part."""
    places: dict[str, list[int]] = {}
    for event in run.events:
        if event.name is not None and event.status == "recorded":
            places.setdefault(event.name, []).append(event.seq)
    for name, seqs in places.items():
        if len(seqs) > 1:
            yield Violation("told twice", run.run_id, f"{name} is told by events {seqs}")
    for telling in tellings:
        missing = [name for name in telling.names if name not in places]
        if telling.is_done and missing:
            yield Violation("lost event", run.run_id, f"{missing} were acknowledged and are not there")
        yield from _in_part(run, telling, places)
    for name in places.keys() - {name for telling in tellings for name in telling.names}:
        yield Violation("told twice", run.run_id, f"{name} was never told")


def _in_part(run: StoredRun, telling: Telling, places: Mapping[str, Sequence[int]]) -> Iterator[Violation]:
    """What is told in one go stands side by side, also when somebody tells it again later to be sure."""
    seqs = [places[name][0] for name in telling.names if name in places]
    if seqs and seqs != list(range(seqs[0], seqs[0] + len(telling.names))):
        yield Violation("half told", run.run_id, f"{telling.names} are at {seqs}")


def _checkpoints(run: StoredRun, savings: Sequence[Saving]) -> Iterator[Violation]:
    sealed = {event.checkpoint: event.seq for event in run.events if event.checkpoint is not None}
    kept = {checkpoint.id: checkpoint for checkpoint in run.checkpoints}
    for name in sealed.keys() ^ kept.keys():
        where = "no event seals it" if name in kept else "an event seals it, and it is not there"
        yield Violation("half a checkpoint", run.run_id, f"{name}: {where}")
    for name in sealed.keys() & kept.keys():
        if kept[name].seq != sealed[name]:
            yield Violation("half a checkpoint", run.run_id, f"{name} is of {kept[name].seq}, not of {sealed[name]}")
    wanted = {saving.name for saving in savings}
    for checkpoint in run.checkpoints:
        if checkpoint.name not in wanted:
            yield Violation("half a checkpoint", run.run_id, f"{checkpoint.id} has the state {checkpoint.name!r}")
    for saving in savings:
        found = [checkpoint.id for checkpoint in run.checkpoints if checkpoint.name == saving.name]
        if saving.id is not None and saving.id not in found:
            yield Violation("lost checkpoint", run.run_id, f"{saving.name} was acknowledged, there is {found}")


def _endings(run: StoredRun, acknowledged: Sequence[str]) -> Iterator[Violation]:
    made = [MADE[event.type] for event in run.events if event.type in MADE]
    if not made or made[-1] != run.status:
        yield Violation("run disagrees", run.run_id, f"it is {run.status}, its events tell {made[-1:]}")
    for status in set(acknowledged) - set(made):
        yield Violation("lost ending", run.run_id, f"{status} was acknowledged")
    following = dict(zip(run.events, [*run.events[1:], None], strict=True))
    for event, after in following.items():
        is_with_end = event.checkpoint is not None and event.reason in WITH_AN_END
        if is_with_end and (after is None or MADE.get(after.type, "active") == "active"):
            yield Violation("half an ending", run.run_id, f"{event.checkpoint} was sealed for an end that is not there")
    if made and made[-1] != "active" and not run.is_released:
        yield Violation("half an ending", run.run_id, f"it is {made[-1]}, and somebody drives it")


def judge_fences(run: StoredRun, given: Sequence[int]) -> Iterator[Violation]:
    """Each driver has the next number; nobody was given one that is not on the record, nor one of somebody else."""
    fences = [event.fence for event in run.events if event.type in TAKEN]
    if fences != list(range(1, len(fences) + 1)):
        yield Violation("fence taken twice", run.run_id, f"its drivers had {fences}")
    elif run.fence != len(fences):
        yield Violation("fence taken twice", run.run_id, f"its driver has {run.fence}, its events tell {fences}")
    for fence, many in Counter(given).items():
        if many > 1:
            yield Violation("two drivers", run.run_id, f"{many} processes were given {fence}")
        if fence not in fences:
            yield Violation("two drivers", run.run_id, f"somebody was given {fence}, its events tell {fences}")


def _not_valid(run: StoredRun) -> Iterator[Violation]:
    if run.wrong is not None:
        yield Violation("run not valid", run.run_id, run.wrong)
