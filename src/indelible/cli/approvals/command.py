"""`indelible approvals`: what waits for a person, and how to answer it."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, get_args

import click
from click.core import ParameterSource

from indelible import Approval, Ledger
from indelible.cli.approvals.deciding import approve, deny, edit, revoke
from indelible.cli.approvals.finding import find_approval
from indelible.cli.approvals.permissions import delegate, delegations, grants
from indelible.cli.approvals.signing import key
from indelible.cli.approvals.words import quorum, standing, time_left
from indelible.cli.behind import store_behind
from indelible.cli.filtering import filter_option
from indelible.cli.listing import Listed, say_page, say_page_json
from indelible.cli.opening import Where, about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, limit_option
from indelible.cli.show import age, count, say_json
from indelible.core.approvals.approval import ApprovalStatus
from indelible.core.approvals.elsewhere import Elsewhere
from indelible.core.approvals.shown import approval_shown
from indelible.core.approvals.stuck import Stuck
from indelible.core.filtering.filters import Query
from indelible.core.sheets import SheetFilter
from indelible.engine.finding import Finding, Found, everything

HOW_TO_ASK = """\
Nothing has been asked yet. A tool asks when it says so, or when a policy does:

    @ledger.tool(side_effect="payment", approval="required")
    def refund(charge: str, amount: int): ..."""


@click.group(cls=InOrder)
def approvals() -> None:
    """Decide what an agent asks to do.

    An ID is an approval's id, the beginning of it if that is unique, or the id of its effect. To approve, name the
    digest that `show` printed: what you saw is what runs.

    \b
    What waits:           indelible approvals list
    Look at one:          indelible approvals show apr_01a1
    Let it run:           indelible approvals approve apr_01a1 --digest 5f3c9a2b7d10e4c6
    Do not:               indelible approvals deny apr_01a1 -m "ask the customer first"
    Decide as they come:  indelible approvals watch
    """


@approvals.command(name="list")
@click.option("--status", type=click.Choice([*get_args(ApprovalStatus), "all"]), default="pending", show_default=True,
              help="Only approvals in this status.")  # fmt: skip
@click.option("--tool", help="Only approvals of this tool.")
@click.option("--run", "run_id", help="Only approvals of this run.")
@filter_option("approvals", "'actor:ana args.amount:>1000 since:7d'")
@click.option("--before", metavar="ID", help="Only approvals older than this one: the next page.")
@limit_option
@about_ledger
def list_approvals(limit: int, before: str | None, status: str, query: Query, **filters: Any) -> None:
    """List what waits for a decision, newest first.

    \b
    indelible approvals list
    indelible approvals list --status all --tool stripe.refund --run order-123
    """
    place = where()
    given = click.get_current_context().get_parameter_source("status") is ParameterSource.COMMANDLINE
    is_any = status == "all" or (query.needs("status") and not given)  # the filter says which
    filters = {"status": None if is_any else status, **filters}
    with open_to_read(place) as ledger:
        filters["before"] = None if before is None else find_approval(ledger, before).id
        found = _found(ledger, query, limit, filters)
        now = store_behind(ledger).look([]).now
        pending = [approval for approval in found.things if approval.status == "pending"]
        alike, stuck = ledger._approving.elsewhere(pending), ledger._approving.stuck(pending)
        listed = Listed(noun="approval", found=found, chosen=filters, query=query, address=ledger.address)
    if place.is_json:
        say_page_json(listed, place, lambda one: _listed_json(one, alike, stuck), "approvals")
        return
    say_page(listed, place, COLUMNS, lambda approval: row(approval, now, stuck), _if_none(listed, place))
    for approval_id, others in alike.items():
        for other in others:
            print(f"Careful: {approval_id}: {other}")
    if stuck:
        looking = place.command(f"approvals show {next(iter(stuck))}")
        print(
            f"{count(len(stuck), 'approval')} stuck: no person can give them any more. Why, and what to do: {looking}"
        )
    if found.things and found.next is None and status == "pending":
        print(f"Look at one: {place.command(f'approvals show {found.things[0].id}')}")


def _listed_json(
    approval: Approval, alike: Mapping[str, Sequence[Elsewhere]], stuck: Mapping[str, Stuck]
) -> dict[str, Any]:
    found = [one.shown() for one in alike.get(approval.id, ())]
    return {**approval_shown(approval, stuck.get(approval.id)), "elsewhere": found}


def _if_none(listed: Listed[Approval], place: Where) -> str:
    if listed.is_whole:
        return HOW_TO_ASK
    if listed.filters == {"status": "pending"} and not listed.query.terms:
        return "Nothing waits for a decision. What was decided: " + place.command("approvals list --status all")
    return ""


def _found(ledger: Ledger, query: Query, limit: int, filters: dict[str, Any]) -> Found[Approval, str]:
    """Gives so many, however many have to be looked at."""
    finding = Finding.of(ledger)
    selected = SheetFilter(kind="approval", status=filters["status"], topic=filters["run_id"])

    def page(before: str | None, count: int) -> Found[Approval, str]:
        return finding.approvals(query, replace(selected, before=before, limit=count), filters["tool"])

    return everything(page, filters["before"], limit)


COLUMNS = ("id", "status", "tool", "run", "asked by", "approved", "age", "expires")


def row(approval: Approval, now: datetime, stuck: Container[str] = ()) -> tuple[str, ...]:
    """Return an approval as a row of a table; `stuck` holds the ids of those that no person can give any more."""
    return (
        approval.id,
        "stuck" if approval.id in stuck and not approval.is_overdue(now) else standing(approval, now),
        approval.tool,
        approval.run_id,
        approval.requester.id,
        quorum(approval),
        age(approval.asked_at, now),
        time_left(approval, now) if approval.is_open else "",
    )


@approvals.command()
@click.argument("approval_id", metavar="ID")
@by_option
@about_ledger
def show(approval_id: str, by: str) -> int:
    """Show exactly what would run, and how to answer.

    All arguments are printed, with nothing cut; characters that hide or look like others are named. While there is
    something to decide, it goes on the record that you looked. Exits with 1 if what is stored was altered.

    \b
    indelible approvals show apr_01a1
    indelible approvals show eff_01a1 --json
    """
    from indelible.cli.approvals.page import page_json, page_lines, read_page, warnings

    place = where()
    with open_to_read(place) as ledger:
        page = read_page(ledger, find_approval(ledger, approval_id), by)
    if place.is_json:
        say_json(page_json(page))
    else:
        print("\n".join(page_lines(page, place, by)))
    return 1 if any(warnings(page)) else 0


@click.command()
@click.option("--tool", help="Only approvals of this tool.")
@click.option("--run", "run_id", help="Only approvals of this run.")
@by_option
@about_ledger
def watch(tool: str | None, run_id: str | None, by: str) -> int:
    """Show approvals as they come, and decide them.

    On a terminal: j and k move, Enter shows all of one, a and then y approve what was shown, d denies, q leaves. On a
    pipe: one line for each approval that is new or changed, with --json one JSON document a line.

    \b
    indelible approvals watch
    indelible approvals watch --json | while read -r line; do ...; done
    """
    from indelible.cli.approvals.watch import watch_approvals

    place = where()
    with open_existing(place, wakeups=True) as ledger:
        return watch_approvals(ledger, place, by=by, tool=tool, run_id=run_id)


for command in (approve, deny, edit, revoke, watch, delegate, delegations, grants, key):
    approvals.add_command(command)
