"""`indelible verify`: does this journal say what was signed? Never a bare "valid"."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from indelible.cli.behind import store_behind
from indelible.cli.moments import span
from indelible.cli.opening import about_ledger, open_to_read, where, without_password
from indelible.cli.progress import progress_bar
from indelible.cli.show import count, fields, say_json, timestamp, visible
from indelible.core.journal.notes import TreeHead
from indelible.core.verifying.findings import ATTACKS, GROUNDS, CannotTell, Caught, Report
from indelible.engine.comparing import memory_beside_keys
from indelible.errors import BadCall, IndelibleError, JournalError, RecordForged
from indelible.journal.evidence.live import LiveEvidence
from indelible.journal.evidence.verification import verify as examine
from indelible.stores import is_remote

_VERDICTS = {"verified": "VERIFIED", "tampered": "TAMPERED", "cannot_tell": "CANNOT TELL"}


def _keys(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    """Takes keys as they are, or from files that hold one to a line."""
    found: list[str] = []
    for value in values:
        path = Path(value)
        is_file = "+" not in value or path.is_file()
        try:
            lines = path.read_text(encoding="utf-8").splitlines() if is_file else [value]
        except (OSError, UnicodeDecodeError) as problem:
            raise click.BadParameter(
                f"{value!r} is neither a key (name+0123abcd+base64) nor a file with one"
            ) from problem
        found += [line.strip() for line in lines if line.strip()]
    return found


@click.command()
@click.argument("file", required=False, metavar="[FILE|DIR|URL]")
@click.option(
    "--key", "keys", multiple=True, callback=_keys, metavar="VKEY", help="A key you trust, or a file with it."
)
@click.option("--after", multiple=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="A signed head you kept: the journal must begin with it.")  # fmt: skip
@click.option("--witness", "witnesses", multiple=True, callback=_keys, metavar="VKEY", help="A witness you trust.")
@click.option("--quorum", type=click.IntRange(min=1), metavar="N", help="So many witnesses must have cosigned.  [all]")
@click.option("--fresh", metavar="AGE", help="The newest proven time must be as recent as this: 15m, 1h, 7d.")
@click.option("--deep", is_flag=True, help="Check the signature that a writer put on each event.")
@click.option("--up-to-head", is_flag=True, help="Verify the signed part alone, and seal nothing first.")
@click.option("--no-semantics", is_flag=True, help="Leave out the rules of effects and the accounting of values.")
@about_ledger
def verify(
    file: str | None,
    keys: list[str],
    after: tuple[Path, ...],
    witnesses: list[str],
    quorum: int | None,
    fresh: str | None,
    deep: bool,
    up_to_head: bool,
    no_semantics: bool,
) -> int:
    """Tell whether a record is what was signed.

    FILE is an export by lines or a receipt, DIR (or a .zip) a bundle, URL a published log; without any it is the ledger
    itself. Get the key from the journal's owner by another way: `indelible keys export-public` prints it there.
    The report names the first bad entry, and says which attacks are ruled out and which are not. It holds for what the
    newest signed head covers. Where the signing key is at hand, the ledger is sealed first.

    Exits with 0 verified, 1 tampered, 2 cannot tell or wrong usage.
    """
    if quorum is not None and quorum > len(witnesses):
        raise click.UsageError(f"--quorum {quorum} needs as many --witness")
    words: dict[str, Any] = {
        "after": [_read(path) for path in after],
        "witnesses": witnesses,
        "quorum": quorum,
        "fresh_within": None if fresh is None else span(fresh, "--fresh"),
        "deep": deep,
        "semantics": not no_semantics,
        "up_to_head": up_to_head,
    }
    try:
        with progress_bar("verifying") as progress:
            if file is None:
                report = _live(keys, words, progress)
            else:
                report = examine(file, keys, **words, memory=_remembered, progress=progress)
    except BadCall:
        raise
    except RecordForged as forged:  # what showed when the ledger was opened
        source = f"tenant {where().tenant} of {without_password(where().address)}"
        report = Report(verdict="tampered", why=str(forged), source=source, flaw=Caught(str(forged)).flaw)
    except IndelibleError as problem:  # an answer of 1 would accuse somebody
        raise click.ClickException(str(problem)) from problem
    if where().is_json:
        say_json(report.as_json())
    else:
        _say(report)
    return report.exit_code


def _live(keys: list[str], words: dict[str, Any], progress: Callable[[int, int], None]) -> Report:
    place = where()
    # No key is made, and nothing is written but a signed head.
    with open_to_read(place, seal=False) as ledger:
        seal = None if words["up_to_head"] or is_remote(place.address) else ledger._engine.notary.seal_with_own_key
        evidence = LiveEvidence(store_behind(ledger), place.tenant, seal)
        report = examine(evidence, keys, **words, progress=progress)
    if not keys and report.verdict == "cannot_tell":
        command = place.command("keys export-public")
        report.remarks.append(f"this machine's own key: {command}; only one that was kept elsewhere proves anything")
    return report


def _remembered(origin: str) -> TreeHead | None:
    """Return the head of a journal that was signed last on this machine, if it is signed here."""
    try:
        return memory_beside_keys(origin)
    except JournalError as problem:
        raise CannotTell(f"what was signed here cannot be read: {problem}") from problem


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise click.BadParameter(f"{path} cannot be read: {problem.strerror}", param_hint="--after") from problem


def _say(report: Report) -> None:
    print(f"{_VERDICTS[report.verdict]}: {visible(report.why)}")
    for continuation in report.continuations:
        print(f"ATTENTION, declared on the record: {continuation}")
    print()
    fields(_facts(report))
    print()
    out = report.ruled_out
    for is_out, heading in ((True, "Ruled out"), (False, "NOT ruled out")):
        names = [ATTACKS[name].words for name, value in out.items() if value is is_out]
        if names:
            print(f"{heading}:")
            print("".join(f"  - {name}\n" for name in names), end="")
    if report.tail is not None and report.tail.events:
        what = "written by key holders; a cut is NOT ruled out" if report.tail.is_authenticated else "NOT verified"
        print(f"Not covered by any signed head, {what}: {count(report.tail.events, 'event')}")
    for remark in report.remarks:
        print(f"Note: {visible(remark)}")


def _facts(report: Report) -> list[tuple[str, str | None]]:
    counts, values = report.counts, report.counts.payloads
    flaw = report.flaw
    return [
        ("source", visible(report.source)),
        ("first bad entry", None if flaw is None else _place(report)),
        ("expected", None if flaw is None or flaw.expected is None else visible(flaw.expected)),
        ("found", None if flaw is None or flaw.found is None else visible(flaw.found)),
        ("journal", None if report.origin is None else f"{visible(report.origin)}, {count(report.size or 0, 'entry')}"),
        ("signed by", report.signed_by and visible(report.signed_by)),
        ("rests on", "; ".join(words for ground, words in GROUNDS.items() if ground in report.grounds) or None),
        ("witnesses", _witnesses(report)),
        ("newest event", report.newest_event_at),
        ("looked at", f"{count(counts.events, 'event')} of {count(counts.runs, 'run')}" if counts.events else None),
        ("older heads", str(counts.older_heads) if counts.older_heads else None),
        ("own signatures", str(counts.signatures) if counts.signatures else None),
        ("values", None if values is None else
            f"{values.present} present, {values.erased} erased by an event, {values.withheld} withheld, "
            f"{values.missing} missing"),
        ("rotations", "; ".join(map(visible, report.rotations)) or None),
    ]  # fmt: skip


def _place(report: Report) -> str:
    flaw = report.flaw
    assert flaw is not None
    index = "not in the tree, or not to be told" if flaw.index is None else str(flaw.index)
    run = "" if flaw.run is None else f", run {visible(flaw.run)}"
    return index + run + ("" if flaw.seq is None else f", seq {flaw.seq}")


def _witnesses(report: Report) -> str | None:
    times = {name: _moment(at) for name, at in report.witnesses.items()}
    return "; ".join(f"{visible(name)} at {at}" for name, at in times.items()) or None


def _moment(at: int) -> str:
    try:
        return timestamp(datetime.fromtimestamp(at, UTC))
    except (OverflowError, OSError, ValueError):
        return f"{at} seconds after 1970, which no calendar has"
