"""`Ledger-Seq`: which event tells of what an answer shows, by its run and its number there.

The ledger has no one counter that every write passes: that would make all of them wait for each other. An event's
number in its run is fixed when it is written; its place in the journal comes with the next seal.
"""

from __future__ import annotations

from urllib.parse import quote

from indelible.core.effects.effect import Effect
from indelible.core.runs.run import Checkpoint, Run
from indelible.core.sheets import SheetFilter
from indelible.engine.running import in_own_thread
from indelible.server.requests.asking import Asking

HEADER = "Ledger-Seq"
MOST_LOOKED_AT = 1000
Headers = dict[str, str]


def of_event(run_id: str | None, seq: int | None) -> Headers:
    """Names an event; nothing where it is not known."""
    return {} if run_id is None or seq is None else {HEADER: f"{quote(run_id, safe='')}/{seq}"}


def of_effect(effect: Effect) -> Headers:
    """Names the event by which an effect moved last, as far as the effect tells."""
    if effect.detail_seq is not None:
        return of_event(effect.run_id, effect.detail_seq)
    return of_event(effect.run_id, effect.opened_seq) if effect.version == 1 else {}


def of_run(run: Run) -> Headers:
    """Names the event that told of a run's state."""
    return of_event(run.id, run.seq)


def of_checkpoint(checkpoint: Checkpoint) -> Headers:
    """Names the event that seals a checkpoint."""
    return of_event(checkpoint.run_id, checkpoint.seq)


async def of_newest(asked: Asking, effect: Effect, after: int) -> Headers:
    """Names the newest event about an effect, of those after a number: what no column tells is looked for.

    Nothing is named where the run has gone on by more than a look takes.
    """
    store = asked.ledger._engine.store
    found = await in_own_thread(store.events, asked.caller.tenant, effect.run_id, after, MOST_LOOKED_AT)
    about = [event.seq for event in found if event.effect_id == effect.id]
    return of_event(effect.run_id, about[-1]) if about and len(found) < MOST_LOOKED_AT else {}


async def of_sheet(asked: Asking, kind: str, name: str) -> Headers:
    """Names the event that tells of what is on a sheet now: an approval, a grant, a delegation or the policy."""
    store, selected = asked.ledger._engine.store, SheetFilter(kind=kind, id=name, limit=1)
    found = await in_own_thread(store.sheets, asked.caller.tenant, selected)
    return of_event(found[0].run_id, found[0].seq) if found else {}
