"""Planted bugs: each job must find some of these before its silence about the real library means anything."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from indelible.errors import IndelibleError, ResultNotRecorded, StoreUnavailable
from tests.chaos import standin
from tests.chaos.oracle import Kind
from tests.chaos.standin import Ledger, PostgresStore, SqliteStore


def plant(name: str | None) -> None:
    """Breaks the library in this process."""
    if name is not None:
        MUTANTS[name].plant()


def effect_before_claim() -> None:
    """The handler runs first and the claim is written afterwards, with the result."""
    run = Ledger.run

    def broken(self: Ledger, call: Any, handler: Callable[[Any], Any], *, on_crash: str = "hold") -> Any:
        if any(effect.args == call.args for effect in self.effects()):
            return run(self, call, handler, on_crash=on_crash)
        value = handler(SimpleNamespace(key=standin.key_of(call), attempt=1))
        return run(self, call, lambda _: value, on_crash=on_crash)

    _replace(Ledger, "run", broken)


def ack_before_settle() -> None:
    """The caller gets its value at once; the result is written before the next call or at the end."""
    run, execute, close = Ledger.run, Ledger._execute, Ledger.close
    owed: list[Callable[[], Any]] = []

    def paid(self: Ledger) -> Ledger:
        while owed:
            with contextlib.suppress(IndelibleError):
                owed.pop()()
        return self

    def broken(self: Ledger, effect: Any, handler: Callable[[Any], Any]) -> Any:
        value = handler(effect)
        owed.append(lambda: execute(self, effect, lambda _: value))
        return value

    _replace(Ledger, "_execute", broken)
    _replace(Ledger, "run", lambda self, *args, **options: run(paid(self), *args, **options))
    _replace(Ledger, "close", lambda self: close(paid(self)))


def retry_in_doubt() -> None:
    """An abandoned effect is taken over and run again, whatever its class."""
    take_over = Ledger._take_over

    def broken(self: Ledger, query: Any, found: Any, token: str, now: float) -> None:
        fields = {name: getattr(found, name) for name in ("key", "run_id")}
        take_over(self, query, SimpleNamespace(**fields, on_crash="retry"), token, now)  # type: ignore[arg-type]

    _replace(Ledger, "_take_over", broken)


def no_fence() -> None:
    """A result is written whoever holds the claim by now."""

    def broken(self: Ledger, effect: Any, status: str, detail: str) -> bool:
        with self.store.transaction() as query:
            query("UPDATE effects SET status = ?, detail = ? WHERE key = ?", status, detail, effect.key)
            self._append(query, effect.run_id, status)
        return True

    _replace(Ledger, "_settle", broken)


def late_result_dropped() -> None:
    """A late result is refused and forgotten."""
    append = Ledger._append

    def broken(self: Ledger, query: Any, run_id: str, kind: str) -> None:
        if kind != "late_result":
            append(self, query, run_id, kind)

    _replace(Ledger, "_append", broken)


def naive_retry() -> None:
    """When the store blinks while a result is written, the whole call is made again."""
    execute = Ledger._execute

    def broken(self: Ledger, effect: Any, handler: Callable[[Any], Any]) -> Any:
        for _ in range(20):
            try:
                return execute(self, effect, handler)
            except ResultNotRecorded:
                continue
        return execute(self, effect, handler)

    _replace(Ledger, "_persist", lambda self, change: change())
    _replace(Ledger, "_execute", broken)


def warning_ignored() -> None:
    """A COMMIT that did not wait for its replica counts as durable."""
    PostgresStore.heeds_warnings = False


def fail_open() -> None:
    """When the claim cannot be written, the handler runs all the same."""
    claim = Ledger._claim

    def broken(self: Ledger, key: str, call: Any, token: str, on_crash: str) -> Any:
        try:
            return claim(self, key, call, token, on_crash)
        except StoreUnavailable:
            return SimpleNamespace(key=key, run_id=call.run_id, status="processing", attempt=1, token=token)

    _replace(Ledger, "_claim", broken)


def sync_normal() -> None:
    """SQLite does not wait for the disk at each commit."""
    SqliteStore.synchronous = "NORMAL"


def check_then_act() -> None:
    """Whether the key is free is asked in one transaction and acted upon in another."""
    claim = Ledger._claim

    def broken(self: Ledger, key: str, call: Any, token: str, on_crash: str) -> Any:
        with self.store.transaction() as query:
            is_free = self._find(query, key) is None
        threading.Event().wait(0.001)  # as long as a policy hook or a slow disk would take
        if is_free:
            with self.store.transaction() as query:
                query("DELETE FROM effects WHERE key = ?", key)
        return claim(self, key, call, token, on_crash)

    _replace(Ledger, "_claim", broken)


def stale_head() -> None:
    """A process trusts the head it wrote last, without comparing."""
    append = Ledger._append
    heads: dict[str, tuple[int, str]] = {}

    def broken(self: Ledger, query: Any, run_id: str, kind: str) -> None:
        _, head = heads.get(run_id, query("SELECT count, head FROM runs WHERE run_id = ?", run_id)[0])
        query("UPDATE runs SET head = ? WHERE run_id = ?", head, run_id)
        append(self, query, run_id, kind)
        heads[run_id] = query("SELECT count, head FROM runs WHERE run_id = ?", run_id)[0]

    _replace(Ledger, "_append", broken)


def _replace(owner: type, name: str, broken: Callable[..., Any]) -> None:
    setattr(owner, name, broken)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A planted bug, and the violations of which one must be seen: an accident of the planting proves nothing."""

    plant: Callable[[], None]
    proof: frozenset[Kind]


MUTANTS: dict[str, Mutant] = {
    "effect-before-claim": Mutant(effect_before_claim, frozenset({"duplicate effect", "effect without claim"})),
    "ack-before-settle": Mutant(ack_before_settle, frozenset({"lost ack"})),
    "retry-in-doubt": Mutant(retry_in_doubt, frozenset({"duplicate effect"})),
    "no-fence": Mutant(no_fence, frozenset({"changed result", "late result not kept"})),
    "late-result-dropped": Mutant(late_result_dropped, frozenset({"late result not kept"})),
    "naive-retry": Mutant(naive_retry, frozenset({"duplicate effect"})),
    "warning-ignored": Mutant(warning_ignored, frozenset({"duplicate effect", "effect without claim", "lost ack"})),
    "fail-open": Mutant(fail_open, frozenset({"handler entered without claim", "effect without claim"})),
    "sync-normal": Mutant(sync_normal, frozenset({"effect without claim", "lost ack"})),
    "check-then-act": Mutant(check_then_act, frozenset({"duplicate effect"})),
    "stale-head": Mutant(stale_head, frozenset({"broken chain", "head differs"})),
}
