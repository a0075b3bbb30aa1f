"""`indelible effects settle --where` and `--file`: settles many effects, after showing what it will settle."""

from __future__ import annotations

import sys
from typing import Any

import click

from indelible import Failed, Ledger, Outcome, Succeeded
from indelible.cli.opening import Where, open_existing
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, effect_json, table, visible
from indelible.core.effects.settlements import RowResult, SettledAll, said
from indelible.errors import BadSettlements

_MOST_SHOWN = 50


def settle_file(content: bytes, place: Where, *, by: str, dry_run: bool, skip_bad: bool) -> int:
    """Settle the rows of a file; every fault is printed before anything is settled.

    Args:
        content: The file: CSV or NDJSON.
        place: Which ledger, and where to print.
        by: Who looked.
        dry_run: Only print what would be settled.
        skip_bad: Settle the good rows even if others are bad.

    Returns:
        The exit code: 0 when all rows are settled, 1 when some are not, 2 when the file is refused.
    """
    with open_existing(place, wakeups=True) as ledger:
        is_refused = False
        try:
            settled = _settle(ledger, content, by=by, skip_bad=skip_bad, dry_run=dry_run)
        except BadSettlements:
            is_refused, settled = True, ledger.settle_all(content, by=by, dry_run=True)
    _say(settled, place, is_dry=dry_run, is_refused=is_refused)
    if not settled.problems:
        return 0
    return 1 if skip_bad else 2


def settle_where(
    where: str, outcome: Outcome, place: Where, *, by: str, evidence: str, limit: int, dry_run: bool, is_sure: bool
) -> int:
    """Settle what fits a filter, after it was shown and confirmed; never more than was shown.

    Args:
        where: The filter.
        outcome: What became of all that fits.
        place: Which ledger, and where to print.
        by: Who looked.
        evidence: How they know.
        limit: How many effects at most.
        dry_run: Only print what would be settled.
        is_sure: Do not ask for confirmation.

    Returns:
        The exit code: 0 when all that was shown is settled, 1 when some is not.
    """
    with open_existing(place, wakeups=True) as ledger:
        shown = ledger.settle_all(where, outcome, by=by, evidence=evidence, limit=limit, dry_run=True)
        if dry_run or not shown.results:
            _say(shown, place, is_dry=True)
            return 0
        if not is_sure:
            _confirm(shown, outcome, place)
        settled = _settle(ledger, [_row(one, outcome, evidence) for one in shown.results], by=by, skip_bad=True)
    _say(settled, place, has_more=shown.has_more)
    return 1 if settled.problems else 0


def _settle(ledger: Ledger, chosen: Any, **words: Any) -> SettledAll:
    with progress_bar("settling") as progress:
        return ledger.settle_all(chosen, progress=progress, **words)


def _row(one: RowResult, outcome: Outcome, evidence: str) -> dict[str, Any]:
    """Bind a row to the attempt that was shown."""
    assert one.effect is not None
    told = {"value": outcome.value} if isinstance(outcome, Succeeded) else {"error": outcome.error}
    status = "failed" if isinstance(outcome, Failed) else "succeeded"
    return {"id": one.effect.id, "attempt": one.effect.attempt, "as": status, "evidence": evidence, **told}


def _confirm(shown: SettledAll, outcome: Outcome, place: Where) -> None:
    if place.is_json or not sys.stdin.isatty():
        raise click.UsageError(
            f"{count(len(shown.results), 'effect')} would be settled; look with --dry-run, then say --yes",
            click.get_current_context(),
        )
    _say_rows(shown)
    status = "failed" if isinstance(outcome, Failed) else "succeeded"
    if not click.confirm(f"Settle {count(len(shown.results), 'effect')} as {status}?"):
        raise click.Abort


def _say(
    settled: SettledAll, place: Where, *, is_dry: bool = False, is_refused: bool = False, has_more: bool = False
) -> None:
    more = settled.has_more or has_more
    done, already = settled.count("settled"), settled.count("already_settled")
    if place.is_json:
        content = {
            "dry_run": is_dry,
            "settled": done,
            "already_settled": already,
            "problems": len(settled.problems),
            "has_more": more,
            "results": [_json(one) for one in settled.results],
        }
        place.say(content, "")
        return
    for fault in settled.problems:
        print(visible(said(fault)), file=sys.stderr)
    if is_dry:
        _say_rows(settled)
        print(f"Dry run: {count(settled.count('would_settle'), 'effect')} would be settled, {already} settled already.")
    elif is_refused:
        print(
            f"Nothing was settled: {count(len(settled.problems), 'fault')}. Correct the file, or add --skip-bad.",
            file=sys.stderr,
        )
    else:
        print(f"Settled {count(done, 'effect')}; {already} settled already, {len(settled.problems)} not settled.")
    if more:
        print("More effects fit the filter: repeat the command, or raise --limit.")


def _say_rows(shown: SettledAll) -> None:
    """Print what would be settled; of very many the first are named, and the number of all."""
    good = [one.effect for one in shown.results if one.is_good and one.effect is not None]
    rows = [(one.id, one.tool, one.run_id, str(one.attempt)) for one in good[:_MOST_SHOWN]]
    if rows:
        table(("id", "tool", "run", "attempt"), [tuple(map(visible, row)) for row in rows])
    if len(good) > _MOST_SHOWN:
        print(f"… and {len(good) - _MOST_SHOWN} more; --json lists all")


def _json(one: RowResult) -> dict[str, Any]:
    effect = None if one.effect is None else effect_json(one.effect)
    return {"line": one.line, "name": one.name, "result": one.code, "detail": one.detail, "effect": effect}
