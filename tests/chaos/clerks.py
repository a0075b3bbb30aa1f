"""Processes that keep a ledger open and do one errand after the other, so that many rounds cost one start."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, TypeVar

from tests.chaos import mutants
from tests.chaos.approval_subject import Office, Place, Rules
from tests.chaos.procs import Child, ChildRaised

Item = TypeVar("Item")
Result = TypeVar("Result")


class Clerk:
    """One process with an office of its own; `ask` gives it an errand, `answer` waits for what came of it."""

    def __init__(self, place: Place, rules: Rules) -> None:
        self.child = Child(serve, place, rules)

    def ask(self, errand: Callable[..., Any], *args: Any) -> None:
        """Sends the clerk on an errand: a function of the office and these arguments."""
        self.child.tell((errand, args))

    def answer(self) -> Any:
        """Waits for what the errand gave; raises `ChildRaised` when it raised."""
        is_good, value = self.child.hear()
        if not is_good:
            raise ChildRaised(value)
        return value

    def do(self, errand: Callable[..., Any], *args: Any) -> Any:
        """Does both."""
        self.ask(errand, *args)
        return self.answer()


class Clerks:
    """Some clerks, who all end together."""

    def __init__(self, place: Place, rules: Rules, many: int) -> None:
        self._exits = ExitStack()
        self.all = [Clerk(place, rules) for _ in range(many)]
        for clerk in self.all:
            self._exits.enter_context(clerk.child)
        for clerk in self.all:
            clerk.answer()  # that it is open

    def share(self, errand: Callable[..., Any], each: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Sends each clerk on the errand with arguments of its own, all at once, and gives what came of it."""
        sent = list(zip(self.all, each, strict=False))
        for clerk, args in sent:
            clerk.ask(errand, *args)
        return [clerk.answer() for clerk, _ in sent]

    def __enter__(self) -> Clerks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            for clerk in self.all:
                clerk.child.tell(None)
            for clerk in self.all:
                clerk.child.result()
        self._exits.close()


def serve(line: Connection, place: Place, rules: Rules) -> None:
    """Does errands until there are no more."""
    mutants.plant(place.mutant)
    with Office(place, rules) as office:
        line.send((True, "open"))
        for errand, args in iter(line.recv, None):
            line.send((True, errand(office, *args)))


def at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Calls the function for all items together, each in a thread of its own."""
    items = list(items)
    with ThreadPoolExecutor(len(items)) as threads:
        return list(threads.map(function, items))
