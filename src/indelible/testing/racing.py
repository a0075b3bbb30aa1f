"""What the racing processes of the conformance suite do. Importable, so that a fresh process can find it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any

from indelible.core.approvals.sheets import read_approval
from indelible.core.commands import Answer, Claimed, Decided, Kept
from indelible.core.effects.effect import Actor
from indelible.core.ports import Store
from indelible.core.sheets import Sheet, SheetFilter
from indelible.testing.commands import Commands, charged

Factory = Callable[[], Store]
PATIENCE = 60.0


def race(factory: Factory, body: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Runs `body(store, barrier, *arguments)` in one process per tuple of arguments, and gives what each returned."""
    context = multiprocessing.get_context("spawn")  # a forked child would share what must not be shared
    barrier = context.Barrier(len(arguments))
    processes, lines = [], []
    for given in arguments:
        ours, theirs = context.Pipe()
        process = context.Process(target=_racer, args=(theirs, factory, body, barrier, given), daemon=True)
        process.start()
        theirs.close()
        processes.append(process)
        lines.append(ours)
    results = []
    for process, line in zip(processes, lines, strict=True):
        assert line.poll(PATIENCE), "a racing process said nothing"
        results.append(line.recv())
        process.join(PATIENCE)
        line.close()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _racer(line: Any, factory: Factory, body: Callable[..., Any], barrier: Barrier, given: tuple[Any, ...]) -> None:
    store = factory()
    try:
        barrier.wait(PATIENCE)
        line.send(body(store, *given))
    except Exception as error:
        line.send(RuntimeError(f"{type(error).__name__}: {error}"))
    finally:
        store.close()


def open_same_keys(store: Store, tenant: str, count: int) -> list[int]:
    """Asks for the same effects as every other racer, one after the other; gives which of them it was granted."""
    make = Commands(tenant)
    return [n for n in range(count) if isinstance(_one(store, tenant, make.open(f"same-{n}")), Claimed)]


def open_own_keys(store: Store, tenant: str, racer: int, count: int) -> int:
    """Opens effects of its own, all in one run that every other racer writes to as well."""
    make = Commands(tenant)
    return sum(isinstance(_one(store, tenant, make.open(f"own-{racer}-{n}")), Claimed) for n in range(count))


def open_and_die(store: Store, tenant: str) -> None:
    """Opens and settles an effect, and is gone before it could do anything more."""
    make = Commands(tenant)
    claimed = _one(store, tenant, make.open("durable"))
    assert isinstance(claimed, Claimed)
    _one(store, tenant, make.finish(claimed.claim))
    os._exit(17)


def move_and_tell(store: Store, tenant: str) -> str:
    """Moves an effect that somebody else watches, by approving what is asked about it."""
    (sheet,) = store.sheets(tenant, SheetFilter(kind="approval"))
    return type(_one(store, tenant, Commands(tenant).approve(read_approval(sheet)))).__name__


def vote_on_all(store: Store, tenant: str, voter: str) -> int:
    """Approves everything that is asked; gives how many of its votes were counted."""
    make = Commands(tenant)
    sheets = store.sheets(tenant, SheetFilter(kind="approval", limit=1000))
    votes = [make.approve(read_approval(sheet), Actor(voter)) for sheet in sheets]
    return sum(isinstance(_one(store, tenant, vote), Decided) for vote in votes)


def claim_all(store: Store, tenant: str, count: int) -> list[int]:
    """Asks for effects that were approved, one after the other; gives which of them it was granted."""
    make = Commands(tenant)
    return [n for n in range(count) if isinstance(_one(store, tenant, make.ask(f"asked-{n}")), Claimed)]


def spend_all(store: Store, tenant: str, racer: int, count: int) -> int:
    """Opens effects of its own that are charged to one budget which all share; gives how many it was granted."""
    make = Commands(tenant)
    opened = (make.open(f"paid-{racer}-{n}", verdict=charged(2), run_id=f"run-{racer}") for n in range(count))
    return sum(isinstance(_one(store, tenant, opening), Claimed) for opening in opened)


def keep_all(store: Store, tenant: str, racer: int, version: int, count: int) -> list[int]:
    """Gives the same sheets as every other racer their next version; gives of which of them it was the first."""
    make = Commands(tenant)
    body = b'{"by":%d}' % racer
    sheets = [Sheet(kind="delivery", id=f"kept-{n}", version=version, status="due", body=body) for n in range(count)]
    return [n for n, sheet in enumerate(sheets) if isinstance(_one(store, tenant, make.keep(sheet)), Kept)]


def run_to_its_death(factory: Factory, tenant: str) -> int | None:
    """Runs `open_and_die` in a process of its own and gives how that ended."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_dying, args=(factory, tenant), daemon=True)
    process.start()
    process.join(PATIENCE)
    return process.exitcode


def _dying(factory: Factory, tenant: str) -> None:
    open_and_die(factory(), tenant)


def _one(store: Store, tenant: str, command: Any) -> Answer:
    return store.apply(tenant, [command], [None])[0]
