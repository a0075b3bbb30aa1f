"""`indelible people`: whom the server lets in."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import click

from indelible.cli.behind import store_behind
from indelible.cli.confirming import confirm, yes_option
from indelible.cli.listing import say_all
from indelible.cli.moments import moment_ahead
from indelible.cli.naming import only
from indelible.cli.opening import ASK_THE_SERVER, about_ledger, open_here, where
from indelible.cli.options import InOrder, by_option
from indelible.cli.show import count, say_json, timestamp, visible
from indelible.core.effects.effect import Actor
from indelible.core.events import instant
from indelible.core.people.person import Person
from indelible.core.people.standing import Standing, person_id
from indelible.core.scopes import SCOPES_OF_PEOPLE, Scope
from indelible.errors import BadCall
from indelible.server.signin.leaving import Leaving, Left, left_shown
from indelible.server.signin.people import People
from indelible.server.signin.providers import Providers

HERE = "http://localhost:8787"


@click.group(cls=InOrder)
def people() -> None:
    """Invite, list and revoke people who sign in at the server.

    Somebody who is invited gets a link that signs them in once. There they make a passkey, and sign in by that from
    then on. There are no passwords.
    """


@people.command()
@click.argument("name")
@click.option(
    "--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES_OF_PEOPLE), help="What they may."
)
@click.option("--expires", metavar="WHEN", default="1h", show_default=True, help="Until when the link is good.")
@click.option("--server", metavar="URL", default=HERE, show_default=True, help="Where they reach the server.")
@click.option("--convert", is_flag=True, help="Make a provider's person one of the ledger's own.")
@by_option
@about_ledger
def invite(name: str, scopes: tuple[str, ...], expires: str, server: str, convert: bool, by: str) -> None:
    """Make a one-time link for NAME, also for who lost their passkeys.

    The link is shown once, and only a hash of it is kept. What it holds stands behind a #, so no server writes it into
    a log. A link they had before is good no more.

    A person who signs in through a provider needs no link. With --convert they become a person of this ledger, and the
    provider's rules do not matter for them any more. Their sessions and passkeys end; their tokens stay.

    \b
    indelible people invite ana --scope admin
    indelible people invite bob --scope approver --server https://ledger.example --expires 1d
    """
    place = where()
    address = urlsplit(server)
    if address.scheme not in ("http", "https") or not address.netloc or address.query or address.fragment:
        raise click.UsageError(f"--server {server}: give an address such as {HERE} or https://ledger.example")
    lasts = moment_ahead(expires, "--expires") - datetime.now(UTC)
    with open_here(place, ASK_THE_SERVER) as ledger:
        person, ticket = Leaving(store_behind(ledger), place.tenant, ledger._approving).invite(
            name, cast("tuple[Scope, ...]", scopes), by=Actor(by), lasts=lasts, convert=convert
        )
    stands = person.standing(None)
    link = f"{server.rstrip('/')}/signin#{ticket}"
    if place.is_json:
        say_json({"link": link, "person": person_json(person, stands)})
        return
    assert person.invitation is not None, "that is what was made"
    until = timestamp(person.invitation.expires_at)
    print(f"{person.id}: {visible(person.name)}, scope {', '.join(person.scopes)}. Good once, until {until}:")
    print(f"\n  {link}\n\nPass it on by a way that only they read: whoever opens it is them.")


@people.command(name="list")
@about_ledger
def list_people() -> None:
    """List people, and how they come in."""
    place = where()
    with open_here(place, ASK_THE_SERVER) as ledger:
        found = People(store_behind(ledger), place.tenant).all()
        rules = Providers(store_behind(ledger), place.tenant).rules()
    found.sort(key=lambda one: one.name)
    if place.is_json:
        say_json({"tenant": place.tenant, "people": [person_json(one, one.standing(rules)) for one in found]})
        return
    now = datetime.now(UTC)
    rows = [(one.id, one.name, ", ".join(one.scopes), *_ways(one, one.standing(rules), now)) for one in found]
    if_none = f"Nobody yet. Invite the first: {place.command('people invite NAME --scope admin')}"
    say_all("person", ("id", "name", "scopes", "comes in by", "sessions"), rows, place, if_none)


@people.command()
@click.argument("name")
@yes_option
@by_option
@about_ledger
def revoke(name: str, yes: bool, by: str) -> None:
    """Let NAME (or ID) in no more, and end what they had.

    Their link, passkeys, sessions and tokens end, the grants and delegations that they gave or got, and their votes on
    questions that are still open. A running server lets them do nothing more at once, and see nothing more within a
    second. What they had set up for others goes on, and is listed.
    """
    place = where()
    with open_here(place, ASK_THE_SERVER) as ledger:
        known = People(store_behind(ledger), place.tenant)
        everybody = {one.id: one for one in known.all()}
        ids = list(everybody)
        if not name.startswith("per_") and person_id(name) not in ids:
            raise BadCall(f"nobody is called {visible(name)} here; see: indelible people list")
        id_ = only(ids, name, "person", "people list") if name.startswith("per_") else person_id(name)
        person = everybody[id_]
        sessions, passkeys = len(person.sessions), len(person.passkeys)
        confirm(
            f"This ends all access of {visible(person.name)}: {count(sessions, 'session')}, "
            f"{count(passkeys, 'passkey')}, and their tokens, grants, delegations and votes on open questions.",
            yes=yes,
        )
        left = Leaving(store_behind(ledger), place.tenant, ledger._approving).revoke(id_, by=Actor(by))
    stands = left.person.standing(None)
    place.say({"person": person_json(left.person, stands), **left_shown(left)}, "\n".join(_told(left)))


def _told(left: Left) -> Iterator[str]:
    """Says what ended with somebody, and what did not, with the way to end it."""
    yield f"{left.person.id}: {visible(left.person.name)} is no longer let in."
    counts = {
        "token": left.tokens,
        "link": left.links,
        "grant": left.grants,
        "delegation": left.delegations,
        "vote": left.approvals,
    }
    ended = [count(len(found), noun) for noun, found in counts.items() if found]
    if ended:
        yield f"Ended with them: {', '.join(ended)}."
    for token in left.tokens_of_others:
        end = f"indelible apikeys revoke {token.id}"
        yield f"Goes on: the token that they gave to {visible(token.name)}: {end}"
    for one in left.people_let_in:
        yield f"Goes on: {visible(one.name)}, whom they let in: indelible people revoke {one.id}"
    if left.policy is not None:
        yield "Goes on: the policy in force, which they applied: indelible policy show"


def person_json(person: Person, stands: Standing) -> dict[str, Any]:
    """Gives what may be shown of a person, and how they stand."""
    now = datetime.now(UTC)
    invitation = person.invitation
    return {
        "id": person.id,
        "name": person.name,
        "scopes": list(stands.scopes or person.scopes),
        "issuer": person.issuer,
        "standing": stands.word(now),
        "created_at": instant(person.created_at),
        "is_revoked": person.is_revoked,
        "invited_until": None if invitation is None else instant(invitation.expires_at),
        "passkeys": [one.name for one in person.passkeys],
        "sessions": sum(one.expires_at > now for one in person.sessions),
    }


def _ways(person: Person, stands: Standing, now: datetime) -> tuple[str, str]:
    word = stands.word(now)
    if word == "revoked":
        return "revoked", "0"
    if person.issuer is not None and word != "in":
        why = "no rule lets them in" if word == "not_allowed" else "they have to sign in there again"
        return f"{visible(person.issuer)}: {why}", "0"
    ways = []
    if person.issuer is not None:
        ways.append(visible(person.issuer))
    if person.passkeys:
        ways.append(count(len(person.passkeys), "passkey"))
    if person.invitation is not None:
        until = "link until" if person.invitation.expires_at > now else "link expired"
        ways.append(f"{until} {timestamp(person.invitation.expires_at)}")
    return ", ".join(ways) or "nothing: invite them again", str(sum(one.expires_at > now for one in person.sessions))
