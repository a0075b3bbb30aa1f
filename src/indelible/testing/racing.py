"""What the racing processes of the conformance suite do. Importable, so that a fresh process can find it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.synchronize import Barrier
from typing import Any

from indelible.core.commands import Answer, Claimed
from indelible.core.ports import Store
from indelible.testing.commands import Commands

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
    """Moves an effect that somebody else watches."""
    make = Commands(tenant)
    return type(_one(store, tenant, make.approve(make.ref("watched")))).__name__


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
