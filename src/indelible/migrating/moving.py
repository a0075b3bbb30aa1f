"""Moves a ledger, or one tenant of it, to another database: what runs there goes on as if it had always been there.

Names, journals and their signed heads stay the same, so whatever an auditor holds still verifies. The old place is
stopped on the record before anything is read, and stays so: whoever still asks there is told where it is now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from indelible.core.effects.stops import Cause
from indelible.core.journal.journal import Tree
from indelible.core.journal.merkle import consistency_proof
from indelible.core.journal.tiles import node_reader
from indelible.core.moving import (
    Held,
    Standing,
    check_holds,
    check_is_leaving,
    check_is_quiet,
    check_stood_still,
    is_moved_elsewhere,
    moved_to,
    standing,
    stop_to_leave,
)
from indelible.core.ports import Filter, Store
from indelible.engine.authenticating import authenticate_rows
from indelible.engine.desk import _person
from indelible.engine.stops import Stops
from indelible.errors import BadCall, Misconfigured
from indelible.journal.examining import take_in_all
from indelible.journal.keys.files import resolved_keys
from indelible.journal.keys.places import expected_in, forget_place
from indelible.journal.keys.writers import key_maker
from indelible.journal.sealing import stop_of
from indelible.ledger import Ledger
from indelible.migrating.handing_over import Handover
from indelible.migrating.taking import Progress, untold
from indelible.stores import (
    OF_TENANTS,
    Place,
    carry_over,
    carry_tenant_over,
    check_shown,
    is_postgres,
    is_remote,
    migrate,
    open_store,
    place_of,
    rows_at,
    sqlite_path,
)

_LOOKED_AT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Is what was moved, or would be: from where, to where, how many rows, and the journals of whom.

    `rows` counts by table. A tenant that had been carried by an earlier try, which is only finished, has none there.
    """

    source: str
    target: str
    rows: Mapping[str, int]
    journals: Mapping[str, Tree]
    found: int


def move(source: str, target: str, *, by: str, progress: Progress = untold, is_dry_run: bool = False) -> Move:
    """Moves the ledger at one address to another, where there is none yet.

    Whatever goes wrong, nothing is at the new place, and the old one goes on. Whoever was killed does it again; what
    had been carried whole is finished then.
    """
    _check_are_databases(source, target)
    if is_dry_run:
        return _plan_all(source, target)
    folder = resolved_keys(None)
    migrate(target, expected_in(folder), key_maker(folder))
    check_shown(target)
    with _opened(source) as here, _opened(target) as there:
        old, new = here.address, there.address
        reason = moved_to(new)
        tenants = _kept_here(here, reason)
        journals: Mapping[str, Tree] = {tenant: here.journal.tree(tenant) for tenant in tenants}
        rows: Mapping[str, int] = {}
        if here.ledger_name != there.ledger_name:
            rows, journals = _carry_all(source, target, tenants, by, reason, progress)
        elif (
            old == new or not tenants or any(_standing(here, there, tenant, reason) != "carried" for tenant in tenants)
        ):
            raise Misconfigured(f"{new} is this ledger already; name another database")
        stops = {tenant: stop_of(here, tenant) for tenant in tenants}
    for tenant, stop in stops.items():
        stopped = None if stop is None else stop.cause("person")
        _arrive(target, tenant, by, reason, f"moved here from {old}", stopped=stopped)
    return Move(source=old, target=new, rows=rows, journals=journals, found=sum(rows.values()))


def _kept_here(store: Store, reason: str) -> list[str]:
    """Lists the tenants that are to be stopped; one that was moved away is carried as it was left, stopped.

    If all were, the whole ledger was moved away, and `leave` says so.
    """
    stops = {tenant: stop_of(store, tenant) for tenant in store.journal.tenants()}
    kept = [tenant for tenant, stop in stops.items() if stop is None or not is_moved_elsewhere(stop, reason)]
    return kept or list(stops)


