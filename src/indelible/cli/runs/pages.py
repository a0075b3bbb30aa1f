"""How runs are printed: the forms that others document too, line by line."""

from __future__ import annotations

from collections.abc import Iterable

from indelible.cli.show import visible
from indelible.core.runs.following import RunEvent, RunStory
from indelible.core.runs.resuming import ResumeContext, millis
from indelible.core.runs.run import HANDED_OVER, UNSTARTED, Checkpoint, Run
from indelible.runs.contents import why_invalid
from indelible.runs.keeping import RunReport

NARROW, WIDE = "─" * 44, "─" * 84
_LABEL, _CHECK = 21, 22
HEADINGS = f"{'Seq':>3}  {'Event Type':<27}  {'Actor':<23}  {'Status':<10}  Side Effect"


def lines_of(facts: Iterable[tuple[str, object] | None], width: int = _LABEL) -> str:
    """Gives labels and values under each other; None is an empty line."""
    return "\n".join("" if fact is None else _line(*fact, width) for fact in facts)


def _line(label: str, value: object, width: int) -> str:
    return f"{label + ':':<{width - 1}} {visible(str(value))}".rstrip()


def yes(is_so: bool) -> str:
    """Says yes or no."""
    return "Yes" if is_so else "No"


def inspected(run: Run, story: RunStory, checkpoints: list[Checkpoint], approvals: int, report: RunReport) -> str:
    """Gives the page of one run."""
    sound = [seal for seal in report.seals if seal.is_valid]
    is_started = run.status != UNSTARTED
    facts: list[tuple[str, object] | None] = [
        ("Status", run.status),
        ("Intent", run.intent if is_started else "unknown: it was never started"),
        ("Current Step", story.step or "-"),
        ("Agent", run.agent or "unknown"),
        ("Runtime", run.runtime or "unknown"),
        None,
        ("Events", story.head.length),
        ("Checkpoints", len(checkpoints)),
        ("Artifacts", len(story.artifacts)),
        ("Unresolved Approvals", approvals),
        ("Blocked Side Effects", len(story.blocked_keys)),
        None,
        ("Last Safe Event", f"evt_{story.last_safe.hash}" if story.last_safe is not None else "-"),
        ("Latest Checkpoint", checkpoints[0].id if checkpoints else "-"),
        ("Resumable", yes(is_resumable(run, report))),
        ("Lineage Valid", yes(report.lineage is None)),
        None,
        ("Created", millis(run.created_at)),
        ("Updated", millis(run.updated_at)),
    ]
    if run.handover is not None:
        until = f"{run.handover.until:%Y-%m-%d %H:%M} UTC"
        facts += [None, ("Handed Over To", run.handover.to), ("Import Before", until)]
    if run.imported_from is not None:
        facts += [None, ("Imported From", run.imported_from)]
    if story.in_doubt:
        facts += [None, ("In Doubt", ", ".join(f"{line.tool} ({line.id})" for line in story.in_doubt))]
    if len(sound) < len(report.seals):
        facts += [None, ("Broken Seals", len(report.seals) - len(sound))]
    return f"Run: {visible(run.id)}\n{NARROW}\n{lines_of(facts)}"


def is_resumable(run: Run, report: RunReport) -> bool:
    """Can it be gone on with as it is?"""
    is_sound = report.broken is None and all(seal.is_valid for seal in report.seals[:1])
    return run.status not in ("completed", "canceled", "manual_review_required", HANDED_OVER, UNSTARTED) and is_sound


def event_row(event: RunEvent) -> str:
    """Gives one event as a line of the table, which counts from 1; in the record, `seq` counts from 0."""
    cells = f"{event.seq + 1:>3}  {visible(event.type):<27}  {visible(event.actor):<23}  {event.status:<10}"
    return f"{cells}  {event.side_effect}".rstrip()


def checkpointed(checkpoint: Checkpoint, sealed_hash: str) -> str:
    """Says that a checkpoint was sealed."""
    facts: list[tuple[str, object] | None] = [
        ("Checkpoint created", checkpoint.id),
        ("Sealed Hash", sealed_hash),
        ("Resumable", "Yes"),
        ("Reason", checkpoint.reason),
    ]
    return lines_of(facts, _LABEL - 1)


def resumed(context: ResumeContext) -> str:
    """Says what a run is gone on with."""
    facts: list[tuple[str, object] | None] = [
        ("Checkpoint", "-" if context.checkpoint is None else context.checkpoint.id),
        ("Current Step", context.current_step or "-"),
        ("Receipts", len(context.receipts)),
        ("Artifacts", len(context.artifacts)),
        ("Unresolved Approvals", len(context.unresolved_approvals)),
        ("Blocked Side Effects", len(context.blocked_side_effect_keys)),
        ("Suggested Next", context.suggested_next_action),
    ]
    if context.in_doubt:
        facts.append(("In Doubt", ", ".join(f"{line.tool} ({line.id})" for line in context.in_doubt)))
    return f"Resumed run: {visible(context.run_id)}\n{NARROW}\n{lines_of(facts)}"


def verified(report: RunReport) -> str:
    """Says whether a run's record holds together, and names the first thing that does not."""
    sound = sum(seal.is_valid for seal in report.seals)
    facts: list[tuple[str, object] | None] = [
        ("Ledger Integrity", _valid(report.broken is None and not report.altered)),
        ("Checkpoint Integrity", _valid(sound == len(report.seals))),
        ("Lineage Continuity", _valid(report.lineage is None)),
        None,
        ("Total Checkpoints", len(report.seals)),
        ("Valid Checkpoints", sound),
    ]
    told = [visible(why) for why in why_invalid(report)]
    ending = "" if not told else "\n\n" + "\n".join(f"Not valid: {why}" for why in told)
    return f"Verification for run: {visible(report.run_id)}\n{NARROW}\n{lines_of(facts, _CHECK)}{ending}"


def _valid(is_valid: bool) -> str:
    return "Valid" if is_valid else "INVALID"
