"""A ledger in which agents worked: something of everything there is about runs."""

from __future__ import annotations

from contextlib import suppress

from indelible import Ledger, ToolCall


def note(run_id: str, number: int) -> ToolCall:
    return ToolCall(tool="note.write", args={"n": number}, run_id=run_id)


def drive(ledger: Ledger) -> None:
    """Leaves a run that is completed, one that was resumed and failed again, and what is kept of them aside."""
    with ledger.start_run("lead-1", agent="sales", intent="enrich", allowed_tools=["note.*"]) as run:
        run.record("plan_locked", {"goal": "enriched"}, step="plan")
        ledger.run(note(run.id, 1), lambda effect: "noted")
        for _ in range(2):
            run.record("execution_succeeded", {"to": "ada"}, side_effect="notification", side_effect_key="mail-1")
        run.checkpoint({"leads": 1})
        run.checkpoint(suggested="mail", at=1)
    with suppress(OSError), ledger.start_run("lead-2", agent="billing", state=lambda: {"step": 2}):
        raise OSError("no network")
    again = ledger.resume_run("lead-2")
    again.record("acme.lead_scored", {"score": 7}, side_effect_key="score-2")
    again.fail("still no network")
