"""The shared store: one PostgreSQL database, any number of processes on any number of machines."""

from __future__ import annotations

import math
import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from indelible.core.commands import Answer, Command
from indelible.core.effects.effect import Claim, Effect
from indelible.core.effects.identity import Ref
from indelible.core.effects.stops import STOP_REF, read_stop
from indelible.core.events import Event, Payload, Provenance
from indelible.core.macs import Macs
from indelible.core.moving import adds_to_record, check_is_kept_here, origin_of
from indelible.core.paging import read_sheet
from indelible.core.ports import Alarm, Clock, Compare, Filter, Outline, Seen
from indelible.core.sheets import Sheet, SheetFilter
from indelible.errors import BadCall, StoreUnavailable
from indelible.stores.assumptions import named
from indelible.stores.postgres import rows, wire
from indelible.stores.postgres.address import Target
from indelible.stores.postgres.alarm import NotifyAlarm, Ringer
from indelible.stores.postgres.connections import Line, Lost, Rejected, Session
from indelible.stores.postgres.driver import pq
from indelible.stores.postgres.forgetting import PostgresForgetting
from indelible.stores.postgres.journal import PostgresJournal
from indelible.stores.postgres.lane import Lane
from indelible.stores.postgres.schema import check_schema
from indelible.stores.postgres.sheets import listing, sheets_from
from indelible.stores.postgres.statements import SQL, Statement
from indelible.stores.postgres.transaction import PostgresTransaction
from indelible.stores.postgres.trouble import Patience, explained, patiently, patiently_in_turn

PATIENCE = timedelta(seconds=10)
_MOST_TENANTS = 1000
_LOOK_EVERY = 5.0


