"""`indelible apikeys`: who may ask the server for what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import click

from indelible.cli.behind import store_behind
from indelible.cli.listing import say_all
from indelible.cli.moments import moment_ahead
from indelible.cli.naming import only
from indelible.cli.opening import ASK_THE_SERVER, about_ledger, open_here, where
from indelible.cli.options import InOrder, by_option
from indelible.cli.show import say_json, timestamp, visible
from indelible.core.effects.effect import Actor
from indelible.core.events import instant_or_none
from indelible.core.people.credentials import Credential
from indelible.core.scopes import SCOPES, Scope
from indelible.server.signin.credentials import Credentials, credential_shown
from indelible.server.signin.sightings import last_seen


@click.group(cls=InOrder)
def apikeys() -> None:
    """Give, list and revoke tokens for the server.

    By its token the server knows who asks. An agent's token asks for tool calls; those of people approve, audit or
    administer. Each is for one tenant.
    """


@apikeys.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES), help="What it is for.")
@click.option("--expires", metavar="WHEN", help="Until when: 8h, 90d or 2030-01-31.  [default: until revoked]")
@click.option("--principal", metavar="PERSON", help="Whom an agent acts for; they cannot approve what it asks.")
@by_option
@about_ledger
def create(name: str, scopes: tuple[str, ...], expires: str | None, principal: str | None, by: str) -> None:
    """Make a token for NAME.

    It is shown once, and only a hash of it is kept.

    \b
    indelible apikeys create billing-agent --scope agent --principal ana
    indelible apikeys create ana --scope approver --expires 90d
    """
    place = where()
    until = None if expires is None else moment_ahead(expires, "--expires")
    with open_here(place, ASK_THE_SERVER) as ledger:
        given, token = Credentials(store_behind(ledger), place.tenant).give(
            name, cast("tuple[Scope, ...]", scopes), by=Actor(by), expires_at=until, principal=principal
        )
    if place.is_json:
        say_json({"token": str(token), "apikey": credential_shown(given)})
        return
    print(f"{given.id}: for {visible(given.name)} ({given.kind}), scope {', '.join(given.scopes)}, {_until(given)}.")
    print(f"\n  {token}\n\nKeep it now: it is not shown again. Send it as: Authorization: Bearer …")


@apikeys.command(name="list")
@about_ledger
def list_keys() -> None:
    """List tokens by what is kept of them."""
    place = where()
    with open_here(place, ASK_THE_SERVER) as ledger:
        store = store_behind(ledger)
        found = Credentials(store, place.tenant).all()
        used = {one.id: last_seen(store, place.tenant, one.id) for one in found}
    if place.is_json:
        shown = [credential_shown(one) | {"last_used": instant_or_none(used[one.id])} for one in found]
        say_json({"tenant": place.tenant, "apikeys": shown})
        return
    rows = [(one.id, one.name, ", ".join(one.scopes), one.given_by, _until(one), _used(used[one.id])) for one in found]
    if_none = f"No tokens yet. Make one: {place.command('apikeys create NAME --scope agent')}"
    say_all("token", ("id", "name", "scopes", "given by", "holds", "last used"), rows, place, if_none)


@apikeys.command()
@click.argument("key_id", metavar="ID")
@by_option
@about_ledger
def revoke(key_id: str, by: str) -> None:
    """End a token; a running server stops letting it in within a second."""
    place = where()
    with open_here(place, ASK_THE_SERVER) as ledger:
        known = Credentials(store_behind(ledger), place.tenant)
        over = known.revoke(only([one.id for one in known.all()], key_id, "token", "apikeys list"), by=Actor(by))
    place.say({"apikey": credential_shown(over)}, f"{over.id}: {visible(over.name)} is no longer let in.")


def _used(at: datetime | None) -> str:
    return "never" if at is None else timestamp(at)


def _until(credential: Credential) -> str:
    if credential.is_revoked:
        return "revoked"
    if credential.expires_at is None:
        return "until revoked"
    word = "expired" if credential.expires_at <= datetime.now(UTC) else "until"
    return f"{word} {timestamp(credential.expires_at)}"
