"""The options of `indelible serve` about a provider that people sign in by."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from indelible.cli.moments import span
from indelible.cli.opening import where
from indelible.core.people.vouching import read_allowed

if TYPE_CHECKING:
    from indelible.server.signin.oidc import Provider

F = TypeVar("F", bound=Callable[..., Any])
SECRET = "INDELIBLE_OIDC_SECRET"  # noqa: S105  # where it is, not what it is


def about_provider(function: F) -> F:
    """Gives a command these options; it gets them by their names."""
    options = (
        click.option("--oidc-issuer", metavar="URL", help="Let people sign in by this OpenID Connect provider."),
        click.option("--oidc-client-id", metavar="ID", help=f"What it knows us by; the secret is in ${SECRET}."),
        click.option("--oidc-allow", multiple=True, metavar="CLAIM=VALUE:SCOPE",
                     help="Whom to let in, as email=*@example.com:approver; nobody else."),
        click.option("--oidc-max-age", default="12h", show_default=True, metavar="SPAN",
                     help="How long a sign-in at the provider counts, also for passkeys and tokens (at most 30d)."),
    )  # fmt: skip
    for option in reversed(options):
        function = option(function)
    return function


def provider_of(issuer: str | None, client_id: str | None, allow: tuple[str, ...], max_age: str) -> Provider | None:
    """Gives the provider that the options name; its people are of the tenant that the command is about."""
    if issuer is None:
        if client_id is not None or allow:
            raise click.UsageError("--oidc-client-id and --oidc-allow say something about --oidc-issuer; give it too")
        return None
    if client_id is None or not allow:
        raise click.UsageError("--oidc-issuer needs --oidc-client-id, and --oidc-allow to let anybody in")
    from indelible.server.signin.oidc import Provider

    allowed = tuple(read_allowed(text) for text in allow)
    lasts = span(max_age, "--oidc-max-age")
    return Provider(
        issuer, client_id, secret=os.environ.get(SECRET), allowed=allowed, max_age=lasts, tenant=where().tenant
    )
