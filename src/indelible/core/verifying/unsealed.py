"""Examines events that wait to be sealed: nothing is signed that no key holder wrote or no rule allows. Pure.

The macs show who wrote an event. An old row of an effect or of a run that was put back has a valid mac. The event that
a writer then appends does not follow from the newest event of the effect or of the run, and that is how it shows. Of
an old row of a budget, it shows that two events tell of the same reservation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from indelible.core.events import Payload, event_hash
from indelible.core.journal.journal import Before, Waiting
from indelible.core.macs import ENDED, REMEMBERED, RIGHT_EVENTS, Macs, is_ended
from indelible.core.policy.budgets import budget_ref, read_charges
from indelible.core.policy.verdicts import Charge
from indelible.core.sheets import Sheet, SheetRef
from indelible.core.values.canonical import decode
from indelible.core.verifying.bodies import EffectBody, FactBody, commits_of, read_effect_body, read_fact_body, unquoted
from indelible.core.verifying.findings import Caught
from indelible.core.verifying.lives import Life, check_move
from indelible.core.verifying.run_lives import status_of_run
from indelible.core.verifying.run_moves import NOT_STARTED, STATUS_AFTER, UNKNOWN, is_by_hand, is_by_the_ledger

Told = tuple[str, int, str]
"""Names a value that tells of a right or a budget: run, number of the event, field."""
_RESERVED = ("budget", "resource")


class Unsealed:
    """Looks at what waits, and collects what is wrong with it and which rights it tells of."""

    def __init__(self, macs: Macs) -> None:
        self._macs = macs
        self.problems: dict[str, str] = {}
        """Says for each run that must not be sealed what is wrong, and where."""
        self.rights: list[Told] = []
        """Names what was told of rights and budgets."""
        self.leaves: list[bytes] = []
        """Holds the hashes of the events of the last time that nothing is wrong with, in their order."""

    def __call__(self, waiting: Sequence[Waiting], before: Before) -> set[str]:
        """Examine events, each run's in their order; return the runs that must not be sealed."""
        named: set[str] = set()
        self.rights = []
        self.leaves = []
        read = [_read(one) for one in waiting]
        lives, runs = _lives_before(read, before), _runs_before(read, before)
        for one in read:
            run_id, seq = one.row.run_id, one.row.seq
            if run_id in named:
                continue
            try:
                self._examine(one, lives, runs)
            except Caught as caught:
                self.problems[run_id] = f"event {seq} of run {run_id}: {caught.flaw.what}"
                named.add(run_id)
            else:
                self.leaves.append(one.row.hash)
        return named

    def _examine(self, one: _Read, lives: dict[str, Life], runs: dict[str, str]) -> None:
        row, event, fact = one
        if row.body is None or event_hash(row.body) != row.hash.hex():
            raise Caught("it is gone, or is not what was noted when it was written")
        if event is None:
            self._examine_fact(row, fact, runs)
            return
        self._check_writer(row, event.type, event.run, int(event.seq))
        names = tuple(commits_of(event.commits))
        check_move(lives[event.effect], event.type, event.status, int(event.attempt), names)
        lives[event.effect] = _after(event)
        self.rights += [(row.run_id, row.seq, name) for name in names if name in ("charges", "grant")]

    def _examine_fact(self, one: Waiting, fact: FactBody | None, runs: dict[str, str]) -> None:
        if fact is None:
            raise Caught("it is no event of version 1")
        self._check_writer(one, fact.type, fact.run, fact.seq)
        if _is_about_run(fact):
            runs[one.run_id] = status_of_run(runs[one.run_id], fact)
        self.rights += _rights_in(one, fact)

    def _check_writer(self, one: Waiting, event_type: str, run: str, seq: int) -> None:
        if (unquoted(run), seq) != (one.run_id, one.seq):
            raise Caught("it belongs to another place")
        if not self._macs.is_of_event(event_type, one.hash.hex(), one.mac):
            raise Caught("it was not written by a holder of the ledger's keys")


def is_by_holder(macs: Macs, one: Waiting) -> bool:
    """Return whether a key holder wrote an event, for the place where it stands."""
    _, effect, fact = _read(one)
    event = effect or fact
    if one.body is None or event is None or event_hash(one.body) != one.hash.hex():
        return False
    is_here = (unquoted(event.run), int(event.seq)) == (one.run_id, one.seq)
    return is_here and macs.is_of_event(event.type, one.hash.hex(), one.mac)


def rights_told(macs: Macs, one: Waiting) -> list[Told] | None:
    """Name what an event of a run of the ledger's own told of rights; None if no key holder wrote it."""
    fact = read_fact_body(_text(one))
    return None if fact is None or not is_by_holder(macs, one) else _rights_in(one, fact)


def _rights_in(one: Waiting, fact: FactBody) -> list[Told]:
    if fact.type not in RIGHT_EVENTS:
        return []
    return [(one.run_id, one.seq, name) for name in fact.commits if name in REMEMBERED]


class ToldOf(NamedTuple):
    """Is what an event told of a sheet that is remembered, or of a resource that a call keeps to itself.

    `version` is 0 where the value does not say it. Of budgets and resources it is the number of the reservation.
    """

    ref: SheetRef
    version: int
    run_id: str
    seq: int