def _plan_all(source: str, target: str) -> Move:
    """Tells what would be moved; the new place need not be there yet."""
    with _opened(source) as here, rows_at(source) as rows:
        tenants, found = _kept_here(here, moved_to(target)), rows.count()
        for tenant in tenants:
            _check_quiet(here, tenant)
        journals = {tenant: here.journal.tree(tenant) for tenant in tenants}
        return Move(source=here.address, target=target, rows={}, journals=journals, found=found)


def _carry_all(
    source: str, target: str, tenants: Sequence[str], by: str, reason: str, progress: Progress
) -> tuple[Mapping[str, int], Mapping[str, Tree]]:
    """Stops everybody here and carries them there; whatever goes wrong, they go on here and are not there."""
    ours: list[str] = []
    try:
        ours += (tenant for tenant in tenants if _leave(source, tenant, by, reason))
        with _opened(source) as store:
            journals = {tenant: _quiet(store, tenant) for tenant in tenants}
        forget_place(place_of(target))  # the ledger that was begun there gives way to this one
        return carry_over(source, target, progress), journals
    except BaseException:
        for tenant in ours:
            _arrive(source, tenant, by, reason, f"was not {reason}")
        raise


def _standing(here: Store, there: Store, tenant: str, reason: str) -> Standing:
    return standing(_held(here, tenant), _held(there, tenant), reason, there.address, tenant)


def move_tenant(
    source: str, target: str, tenant: str, *, by: str, progress: Progress = untold, is_dry_run: bool = False
) -> Move:
    """Moves one tenant to another ledger, in which others go on; those at the old place go on as well.

    The tenant is in one place at any moment, or in none. Whoever was killed does it again: what had been carried whole
    is finished, and everything else is carried anew.
    """
    _check_are_databases(source, target)
    if not is_postgres(target) and not Path(sqlite_path(target)).is_file():
        raise Misconfigured(f"there is no ledger at {target} yet; make it: indelible migrate --url {target}")
    check_shown(target)
    with _opened(source) as here, _opened(target) as there:
        moving = _Moving(source, target, tenant, here, there, by)
        plan = moving.plan()
        if is_dry_run:
            return plan
        if moving.standing != "carried":
            plan = replace(plan, rows=moving.carry(progress))
        moving.finish()
        return replace(plan, journals={tenant: there.journal.tree(tenant)})


class _Moving:
    """Is one tenant on its way, with both places open."""

    def __init__(self, source: str, target: str, tenant: str, here: Store, there: Store, by: str) -> None:
        self._source, self._target, self._tenant = source, target, tenant
        self._here, self._there, self._by = here, there, by
        self._reason = moved_to(there.address)
        self._keys = Handover(tenant, here.ledger_name, there.ledger_name)
        self.standing: Standing = "free"

    def plan(self) -> Move:
        """Tells what is to be moved; raises when that is not allowed, before anything is touched."""
        here, there, tenant = self._here, self._there, self._tenant
        if here.address == there.address:
            raise Misconfigured(f"{there.address} is where {tenant} is already; name another database")
        with rows_at(self._source) as rows:
            found = rows.count(tenant)
        check_holds(found, tenant, here.address)
        with rows_at(self._target) as rows:
            is_held = rows.count(tenant) > 0
        held = _held(here, tenant)
        other = _held(there, tenant) if is_held else None
        self.standing = standing(held, other, self._reason, there.address, tenant)
        if self.standing != "carried":
            stop_to_leave(held.stop, tenant, by=_person(self._by), at=here.look([]).now, reason=self._reason)
            _check_quiet(here, tenant)
            self._keys.check(here, there)
        return Move(source=here.address, target=there.address, rows={}, journals={tenant: held.tree}, found=found)

    def carry(self, progress: Progress) -> dict[str, int]:
        """Stops the tenant here and carries it there; whatever goes wrong, it goes on here and is not there."""
        here, tenant = self._here, self._tenant
        is_ours = _leave(self._source, tenant, self._by, self._reason)
        try:
            _quiet(here, tenant)
            self._keys.seal(here)
            tree = _quiet(here, tenant)
            return carry_tenant_over(
                self._source,
                self._target,
                tenant,
                progress,
                before_writing=self._make_room,
                before_commit=lambda place: self._complete(place, tree),
            )
        except BaseException:
            self._keys.take_back()
            if is_ours:
                _arrive(self._source, tenant, self._by, self._reason, f"was not {self._reason}")
            raise

    def _make_room(self, place: Place) -> None:
        """Sees to it that nothing of the tenant is there: only what it left there itself may be taken away."""
        if self.standing == "left":
            self._keys.replace(place)
            for table in OF_TENANTS:
                place.clear(table, self._tenant)
        elif place.count(self._tenant):
            raise Misconfigured(f"somebody began to use {self._tenant} at {self._there.address}; name another database")

    def _complete(self, place: Place, tree: Tree) -> None:
        """Does what is left to be done in the transaction in which the tenant arrives."""
        self._keys.bring(place, self._here.origin(self._tenant))
        journal = self._here.journal
        check_stood_still(tree, journal.tree(self._tenant), journal.waiting(self._tenant), self._tenant)

    def finish(self) -> None:
        """Hands the keys over and lets the tenant go on at the new place; done twice, it is done once."""
        check_is_leaving(stop_of(self._here, self._tenant), self._tenant, self._reason)
        self._keys.hand_over(self._there, self._here.origin(self._tenant))
        _arrive(self._target, self._tenant, self._by, self._reason, f"moved here from {self._here.address}")
        self._keys.seal_arrival(self._there)


