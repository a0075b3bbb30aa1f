"""Asks before a command does what cannot be undone: at a terminal by a question, elsewhere by wanting --yes."""

from __future__ import annotations

import shlex
import sys

import click

from indelible.cli.opening import without_password

WORDS = "indelible.words"
"""Is where the root command keeps the words it was called with."""

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def confirm(what: str, *, yes: bool) -> None:
    """Return if the user means it; else raise a `UsageError` that gives the command to run.

    Args:
        what: One sentence that says what goes, with its count.
        yes: Whether the user gave --yes.
    """
    if yes:
        return
    if sys.stdin.isatty():
        try:
            if click.confirm(f"{what} This cannot be undone. Go on?", err=True):
                return
        except click.Abort:
            click.echo(err=True)
        raise click.UsageError("nothing was changed")
    again = f"{_command()} --yes"
    raise click.UsageError(f"{what} This cannot be undone, so nothing was changed; to do it, run: {again}")


def _command() -> str:
    """Return the command as it was typed, without the password of an address."""
    words: tuple[str, ...] = click.get_current_context().meta.get(WORDS, ())
    return shlex.join(["indelible", *(without_password(word) if "://" in word else word for word in words)])
