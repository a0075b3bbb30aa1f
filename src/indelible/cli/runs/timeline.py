"""Draws a run in the terminal: one line for each effect, its waiting and its work, and where the run was saved."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from indelible.cli.show import visible
from indelible.core.runs.following import EffectLine, RunEvent, RunStory
from indelible.core.verifying.moves import JOINED, STILL

WAITING, WORKING, DOUBT, SEAL = "░", "█", "?", "◆"
_PLAIN = {WAITING: ".", WORKING: "#", DOUBT: "?", SEAL: "*", "─": "-", "│": "|"}
_ENDS = {"tool_call_finished", "tool_call_released", "tool_call_canceled", "approval_denied"}
_NAME, _STATUS = 28, 17


@dataclass(frozen=True, slots=True)
class Stretch:
    """Is a stretch of time in which an effect waited for a person, was at work, or is in doubt."""

    kind: str
    begin: datetime
    end: datetime


def stretches(line: EffectLine, events: Sequence[RunEvent], until: datetime) -> list[Stretch]:
    """Gives how an effect spent its time, from what its events tell."""
    found: list[Stretch] = []
    open_: tuple[str, datetime] | None = None
    for event in events:
        at = datetime.fromisoformat(event.at)
        if open_ is not None and event.type not in STILL and event.type != JOINED:
            found.append(Stretch(open_[0], open_[1], at))
            open_ = None
        if event.type in ("approval_requested", "approval_edited", "approval_revoked"):
            open_ = (WAITING, at)
        elif event.type == "tool_call_started":
            open_ = (WORKING, at)
        elif event.type == "tool_call_in_doubt":
            open_ = (DOUBT, at)
    if open_ is not None:
        found.append(Stretch(open_[0], open_[1], until))
    return found


def draw(story: RunStory, events: Sequence[RunEvent], width: int | None = None) -> str:
    """Draws a run as wide as the terminal is."""
    room = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else 100)
    begin, end = _moment(events[0]), max(_moment(event) for event in events)
    span = max(end - begin, timedelta(milliseconds=1))
    scale = Scale(begin, span, max(room - _NAME - _STATUS - 4, 10))
    lines = [f"{visible(story.run_id)}   {begin:%Y-%m-%d %H:%M:%S} UTC, {_duration(span)}", ""]
    lines += [_effect_row(line, events, scale, end) for line in story.effects.values()]
    lines += ["", _row("checkpoints", "", scale.marks([_moment(e) for e in events if e.type == "checkpoint_sealed"]))]
    lines += ["", f"{WAITING} waits for a person   {WORKING} executes   {DOUBT} in doubt   {SEAL} checkpoint"]
    return _for_here("\n".join(line.rstrip() for line in lines))


@dataclass(frozen=True, slots=True)
class Scale:
    """Says which column a moment stands in."""

    begin: datetime
    span: timedelta
    columns: int

    def column(self, at: datetime) -> int:
        """Gives the column of a moment."""
        return min(int((at - self.begin) / self.span * self.columns), self.columns - 1)

    def bar(self, parts: Sequence[Stretch]) -> str:
        """Draws stretches; each is seen, however short it was."""
        cells = [" "] * self.columns
        for part in parts:
            first, last = self.column(part.begin), self.column(part.end)
            for number in range(first, max(last, first) + 1):
                cells[number] = part.kind
        return "".join(cells)

    def marks(self, moments: Sequence[datetime]) -> str:
        """Draws single moments."""
        cells = ["─"] * self.columns
        for at in moments:
            cells[self.column(at)] = SEAL
        return "".join(cells)


def _effect_row(line: EffectLine, events: Sequence[RunEvent], scale: Scale, end: datetime) -> str:
    own = [event for event in events if event.effect_id == line.id]
    return _row(line.tool, line.status, scale.bar(stretches(line, own, end)))


def _row(name: str, status: str, bar: str) -> str:
    shown = visible(name)
    cut = shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"
    return f"{cut:<{_NAME}} {status:<{_STATUS}} │{bar}│"


def _for_here(text: str) -> str:
    """Gives plain characters where others cannot be printed or read."""
    is_plain = not sys.stdout.isatty() or "utf" not in (sys.stdout.encoding or "").lower()
    return "".join(_PLAIN.get(character, character) for character in text) if is_plain else text


def _duration(span: timedelta) -> str:
    seconds = span.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _moment(event: RunEvent) -> datetime:
    return datetime.fromisoformat(event.at)


def timeline_content(story: RunStory, events: Sequence[RunEvent]) -> dict[str, Any]:
    """Gives the drawing's facts as JSON."""
    end = max(_moment(event) for event in events)
    words = {WAITING: "waiting", WORKING: "executing", DOUBT: "in_doubt"}
    return {
        "runId": story.run_id,
        "effects": [
            {
                "effectId": line.id,
                "tool": line.tool,
                "status": line.status,
                "stretches": [
                    {"kind": words[part.kind], "begin": part.begin.isoformat(), "end": part.end.isoformat()}
                    for part in stretches(line, [e for e in events if e.effect_id == line.id], end)
                ],
            }
            for line in story.effects.values()
        ],
        "checkpoints": [event.at for event in events if event.type == "checkpoint_sealed"],
    }
