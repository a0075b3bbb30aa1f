"""`indelible runs inspect --json`: one document about a run, written while the run is read.

Its events come first, for what is known of the run as a whole is only known when the last of them was read.
"""

from __future__ import annotations

import json
from typing import Any

from indelible import Ledger
from indelible.core.runs.following import RunEvent
from indelible.core.runs.ordering import approvals_in_order
from indelible.core.runs.resuming import artifact_content, receipt_content
from indelible.core.runs.run import Run
from indelible.runs.contents import checkpoint_content, run_content


def inspect_json(ledger: Ledger, run: Run) -> None:
    """Prints it, a member at a time; only what is told of effects and checkpoints is held until the end."""
    parted = ""

    def say(event: RunEvent) -> None:
        nonlocal parted
        print(f"{parted}\n    {json.dumps(receipt_content(event))}", end="")
        parted = ","

    print('{\n  "events": [', end="")
    story = ledger.run_story(run.id, each=say)
    print("\n  ]", end="")
    checkpoints = ledger.checkpoints(run.id)
    pending = approvals_in_order(story, ledger.approvals(status="pending", run_id=run.id, limit=1000))
    sound = [seal.checkpoint.id for seal in ledger.verify_run(run.id).seals if seal.is_valid]
    rest = {
        "run": run_content(run, ledger.journal_name, story),
        "checkpoints": [
            checkpoint_content(one, sealed_hash_of(ledger, run.id, one.seq), is_valid=one.id in sound)
            for one in checkpoints
        ],
        "artifacts": [artifact_content(artifact) for artifact in story.artifacts],
        "resumableCheckpoints": sound,
        "blockedSideEffectKeys": story.blocked_keys,
        "unresolvedApprovals": [one.id for one in pending],
    }
    for name, content in rest.items():
        print(f",\n  {json.dumps(name)}: {_indented(content)}", end="")
    print("\n}")


def _indented(content: Any) -> str:
    return json.dumps(content, indent=2).replace("\n", "\n  ")


def sealed_hash_of(ledger: Ledger, run_id: str, seq: int | None) -> str | None:
    """Gives the hash of the event that seals a checkpoint, if it is there."""
    page = [] if seq is None else ledger.events(run_id, after=seq - 1, limit=1)
    return page[0].hash if page else None
