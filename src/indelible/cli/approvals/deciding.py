"""Answers to what an agent asks: `indelible approvals approve`, `deny`, `revoke` and `edit`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from indelible import Approval, GrantTerms, Ledger
from indelible.cli.approvals.finding import find_approval
from indelible.cli.approvals.signing import signature_of, voter
from indelible.cli.approvals.words import still_needed
from indelible.cli.moments import moment_ahead
from indelible.cli.opening import Where, about_ledger, open_existing, where
from indelible.cli.options import by_option, reason_option
from indelible.cli.show import timestamp
from indelible.core.approvals.shown import approval_shown
from indelible.errors import VoteRefused

F = TypeVar("F", bound=Callable[..., Any])

_FEWEST_DIGITS = 12
OTHER_POLICY = (
    "indelible: another policy has judged these arguments than the one that asked. If the agent brings that one, its "
    "next call does not find the edit binding and asks as before: edit with --policy FILE"
)


def digest_option(function: F) -> F:
    """Gives a command --digest, what the person was shown."""
    return click.option(
        "--digest", required=True, callback=_checked_digest,
        help=f"What `show` printed: what you say yes to. Its first {_FEWEST_DIGITS} digits are enough.",
    )(function)  # fmt: skip


def key_option(function: F) -> F:
    """Gives a command --key, the voter's own."""
    return click.option(
        "--key", "key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
        help="Sign with your own Ed25519 key (a PEM file that only you can read).",
    )(function)  # fmt: skip


def _checked_digest(context: click.Context, parameter: click.Parameter, digest: str | None) -> str | None:
    if digest is not None and not re.fullmatch(rf"[0-9a-f]{{{_FEWEST_DIGITS},64}}", digest.lower()):
        raise click.BadParameter(
            f"{digest!r} is no digest; give the first {_FEWEST_DIGITS} hexadecimal digits or more of what `approvals "
            "show` printed",
            context,
            parameter,
        )
    return None if digest is None else digest.lower()


def whole_digest(approval: Approval, digest: str, place: Where) -> str:
    """Gives the digest that its first digits stand for; refuses those of anything but what is asked now."""
    if approval.digest.startswith(digest):
        return approval.digest
    raise VoteRefused(
        f"{approval.id} does not ask about {digest}…, so nothing was changed: it was edited since, or that is the "
        f"digest of another. Look at it again: {place.command(f'approvals show {approval.id}')}",
        code="digest",
        approval=approval,
    )


@click.command()
@click.argument("approval_id", metavar="ID")
@digest_option
@reason_option("approved")
@key_option
@click.option(
    "--grant", "uses", type=click.IntRange(min=1), metavar="N", help="Allow N more such calls without asking."
)
@click.option("--until", metavar="WHEN", help="With --grant: its end, as in 8h, 7d or 2030-01-31.")
@click.option("--pin", multiple=True, metavar="PATH",
              help="With --grant: this argument must be the same; once for each.  [default: all of them]")  # fmt: skip
@by_option
@about_ledger
def approve(
    approval_id: str,
    digest: str,
    reason: str,
    key: Path | None,
    uses: int | None,
    until: str | None,
    pin: tuple[str, ...],
    by: str,
) -> None:
    """Let a call run, exactly as you saw it.

    \b
    indelible approvals approve apr_01a1 --digest 5f3c9a2b7d10e4c6
    indelible approvals approve apr_01a1 --digest 5f3c9a2b7d10e4c6 --key ~/me.pem
    indelible approvals approve apr_01a1 --digest 5f3c9a2b7d10e4c6 --grant 20 --until 8h --pin customer
    """
    terms = _grant_terms(uses, until, pin)

    def do(ledger: Ledger, approval: Approval) -> Approval:
        whole = whole_digest(approval, digest, where())
        signature = None if key is None else signature_of(key, whole, is_approval=True)
        actor = voter(by, key)
        return ledger.approve(approval, digest=whole, by=actor, reason=reason, signature=signature, grant=terms)

    _decide(approval_id, do, by)


