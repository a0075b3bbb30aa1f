"""Knows the library's runs: drives one and notes what it was told, and reads what the store says of it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from indelible import Ledger
from indelible.core.events import Event
from indelible.core.runs.following import RunEvent
from indelible.errors import RunDriven, RunOver
from indelible.runs.active import ActiveRun
from tests.chaos.approval_subject import Place, open_ledger
from tests.chaos.run_oracle import Ending, Noted, Saving, StoredCheckpoint, StoredEvent, StoredRun, Taking, Telling
from tests.chaos.subject import apply_terms

NOTES = "notes.log"
NAMED = "chaos.named"
AT_ONCE = timedelta(milliseconds=1)
_PAGE = 1000


class Notebook:
    """Notes what a process sets out to do and what it was told, a line each; processes die, the machine does not."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, what: str, **more: Any) -> None:
        """Writes one line."""
        os.write(self._file, json.dumps({"what": what, **more}).encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Reads what was noted, in order."""
    return [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def read_noted(lines: Sequence[dict[str, Any]]) -> list[Noted]:
    """Gives what was set out for, with what was acknowledged of it."""
    done = {(line["what"], line["of"]): line for line in lines if "of" in line}
    return list(_noted(lines, done))


def _noted(lines: Sequence[dict[str, Any]], done: dict[tuple[str, str], dict[str, Any]]) -> Iterator[Noted]:
    for line in lines:
        match line["what"]:
            case "tell":
                names = tuple(line["names"])
                yield Telling(names=names, is_done=("told", names[0]) in done)
            case "save":
                yield Saving(name=line["name"], id=done.get(("saved", line["name"]), {}).get("id"))
            case "taken":
                yield Taking(fence=line["fence"])
            case "ended":
                yield Ending(status=line["status"])
            case _:
                pass  # the other half of one of these


class Pilot:
    """Holds a ledger open, drives one run of it, and notes everything it sets out to do and is told."""

    def __init__(self, place: Place, run_id: str) -> None:
        apply_terms(place.terms)
        self._lease = timedelta(seconds=place.terms.lease)
        self._run_id = run_id
        self._notes = Notebook(place.world / NOTES)
        self.ledger = open_ledger(place)
        self._run: ActiveRun | None = None

    @property
    def run(self) -> ActiveRun:
        """Is the run, once it is ours."""
        assert self._run is not None, "nobody drives it here yet"
        return self._run

    def start(self, **more: Any) -> None:
        """Begins the run."""
        self._take(lambda: self.ledger.start_run(self._run_id, agent="chaos", **({"lease": self._lease} | more)))

    def resume(self) -> None:
        """Takes the run over."""
        self._take(lambda: self.ledger.resume_run(self._run_id, lease=self._lease))

    def _take(self, take: Callable[[], ActiveRun]) -> None:
        self._run = take()
        self._notes.write("taken", of="", fence=self._run.fence)

    def resume_in_time(self) -> bool:
        """Takes the run over as soon as the dead no longer have it; says whether there is anything to go on with."""
        while True:
            try:
                self.resume()
            except RunDriven:
                threading.Event().wait(self._lease.total_seconds() / 20)
            except RunOver:
                return False
            else:
                return True

    def tell(self, *names: str, is_keyed: bool = True, event_type: str = NAMED) -> None:
        """Records one or many things, all in one go; what has a key can be told again."""
        self._notes.write("tell", names=names)
        events = [named_event(name, is_keyed=is_keyed, event_type=event_type) for name in names]
        if len(events) == 1:
            self.run.record(**events[0])
        else:
            self.run.record_all(events)
        self._notes.write("told", of=names[0])

    def save(self, name: str) -> None:
        """Seals a checkpoint with a state of this name."""
        self._notes.write("save", name=name)
        sealed = self.run.checkpoint({"name": name, "padding": "x" * 400})
        self._notes.write("saved", of=name, id=sealed.id)

    def expect_save(self, name: str) -> dict[str, Any]:
        """Gives a state for a checkpoint that the library seals by itself."""
        self._notes.write("save", name=name)
        return {"name": name}

    def end(self, end: Callable[[ActiveRun], Any]) -> None:
        """Ends the run."""
        end(self.run)
        self.note_end()

    def note_end(self) -> None:
        """Notes that the run is said to have ended."""
        self._notes.write("ended", of="", status=self.run.run.status)

    def note_error(self, error: Exception) -> None:
        """Notes an error of the library, for the judge."""
        self._notes.write("raised", kind=type(error).__name__, words=str(error))

    def __enter__(self) -> Pilot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.ledger.close()
        self._notes.close()


def named_event(name: str, *, is_keyed: bool = True, event_type: str = NAMED) -> dict[str, Any]:
    """Gives something to record that is known again by its name; one with a key is skipped when it is told again."""
    event = {"event_type": event_type, "payload": {"name": name}, "side_effect": "external_mutation"}
    return event | ({"side_effect_key": f"key-{name}"} if is_keyed else {})


def let_lapse(run: ActiveRun) -> None:
    """Lets a run's lease end now, as if its driver had been dead for long; nothing is said and nothing is released."""
    run.abandon()
    run.beat(AT_ONCE)


def read_stored(ledger: Ledger, run_id: str) -> StoredRun:
    """Reads everything the store says of a run."""
    seen: list[RunEvent] = []
    story = ledger.run_story(run_id, each=seen.append)
    keeping = ledger._run_desk().keeping
    run, driver, report = keeping.find(run_id), keeping.driver(run_id), ledger.verify_run(run_id)
    assert driver is not None, "a run that was started has a driver"
    events = [_stored(event, shown) for event, shown in zip(read_events(ledger, run_id), seen, strict=True)]
    checkpoints = [
        StoredCheckpoint(id=each.id, seq=each.seq, name=(keeping.state_of(each) or {}).get("name"))
        for each in keeping.checkpoints(run_id)
    ]
    seals = [f"{seal.checkpoint.id}: {seal.why}" for seal in report.seals if not seal.is_valid]
    return StoredRun(
        run_id=run_id,
        status=run.status,
        fence=driver.fence,
        is_released=driver.is_released,
        events=events,
        checkpoints=checkpoints,
        wrong=None if report.is_valid else f"{story.broken} {story.altered[:3]} {seals} {report.lineage}",
    )


def read_events(ledger: Ledger, run_id: str) -> Iterator[Event]:
    """Reads a run's events, page by page."""
    page = ledger.events(run_id, limit=_PAGE)
    while page:
        yield from page
        page = ledger.events(run_id, after=page[-1].seq, limit=_PAGE) if len(page) == _PAGE else []


def _stored(event: Event, shown: RunEvent) -> StoredEvent:
    facts: dict[str, Any] = event.read().get("facts", {})
    payload = shown.payload if isinstance(shown.payload, dict) else {}
    return StoredEvent(
        seq=event.seq,
        type=event.type,
        status=shown.status,
        name=payload.get("name"),
        fence=facts.get("fence"),
        checkpoint=facts.get("checkpoint") if event.type == "checkpoint_sealed" else None,
        reason=facts.get("reason"),
    )
