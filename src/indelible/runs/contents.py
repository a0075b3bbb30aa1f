"""Runs as JSON, by the names that others document too; the terminal and the server say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indelible.core.runs.following import RunStory
from indelible.core.runs.resuming import millis
from indelible.core.runs.run import Checkpoint, Run
from indelible.runs.keeping import RunReport


def run_content(run: Run, ledger_id: str, story: RunStory | None = None) -> dict[str, Any]:
    """Gives a run as JSON."""
    last_safe = None if story is None or story.last_safe is None else f"evt_{story.last_safe.hash}"
    return {
        "runId": run.id,
        "ledgerId": ledger_id,
        "agentId": run.agent,
        "intentSummary": run.intent,
        "runtime": run.runtime,
        "parentRunId": run.parent,
        "status": run.status,
        "currentStep": None if story is None else story.step,
        "lastSafeEventId": last_safe,
        "createdAt": millis(run.created_at),
        "updatedAt": millis(run.updated_at),
        "handedOverTo": None if run.handover is None else run.handover.to,
        "importBefore": None if run.handover is None else millis(run.handover.until),
        "importedFrom": run.imported_from,
    }


def checkpoint_content(checkpoint: Checkpoint, sealed_hash: str | None, *, is_valid: bool = True) -> dict[str, Any]:
    """Gives a checkpoint as JSON; one that is not what was sealed cannot be resumed from."""
    return {
        "checkpointId": checkpoint.id,
        "sealedHash": sealed_hash,
        "isResumable": is_valid,
        "reason": checkpoint.reason,
        "suggestedNextAction": checkpoint.suggested,
        "atSeq": checkpoint.at,
        "createdAt": millis(checkpoint.created_at),
    }


def report_content(report: RunReport) -> Mapping[str, Any]:
    """Gives the verification of a run as JSON."""
    return {
        "runId": report.run_id,
        "valid": report.is_valid,
        "ledgerIntegrity": {"valid": report.broken is None and not report.altered, "hash": report.hash},
        "checkpointIntegrity": {
            "valid": all(seal.is_valid for seal in report.seals),
            "checkpoints": [
                {"checkpointId": seal.checkpoint.id, "valid": seal.is_valid, "why": seal.why} for seal in report.seals
            ],
        },
        "lineageContinuity": {
            "valid": report.lineage is None,
            "parentRunId": report.parent,
            "why": report.lineage,
        },
        "notValid": why_invalid(report),
    }


def why_invalid(report: RunReport) -> list[str]:
    """Lists what does not hold, the first of each kind."""
    told = [] if report.broken is None else [report.broken]
    told += [f"seq {seq}: its {name} is not what it commits to" for seq, name in report.altered[:1]]
    told += [f"{seal.checkpoint.id}: {seal.why}" for seal in report.seals if not seal.is_valid][:1]
    return told if report.lineage is None else [*told, report.lineage]
