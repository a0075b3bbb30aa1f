"""Writes events for the tests of the verifier: legal ones, and any others that somebody with the key could sign."""

from __future__ import annotations

from typing import Any

from indelible.core.journal.merkle import leaf_hash
from indelible.core.verifying.bodies import canonical_text

LOG = "ledger-test/default"
HASH = "ab" * 32
WRITER = "0" * 32


class Teller:
    """Keeps the ends of runs, so that each event follows the one before unless it is told otherwise."""

    def __init__(self, log: str = LOG) -> None:
        self.log = log
        self.bodies: list[bytes] = []
        self.ends: dict[str, tuple[int, str]] = {}

    def _chained(self, content: dict[str, Any]) -> bytes:
        run = content["run"]
        seq, prev = self.ends.get(run, (0, "0" * 64))
        body = canonical_text({"prev": prev, "seq": seq, **content}).encode()
        self.ends[run] = (seq + 1, leaf_hash(body).hex())
        self.bodies.append(body)
        return body

    def effect(
        self, type_: str, status: str, attempt: int, *commits: str, effect: str = "eff_1", **changes: Any
    ) -> bytes:
        """Writes an event about an effect."""
        content = {
            "actor": {"id": "agent", "kind": "agent", "via": "process"},
            "at": "2030-01-02T12:00:00.000000Z",
            "attempt": attempt,
            "commits": dict.fromkeys(commits, HASH),
            "effect": effect,
            "log": self.log,
            "on_crash": "hold",
            "run": "run-1",
            "side_effect": "payment",
            "status": status,
            "tool": "pay",
            "type": type_,
            "v": 1,
            "writer": WRITER,
        }
        return self._chained({**content, **changes})

    def fact(self, type_: str, facts: Any, run: str = "indelible:journal", **changes: Any) -> bytes:
        """Writes an event about no effect."""
        content = {
            "actor": {"id": "indelible", "kind": "system", "via": "process"},
            "at": "2030-01-02T12:00:00.000000Z",
            "commits": {},
            "facts": facts,
            "log": self.log,
            "run": run,
            "type": type_,
            "v": 1,
            "writer": WRITER,
        }
        return self._chained({**content, **changes})

    def started(self, **changes: Any) -> bytes:
        """Writes the opening of an effect."""
        return self.effect("tool_call_started", "processing", 1, "args", "key", **changes)

    def finished(self, attempt: int = 1, **changes: Any) -> bytes:
        """Writes its success."""
        return self.effect("tool_call_finished", "succeeded", attempt, "result", **changes)
