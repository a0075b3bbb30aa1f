"""Appends signed events in a process of its own and tells what that took: `python -m benchmarks.appender KIND PATH N`.

Ours go in batches, each batch one durable transaction with a signature beside every event; theirs go one by one, as
`Session.record` has it, each signed and synced. Opening and making keys are not in it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

BATCH = 256


def _ours(path: str, events: int) -> Callable[[], None]:
    from indelible import Ledger
    from indelible.core.commands import Record
    from indelible.core.effects.effect import SYSTEM
    from indelible.core.events import facts_json

    ledger = Ledger.open(f"sqlite:///{path}", sign_events=True, seal=False)
    store, notary = ledger._engine.store, ledger._engine.notary
    notary.before_write(ledger.tenant)

    def append() -> None:
        for start in range(0, events, BATCH):
            commands = [
                Record(
                    tenant=ledger.tenant,
                    run_id=f"run-{number % 8}",
                    stamp=notary.mint.stamp(SYSTEM),
                    event_type="noted",
                    facts=facts_json({"number": number}),
                )
                for number in range(start, min(start + BATCH, events))
            ]
            store.apply(ledger.tenant, commands, [None] * len(commands))
        if ledger.events("run-0", after=events // 8 - 2)[-1].signature is None:
            raise AssertionError("events are not signed, so this would measure something else")

    return append


def _theirs(path: str, events: int) -> Callable[[], None]:
    import provedex

    keypair = provedex.SigningKeypair.load_or_create(f"{path}.key")
    session = provedex.Session.open(keypair=keypair, ledger_path=f"{path}.ndjson", session_id="benchmark")
    digest = "0" * 64

    def append() -> None:
        for number in range(events):
            session.record(
                provedex.events.tool_called(tool_name="note", args_sha256=digest, args_redacted={"number": number})
            )

    return append


def main() -> int:
    """Appends once and prints events a second."""
    kind, path, count = sys.argv[1:]
    os.environ.setdefault("INDELIBLE_KEYS", str(Path(path).with_suffix(".keys")))
    append = {"indelible": _ours, "provedex": _theirs}[kind](path, int(count))
    begun = time.perf_counter()
    append()
    print(json.dumps({"events_per_s": int(count) / (time.perf_counter() - begun)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
