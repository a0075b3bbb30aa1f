"""Says of a run's checkpoints whether they are what was sealed, and names the first field that is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from indelible.core.paging import every_event, every_sheet
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ERASED
from indelible.core.runs.following import RunStory
from indelible.core.runs.run import Checkpoint, read_checkpoint
from indelible.core.sheets import Sheet, SheetFilter

_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """Says whether a checkpoint is what was sealed; `why` names the first field that is not."""

    checkpoint: Checkpoint
    why: str | None

    @property
    def is_valid(self) -> bool:
        """Is it as it was sealed?"""
        return self.why is None


class SealCheck:
    """Compares the checkpoints of one run with the events that seal them, in one pass."""

    def __init__(self, store: Store, tenant: str, story: RunStory) -> None:
        self._store = store
        self._tenant = tenant
        self._story = story
        self._altered: dict[int, list[str]] = {}
        for seq, name in story.altered:
            self._altered.setdefault(seq, []).append(name)

    def seals(self) -> list[Seal]:
        """Gives the seal of each checkpoint that is told of, newest first; those that were erased have none."""
        sheets = {sheet.id: sheet for sheet in checkpoint_sheets(self._store, self._tenant, self._story.run_id)}
        kept = self._kept(self._story.checkpoints.values())
        seals = [
            self._seal(name, seq, sheets.get(name), kept.get(seq, set()))
            for name, seq in self._story.checkpoints.items()
        ]
        return [seal for seal in reversed(seals) if seal is not None]

    def _seal(self, name: str, seq: int, sheet: Sheet | None, kept: set[str]) -> Seal | None:
        body: Any = self._store.events(self._tenant, self._story.run_id, seq - 1, 1)[0].read()
        told = _as_told(self._story.run_id, name, seq, body)
        why = self._why_bad(seq, body, kept)
        if why is not None:
            return Seal(checkpoint=told, why=why)
        if sheet is None or (sheet.run_id, sheet.seq) != (told.run_id, seq):
            return Seal(checkpoint=told, why="the checkpoint itself is gone or names another event")
        if sheet.body is None:
            return None  # it was erased, which an event tells of
        checkpoint = read_checkpoint(sheet)
        names = ("id", "at", "reason")
        differing = next((what for what in names if getattr(checkpoint, what) != getattr(told, what)), None)
        return Seal(checkpoint=checkpoint, why=None if differing is None else f"{differing} is not what was sealed")

    def _why_bad(self, seq: int, body: Mapping[str, Any], kept: set[str]) -> str | None:
        if seq in self._altered:
            return f"{self._altered[seq][0]} is not what was sealed"
        for name in body.get("commits", {}):
            if name not in kept and (seq, name) not in self._erased:
                return f"{name} is gone, and nothing tells that it was erased"
        return None

    def _kept(self, seqs: Iterable[int]) -> dict[int, set[str]]:
        """Names what is still there of the values that events commit to."""
        kept: dict[int, set[str]] = {}
        wanted = list(seqs)
        for start in range(0, len(wanted), _PAGE):
            page = self._store.payloads(self._tenant, self._story.run_id, wanted[start : start + _PAGE])
            for payload in page:
                kept.setdefault(payload.seq, set()).add(payload.field)
        return kept

    @cached_property
    def _erased(self) -> set[tuple[int, str]]:
        """Names what the run's events tell to have been erased; only asked for when something is gone."""
        events = every_event(self._store, self._tenant, self._story.run_id)
        facts = (event.read()["facts"] for event in events if event.type == ERASED)
        return {(part["seq"], name) for one in facts for part in one["erased"] for name in part["fields"]}


def _as_told(run_id: str, name: str, seq: int, body: Mapping[str, Any]) -> Checkpoint:
    """Gives a checkpoint as far as the event that seals it tells of it in clear."""
    facts = body.get("facts", {})
    return Checkpoint(
        id=name,
        run_id=run_id,
        at=facts.get("at", seq),
        reason=facts.get("reason", "manual"),
        suggested=None,
        has_state="state" in body.get("commits", {}),
        created_at=datetime.fromisoformat(body["at"]),
        seq=seq,
    )


def checkpoint_sheets(store: Store, tenant: str, run_id: str) -> list[Sheet]:
    """List the sheets of a run's checkpoints, the one sealed last first."""
    found = every_sheet(store, tenant, SheetFilter(kind="checkpoint", topic=run_id, limit=_PAGE))
    return sorted(found, key=lambda sheet: -1 if sheet.seq is None else sheet.seq, reverse=True)
