"""`indelible doctor`: is everything here as a ledger needs it?"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import click

from indelible import Ledger
from indelible.cli.opening import Where, about_ledger, where, without_password
from indelible.cli.show import count, may_colour, say_json, visible
from indelible.core.journal.set_back import way_out
from indelible.core.values.visible import visible_json
from indelible.integrations.instrument import Framework, installed, is_known_version
from indelible.stores import is_postgres, is_remote

OLDEST_PYTHON = (3, 11)
WRITTEN_IN = datetime(2026, 1, 1, tzinfo=UTC)  # a clock before this is wrong
SKEW = timedelta(seconds=2)
COUNT_TO = 1000

Verdict = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Check:
    """Is one thing that was looked at; what is not `ok` comes with what mends it."""

    name: str
    verdict: Verdict
    says: str
    fix: str | None = None


@click.command()
@about_ledger
def doctor() -> int:
    """Check this machine and the ledger.

    Each problem comes with the command that mends it. Exits with 1 if something is wrong, with 0 if there are at most
    warnings.
    """
    place = where()
    checks = list(examine(place))
    has_bad = any(check.verdict == "bad" for check in checks)
    if place.is_json:
        listed = [asdict(check) for check in checks]
        say_json(
            {"ok": not has_bad, "store": without_password(place.address), "tenant": place.tenant, "checks": listed}
        )
    else:
        _say(checks, place)
    return 1 if has_bad else 0


def examine(place: Where) -> Iterator[Check]:
    """Looks at everything, from the interpreter to the effects that wait for a person."""
    yield check_python(sys.version_info[:3])
    yield check_clock(datetime.now(UTC))
    yield from (check_framework(known, version) for known, version in installed())
    if is_remote(place.address):
        from indelible.cli.doctor import server

        yield from server.examine(place)
    elif is_postgres(place.address):
        from indelible.cli.doctor import postgres

        yield from postgres.examine(place)
    else:
        from indelible.cli.doctor import sqlite

        yield from sqlite.examine(place)


def check_python(version: tuple[int, ...]) -> Check:
    """Is the interpreter new enough?"""
    said = ".".join(map(str, version))
    if version[:2] >= OLDEST_PYTHON:
        return Check("Python", "ok", said)
    return Check("Python", "bad", f"{said} is too old", "install Python 3.11 or newer")


def check_clock(now: datetime) -> Check:
    """Can this machine's clock be right at all?"""
    said = now.strftime("%Y-%m-%d %H:%M:%SZ")
    if now >= WRITTEN_IN:
        return Check("clock", "ok", said)
    return Check(
        "clock", "bad", f"{said} is before this program was written", "set the clock: timedatectl set-ntp true"
    )


def check_framework(known: Framework, version: str) -> Check:
    """Is an agent framework that is installed here of a version that this release knows?"""
    if is_known_version(known, version):
        return Check(known.name, "ok", f"{version}, known")
    wanted = f"{known.package}>={known.oldest},<{known.before}"
    return Check(known.name, "warn", f"{version} is not known to this release", f'pip install "{wanted}"')


def check_added(added: Sequence[str]) -> Iterator[Check]:
    """Name what users added to the ledger's tables: a write whose rows it keeps away is refused."""
    if added:
        said = f"{', '.join(added)}: what keeps rows away or changes them has every call refused"
        yield Check("triggers", "warn", visible(said), "drop what you added to the ledger's tables")


def check_skew(stores_now: datetime, now: datetime) -> Check:
    """Does the store's clock agree with ours? Leases are judged by the store's."""
    apart = abs(stores_now - now)
    said = f"{apart / timedelta(seconds=1):.1f} s apart"
    if apart <= SKEW:
        return Check("clock of the store", "ok", said)
    return Check("clock of the store", "warn", said, "keep both machines on time: timedatectl set-ntp true")


def check_newest(ledger: Ledger, now: datetime) -> Iterator[Check]:
    """Is the newest effect from the past, as it should be?"""
    newest = max((effect.updated_at for effect in ledger.effects(limit=1)), default=now)
    if newest > now + SKEW:
        said = f"the newest effect is of {newest:%Y-%m-%d %H:%M:%SZ}, which is still to come"
        yield Check("clock", "warn", said, "find the machine whose clock is wrong: timedatectl set-ntp true")


def check_effects(ledger: Ledger, place: Where, now: datetime, *, is_lost: bool | None = None) -> Iterator[Check]:
    """Does anything wait for a person or a probe, or is everything stopped? `is_lost`: see `way_out`."""
    stopped = ledger.stopped()
    if stopped is not None:
        said = f"all effects are stopped by {stopped.by} since {stopped.at:%Y-%m-%d %H:%M}Z: {stopped.reason}"
        ends = way_out(stopped, is_lost=is_lost)
        at_database = ends is not None and ends != "go" and is_remote(place.address)
        fix = f"where the server's database and keys are: indelible {ends}" if at_database else None
        yield Check("stop", "warn", said, fix if at_database or ends is None else place.command(ends))
    in_doubt = len(ledger.effects(status="in_doubt", limit=COUNT_TO))
    processing = ledger.effects(status="processing", limit=COUNT_TO)
    abandoned = [effect for effect in processing if effect.is_abandoned(now)]
    name = "effects in doubt"
    if in_doubt:
        look = place.command("effects list --status in_doubt")
        fix = f"{look}, then settle them; or ask your probes: indelible effects reconcile --app MODULE:NAME"
        yield Check(name, "warn", f"{_at_least(in_doubt)} may have happened, and nobody has said", fix)
    else:
        yield Check(name, "ok", "none")
    if abandoned:
        look = place.command(f"effects show {abandoned[0].id}")
        fix = f"{look}; then ask its probe: indelible effects reconcile --app MODULE:NAME"
        yield Check("abandoned effects", "warn", f"{_at_least(len(abandoned))} whose worker never reported", fix)
    else:
        yield Check("abandoned effects", "ok", "none")


def told(name: str, error: Exception, fix: str | None = None) -> Check:
    """Gives the check that an error ended: our errors say what happened and then, after a semicolon, the next step."""
    what, _, step = " ".join(str(error).split()).partition("; ")
    return Check(name, "bad", what, fix or step or "mend that, then run indelible doctor again")


def _at_least(number: int) -> str:
    return f"{COUNT_TO} or more" if number >= COUNT_TO else count(number, "effect")


_SIGNS = {"ok": "✓", "warn": "!", "bad": "✗"}
_COLOURS = {"ok": "green", "warn": "yellow", "bad": "red"}


def _say(checks: list[Check], place: Where) -> None:
    click.echo(f"Ledger: {without_password(place.address)}, tenant {place.tenant}\n")
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign = _SIGNS[check.verdict]
        if may_colour():
            sign = click.style(sign, fg=_COLOURS[check.verdict], bold=True)
        click.echo(f"  {sign} {check.name.ljust(width)}  {visible_json(check.says)}")
        if check.fix is not None:
            click.echo(f"    {' ' * width}  → {check.fix}")
    warnings, bad = (sum(check.verdict == verdict for check in checks) for verdict in ("warn", "bad"))
    total = f"{count(bad, 'problem')}, {count(warnings, 'warning')}." if warnings or bad else "All is well."
    click.echo(f"\n{total}")
