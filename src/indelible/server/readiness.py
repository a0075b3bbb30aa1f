"""Whether a server can work: its store, the rounds that somebody has to go, and whether it is about to stop.

Everybody may ask, so it tells states and no names: which tenant, which address and which error is in the log.
"""

from __future__ import annotations

import logging
from typing import Literal

from pydantic import BaseModel, Field

from indelible.engine.running import in_own_thread
from indelible.errors import StoreError
from indelible.server.ledgers import Ledgers
from indelible.stores import newest_migration

LATE = 30.0
"""Is from how many seconds on sealing counts as late."""
_log = logging.getLogger("indelible.server")


class StoreReady(BaseModel):
    """Says whether the store answers, and by which schema."""

    status: Literal["ok", "no answer"] = Field(examples=["ok"])
    schema_version: str = Field(description="The newest migration that this server needs.")


class WorkReady(BaseModel):
    """Says who seals, sends and clears: this server, another one, nobody, or a worker elsewhere."""

    status: Literal["leading", "standing by", "nobody", "elsewhere"]
    problems: int = Field(0, description="How many things cannot be done at the moment; the log says which.")


class SealingReady(BaseModel):
    """Says how far behind the signed heads are."""

    status: Literal["ok", "late", "unknown"]
    lag_s: float | None = Field(None, description="For how long an event has been under no signed head.")


class RecordReady(BaseModel):
    """Says whether the database has all that was signed, as far as a process with the keys can tell."""

    status: Literal["ok", "set back", "unknown"] = Field(examples=["ok"])


class Ready(BaseModel):
    """Says whether requests should be sent here. The store, its record and stopping decide that."""

    status: Literal["ready", "not ready", "stopping"]
    store: StoreReady
    record: RecordReady
    worker: WorkReady
    sealing: SealingReady
    detail: str | None = None


async def readiness(ledgers: Ledgers) -> Ready:
    """Looks at everything; trouble of the worker is told and keeps no request away."""
    worker, sealing = _work(ledgers)
    version = newest_migration(ledgers.store.address)
    status: Literal["ready", "not ready", "stopping"] = "ready"
    store, record, detail = StoreReady(status="ok", schema_version=version), RecordReady(status="ok"), None
    try:
        await in_own_thread(ledgers.store.look, [])
        compared = await in_own_thread(ledgers.compared)
    except StoreError as problem:
        _log.warning("not ready: %s", problem)
        store = StoreReady(status="no answer", schema_version=version)
        status, detail = "not ready", "the store does not answer; the server's log says more"
    else:
        record = RecordReady(status=compared)
        if compared != "ok":
            why = "lacks what was signed" if compared == "set back" else "cannot be compared with what was signed"
            status, detail = "not ready", f"the database {why}; run on the server: indelible doctor"
        elif ledgers.stopping.is_announced:
            status, detail = "stopping", "this server stops; ask another one"
    return Ready(status=status, store=store, record=record, worker=worker, sealing=sealing, detail=detail)


def _work(ledgers: Ledgers) -> tuple[WorkReady, SealingReady]:
    if ledgers.worker is None:
        return WorkReady(status="elsewhere", problems=0), SealingReady(status="unknown", lag_s=None)
    state = ledgers.worker.state
    status: Literal["leading", "standing by", "nobody"] = "leading" if state.role == "leading" else "standing by"
    lag = round(state.lag_s, 1)
    return (
        WorkReady(status=status if state.is_done else "nobody", problems=state.problems),
        SealingReady(status="late" if lag > LATE else "ok", lag_s=lag),
    )
