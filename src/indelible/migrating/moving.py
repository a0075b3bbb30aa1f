"""Moves a whole ledger to another database: what runs there goes on as if it had always been there.

Name, keys, journals and their signed heads stay the same, so whatever an auditor holds still verifies. The old place is
stopped on the record before anything is read, and stays so: whoever still asks there is told where the ledger is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from indelible.core.journal.journal import Tree
from indelible.core.ports import Filter, Store
from indelible.errors import BadCall, IllegalMove, Misconfigured
from indelible.ledger import Ledger
from indelible.migrating.taking import Progress, untold
from indelible.stores import carry_over, check_shown, is_postgres, is_remote, migrate, open_store, sqlite_path

_LOOKED_AT = 1000
_MOVED_TO = "moved to "


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Is a ledger that was moved: from where, to where, how many rows of which table, and its journals."""

    source: str
    target: str
    rows: Mapping[str, int]
    journals: Mapping[str, Tree]


def move(source: str, target: str, *, by: str, progress: Progress = untold) -> Move:
    """Moves the ledger at one address to another, where there is none yet.

    Whatever goes wrong, nothing is at the new place, and the old one goes on. Whoever was killed does it again.
    """
    _check_are_databases(source, target)
    with _opened(source) as store:
        name, old, tenants = store.ledger_name, store.address, store.journal.tenants()
    migrate(target)
    check_shown(target)
    with _opened(target) as store:
        new = store.address
        if store.ledger_name == name:
            raise Misconfigured(
                f"{new} is this ledger already; if its effects are stopped there, let them go: indelible go --url {new}"
            )
    reason = f"{_MOVED_TO}{new}"
    stopped: list[str] = []
    try:
        stopped += (tenant for tenant in tenants if _stop(source, tenant, by, reason))
        with _opened(source) as store:
            journals = {tenant: _quiet(store, tenant) for tenant in tenants}
        rows = carry_over(source, target, progress)
    except BaseException:
        _let_go(source, stopped, by, f"was not {reason}")
        raise
    _let_go(target, stopped, by, f"moved here from {old}")
    return Move(source=old, target=new, rows=rows, journals=journals)


def _check_are_databases(source: str, target: str) -> None:
    for address in (source, target):
        if is_remote(address):
            raise BadCall(f"{address} is a server; name the database behind it")
        if not is_postgres(address) and sqlite_path(address) == ":memory:":
            raise BadCall(":memory: lives in the program that opened it; name a file or a PostgreSQL database")
    check_shown(source)


def _stop(address: str, tenant: str, by: str, reason: str) -> bool:
    """Stops a tenant's effects; says whether it is up to us to let them go: somebody else's stop stays in force."""
    with _ledger(address, tenant) as ledger:
        stop = ledger.stop(by=by, reason=reason)
    if stop.reason.startswith(_MOVED_TO) and stop.reason != reason:
        raise Misconfigured(f"this ledger was {stop.reason}; what happened there since is not here: move it from there")
    return stop.reason == reason


def _let_go(address: str, tenants: Iterable[str], by: str, reason: str) -> None:
    for tenant in tenants:
        with _ledger(address, tenant) as ledger:
            ledger.go(by=by, reason=reason)


def _quiet(store: Store, tenant: str) -> Tree:
    """Sees to it that nothing of a tenant is under way, and gives its journal, which holds every event then.

    A handler that is at work would report to the old place. Events that wait for the journal could be taken into it in
    another order there and here, and the signer would see two journals.
    """
    now = store.look([]).now
    working = store.effects(tenant, Filter(status="processing", limit=_LOOKED_AT))
    alive = [effect for effect in working if not effect.is_abandoned(now)]
    if alive:
        raise IllegalMove(
            f"{len(alive)} of {tenant} may be at work now, for example {alive[0].id} ({alive[0].tool}); wait until "
            "they are done, or stop their processes and wait for their leases to end, then do it again"
        )
    while store.journal.integrate(tenant, store.journal.most_at_once) is not None:
        pass
    return store.journal.tree(tenant)


def _opened(address: str) -> closing[Store]:
    return closing(open_store(address, wakeups=False))


def _ledger(address: str, tenant: str) -> Ledger:
    """Opens a ledger that only writes, so it needs no key: whoever sealed before seals."""
    return Ledger.open(address, tenant=tenant, wakeups=False, seal=False)
