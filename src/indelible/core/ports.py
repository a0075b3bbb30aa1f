"""What the core needs from outside, as contracts. Every MUST has a conformance test whose name repeats it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from indelible.core.commands import Answer, Command
from indelible.core.effects.calls import SideEffect
from indelible.core.effects.effect import Claim, Effect, Status, approval_named
from indelible.core.effects.identity import Ref
from indelible.core.events import Event, Payload
from indelible.core.journal.journal import JournalStore
from indelible.core.journal.notes import TreeHead
from indelible.core.macs import Macs
from indelible.core.privacy.forgetting import ForgettingStore
from indelible.core.sheets import Sheet, SheetFilter


class Clock(Protocol):
    """Tells the time, aware and in UTC."""

    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects effects; what is None does not matter. `before` is an effect id: only older ones."""

    status: Status | None = None
    tool: str | None = None
    run_id: str | None = None
    side_effect: SideEffect | None = None
    before: str | None = None
    limit: int = 100


class Outline(NamedTuple):
    """Is what can be counted of an effect without reading what it recorded; many of them are read at once."""

    id: str
    run_id: str
    tool: str
    side_effect: SideEffect
    status: Status
    attempt: int
    permission_id: str | None
    created_at: datetime
    updated_at: datetime
    digest: str
    """The call digest: equal for calls that say the same, in whatever run and under whatever key."""

    @property
    def approval_id(self) -> str | None:
        """Return the id of the newest approval that was asked for, or None."""
        return approval_named(self.permission_id)


@dataclass(frozen=True, slots=True)
class Seen:
    """Is what a store knows of some effects at one moment of its own clock."""

    now: datetime
    effects: list[Effect | None]


class Alarm(Protocol):
    """Tells when another process may have changed something; a file descriptor to wait on."""

    def fileno(self) -> int: ...

    def drain(self) -> set[str] | None:
        """Takes what came in: the first 16 digits of the keys that changed, or None for "look at everything"."""

    def close(self) -> None: ...


class Transaction(Protocol):
    """Is an open transaction that a handler writes in, and that settles its effect in the same commit."""

    connection: Any

    def settle(self, command: Command) -> Answer:
        """Decides the command inside the transaction.

        MUST commit the effect and what the handler wrote together when the answer is `Moved`, and MUST roll both back
        for any other answer or error.
        """

    def is_committed(self) -> bool:
        """Say whether the handler may have committed what it wrote by itself; True where that cannot be told."""


class Compare(Protocol):
    """Knows, from outside the database, what was signed."""

    def __call__(self, tenant: str) -> bool:
        """Compare a tenant's record with what was signed; stop its effects and return False if it lacks a part.

        Raises:
            KeyUnusable: What was signed cannot be read, so it cannot be told. Nothing may be written.
            StoreError: The store did not answer. Nothing may be written.
        """

    def last(self, origin: str) -> TreeHead | None:
        """Return the head of a journal that was signed last, None if that is not known here.

        Raises:
            KeyUnusable: What was signed cannot be read.
        """

    def signed(self, origin: str) -> int:
        """Return how many entries of a journal were signed, 0 if that is not known here. Asked before every claim.

        Raises:
            KeyUnusable: What was signed cannot be read. Nothing may be claimed.
        """


Expect = Callable[[str, str | None], None]
"""Raises if another ledger belongs into a place, given its path or address and the name of the ledger that is there."""
Begin = Callable[[str], None]
"""Makes the writer keys of a new ledger, by its name, and raises if they cannot be kept.

A store calls it in the transaction that begins the ledger. The keys are durable when it returns, so a process that is
killed leaves no ledger without its keys. Rows of a ledger that was begun with it carry macs.
"""


