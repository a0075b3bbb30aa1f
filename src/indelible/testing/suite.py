"""What the conformance suites share: the hook that opens the store, and short ways to ask it and to check it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from indelible.core.commands import Answer, AwaitingApproval, Claimed, Command
from indelible.core.effects.effect import Claim, Effect
from indelible.core.events import NO_EVENTS, Event, event_hash
from indelible.core.policy.verdicts import Verdict
from indelible.core.ports import Clock, Store
from indelible.testing.commands import Commands, asking

PATIENCE = 30.0


class Suite:
    """Opens the store under test as often as a case likes; every time it is the same database."""

    def factory(self) -> Callable[..., Store]:
        """Gives what opens the store: picklable, for other processes, and taking `clock=`."""
        raise NotImplementedError

    def tamper(self, tenant: str, run_id: str, seq: int, field: str, value: bytes) -> None:
        """Overwrites what an event commits to, as somebody with the database's password would."""
        raise NotImplementedError

    def handler_writes(self, connection: Any, number: int) -> None:
        """Writes a number through a transaction's connection, as a handler would."""
        raise NotImplementedError

    def handler_wrote(self) -> list[int]:
        """Gives the numbers that were written and committed, in any order, seen from outside."""
        raise NotImplementedError

    @contextmanager
    def opened(self, clock: Clock | None = None) -> Iterator[Store]:
        """Opens the store for a while."""
        store = self.factory()(clock=clock)
        try:
            yield store
        finally:
            store.close()

    def tenant(self) -> str:
        """Gives a tenant without effects."""
        return f"tenant-{os.urandom(6).hex()}"


def apply_one(store: Store, command: Command, known: Effect | None = None) -> Answer:
    """Gives the answer to one command."""
    return store.apply(command.ref.tenant, [command], [known])[0]


def take_claim(store: Store, make: Commands, name: str, **changes: Any) -> Claim:
    """Opens an effect and gives the claim on it."""
    answer = apply_one(store, make.open(name, **changes))
    assert isinstance(answer, Claimed), answer
    return answer.claim


def ask_about(
    store: Store, make: Commands, name: str, verdict: Verdict | None = None, **changes: Any
) -> AwaitingApproval:
    """Opens an effect about which somebody is asked, and gives the question."""
    answer = apply_one(store, make.ask(name, verdict=verdict or asking(), **changes))
    assert isinstance(answer, AwaitingApproval), answer
    return answer


@contextmanager
def raises(kind: type[Exception] = Exception) -> Iterator[None]:
    """Sees that something is refused."""
    try:
        yield
    except kind:
        return
    raise AssertionError("this was to be refused")


def fail() -> float:
    """Raises, as a handler may; what the type checker does not know need not be explained to it."""
    return 1 / 0


def in_threads(bodies: list[Callable[[], None]]) -> None:
    """Runs everything at once, and raises what the first of them raised."""
    problems: list[BaseException] = []

    def guarded(body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread hangs"
    if problems:
        raise problems[0]


def check_chain(store: Store, tenant: str, run_id: str) -> list[Event]:
    """Gives a run's events after seeing that they are numbered without a gap and linked by hash."""
    events = store.events(tenant, run_id, -1, 100_000)
    prev = NO_EVENTS.hash
    for number, event in enumerate(events):
        body = event.read()
        assert (event.seq, event.run_id, event.hash) == (number, run_id, event_hash(event.body))
        assert (body["seq"], body["run"], body["prev"]) == (number, run_id, prev)
        assert (body["type"], body.get("effect")) == (event.type, event.effect_id)
        prev = event.hash
    return events
