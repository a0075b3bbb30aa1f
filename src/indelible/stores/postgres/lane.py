"""The one way in which commands are written: on what is known, else on a look, else under locks.

Each try is guarded, so that a wrong assumption costs a round trip and nothing else. A try whose fate got lost with the
connection is remembered: before anything is decided again, its first event is looked for under locks that the lost try,
if it is still under way, holds or would have to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NoReturn, TypeVar

from indelible.core.batch import Batch, decide
from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import Effect
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOP_REF
from indelible.core.events import Provenance
from indelible.core.ports import Clock, Compare
from indelible.core.sheets import STANDING, Sheet, SheetRef, Sheets
from indelible.errors import RecordForged, StoreUnavailable
from indelible.stores.assumptions import is_guarded, is_stop, sheets_for
from indelible.stores.postgres.connections import Line, Lost, Rejected, Session
from indelible.stores.postgres.transitions import (
    Locked,
    View,
    erase,
    give_up,
    has_event,
    is_set_back,
    lock,
    look,
    moved_keys,
    write,
)
from indelible.stores.postgres.trouble import Patience, explained, is_away, is_worth_another_try, needs_new_connection
from indelible.stores.postgres.work import Heads, Work

Result = TypeVar("Result")

# Should we vanish in the middle, our locks must not stay for as long as the network takes to notice.
BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '20s'"
COMMIT, ROLLBACK = b"COMMIT", b"ROLLBACK"
_QUERY_CANCELED = "57014"
# The first guess may lose a race for the run's head, and the second may then be told the new one.
_GUESSES = 3
# A call that turns out to be a repeat is cheaper to look up than to try. After two in a row the next one is looked up
# first, and a batch that met one makes so many batches do so.
_REPEATS_IN_A_ROW = 2
_WARY_FOR = 16
_PERMISSIONS = frozenset({"approval", "delegation", "grant"})
_MOST_LOOKS = 4  # the effect, its permission, the people who gave it, the provider that let them in
_MOST_TENANTS = 1000


class _Unsure(Exception):
    """A commit came back with a warning: the standbys may not have it."""


class _NotCompared(Exception):
    """The tenant's record has to be compared with what was signed before anything is written.

    The connection is new, or the database was replaced under it: the tree has fewer entries than were signed.
    """


class Lane:
    """Writes through one connection, one batch at a time."""

    def __init__(
        self,
        line: Line,
        provenance: Callable[[str], Provenance],
        ring: Callable[[Sequence[str]], None],
        clock: Clock | None,
        seconds: float,
        others: Sequence[Line] = (),
    ) -> None:
        """Writes through `line`; `others` read from the same database."""
        self._line = line
        self._others = others
        self._ring = ring
        self.provenance = provenance
        self._clock = clock
        self._seconds = seconds
        self._wary = 0
        self._heads = Heads()
        self.compare: Compare | None = None
        self._compared: dict[str, int] = {}
        """Says on which session the record of each tenant was compared with what was signed."""
        self.introduced: set[str] = set()
        """Names the tenants whose journals were told the key of this process, if it signs what it writes."""
        self._renewed = 1
        self._stops: dict[str, Sheet] = {}
        """Are the stops of tenants as they were seen last; being wrong is only slow, for every claim is guarded."""
        self._people: dict[str, list[SheetRef]] = {}
        """Are those on whose word the last permission of a tenant rested: the next one's are likely the same."""

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Decides and writes commands as one durable transaction, and answers each."""
        if not commands:
            return []
        ways = [self._on_what_is_known, self._on_a_look, self._under_lock]
        work: Work | None = None
        while True:
            with self._line.lock:
                if work is None:
                    work = self._work(tenant, commands)
                    work.needs_comparing = not is_stop(commands)
                    work.assume(known, self._heads)
                    ways = ways[self._first_way(work) :]
                if self.compare is not None and work.needs_signed:
                    work.signed = self.compare.signed(work.by.log)
                try:
                    return self._persist(work, ways)
                except _NotCompared:
                    session = self._line.generation
                    self.introduced.discard(tenant)  # the database may be another one
            if not self._compare_on(session, work) or work.sent:
                ways = ways[-1:]

    def _compare_on(self, session: int, work: Work) -> bool:
        """Compare the tenant's record with what was signed; return whether all of it is there.

        Hold no lock: a stop may have to be written.
        """
        if session > self._renewed:
            self._renewed = session
            # The other connections may still lead to the server that was left, or be told late that it is gone.
            for line in self._others:
                line.renew()
        is_whole = self.compare is None or self.compare(work.tenant)
        work.compared = session
        if is_whole and not self._line.target.is_pooled:
            if len(self._compared) >= _MOST_TENANTS:
                self._compared.clear()
            self._compared[work.tenant] = session
        return is_whole

    def find_out(self, tenant: str, command: Command, batch: Batch) -> bool:
        """Says whether a batch whose commit was sent through another connection took place."""
        with self._line.lock:
            work = self._work(tenant, [command])
            work.needs_comparing = False  # it writes nothing
            work.sent.append(batch)
            work.runs.update(batch.heads)
            return self._persist(work, [self._was_committed])

    def note_commit(self, tenant: str, batch: Batch) -> None:
        """Learns of what was written through another connection."""
        with self._line.lock:
            self._heads.remember(tenant, batch)
        self._ring(moved_keys(batch))

    def provenance_of(self, tenant: str) -> Provenance:
        """Says whose events these are that are written through another connection."""
        with self._line.lock:
            return self.provenance(tenant)

    def _work(self, tenant: str, commands: Sequence[Command]) -> Work:
        return Work(tenant, commands, Patience(self._seconds, self._line.target), self.provenance(tenant))

    def _first_way(self, work: Work) -> int:
        """Gives the number of the way that is likely to succeed."""
        if work.is_erasing:
            return 2
        if not work.is_guessable:
            return 1
        is_wary = self._wary >= (_REPEATS_IN_A_ROW if len(work.commands) == 1 else 1)
        return int(is_wary and any(state is None for state in work.assumed.values()))

    def _note(self, work: Work, effects: Mapping[Ref, Effect | None]) -> None:
        """Learns from what was found where something new was expected."""
        is_single = len(work.commands) == 1
        if effects and any(state is None and effects.get(ref) is not None for ref, state in work.assumed.items()):
            self._wary = self._wary + 1 if is_single else _WARY_FOR
        elif self._wary > 0 and any(state is None for state in work.assumed.values()):
            self._wary = 0 if is_single else self._wary - 1

    def _persist(self, work: Work, ways: Sequence[Callable[[Work], Result | None]]) -> Result:
        """Goes from way to way until one gives a result, and tries the last one again while there is time."""
        way, last = 0, len(ways) - 1
        while True:
            problem: Lost | Rejected | None = None
            try:
                result = ways[way](work)
                if result is not None:
                    self._line.target.is_away = False
                    return result
                if way < last:
                    way += 1
                    continue
            except _Unsure:
                way, problem = last, Lost("the wait for the standbys was cut short", may_have_run=True)
            except (Lost, Rejected) as trouble:
                problem = trouble
                self._clear_up(work, trouble)
                if is_set_back(trouble) and not work.patience.is_over:
                    work.compared = None
                    self._compared.pop(work.tenant, None)
                    raise _NotCompared from trouble
                if not is_worth_another_try(trouble):
                    self._give_up(work, trouble)
                if work.sent or isinstance(trouble, Rejected):
                    way = last
            except _NotCompared:
                raise
            except BaseException:
                self._line.drop()
                self._heads.correct(work.tenant, work.runs, {})
                raise
            if work.patience.is_over:
                self._give_up(work, problem)
            work.patience.pause()

    def _clear_up(self, work: Work, trouble: Lost | Rejected) -> None:
        """Leaves no transaction open, and nothing remembered that may be wrong."""
        self._heads.correct(work.tenant, work.runs, {})
        if needs_new_connection(trouble):
            self._line.drop()
            return
        try:
            self._line.roll_back(work.patience.until)
        except (Lost, Rejected):
            self._line.drop()

    def _give_up(self, work: Work, problem: Lost | Rejected | None) -> NoReturn:
        target = self._line.target
        if problem is None:
            raise StoreUnavailable(
                f"{target.address}: others changed the same rows all the time, or a trigger of yours keeps them as "
                "they were (indelible doctor names it); nothing was written. Take the trigger away, or call again"
            )
        target.is_away = is_away(problem)
        raise explained(target, problem, is_outcome_unknown=bool(work.sent)) from problem

    def _session(self, work: Work) -> Session:
        """Return the session; raise `_NotCompared` if nothing may be written through it yet."""
        session = self._line.session(work.patience.until)
        if self.compare is not None and work.needs_comparing:
            # Behind a pooler the server can change without a new session of ours, so each call compares there.
            current = self._line.generation
            if work.compared != current and self._compared.get(work.tenant) != current:
                raise _NotCompared
        return session

    def _now(self) -> datetime:
        return datetime.now(UTC) if self._clock is None else self._clock.now()

    def test_time(self) -> datetime | None:
        """Gives the time to use instead of the database's, which only tests do."""
        return None if self._clock is None else self._clock.now()

    # The three ways. Each gives the answers, or None when its assumptions did not hold.

    def _on_what_is_known(self, work: Work) -> list[Answer] | None:
        """Decides without having looked; one statement in the common case."""
        for _ in range(0 if self._is_stop_unseen(work) else _GUESSES):
            now = self._now()
            heads = self._heads.of(work.tenant, work.runs)
            batch = decide(work.commands, work.assumed, heads, now, work.by, self._with_brakes(work, work.seen))
            # What a sheet says of time has to be by the database's clock, and here it is by ours.
            if batch.sheets or batch.is_stopped or not is_guarded(batch, work.assumed) or work.is_denied(batch):
                return None
            instead = self._write(work, batch, now)
            if not isinstance(instead, View):
                self._note(work, {})
                return instead
            if any(effect is not None for effect in instead.effects.values()):
                self._note(work, instead.effects)
                return self._answer_from(work, instead)
            if work.seen:
                return None  # who drives the run may have changed with its head
            # Only the run's head was not what we took it for, and now it is known: decide again.
        return None

    def _with_brakes(self, work: Work, sheets: Sheets) -> Sheets:
        """Assume the stop as it was seen last, and no limits: the write sees that it is so."""
        brakes = work.brakes
        if not brakes:
            return sheets
        assumed: Sheets = {**dict.fromkeys(brakes), STOP_REF: self._stops.get(work.tenant)}
        return {**assumed, **sheets}

    def _is_stop_unseen(self, work: Work) -> bool:
        """Is a stop remembered outside the database that was not seen here? Its row may be gone, so it is looked at."""
        macs = work.by.macs
        is_asked = macs is not None and STOP_REF in work.brakes and work.tenant not in self._stops
        return is_asked and macs is not None and macs.newest.version(STOP_REF) > 0

    def _note_stop(self, tenant: str, sheets: Sheets) -> None:
        stop = sheets.get(STOP_REF)
        if stop is not None:
            self._stops[tenant] = stop

    def _answer_from(self, work: Work, seen: View) -> list[Answer] | None:
        if sheets_for(work.commands, seen.effects):
            return None
        assumed = self._with_brakes(work, seen.sheets)
        batch = decide(work.commands, seen.effects, seen.heads, seen.now, work.by, assumed)
        return batch.answers if batch.is_empty and not batch.is_stopped else None

    def _on_a_look(self, work: Work) -> list[Answer] | None:
        """Decides on what is there now, without locking it: whoever only wants to know waits for nobody."""
        try:
            seen = None if self._is_stop_unseen(work) else self._look(work)
        except RecordForged:
            return None  # under lock a claim reads the stop too, whose row may tell of a loss: then older rows count
        if seen is None:
            return None
        self._note(work, seen.effects)
        work.seen = seen.sheets
        batch = decide(work.commands, seen.effects, seen.heads, seen.now, work.by, self._with_brakes(work, seen.sheets))
        if batch.is_stopped:
            return None  # whoever refuses has looked
        if not batch.is_empty and work.needs_lock(batch, seen.sheets):
            return None
        answers = self._write(work, batch, seen.now)
        return None if isinstance(answers, View) else answers

    def _look(self, work: Work) -> View | None:
        """Reads what commands rest on, all at one moment; which sheets these are shows by and by."""
        for _ in range(_MOST_LOOKS):
            asked = self._with_likely_people(work)
            seen = look(self._session(work), work.commands, self.test_time(), work.patience.until, asked, work.by.macs)
            work.sheets = sheets_for(work.commands, seen.effects, seen.sheets)
            if set(work.sheets) <= set(asked):
                return self._without_others(work, seen)
        return None

    def _with_likely_people(self, work: Work) -> list[SheetRef]:
        """Gives the sheets to look at: those that are needed as far as is known, and those that likely will be."""
        likely = self._people.get(work.tenant, []) if any(ref.kind in _PERMISSIONS for ref in work.sheets) else []
        return [*work.sheets, *(ref for ref in likely if ref not in work.sheets)]

    def _without_others(self, work: Work, seen: View) -> View:
        """Gives what was seen without people whom it turned out to have nothing to do with."""
        people = [ref for ref in work.sheets if ref.kind in STANDING]
        if people:
            if len(self._people) >= _MOST_TENANTS:
                self._people.clear()
            self._people[work.tenant] = people
        sheets = {ref: sheet for ref, sheet in seen.sheets.items() if ref.kind not in STANDING or ref in people}
        return seen if len(sheets) == len(seen.sheets) else replace(seen, sheets=sheets)

    def _under_lock(self, work: Work) -> list[Answer] | None:
        """Decides on what nobody else can change until it is written."""
        session, until = self._session(work), work.patience.until
        session.command(BEGIN, until)
        locked = lock(session, work.tenant, work.commands, until, work.sheets)
        committed = self._find_sent(work, session, locked, until)
        if committed is not None:
            return committed.answers
        seen = look(session, work.commands, self.test_time(), until, [*work.sheets, *work.brakes], work.by.macs)
        self._note_stop(work.tenant, seen.sheets)
        work.sheets = sheets_for(work.commands, seen.effects, seen.sheets)
        if not locked.covers(seen, work.sheets):
            session.command(ROLLBACK, until)
            return None
        work.seen = seen.sheets
        batch = decide(work.commands, seen.effects, seen.heads, seen.now, work.by, seen.sheets)
        if batch.is_empty:
            self._end_without_writing(work, session, locked, until)
            return batch.answers
        if write(session, work.tenant, batch, seen.now, self.test_time(), until, work.signed) is not None:
            session.command(ROLLBACK, until)
            return None
        if batch.erased:
            erase(session, work.tenant, batch, until)
        give_up(session, work.tenant, locked, batch, until)
        self._send(work, batch, lambda: session.command(COMMIT, until))
        self._settle(work, batch, session)
        return batch.answers

    def _end_without_writing(self, work: Work, session: Session, locked: Locked, until: float) -> None:
        """Ends a transaction that only read. If what it read may be our own write, the standbys are to have that."""
        if not work.sent:
            session.command(ROLLBACK, until)
            return
        give_up(session, work.tenant, locked, Batch(), until)
        session.command(COMMIT, until)
        if session.is_warned:
            raise _Unsure

    def _was_committed(self, work: Work) -> bool:
        session, until = self._session(work), work.patience.until
        session.command(BEGIN, until)
        locked = lock(session, work.tenant, work.commands, until)
        if self._find_sent(work, session, locked, until) is not None:
            return True
        session.command(ROLLBACK, until)
        return False

    def _find_sent(self, work: Work, session: Session, locked: Locked, until: float) -> Batch | None:
        """Finds the batch that was committed although we did not hear of it, and makes sure that it stays.

        That it is there does not say that the standbys have it. A later commit that came through without a warning
        does, and ours is one: the locks we took are in the server's log.
        """
        for batch in work.sent:
            if has_event(session, work.tenant, batch, until):
                give_up(session, work.tenant, locked, Batch(), until)
                session.command(COMMIT, until)
                session.awaited = moved_keys(batch)  # whether anybody waits got lost with the answer
                self._settle(work, batch, session)
                return batch
        return None

    def _write(self, work: Work, batch: Batch, now: datetime) -> list[Answer] | View | None:
        """Writes in one statement that is its own transaction; gives the answers, or why it was refused."""
        if batch.is_empty:
            return batch.answers
        until = work.patience.until
        session = self._session(work)
        refusal = self._send(
            work, batch, lambda: write(session, work.tenant, batch, now, self.test_time(), until, work.signed)
        )
        if refusal is not None:
            work.sent.pop()
            self._heads.correct(work.tenant, work.runs, {} if refusal.instead is None else refusal.instead.heads)
            return refusal.instead
        self._settle(work, batch, session)
        return batch.answers

    def _send(self, work: Work, batch: Batch, send: Callable[[], Result]) -> Result:
        """Sends what makes a batch true, and remembers it until its fate is known."""
        work.sent.append(batch)
        try:
            return send()
        except Rejected as rejected:
            if rejected.sqlstate != _QUERY_CANCELED:
                work.sent.pop()
            raise
        except Lost as lost:
            if not lost.may_have_run:
                work.sent.pop()
            raise

    def _settle(self, work: Work, batch: Batch, session: Session) -> None:
        """Takes a batch for written, unless the commit came with a warning."""
        if session.is_warned:
            raise _Unsure
        work.sent.clear()
        self._heads.remember(work.tenant, batch, work.seen)
        self._ring(session.awaited)
