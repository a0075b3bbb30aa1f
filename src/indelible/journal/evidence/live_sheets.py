"""The table of sheets, compared with what the record tells: approvals, grants, delegations, the policy, runs and so on.

A sheet's row says which event tells its newest state. Of approvals, runs and checkpoints the record itself says that,
also when what is on them was erased; of the others what is on them does. No event commits to a run's limits, but its
row says that there are some. All other kinds carry no evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from indelible.core.approvals.grants import delegation_sheet, grant_sheet, read_delegation, read_grant
from indelible.core.approvals.sheets import approval_sheet, read_approval
from indelible.core.effects.stops import read_stop, stop_sheet
from indelible.core.paging import every_sheet
from indelible.core.people.credentials import credential_sheet, read_credential
from indelible.core.people.sheets import person_again
from indelible.core.people.vouching import provider_sheet, read_provider
from indelible.core.ports import Store
from indelible.core.privacy.forgetting import ERASED
from indelible.core.runs.run import (
    HANDED_OVER,
    LIMITED,
    checkpoint_sheet,
    delegated_ref,
    fence_ref,
    is_limited,
    limit_ref,
    read_checkpoint,
    read_run,
    run_sheet,
)
from indelible.core.sheets import Sheet, SheetFilter
from indelible.core.values.canonical import decode
from indelible.core.verifying.approval_steps import STATUS_AFTER
from indelible.core.verifying.bodies import EffectBody, FactBody, unquoted
from indelible.core.verifying.permissions import FACTS_OF_SHEETS
from indelible.core.verifying.run_moves import SEALED
from indelible.core.verifying.run_moves import STATUS_AFTER as RUN_STATUS_AFTER

_PAGE = 512
_OPEN = ("pending", "approved")
Place = tuple[str, int]
"""Is where a state is told: run and number of the event."""
Values = Mapping[str, bytes]


@dataclass(slots=True)
class ToldSheet:
    """Is the newest state of a sheet that the record tells of; `id` is None when what is on it was erased."""

    place: Place
    version: int
    status: str = ""
    id: str | None = None
    effect_id: str | None = None


def _as_kept(kind: str, sheet: Sheet) -> Sheet:
    """Gives the row that belongs to what is on a sheet."""
    writers: dict[str, Callable[[Sheet], Sheet]] = {
        "approval": lambda one: approval_sheet(read_approval(one)),
        "grant": lambda one: grant_sheet(read_grant(one)),
        "delegation": lambda one: delegation_sheet(read_delegation(one)),
        "credential": lambda one: credential_sheet(read_credential(one)),
        "person": person_again,
        "provider": lambda one: provider_sheet(read_provider(one)),
        "stop": lambda one: stop_sheet(read_stop(one)),
        "run": lambda one: run_sheet(read_run(one)),
        "checkpoint": lambda one: checkpoint_sheet(read_checkpoint(one)),
        "policy": lambda one: Sheet(kind="policy", id="current", version=one.version, status="active", body=one.body),
    }
    return replace(writers[kind](sheet), run_id=sheet.run_id, seq=sheet.seq)


@dataclass(slots=True)
class ToldSheets:
    """Collects what the record tells of sheets, event by event."""

    questions: dict[str, list[ToldSheet]] = field(default_factory=dict)
    """Holds the approvals of each effect that was asked about, in the order in which it was."""
    named: dict[str, dict[str, ToldSheet]] = field(
        default_factory=lambda: {kind: {} for kind in FACTS_OF_SHEETS.values()}
    )
    """Holds those whose id is on them, by kind and id."""
    clear: dict[str, dict[str, ToldSheet]] = field(default_factory=lambda: {"run": {}, "checkpoint": {}})
    """Holds those whose id and status are told in clear, by kind and id."""
    delegating: dict[str, Place] = field(default_factory=dict)
    """Holds the runs that delegated, and where that is told first."""
    is_continued: bool = False
    """Says that the journal went on after a loss."""
    erased: set[tuple[str, Place]] = field(default_factory=set)
    """Holds the states of these of which the record says that what was on them is gone."""

    def take(self, event: EffectBody | FactBody, shown: Values) -> None:
        """Takes in one more event."""
        place = (unquoted(event.run), int(event.seq))
        if isinstance(event, FactBody):
            self.is_continued |= event.type == "log_continued"
            kind = FACTS_OF_SHEETS.get(event.type)
            if kind is not None and kind in event.commits:
                self._take_named(kind, place, shown.get(kind))
            self._take_clear(event, place)
            if event.type == ERASED:
                self._take_erased(place[0], event.facts["erased"])
            return
        if '"approval"' in event.commits:
            self._take_question(event, place, shown.get("approval"))
        if '"grant"' in event.commits:
            self._take_named("grant", place, shown.get("grant"))

    def _take_question(self, event: EffectBody, place: Place, shown: bytes | None) -> None:
        asked = self.questions.setdefault(event.effect, [])
        if event.type == "approval_requested":
            asked.append(ToldSheet(place, 0, effect_id=event.effect))
        newest = asked[-1]
        newest.place, newest.version, newest.status = place, newest.version + 1, STATUS_AFTER[event.type]
        newest.id = None if shown is None else _content(shown)["id"]

    def _take_named(self, kind: str, place: Place, shown: bytes | None) -> None:
        if shown is None:
            return
        content = _content(shown)
        before = self.named[kind].get(content.get("id", "current"))
        # Runs are read side by side, so a later state of a grant may come first; a policy is told in one run alone.
        version = content["version"] if kind != "policy" else 1 if before is None else before.version + 1
        if before is None or before.version < version:
            self.named[kind][content.get("id", "current")] = ToldSheet(place, version, id=content.get("id", "current"))

    def _take_clear(self, event: FactBody, place: Place) -> None:
        if event.type == "delegation_started":
            self.delegating.setdefault(place[0], place)
        if event.type == SEALED:
            name = event.facts["checkpoint"]
            self.clear["checkpoint"][name] = ToldSheet(place, 1, "sealed", name)
        elif event.type in RUN_STATUS_AFTER:
            runs, (run_id, _) = self.clear["run"], place
            version = runs[run_id].version + 1 if run_id in runs else 1
            runs[run_id] = ToldSheet(place, version, RUN_STATUS_AFTER[event.type], run_id)

    def _take_erased(self, run_id: str, erased: Sequence[Mapping[str, Any]]) -> None:
        """Takes in what the record says is gone, also of what was shown when it was read: others may be erasing."""
        for one in erased:
            self.erased |= {(kind, (run_id, one["seq"])) for kind in one["fields"] if kind in self.named}

    def newest_question(self, effect_id: str) -> ToldSheet | None:
        """Gives the approval that an effect's row names; None when nobody was asked."""
        asked = self.questions.get(effect_id)
        return asked[-1] if asked else None


