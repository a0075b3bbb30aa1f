"""`indelible effects`: look at effects, and do what only a person may do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import click

from indelible import Effect, Failed, Ledger, Succeeded
from indelible.cli.filtering import filter_option
from indelible.cli.listing import Listed, say_page, say_page_json
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, limit_option, reason_option
from indelible.cli.show import age, effect_json, visible
from indelible.core.effects.calls import SideEffect
from indelible.core.effects.effect import Status
from indelible.core.filtering.filters import Query
from indelible.core.ports import Filter
from indelible.engine.finding import Finding, Found, everything
from indelible.errors import BadCall, UnknownEffect

HOW_TO_MAKE_ONE = """\
No effects yet. One comes of every call of a tool behind the ledger:

    from indelible import Ledger
    ledger = Ledger.open()
    @ledger.tool(side_effect="payment")
    def refund(charge: str, amount: int): ...
    with ledger.in_run("order-123"):
        refund("ch_1", 500)"""


@click.group(cls=InOrder)
def effects() -> None:
    """Look at tool calls; settle what is in doubt.

    An ID is an effect's id, the beginning of it if that is unique, or its key.
    """


@effects.command(name="list")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only effects in this status.")
@click.option("--tool", help="Only effects of this tool.")
@click.option("--run", "run_id", help="Only effects of this run.")
@click.option("--side-effect", type=click.Choice(get_args(SideEffect)), help="Only effects of this class.")
@filter_option("effects", "'tool:stripe.* args.amount:>1000 since:24h'")
@click.option("--before", metavar="ID", help="Only effects older than this one: the next page.")
@limit_option
@about_ledger
def list_effects(limit: int, before: str | None, query: Query, **filters: Any) -> None:
    """List effects, newest first."""
    place = where()
    with open_to_read(place) as ledger:
        filters["before"] = None if before is None else find(ledger, before).id
        found = _found(ledger, query, limit, filters)
        listed = Listed(noun="effect", found=found, chosen=filters, query=query, address=ledger.address)
        undone = ledger.compensations(found.things)
    if place.is_json:
        say_page_json(listed, place, lambda one: effect_json(one, undone.get(one.id)), "effects")
    else:
        say_page(
            listed,
            place,
            COLUMNS,
            lambda one: _row(one, is_undone=one.id in undone),
            HOW_TO_MAKE_ONE if listed.is_whole else "",
        )


COLUMNS = ("id", "status", "tool", "side effect", "run", "attempt", "age")


def _row(effect: Effect, *, is_undone: bool) -> tuple[str, ...]:
    since = age(effect.created_at, datetime.now(UTC))
    status = "compensated" if is_undone else effect.status
    return (effect.id, status, effect.tool, effect.side_effect, effect.run_id, str(effect.attempt), since)


def _found(ledger: Ledger, query: Query, limit: int, filters: dict[str, Any]) -> Found[Effect, str]:
    """Gives so many, however many have to be looked at."""
    finding, selected = Finding.of(ledger), Filter(**filters)

    def page(before: str | None, count: int) -> Found[Effect, str]:
        return finding.effects(query, replace(selected, before=before, limit=count))

    return everything(page, selected.before, limit)


@effects.command()
@click.argument("effect_id", metavar="ID")
@about_ledger
def show(effect_id: str) -> int:
    """Show one effect, its history, and what to do next."""
    from indelible.cli.effects.page import read_history, say_effect, say_effect_json

    place = where()
    with open_to_read(place) as ledger:
        effect = find(ledger, effect_id)
        approval = None if effect.approval_id is None else ledger.get_approval(effect.approval_id)
        history = read_history(ledger, effect)
        undone = ledger.compensations([effect]).get(effect.id)
    if place.is_json:
        return say_effect_json(effect, approval, history, undone)
    return say_effect(effect, approval, history, place, undone)


@effects.command()
@click.argument("effect_id", metavar="[ID]", required=False)
@click.option("--where", "chosen", metavar="FILTER", help="Settle all effects in doubt that fit, after asking you.")
@click.option(
    "--file", type=click.File("rb"), metavar="FILE", help="Settle the rows of a CSV or NDJSON file; - reads stdin."
)
@click.option("--as", "status", type=click.Choice(["succeeded", "failed"]), help="What became of it.")
@click.option("--value", metavar="JSON", help="With --as succeeded: the result that callers get.  [default: null]")
@click.option(
    "--error", metavar="TEXT", help="With --as failed: the message that callers get.  [default: the evidence]"
)
@click.option("--evidence", help="How you know, for example the provider's id of the charge.")
@click.option("--dry-run", is_flag=True, help="With --where or --file: change nothing, print what would be settled.")
@click.option("--skip-bad", is_flag=True, help="With --file: settle the good rows even if others are bad.")
@click.option("--yes", is_flag=True, help="With --where: do not ask for confirmation.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="With --where: settle at most so many.  [default: 1000]"
)
@by_option
@about_ledger
def settle(
    effect_id: str | None,
    chosen: str | None,
    file: Any,
    status: str | None,
    value: str | None,
    error: str | None,
    evidence: str | None,
    dry_run: bool,
    skip_bad: bool,
    yes: bool,
    limit: int | None,
    by: str,
) -> int:
    """Tell what became of effects in doubt, after you looked.

    Name one effect, or many with --where or --file. A CSV file needs a header line. Columns: id or key, as, value or
    error, evidence. All faults are printed with their lines, and a file with a fault settles nothing.

    \b
    indelible effects settle ID --as succeeded --value '{"id": "re_1"}' --evidence "re_1 in the dashboard"
    indelible effects settle --where 'tool:stripe.* since:24h' --as failed --evidence "not in the report" --dry-run
    indelible effects settle --file settled.csv --dry-run
    """
    from indelible.cli.effects.settling import settle_file, settle_where

    one_of = [effect_id is not None, chosen is not None, file is not None]
    if sum(one_of) != 1:
        raise _wrong("name what to settle: an ID, --where FILTER, or --file FILE")
    if file is not None:
        _check_unused("--file: each row has its own", status=status, value=value, error=error, evidence=evidence)
        _check_unused("it goes with --where", limit=limit, yes=yes or None)
        return settle_file(file.read(), where(), by=by, dry_run=dry_run, skip_bad=skip_bad)
    if status is None or not evidence:
        raise _wrong("say what became of it and how you know: --as succeeded or --as failed, and --evidence")
    outcome = _outcome(status, value, error, evidence)
    _check_unused("it goes with --file", skip_bad=skip_bad or None)
    if chosen is not None:
        return settle_where(
            chosen, outcome, where(), by=by, evidence=evidence, limit=limit or 1000, dry_run=dry_run, is_sure=yes
        )
    _check_unused("it goes with --where or --file", dry_run=dry_run or None, yes=yes or None, limit=limit)
    assert effect_id is not None
    _move(effect_id, lambda ledger, effect: ledger.settle(effect, outcome, by=by, evidence=evidence), by)
    return 0


def _outcome(status: str, value: str | None, error: str | None, evidence: str) -> Succeeded | Failed:
    if (value if status == "failed" else error) is not None:
        wrong, right = ("--value", "--error") if status == "failed" else ("--error", "--value")
        raise _wrong(f"{wrong} does not go with --as {status}; use {right}")
    if status == "failed":
        return Failed(error if error is not None else evidence, "SettledAsFailed")
    return Succeeded(None if value is None else _parsed(value))


def _check_unused(why: str, **options: Any) -> None:
    """Refuse options that would mean nothing here."""
    for name, given in options.items():
        if given is not None:
            raise _wrong(f"--{'as' if name == 'status' else name.replace('_', '-')} is not for this: {why}")


def _wrong(message: str) -> click.UsageError:
    return click.UsageError(message, click.get_current_context())


def _parsed(value: str) -> Any:
    from indelible.core.values.canonical import parse_strict

    try:
        return parse_strict(value)
    except BadCall as error:
        raise BadCall(f"--value: {error}. A text needs its own quotes: --value '\"done\"'") from error


@effects.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--app", "--ledger", "named", metavar="MODULE:NAME", help="Your program's ledger, or a function that returns it."
)
@click.option("--tool", help="Only effects of this tool; * stands for any characters.")
@click.option("--run", "run_id", help="Only effects of this run.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Ask about at most so many.",
)
@click.option("--dry-run", is_flag=True, help="Ask nothing; print what would be asked about.")
@about_ledger
def reconcile(ids: tuple[str, ...], named: str | None, **words: Any) -> int:
    """Ask your tools' probes about effects in doubt.

    A probe is the function that a tool was declared with as reconcile=. Probes are functions of yours, so name your
    program's ledger with --app. It says where the ledger is. Exits with 0 when no effect is left in doubt, else with 1.

    \b
    indelible effects reconcile --app shop.tools:ledger --dry-run
    indelible effects reconcile --app shop.tools:ledger --tool 'stripe.*'
    """
    from indelible.cli.effects.reconciling import reconcile_by

    if named is None:
        raise _wrong("name your program's ledger, which knows the probes: --app MODULE:NAME, as in shop.tools:ledger")
    if where().url is not None:
        raise _wrong("--url does not go with --app: your program says where its ledger is")
    return reconcile_by(named, where(), ids, **words)


@effects.command()
@click.argument("effect_id", metavar="ID")
@reason_option("retry", "Why another attempt is safe.")
@by_option
@about_ledger
def retry(effect_id: str, reason: str, by: str) -> None:
    """Allow another attempt after a failure or a doubt.

    The next call of it makes the attempt.
    """
    _move(effect_id, lambda ledger, effect: ledger.retry(effect, by=by, reason=reason), by)


@effects.command()
@click.argument("effect_id", metavar="ID")
@reason_option("canceled")
@by_option
@about_ledger
def cancel(effect_id: str, reason: str, by: str) -> None:
    """Withdraw an effect whose handler has not been entered."""
    _move(effect_id, lambda ledger, effect: ledger.cancel(effect, by=by, reason=reason), by)


def _moved_away(verb: str, rest: str) -> click.Command:
    """Gives the command that answered approvals before they had a command of their own: it names the new one."""

    def say(words: tuple[str, ...]) -> None:
        name = next((word for word in words if word.startswith(("eff_", "apr_"))), "ID")
        raise click.UsageError(
            f"`effects {verb}` is `approvals {verb}` now; look first: indelible approvals show {name}, then: "
            f"indelible approvals {verb} {name} {rest}",
            click.get_current_context(),
        )

    anything = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
    return click.Command(
        verb, hidden=True, callback=say, params=[anything], context_settings={"ignore_unknown_options": True}
    )


effects.add_command(_moved_away("approve", "--digest DIGEST"))
effects.add_command(_moved_away("deny", "-m REASON"))


_WHAT_NOW = {
    "succeeded": "Every later call gets this result.",
    "failed": "Every later call gets this error.",
    "ready": "The next call of it enters the handler.",
    "canceled": "Every later call is refused.",
}


def _move(effect_id: str, move: Callable[[Ledger, Effect], Effect], by: str) -> None:
    """Moves one effect and says from where to where."""
    place = where()
    with open_existing(place, wakeups=True) as ledger:  # so that whoever waits for it hears of it
        before = find(ledger, effect_id)
        after = move(ledger, before)
    words = f"{after.id} {after.tool}: {before.status} → {after.status}, {place.by_whom(by)}. {_WHAT_NOW[after.status]}"
    place.say({"was": before.status, "by": place.doer(by), "effect": effect_json(after)}, words)


def find(ledger: Ledger, name: str) -> Effect:
    """Finds an effect by its id, the beginning of its id, or its key."""
    if not name.strip():
        raise BadCall("an empty ID would mean any effect; see: indelible effects list")
    is_key = len(name) == 64 and not name.startswith("eff_")
    try:
        found = ledger.find_by_key(name.lower()) if is_key else ledger.get_effect(name)
    except ValueError as error:
        if isinstance(error, BadCall):
            raise
        found = None  # as long as a key, but not one
    if found is None:
        raise UnknownEffect(
            f"no effect of tenant {ledger.tenant!r} in {ledger.address} has the id or key {visible(name)}; "
            "see: indelible effects list"
        )
    return found