def _check_are_databases(source: str, target: str) -> None:
    for address in (source, target):
        if is_remote(address):
            raise BadCall(f"{address} is a server; name the database behind it")
        if not is_postgres(address) and sqlite_path(address) == ":memory:":
            raise BadCall(":memory: lives in the program that opened it; name a file or a PostgreSQL database")
    check_shown(source)


def _leave(address: str, tenant: str, by: str, reason: str) -> bool:
    """Stops a tenant; says whether it is up to us to let it go when it does not get there.

    A stop that was there already is of an earlier try, or of somebody who moves it at this moment.
    """
    with _ledger(address, tenant) as ledger:
        return Stops(ledger._engine, tenant).leave(_person(by), reason)


def _arrive(address: str, tenant: str, by: str, left_with: str, reason: str, *, stopped: Cause | None = None) -> None:
    """Let a tenant go on at a place; `stopped` is the stop of a person who made it while the tenant was carried."""
    with _ledger(address, tenant) as ledger:
        stops = Stops(ledger._engine, tenant)
        if stopped is not None:
            stops.stop(_person(stopped.by), stopped.reason)
        stops.arrive(_person(by), left_with, reason)


def _quiet(store: Store, tenant: str) -> Tree:
    """Sees to it that nothing of a tenant is under way, and gives its journal, which holds every event then.

    Events that wait for the journal could be taken into it in another order there and here, and the signer would see
    two journals.
    """
    _check_quiet(store, tenant)
    take_in_all(store, tenant)
    return store.journal.tree(tenant)


def _check_quiet(store: Store, tenant: str) -> None:
    now = store.look([]).now
    check_is_quiet(store.effects(tenant, Filter(status="processing", limit=_LOOKED_AT)), tenant, now)


def _held(store: Store, tenant: str) -> Held:
    tree = store.journal.tree(tenant)
    read = node_reader(lambda level, number: store.journal.tile(tenant, level, number))
    prove = partial(consistency_proof, new=tree.size, read=read)
    return Held(tree=tree, prove=prove, stop=stop_of(store, tenant))


def _opened(address: str) -> AbstractContextManager[Store]:
    store = open_store(address, wakeups=False, expect=expected_in(None), create=False)
    authenticate_rows(store, None)
    return closing(store)


def _ledger(address: str, tenant: str) -> Ledger:
    """Opens a ledger that only writes, so it needs no key: whoever sealed before seals."""
    return Ledger.open(address, tenant=tenant, wakeups=False, seal=False)
