"""Permissions that were given ahead: delegations and standing grants."""

from __future__ import annotations

from datetime import datetime

import click

from indelible.cli.behind import store_behind
from indelible.cli.listing import say_all
from indelible.cli.moments import moment_ahead
from indelible.cli.naming import only
from indelible.cli.opening import about_ledger, open_existing, open_to_read, where
from indelible.cli.options import InOrder, by_option, reason_option
from indelible.cli.show import age, count, say_json, timestamp, visible
from indelible.core.approvals.grants import Grant
from indelible.core.approvals.shown import delegation_shown, grant_shown
from indelible.errors import NotPermitted


@click.command()
@click.option("--to", required=True, metavar="NAME", help="Who may decide for you.")
@click.option("--until", required=True, metavar="WHEN", help="Until when: 8h, 7d, 2w or 2030-01-31.")
@reason_option("delegated")
@by_option
@about_ledger
def delegate(to: str, until: str, reason: str, by: str) -> None:
    """Let somebody else decide what you may decide.

    They still have one vote only, and it is recorded as theirs on your behalf. End it before its time with `approvals
    delegations end`. At a server, name the owner of the token with --by: another name is refused.

    \b
    indelible approvals delegate --to bob --until 7d -m "on holiday"
    """
    place, end = where(), moment_ahead(until)
    with open_existing(place) as ledger:
        try:
            given = ledger.delegate(to, until=end, by=by, reason=reason)
        except NotPermitted as refused:
            named = f"{visible(by)} is not whose token this is, or their token may not; --by names the token's owner"
            raise NotPermitted(f"{place.address} lets people delegate in their own name alone: {named}") from refused
    words = f"{given.id}: {visible(given.to)} may decide for {visible(given.giver)} until {timestamp(given.until)}."
    place.say({"delegation": delegation_shown(given)}, words)


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
@about_ledger
def delegations(context: click.Context) -> None:
    """List delegations, or end one."""
    if context.invoked_subcommand is None:
        _list_delegations()


@delegations.command(name="list")
@about_ledger
def list_delegations() -> None:
    """List the delegations that have not ended."""
    _list_delegations()


def _list_delegations() -> None:
    place = where()
    with open_to_read(place) as ledger:
        found, now = ledger.delegations(), store_behind(ledger).look([]).now
    if place.is_json:
        say_json({"tenant": place.tenant, "delegations": [delegation_shown(one) for one in found]})
        return
    rows = [(one.id, one.giver, one.to, _end(one.until, now)) for one in found]
    say_all("delegation", ("id", "of", "to", "until"), rows, place)


@delegations.command(name="end")
@click.argument("delegation_id", metavar="ID")
@reason_option("ended")
@by_option
@about_ledger
def end_delegation(delegation_id: str, reason: str, by: str) -> None:
    """End a delegation before its time."""
    place = where()
    with open_existing(place) as ledger:
        given = [one.id for one in ledger.delegations()]
        name = only(given, delegation_id, "delegation", "approvals delegations")
        ended = ledger.end_delegation(name, by=by, reason=reason)
    words = f"{ended.id}: {visible(ended.to)} no longer decides for {visible(ended.giver)}."
    place.say({"delegation": delegation_shown(ended)}, words)


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
@about_ledger
def grants(context: click.Context) -> None:
    """List standing grants, or end one.

    A grant comes with an approval: indelible approvals approve ID --digest … --grant 20 --until 8h
    """
    if context.invoked_subcommand is None:
        _list_grants(None)


@grants.command(name="list")
@click.option("--tool", help="Only grants for this tool.")
@about_ledger
def list_grants(tool: str | None) -> None:
    """List the grants that have uses left."""
    _list_grants(tool)


def _list_grants(tool: str | None) -> None:
    place = where()
    with open_to_read(place) as ledger:
        found, now = ledger.grants(tool=tool), store_behind(ledger).look([]).now
    if place.is_json:
        say_json({"tenant": place.tenant, "grants": [grant_shown(one) for one in found]})
        return
    rows = [
        (one.id, one.tool, str(one.uses_left), _end(one.until, now), _pins(one), one.given_by, one.approval_id)
        for one in found
    ]
    say_all("grant", ("id", "tool", "left", "until", "the same", "given by", "approval"), rows, place)


@grants.command(name="end")
@click.argument("grant_id", metavar="ID")
@reason_option("ended")
@by_option
@about_ledger
def end_grant(grant_id: str, reason: str, by: str) -> None:
    """Withdraw a grant; the next such call asks again."""
    place = where()
    with open_existing(place) as ledger:
        name = only([one.id for one in ledger.grants()], grant_id, "grant", "approvals grants")
        ended = ledger.end_grant(name, by=by, reason=reason)
    left = f"{ended.id}: ended, with {count(ended.uses_left, 'use')} left."
    place.say({"grant": grant_shown(ended)}, f"{left} The next call of {ended.tool} asks again.")


def _pins(grant: Grant) -> str:
    return "all arguments" if grant.pin is None else ", ".join(grant.pin)


def _end(until: datetime, now: datetime) -> str:
    return f"{timestamp(until)} ({'over' if until <= now else f'in {age(now, until)}'})"
