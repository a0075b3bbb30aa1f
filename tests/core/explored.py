"""Asks the rules for everything they can make of one effect: every command in every state that can be reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from indelible.core.approvals.approval import Approval, Escalation, Need
from indelible.core.approvals.grants import GrantTerms, pinned_digest
from indelible.core.approvals.sheets import approval_ref, read_approval
from indelible.core.changes import Change
from indelible.core.commands import Claimed, Command, Expire
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.events import Event
from indelible.core.journal.notes import TreeHead
from indelible.core.policy.verdicts import ALLOWED, Verdict
from indelible.core.steps import needed_sheets
from indelible.core.verifying.examination import Examination, Scope
from indelible.core.verifying.payloads import Disclosed, PayloadTally
from tests.core.making import (
    ADA,
    AGENT,
    ARGS,
    BO,
    DIGEST,
    HOUR,
    LEASE,
    NOON,
    OTHER_ARGS,
    OTHER_DIGEST,
    REF,
    SECOND,
    Shelf,
    allows,
    amend,
    asks,
    attend,
    cancel,
    cast,
    charge,
    charging,
    finish,
    next_step,
    open_command,
    read_edit,
    refuses,
    relinquish,
    reopen,
    settle,
    show_to,
    stamp,
    take_back,
)
from tests.core.told import LOG

GIVER, OTHER_GIVER = Ref("default", "run-8", "cc" * 32), Ref("default", "run-9", "dd" * 32)
"""Are other effects, with whose approvals grants were given that cover calls of the one that is explored."""
GRANT, OTHER_GRANT = "grt_1", "grt_2"
MARK = b'"' + b"ab" * 32 + b'"'
QUESTION: dict[str, Any] = {"escalations": (Escalation(HOUR),)}
VERDICTS: tuple[Verdict, ...] = (
    ALLOWED,
    allows(),
    charging(charge(1, 90)),
    charging(charge(1, 90), verdict=ALLOWED),
    charging(charge(91, 90)),
    asks(**QUESTION),
    asks(policy="", **QUESTION),
    asks(Need(2), **QUESTION),
    asks(charges=(charge(1, 90),), **QUESTION),
    asks(policy="", charges=(charge(1, 90),), **QUESTION),
    refuses(),
)


@dataclass(frozen=True)
class Move:
    """Is what one event did to the effect."""

    before: str
    type: str
    after: str
    names: tuple[str, ...]
    adds: int
    on_crash: str
    is_still: bool
    """Did it leave the effect as it was?"""


@dataclass
class Path:
    """Is one way to get somewhere: what is kept, what was told on the way, and who still holds which claim."""

    shelf: Shelf
    events: list[Event] = field(default_factory=list)
    claims: tuple[Claim, ...] = ()

    def copied(self) -> Path:
        shelf = copy(self.shelf)
        for name in ("effects", "sheets", "heads", "events", "payloads", "committed"):
            setattr(shelf, name, copy(getattr(shelf, name)))
        shelf.events = {run: list(events) for run, events in shelf.events.items()}
        return Path(shelf, list(self.events), self.claims)

    @property
    def effect(self) -> Effect | None:
        return self.shelf.effects.get(REF)

    def later(self) -> Iterator[Path]:
        """Waits until a lease ran out, somebody else is to be asked, or nobody answered in time."""
        for duration in (LEASE + SECOND, 2 * HOUR, timedelta(hours=30)):
            waiting = self.copied()
            waiting.shelf.now += duration
            is_asked = waiting.effect is not None and waiting.effect.status == "requires_approval"
            if waiting.where() != self.where() or (is_asked and duration == 2 * HOUR):
                yield waiting

    def what_if(self, command: Command) -> tuple[Any, tuple[Move, ...]]:
        """Says where a command would lead, and by which moves; nothing is kept of it."""
        shelf, effect = self.shelf, self.shelf.effects.get(command.ref)
        sheets = {ref: shelf.sheets.get(ref) for ref in needed_sheets(command, effect)}
        moves, state = [], effect
        approval_id = None if effect is None else effect.approval_id
        asked = None if approval_id is None else shelf.sheets[approval_ref(approval_id)]
        for change in next_step(command, effect, shelf.now, 0, sheets).changes:
            if isinstance(change, Change):
                recorded = {sheet.kind for sheet in change.sheets if sheet.is_recorded}
                moves.append(_move(state, change.effect, change.event_type, recorded | change.committed.keys()))
                state = change.effect
            asked = next((sheet for sheet in change.sheets if sheet.kind == "approval"), asked)
        if not moves:
            return None, ()  # it leads nowhere, so nobody asks where that is
        return _where(state, None if asked is None else read_approval(asked), shelf.now), tuple(moves)

    def send(self, command: Command) -> None:
        """Sends a command, and keeps what came of it."""
        batch = self.shelf.apply(command)
        for answer in batch.answers:
            if isinstance(answer, Claimed) and answer.claim not in self.claims:
                self.claims = (*self.claims, answer.claim)[-2:]
        self.events += batch.events

    def where(self) -> Any:
        """Tells apart what the rules may tell apart."""
        is_asked = self.effect is not None and self.effect.approval_id is not None
        return _where(self.effect, self.shelf.approval() if is_asked else None, self.shelf.now)

    def shown(self) -> dict[tuple[str, int], dict[str, Disclosed]]:
        """Gives every value that was committed to, by run and number."""
        found: dict[tuple[str, int], dict[str, Disclosed]] = {}
        for one in self.shelf.payloads:
            place = found.setdefault((one.run_id, one.seq), {})
            place[one.field] = Disclosed(0, one.field, one.salt, one.value)
        return found


def _move(before: Effect | None, after: Effect, type_: str, names: Set[str]) -> Move:
    return Move(
        before="" if before is None else before.status,
        type=type_,
        after=after.status,
        names=tuple(sorted(names)),
        adds=after.attempt - (0 if before is None else before.attempt),
        on_crash="" if before is None else after.on_crash,
        is_still=after is before,
    )


def _where(effect: Effect | None, approval: Approval | None, now: datetime) -> Any:
    if effect is None:
        return None
    asked: Any = approval and (approval.status, bool(approval.policy), approval.attempt == effect.attempt)
    if approval is not None and approval.is_open:
        asked = (*asked, approval.is_overdue(now), bool(approval.votes), approval.lacking)
    is_edited = approval is not None and approval.edited_by is not None
    kind = (effect.on_crash, effect.side_effect)
    is_kept = effect.status == "in_doubt" and effect.lease_until is not None and now < effect.lease_until
    about = (effect.status, min(effect.attempt, 1), kind, effect.charges_json is None, is_kept)
    return about, asked, effect.is_abandoned(now), is_edited, effect.args_json == ARGS, effect.digest == DIGEST


def with_grants() -> Path:
    """Begins where grants stand for calls like the one that is explored, by a policy and by its tool."""
    path = Path(Shelf())
    for giver, grant, verdict in ((GIVER, GRANT, asks()), (OTHER_GIVER, OTHER_GRANT, asks(policy=""))):
        told: Any = {"ref": giver, "run_id": giver.scope, "effect_id": f"eff_{giver.scope}"}
        path.send(open_command(**told, verdict=verdict, stamp=stamp(NOON, AGENT)))
        terms = GrantTerms(count=1000, until=NOON + timedelta(days=900))
        path.send(cast(path.shelf.approval(giver), grant=terms, grant_id=grant, pinned=pinned()))
    return path


def pinned(args: bytes = ARGS) -> str:
    return pinned_digest("default", "pay", None, args)


def openings(path: Path, on_crash: str, side_effect: str) -> Iterator[Command]:
    number = len(path.events)
    told: Any = {
        "on_crash": on_crash,
        "side_effect": side_effect,
        "effect_id": f"eff_{number}",
        "token": f"{number:032x}",
        "stamp": stamp(path.shelf.now, AGENT),
        "dedupe": "turn",
        "turn": "message-1",
    }
    yield open_command(**{**told, "turn": "message-2"}, verdict=ALLOWED)
    newest = path.claims[-1].token if path.claims else None
    for verdict in VERDICTS:
        yield open_command(**told, verdict=verdict)
        if newest is not None:
            yield open_command(**told, verdict=verdict, again=newest)
            yield open_command(**told, verdict=verdict, again=newest, grants={GRANT: pinned(), OTHER_GRANT: pinned()})
        if verdict.question is not None and verdict.question.needs == (Need(),):
            yield open_command(**told, verdict=verdict, grants={GRANT: pinned(), OTHER_GRANT: pinned()})
            other: Any = {"args_json": OTHER_ARGS, "digest": OTHER_DIGEST, "has_key_fields": True}
            yield open_command(**told, verdict=verdict, **other)
    if path.effect is not None and path.effect.args_json not in (None, ARGS):
        read = read_edit(path.effect)
        yield from (open_command(**told, verdict=verdict, edit=read) for verdict in VERDICTS)
        yield open_command(**told, verdict=asks(), edit=replace(read, args_json=b'{"amount":7}', is_exact=False))
    if path.effect is None:
        yield from (open_command(**told, verdict=verdict, subject_json=MARK) for verdict in (ALLOWED, asks()))


def commands_at(path: Path) -> Iterator[Command]:
    """Gives every kind of command in every variant that matters for what comes of it."""
    effect, now = path.effect, path.shelf.now
    kinds = (("hold", "payment"), ("retry", "payment"), ("retry", "read"))
    for on_crash, side_effect in kinds if effect is None else ((effect.on_crash, effect.side_effect),):
        yield from openings(path, on_crash, side_effect)
    if effect is None:
        return
    yield from (Expire(ref=REF, stamp=stamp(now)), reopen(at=now), cancel(at=now))
    yield from (settle(end, at=now) for end in ("succeeded", "failed"))
    for claim in path.claims:
        yield from (finish(claim, end, at=now) for end in ("succeeded", "failed"))
        yield from (relinquish(claim, end, at=now) for end in ("ready", "in_doubt"))
        yield replace(relinquish(claim, "in_doubt", at=now), lease=LEASE)
    if effect.approval_id is not None:
        yield from about_approval(path)


def about_approval(path: Path) -> Iterator[Command]:
    about, now = path.shelf.approval(), path.shelf.now
    yield from (cast(about, by, at=now) for by in (ADA, BO))
    yield cast(about, at=now, is_approval=False)
    terms = GrantTerms(count=1, until=now + HOUR)
    yield cast(about, at=now, grant=terms, grant_id=f"grt_{len(path.events)}", pinned=pinned(path.effect.args_json))  # type: ignore[union-attr, arg-type]
    yield from (take_back(about, at=now), show_to(about), attend(about, at=now))
    waits: Any = {"run_id": "run-2", "awaited_approval": about.id, "dedupe": "turn", "turn": "message-2"}
    yield open_command(**waits, verdict=asks(), stamp=stamp(now, AGENT), token=f"{len(path.events):032x}")
    for verdict in (VERDICTS[1], VERDICTS[5], VERDICTS[6], VERDICTS[8], VERDICTS[9]):
        yield amend(about, at=now, verdict=verdict)


@dataclass
class Explored:
    """Is all that was found: every move, and the journals that lead there."""

    moves: set[Move] = field(default_factory=set)
    paths: list[Path] = field(default_factory=list)


@cache
def explore() -> Explored:
    """Goes every way there is, and stops where it was before."""
    found, beginning = Explored(), with_grants()
    seen, edges, ahead = {beginning.where()}, set[Any](), [beginning]
    while ahead:
        path = ahead.pop(0)
        for waiting in (path, *path.later()):
            for command in commands_at(waiting):
                place, moves = edge = waiting.what_if(command)
                if not moves or edge in edges:
                    continue
                edges.add(edge)
                found.moves |= set(moves)
                tried = waiting.copied()
                tried.send(command)
                found.paths.append(tried)
                if place not in seen:
                    seen.add(place)
                    ahead.append(tried)
    return found


def examine(events: Sequence[Event], shown: Any = None, *, is_deep: bool = False, **words: Any) -> Examination:
    """Examines events in their order, with what is shown of their values by run and number."""
    scope = Scope(is_deep=is_deep, **words)
    tally = PayloadTally(keeps_absent=False)
    examination = Examination(
        TreeHead(LOG, len(events), b"r" * 32), tally, scope, is_whole=True, has_values=bool(shown)
    )
    for index, event in enumerate(events):
        examination.take(index, event.body, event.hash, (shown or {}).get((event.run_id, event.seq)), None)
    examination.permissions.close()
    return examination