class PostgresStore:
    """Keeps a ledger in a PostgreSQL database, durable when a call returns.

    It holds four connections at most: one writes, one reads, one keeps the journal, one tells others what changed.
    `patience` is how long a call goes on trying while the server is away, busy or failing over.
    """

    is_cheap_to_read = False
    unseen_kinds: frozenset[str] = frozenset()
    introduce: Callable[[str], Command] | None = None
    macs: Callable[[str], Macs] | None = None

    def __init__(
        self, url: str, *, wakeups: bool = True, clock: Clock | None = None, patience: timedelta = PATIENCE
    ) -> None:
        self._target = Target(url)
        self.address = self._target.address
        self.file: str | None = None
        self._clock = clock
        self._seconds = patience.total_seconds()
        self._wakeups = wakeups
        self._is_closed = False
        self._writing, self._reading = Line(self._target), Line(self._target)
        self._ringer = Ringer(self._target)
        journal = Line(self._target)
        others = (self._reading, journal)
        self._lane = Lane(self._writing, self._provenance, self._ring, clock, self._seconds, others)
        self.journal = PostgresJournal(journal, self._check_open, self._seconds)
        self.forgetting = PostgresForgetting(self._reading, self._check_open, self._seconds)
        self._sign: tuple[int, Callable[[bytes], bytes] | None] = (os.getpid(), None)
        self._become_a_writer()
        _STORES.add(self)
        self.ledger_name = self._open()

    def _open(self) -> str:
        """Connects, checks the schema and gives the ledger's name; a server that is away is told at once."""
        until = Patience(self._seconds, self._target).until
        try:
            with self._writing.lock:
                session = self._writing.session(until)
                check_schema(session, self._target, until)
                name = session.run(SQL["ledger_name"], (), until).get_value(0, 0)
                return named(None if name is None else name.decode(), self._target.address)
        except (Lost, Rejected) as problem:
            self.close()
            raise explained(self._target, problem) from problem
        except BaseException:
            self.close()
            raise

    def _become_a_writer(self) -> None:
        """Takes a name for this process; a forked child is a writer of its own."""
        self.writer_id = uuid.uuid4().hex
        self._provenances: dict[str, Provenance] = {}
        self._lane.introduced.clear()
        self._kept_here: dict[str, float] = {}

    @property
    def sign_event(self) -> Callable[[bytes], bytes] | None:
        """Signs the events this process writes; a forked child does not sign until it is given a key of its own."""
        pid, sign = self._sign
        return sign if pid == os.getpid() else None

    @sign_event.setter
    def sign_event(self, sign: Callable[[bytes], bytes] | None) -> None:
        self._sign = (os.getpid(), sign)

    @property
    def compare(self) -> Compare | None:
        """Compares a tenant's record with what was signed, before the first write of each new connection."""
        return self._lane.compare

    @compare.setter
    def compare(self, compare: Compare | None) -> None:
        self._lane.compare = compare

    def _provenance(self, tenant: str) -> Provenance:
        """Says whose events these are. Call it with the lock of the line that writes, which is asked once a tenant."""
        known, sign, macs = self._provenances.get(tenant), self.sign_event, self._macs_of(tenant)
        if known is None or known.sign is not sign or known.macs is not macs:
            if len(self._provenances) >= _MOST_TENANTS:
                self._provenances.clear()
            log = None if macs is None else macs.origin
            if log is None:
                log = patiently_in_turn(self._writing, *self._origin(tenant)) if known is None else known.log
            known = self._provenances[tenant] = Provenance(log=log, writer=self.writer_id, sign=sign, macs=macs)
        return known

    def _macs_of(self, tenant: str) -> Macs | None:
        return None if self.macs is None else self.macs(tenant)

    def origin(self, tenant: str) -> str:
        """Names a tenant's journal, as its keys say if there are any.

        A tenant that has no events yet may still be moved here, so its name is not remembered.
        """
        macs = self._macs_of(tenant)
        if macs is not None and macs.origin is not None:
            return macs.origin
        known = self._provenances.get(tenant)
        if known is not None:
            return known.log
        self._check_open()
        return patiently(self._writing, *self._origin(tenant))

    def _origin(self, tenant: str) -> tuple[float, Callable[[Session, float], str]]:
        statement = SQL["read_origin"]
        asked = statement.ordered(_texts({"tenant": tenant}))

        def read(session: Session, until: float) -> str:
            return origin_of(self.ledger_name, tenant, session.run(statement, asked, until).get_value(0, 0))

        return self._seconds, read

    # Writing

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Decides on what is known and writes guarded: one statement in the common case."""
        self._check_open()
        if any(adds_to_record(command) for command in commands):
            self._check_is_kept_here(tenant)
        introduction = self._introduction(tenant)
        answers = self._lane.apply(tenant, [*commands, *introduction], [*known, *[None] * len(introduction)])
        if introduction:
            self._lane.introduced.add(tenant)
        return answers[: len(commands)]

    def _introduction(self, tenant: str) -> list[Command]:
        """Return what tells the key that signs this process's events, unless the tenant's journal was told."""
        return [] if self.introduce is None or tenant in self._lane.introduced else [self.introduce(tenant)]

    def _check_is_kept_here(self, tenant: str) -> None:
        """Raise if the tenant was moved to another database; looked up at once, then every five seconds."""
        if time.monotonic() - self._kept_here.get(tenant, -math.inf) < _LOOK_EVERY:
            return
        found = read_sheet(self, tenant, STOP_REF)
        check_is_kept_here(None if found is None else read_stop(found), tenant)
        if len(self._kept_here) >= _MOST_TENANTS:
            self._kept_here.clear()
        self._kept_here[tenant] = time.monotonic()

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """Extends the lease while the claim holds."""
        effect = claim.effect
        values = {
            "now": self._moment(),
            "lease": wire.interval(lease),
            "tenant": effect.tenant.encode(),
            "scope": effect.scope.encode(),
            "key": bytes.fromhex(effect.key),
            "token": bytes.fromhex(claim.token_hash),
            "attempt": wire.bigint(effect.attempt),
        }
        return self._run("heartbeat", values).ntuples == 1

    @contextmanager
    def transaction(self, tenant: str) -> Iterator[PostgresTransaction]:
        """Opens a transaction for a handler, on a connection of its own."""
        self._check_open()
        if self._introduction(tenant):
            self.apply(tenant, [], [])
        transaction = PostgresTransaction(self._target, self._lane, tenant, self._seconds)
        try:
            yield transaction
        finally:
            transaction.close()

    # Reading

    def look(self, refs: Sequence[Ref]) -> Seen:
        """Reads the committed state of some effects, and the database's time."""
        # Also who asks for nothing gets the database's time: no effect has an empty key.
        places = refs or [Ref("", "", "")]
        values = rows.place_values(places, [None] * len(places), self._moment())
        found = self._run("look", values)
        effects = [rows.effect_from(found, row, self._macs_of(ref.tenant)) for row, ref in enumerate(refs)]
        return Seen(rows.time_from(found, 0), effects)

    def watch(self, refs: Sequence[Ref]) -> Seen:
        """Notes that somebody waits for these effects, then reads their committed state.

        Only in this order: whoever moves one between the two sees the note, and rings.
        """
        if self._wakeups and not self._target.is_pooled:
            # In the order in which everybody locks effects, so that none waits for another in a circle.
            self._run("mark_awaited", rows.place_values(sorted(refs), [], None))
        return self.look(refs)

    def get_effect(self, tenant: str, effect_id: str) -> Effect | None:
        """Finds an effect by its id or the beginning of it."""
        values = {"tenant": tenant, "first": effect_id, "last": effect_id + "\U0010ffff"}
        found = rows.effects_from(self._run("find_ids", _texts(values)), self._macs_of(tenant))
        if len(found) > 1 and found[0].id != effect_id:
            raise BadCall(f"{effect_id}… is the beginning of more than one id; give more of it")
        return found[0] if found else None

    def find_by_key(self, tenant: str, key: str, scope: str | None) -> Effect | None:
        """Finds an effect by its key."""
        if scope is not None:
            return self.look([Ref(tenant, scope, key)]).effects[0]
        values: rows.Named = {"tenant": tenant.encode(), "key": bytes.fromhex(key)}
        found = rows.effects_from(self._run("find_key", values), self._macs_of(tenant))
        if len(found) > 1:
            raise BadCall(f"{key} is the key of calls in several scopes; name the effect by its id")
        return found[0] if found else None

    def effects(self, tenant: str, selected: Filter) -> list[Effect]:
        """Lists effects, newest first."""
        values = {
            "tenant": tenant,
            "before": selected.before,
            "status": selected.status,
            "tool": selected.tool,
            "run_id": selected.run_id,
            "side_effect": selected.side_effect,
        }
        found = self._run("list_effects", _texts(values) | {"limit": wire.bigint(selected.limit)})
        return rows.effects_from(found, self._macs_of(tenant))

    def outlines(self, tenant: str, since: str, before: str | None, limit: int) -> list[Outline]:
        """Lists effects without what they recorded, newest first."""
        values = {"tenant": tenant, "since": since, "before": "\U0010ffff" if before is None else before}
        return rows.outlines_from(self._run("list_outlines", _texts(values) | {"limit": wire.bigint(limit)}))

    def alike(self, tenant: str, digests: Sequence[str], since: datetime, limit: int) -> list[Outline]:
        """List effects that say the same."""
        place = _texts({"tenant": tenant}) | {"digests": wire.hexes(digests), "since": wire.timestamptz(since)}
        return rows.outlines_from(self._run("list_alike", place | {"limit": wire.bigint(limit)}))

    def abandoned(self, tenant: str, limit: int) -> list[Effect]:
        """Lists effects in doubt and effects whose lease ran out."""
        values = {"tenant": tenant.encode(), "now": self._moment(), "limit": wire.bigint(limit)}
        return rows.effects_from(self._run("list_abandoned", values), self._macs_of(tenant))

    def events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """Lists a run's events."""
        place = _texts({"tenant": tenant, "run_id": run_id})
        found = self._run("list_events", place | {"after": wire.bigint(after), "limit": wire.bigint(limit)})
        return rows.events_from(found)

    def payloads(self, tenant: str, run_id: str, seqs: Iterable[int]) -> list[Payload]:
        """Lists what events commit to."""
        place = _texts({"tenant": tenant, "run_id": run_id})
        return rows.payloads_from(self._run("list_payloads", place | {"seqs": wire.bigints(seqs)}))

    def sheets(self, tenant: str, selected: SheetFilter) -> list[Sheet]:
        """Lists sheets of one kind with what is on them."""
        macs = self._macs_of(tenant)
        known = {} if macs is None else macs.known_of(selected)
        return sheets_from(self._repeat(*listing(tenant, selected)), selected, macs, known)

    def has_macs(self) -> bool:
        """Say whether this ledger's rows carry macs."""
        return wire.read_bigint(self._run("has_macs", {}).get_value(0, 0) or bytes(8)) > 0

    def _run(self, name: str, values: rows.Named) -> pq.abc.PGresult:
        """Carries out a statement that may be repeated, and repeats it while the server is away."""
        return self._repeat(SQL[name], values)

    def _repeat(self, statement: Statement, values: rows.Named) -> pq.abc.PGresult:
        self._check_open()
        ordered = statement.ordered(values)
        return patiently(self._reading, self._seconds, lambda session, until: session.run(statement, ordered, until))

    def _moment(self) -> bytes | None:
        """Gives the time to use instead of the database's, which only tests do."""
        return None if self._clock is None else wire.timestamptz(self._clock.now())

    # Waking

    def alarm(self) -> Alarm | None:
        """Gives an alarm for writes by other processes; behind a pooler there is none."""
        self._check_open()
        if not self._wakeups or self._target.is_pooled:
            return None
        try:
            return NotifyAlarm(self._target, lambda: self._ringer.backend_pid)
        except (Lost, Rejected) as problem:
            raise explained(self._target, problem) from problem

    def _ring(self, keys: Sequence[str]) -> None:
        """Tells other processes which effects moved, soon and in one go."""
        if keys and self._wakeups and not self._is_closed:
            self._ringer.ring(keys)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable(f"{self.address} is closed here; open it again")

    def close(self) -> None:
        """Closes the connections."""
        self._is_closed = True
        self._ringer.close()
        self.journal.close()
        self._writing.close()
        self._reading.close()


def _texts(values: Mapping[str, str | None]) -> rows.Named:
    return {name: None if text is None else text.encode() for name, text in values.items()}


_STORES: weakref.WeakSet[PostgresStore] = weakref.WeakSet()


def _become_other_writers() -> None:
    for store in list(_STORES):
        store._become_a_writer()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_become_other_writers)