def remembered_in(payload: Payload) -> list[ToldOf]:
    """Name the sheets whose newest version is remembered, of those that an event committed to."""
    kind, place = payload.field, (payload.run_id, payload.seq)
    if kind != "charges" and kind not in REMEMBERED:
        return []
    try:
        if kind == "charges":
            taken = [(charge, charge.number) for charge in read_charges(payload.value)]
            return [ToldOf(_reserved_ref(charge), number, *place) for charge, number in taken if number is not None]
        content: Any = decode(payload.value)
        version = ENDED if is_ended(kind, content) else content.get("version")
        ref = SheetRef(kind, content.get("id", "current"))
        return [ToldOf(ref, version if isinstance(version, int) else 0, *place)]
    except (ValueError, LookupError, TypeError, AttributeError):  # it is encrypted
        return []


def _reserved_ref(charge: Charge) -> SheetRef:
    return SheetRef("resource", charge.resource) if charge.is_of_resource else budget_ref(charge.budget)


def reserved_twice(told: Sequence[ToldOf], earlier: Iterable[ToldOf]) -> dict[str, str]:
    """Say for each run what is wrong if it took a reservation that another event took, now or earlier."""
    taken, problems = {one[:2] for one in earlier}, {}
    for one in told:
        if one.ref.kind in _RESERVED and one[:2] in taken:
            problems[one.run_id] = (
                f"event {one.seq} of run {one.run_id}: another event took reservation {one.version} of "
                f"{one.ref.kind} {one.ref.id} too, so an older row of it was put back"
            )
        taken.add(one[:2])
    return problems


def versions_to_keep(told: Sequence[ToldOf], found: Sequence[Sheet]) -> dict[SheetRef, int]:
    """Return the newest version of each sheet that was told of, also where its row is an older one that was put back.

    A row that is not believed has no body. Its version counts for nothing. Resources are too many to remember.
    """
    rows = {sheet.ref: sheet for sheet in found if sheet.body is not None}
    kept = {ref: sheet.version for ref, sheet in rows.items()}
    for one in told:
        if one.ref.kind not in REMEMBERED:
            continue
        kept[one.ref] = max(kept.get(one.ref, 0), one.version, 1)  # at least one: its row may be gone
    for ref, row in rows.items():  # where the value does not say it, each later event of the row's run is one more
        places = {(one.run_id, one.seq) for one in told if one.ref == ref}
        later = [seq for run_id, seq in places if row.seq is not None and run_id == row.run_id and seq > row.seq]
        kept[ref] = max(kept[ref], row.version + len(later))
    return kept


class _Read(NamedTuple):
    """Is an event that waits, and what it says of an effect or of something else; both are None if it is no event."""

    row: Waiting
    event: EffectBody | None
    fact: FactBody | None


def _text(one: Waiting) -> str:
    return "" if one.body is None else one.body.decode("utf-8", "replace")


def _read(one: Waiting) -> _Read:
    values = read_effect_body(_text(one))
    return _Read(one, None, read_fact_body(_text(one))) if values is None else _Read(one, EffectBody(*values), None)


def _is_about_run(fact: FactBody) -> bool:
    return is_by_the_ledger(fact.type, fact.facts) or is_by_hand(fact.type, fact.facts)


def _runs_before(read: Sequence[_Read], before: Before) -> dict[str, str]:
    """Return how each run stood before the first event that waits and tells of it.

    What was told by hand, or of a checkpoint, was told of a run that was not over. It does not say more.
    """
    first: dict[str, int] = {}
    for row, _, fact in read:
        if fact is not None and _is_about_run(fact):
            first.setdefault(row.run_id, row.seq)
    bodies = before([(run_id, seq, "") for run_id, seq in first.items()]) if first else []
    return {run_id: _status(body) for run_id, body in zip(first, bodies, strict=True)}


def _status(body: bytes | None) -> str:
    """Return how a run stood after an event."""
    if body is None:
        return NOT_STARTED
    fact = read_fact_body(body.decode("utf-8", "replace"))
    return UNKNOWN if fact is None else STATUS_AFTER.get(fact.type, UNKNOWN)


def _lives_before(read: Sequence[_Read], before: Before) -> dict[str, Life]:
    """Return how each effect stood before the first of its events that wait.

    An event that commits to a key begins an effect, with an id that was made for it. The store is asked of the others.
    """
    first: dict[str, tuple[Waiting, EffectBody]] = {}
    for row, event, _ in read:
        if event is not None and event.effect not in first:
            first[event.effect] = (row, event)
    older = [id_ for id_, (_, event) in first.items() if "key" not in commits_of(event.commits)]
    bodies = before([(first[id_][0].run_id, first[id_][0].seq, id_) for id_ in older]) if older else []
    known = dict(zip(older, bodies, strict=True))
    return {id_: _life(known.get(id_), event) for id_, (_, event) in first.items()}


def _life(before: bytes | None, event: EffectBody) -> Life:
    """Return how an effect stood before an event, as the event before it says."""
    values = None if before is None else read_effect_body(before.decode("utf-8", "replace"))
    if values is None:
        return (event.run, event.tool, event.side_effect, event.on_crash, "", 0, 0)
    return _after(EffectBody(*values))


def _after(event: EffectBody) -> Life:
    return (event.run, event.tool, event.side_effect, event.on_crash, event.status, int(event.attempt), 0)