class Store(Protocol):
    """Keeps effects, runs' heads, events and payloads. It holds no rules: `core.batch.decide` decides.

    A store is used from many threads at once.
    """

    address: str
    """Names the store in error messages, without any password."""
    file: str | None
    """Is the whole path of the file that holds it; None in memory and behind a server."""
    ledger_name: str
    """Is the name under which this ledger's journals are known; made once, kept in the store."""
    is_cheap_to_read: bool
    """Does a look cost next to nothing, so that it pays to look before writing?"""
    unseen_kinds: frozenset[str]
    """Names the kinds of sheets that this store does not show to whoever opened it, though there may be some."""
    sign_event: Callable[[bytes], bytes] | None
    """Signs the events this process writes, when they are to carry a signature of their own."""
    introduce: Callable[[str], Command] | None
    """Gives the command that tells this process's key in a tenant's journal.

    MUST be written in one transaction with the first events that this process signs for the tenant, and again with the
    first ones after the database was found to be set back: the record may lack it.
    """
    macs: Callable[[str], Macs] | None
    """Gives what makes and checks the macs of a tenant's rows; None where rows carry none.

    With it, MUST write a mac with every event, payload, effect and sheet, and MUST NOT give a row to anyone that
    `Macs` does not believe.
    """
    compare: Compare | None
    """Compares a tenant's record with what was signed, and stops its effects if the record lacks a part of that.

    MUST be called, without any lock held, before the first write for each tenant through each new connection, and
    before every write for a tenant that lacked a part. Only a stop may be written before that. MUST also be called
    before a claim is written to a tree that has fewer entries than `compare.signed` says: the database may be replaced
    under an open connection.
    """

    def has_macs(self) -> bool:
        """Say whether this ledger's rows carry macs; a program that finds no key here is told so at once."""

    def origin(self, tenant: str) -> str:
        """Names a tenant's journal: after this ledger, or, if the tenant was moved here, as it was called before."""

    @property
    def writer_id(self) -> str:
        """Names this process in the events it writes; a forked child gets a name of its own."""

    @property
    def journal(self) -> JournalStore:
        """Is the keeper of the tree over the events."""

    @property
    def forgetting(self) -> ForgettingStore:
        """Finds what may be erased, and clears away what erasing leaves behind."""

    def apply(self, tenant: str, commands: Sequence[Command], known: Sequence[Effect | None]) -> list[Answer]:
        """Decides and writes commands of one tenant as one durable transaction, and answers each.

        MUST decide every command with `core.batch.decide`, on a state that nobody changed before the commit: of its
        effect, of its run's head, and of the sheets that `core.steps.needed_sheets` names once the effect is known; for
        an `Open` also of the tenant's stop, and of the limits of its run if it does not know them.
        MUST write all of it or nothing. MUST NOT return before it is durable. MUST give, after a commit whose outcome
        got lost, the answers of what was really committed. The `lease_until` of a claim it gives MAY differ from the
        stored one by the time a statement takes, for leases are counted by the store's own clock. Afterwards it rings
        the alarms of those who watch.
        `known` holds the states the callers saw last; a store MAY decide on them first if it guards the write.
        """

    def look(self, refs: Sequence[Ref]) -> Seen:
        """MUST give the committed state of each effect, None where there is none, and the store's time."""

    def watch(self, refs: Sequence[Ref]) -> Seen:
        """Does what `look` does, and sees to it that moves of these effects by other processes ring the alarm.

        An alarm MAY get lost, for waiting callers also look at times.
        """

    def heartbeat(self, claim: Claim, lease: timedelta) -> bool:
        """MUST extend the lease only while the claim's token, attempt, status and lease hold; says whether."""

    def get_effect(self, tenant: str, effect_id: str) -> Effect | None:
        """Gives the effect with this id, or the only one whose id begins so."""

    def find_by_key(self, tenant: str, key: str, scope: str | None) -> Effect | None:
        """Return the effect with this key; without its scope this reads every effect of the tenant.

        Without a scope, it MUST refuse a key of several scopes (`BadCall`).
        """

    def effects(self, tenant: str, selected: Filter) -> list[Effect]:
        """List effects by id, the largest first; ids do not keep the order of a run's calls."""

    def outlines(self, tenant: str, since: str, before: str | None, limit: int) -> list[Outline]:
        """Lists effects without what they recorded, newest first: ids from `since` on, and below `before`."""

    def alike(self, tenant: str, digests: Sequence[str], since: datetime, limit: int) -> list[Outline]:
        """List effects that were opened from `since` on and have one of these digests, at most `limit`, in any order.

        It looks by an index. Calls that only read are not among them.
        """

    def abandoned(self, tenant: str, limit: int) -> list[Effect]:
        """Lists effects that are in doubt, or processing past their lease by the store's clock, oldest first."""

    def events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """Lists a run's events numbered above `after`, in order."""

    def payloads(self, tenant: str, run_id: str, seqs: Iterable[int]) -> list[Payload]:
        """Lists what the events with these numbers commit to and what has not been erased."""

    def sheets(self, tenant: str, selected: SheetFilter) -> list[Sheet]:
        """Lists sheets of one kind with what is on them; MUST give None as the body of one that was erased.

        MUST NOT give the body of a recorded one that is not what its event commits to: that is None as well, here and
        wherever something is decided on it, so that nobody who only changes the tables decides anything by it.
        """

    def transaction(self, tenant: str) -> AbstractContextManager[Transaction]:
        """Opens a transaction of the caller's own on the same database."""

    def alarm(self) -> Alarm | None:
        """Gives a fresh alarm for changes by other processes, or None when there is no such thing here."""

    def close(self) -> None:
        """Gives everything back; MAY be called twice."""


def time_in(store: Store, tenant: str) -> datetime:
    """Return the time by the store's clock, by which leases end; our own may be wrong."""
    return store.look([Ref(tenant, "clock", "0" * 64)]).now