def _grant_terms(uses: int | None, until: str | None, pin: tuple[str, ...]) -> GrantTerms | None:
    context = click.get_current_context()
    if uses is None:
        if until is not None or pin:
            raise click.UsageError("--until and --pin say what --grant grants; add --grant N", context)
        return None
    if until is None:
        raise click.UsageError("--grant needs an end; add --until, as in --until 8h", context)
    return GrantTerms(count=uses, until=moment_ahead(until), pin=pin or None)


@click.command()
@click.argument("approval_id", metavar="ID")
@reason_option(None, "Why not; the agent is told.")
@click.option("--digest", callback=_checked_digest, help="Only if this is what is asked.")
@key_option
@by_option
@about_ledger
def deny(approval_id: str, reason: str, digest: str | None, key: Path | None, by: str) -> None:
    """Refuse a call; one refusal is enough.

    \b
    indelible approvals deny apr_01a1 -m "ask the customer first"
    """

    def do(ledger: Ledger, approval: Approval) -> Approval:
        whole = None if digest is None else whole_digest(approval, digest, where())
        signature = None if key is None else signature_of(key, approval.digest, is_approval=False)
        return ledger.deny(approval, by=voter(by, key), reason=reason, digest=whole, signature=signature)

    _decide(approval_id, do, by)


@click.command()
@click.argument("approval_id", metavar="ID")
@reason_option("taken back")
@by_option
@about_ledger
def revoke(approval_id: str, reason: str, by: str) -> None:
    """Take your approval back, as long as nothing runs on it.

    \b
    indelible approvals revoke apr_01a1 -m "wrong customer"
    """
    _decide(approval_id, lambda ledger, approval: ledger.revoke_approval(approval, by=by, reason=reason), by)


@click.command()
@click.argument("approval_id", metavar="ID")
@click.option("--args", "args_text", required=True, metavar="JSON|@FILE",
              help="All arguments, as `show` prints them; @FILE reads a file, @- the input.")  # fmt: skip
@digest_option
@reason_option("edited")
@click.option("--policy", type=click.Path(dir_okay=False, exists=True, path_type=Path), metavar="FILE",
              help="The policy that the agent's program brings, if it is not in the ledger.")  # fmt: skip
@by_option
@about_ledger
def edit(approval_id: str, args_text: str, digest: str, reason: str, policy: Path | None, by: str) -> None:
    """Ask about other arguments instead; everybody votes again.

    The policy judges them anew, and the digest is another one. The call runs with these arguments or not at all.

    \b
    indelible approvals show apr_01a1 --json | jq .args > args.json
    indelible approvals edit apr_01a1 --digest 5f3c9a2b7d10e4c6 --args @args.json -m "half of it"
    """
    from indelible.cli.approvals.edited_args import read_args

    args = read_args(args_text)

    def do(ledger: Ledger, approval: Approval) -> Approval:
        whole = whole_digest(approval, digest, where())
        edited = ledger.edit_approval(approval, args, digest=whole, by=by, reason=reason)
        if edited.policy != approval.policy:
            click.echo(OTHER_POLICY, err=True)
        return edited

    _decide(approval_id, do, by, policy)


def _decide(approval_id: str, do: Callable[[Ledger, Approval], Approval], by: str, policy: Path | None = None) -> None:
    """Does something about one approval and says how it stands then."""
    place = where()
    with open_existing(place, wakeups=True, policy=policy) as ledger:  # so that whoever waits for it hears of it
        before = find_approval(ledger, approval_id)
        after = do(ledger, before)
    words = f"{after.id} {after.tool}: {before.status} → {after.status}, {place.by_whom(by)}. {what_now(after, place)}"
    place.say({"was": before.status, "by": place.doer(by), "approval": approval_shown(after)}, words)


def what_now(approval: Approval, place: Where) -> str:
    """Says what an approval's new status leads to."""
    if approval.status == "approved":
        granted = "" if approval.grant is None else f" Granted besides: {approval.grant}."
        return f"It may run once, until {timestamp(approval.expires_at)}; whoever waits for it goes on.{granted}"
    if approval.status == "denied":
        return "Every later call is refused."
    words = f"{still_needed(approval)}."
    if approval.edited_by is not None and not approval.votes:
        return f"{words} The digest is another one now; look at it: {place.command(f'approvals show {approval.id}')}"
    return words