def _content(body: bytes) -> dict[str, Any]:
    content = decode(body)
    assert isinstance(content, dict), "what an event commits to was read before"
    return content


class SheetTable:
    """Compares the rows of sheets with what was told; `wrong` lists what differs now."""

    def __init__(self, store: Store, tenant: str, told: ToldSheets) -> None:
        self._store = store
        self._tenant = tenant
        self._told = told
        self.in_question: set[str] = set()
        """Names what gives nothing since a declared loss, until a person gives or applies it again."""

    def _rows(self, kind: str) -> Iterator[Sheet]:
        return every_sheet(self._store, self._tenant, SheetFilter(kind=kind, limit=_PAGE))

    def wrong(self) -> dict[str, tuple[Place, str]]:
        """Gives what is wrong with which sheet, and where its newest state is told; nothing when all is well.

        Others may be writing: what is wrong once need not be, when the record is read on.
        """
        found = self._wrong_approvals()
        for kind in self._told.named.keys() - self._store.unseen_kinds:
            found |= self._wrong_named(kind)
        for kind in self._told.clear:
            found |= self._wrong_clear(kind)
        return found or self._wrong_limits()  # of runs that are as they were told

    @property
    def uncompared(self) -> list[str]:
        """Names the kinds that the record tells of, and whose rows the store does not show to whoever verifies."""
        return sorted(kind for kind in self._store.unseen_kinds if self._told.named.get(kind))

    def _wrong_approvals(self) -> dict[str, tuple[Place, str]]:
        told = {one.place: one for asked in self._told.questions.values() for one in asked}
        found: dict[str, tuple[Place, str]] = {}
        for row in self._rows("approval"):
            place = _place_of(row)
            one = told.pop(place, None)
            why = "no event tells of its state" if one is None else self._why_wrong(row, one)
            if why is not None:
                found[f"approval {row.id}"] = (place, why)
        for place, one in told.items():
            found[f"approval {one.id or 'of ' + str(one.effect_id)}"] = (place, "it is gone from its table")
        return found

    def _why_wrong(self, row: Sheet, told: ToldSheet) -> str | None:
        if (row.version, row.status) != (told.version, told.status):
            return f"its row says version {row.version}, {row.status}: told are {told.version}, {told.status}"
        if row.body is not None:
            return _why_other(row)
        # What is on it is erased: what is left is compared with the events, and the effect's row names it.
        if row.topic != told.place[0] or (row.due_at is not None and row.status not in _OPEN):
            return "its row has another topic or another due time than its events"
        if told.effect_id is not None and self._told.newest_question(told.effect_id) is told:
            effect = self._store.get_effect(self._tenant, told.effect_id)
            if effect is not None and effect.approval_id != row.id:
                return f"its effect names {effect.approval_id}"
        return None

    def _wrong_clear(self, kind: str) -> dict[str, tuple[Place, str]]:
        told = dict(self._told.clear[kind])
        found: dict[str, tuple[Place, str]] = {}
        for row in self._rows(kind):
            place = _place_of(row)
            one = told.pop(row.id, None)
            why = "no event tells of it" if one is None else _why_not_told(row, place, one)
            if why is not None:
                found[f"{kind} {row.id}"] = (place if one is None else one.place, why)
        for id_, one in told.items():
            found[f"{kind} {id_}"] = (one.place, "it is gone from its table")
        return found

    def _wrong_limits(self) -> dict[str, tuple[Place, str]]:
        """Look for the rows that keep calls of a run from being entered: no event commits to them, but one tells why.

        A row too many lets nothing happen.
        """
        needed = {(delegated_ref(run_id).id, "delegated"): place for run_id, place in self._told.delegating.items()}
        for row in self._rows("run"):
            place = _place_of(row)
            if row.body is not None and is_limited(read_run(row)):
                needed[limit_ref(row.id).id, LIMITED] = place
            if row.status == HANDED_OVER:
                needed[fence_ref(row.id).id, HANDED_OVER] = place
        kept = {(row.id, row.status) for row in self._rows("limit")} if needed else set()
        return {
            f"limit {name}": (place, "it is gone from its table, or lets calls be entered")
            for (name, status), place in needed.items()
            if (name, status) not in kept
        }

    def _wrong_named(self, kind: str) -> dict[str, tuple[Place, str]]:
        told = dict(self._told.named[kind])
        found: dict[str, tuple[Place, str]] = {}
        seen: set[Place] = set()
        for row in self._rows(kind):
            place = _place_of(row)
            one = told.pop(row.id, None)
            why: str | None = "two rows name one event" if place in seen else None
            seen.add(place)
            if row.body is None and self._is_in_question(row, one):
                self.in_question.add(f"{kind} {row.id}")
            elif row.body is None:
                why = why or (None if (kind, place) in self._told.erased else "no event tells of its state")
            elif one is None or place != one.place or not self._is_version(row, one):
                why = why or "its row names another event than the newest that tells of it"
            else:
                why = why or _why_other(row)
            if why is not None:
                found[f"{kind} {row.id}"] = (place, why)
        for id_, one in told.items():
            found[f"{kind} {id_}"] = (one.place, "it is gone from its table")
        return found

    def _is_in_question(self, row: Sheet, told: ToldSheet | None) -> bool:
        """Say whether a row is the newest that is told after a declared loss, and older than what is remembered."""
        if not self._told.is_continued or row.row_version is None:
            return False
        return told is not None and told.place == (row.run_id, row.seq) and row.row_version < row.version

    def _is_version(self, row: Sheet, told: ToldSheet) -> bool:
        """Say whether a row has the version that was told; no event tells which versions of a policy a loss took."""
        is_later = row.kind == "policy" and self._told.is_continued and row.version > told.version
        return row.version == told.version or is_later


def _place_of(row: Sheet) -> Place:
    """Return where a row says that it is told."""
    return row.run_id or "", -1 if row.seq is None else row.seq


def _why_not_told(row: Sheet, place: Place, told: ToldSheet) -> str | None:
    """Says in what the row of a run or a checkpoint differs from what its newest event tells, erased or not."""
    if place != told.place:
        return "its row names another event than the newest that tells of it"
    if (row.version, row.status) != (told.version, told.status):
        return f"its row says version {row.version}, {row.status}: told are {told.version}, {told.status}"
    if row.body is not None:
        return _why_other(row)
    # What is on it is erased. Whose checkpoint it is, its event tells; which agent's run it was, nothing does any more.
    if row.due_at is not None or (row.kind == "checkpoint" and row.topic != place[0]):
        return "its row has another topic or another due time than its events"
    return None


def _why_other(row: Sheet) -> str | None:
    """Says in what a row differs from what is on its sheet, or None when it does not."""
    kept = _as_kept(row.kind, row)
    for name in ("id", "version", "status", "topic", "due_at", "created_at", "body"):
        if getattr(kept, name) != getattr(row, name):
            return f"its row has another {'id or version' if name == 'body' else name} than what is on it"
    return None
