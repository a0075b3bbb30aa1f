"""What commands share: groups that list their commands in order, and options that mean the same everywhere."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_WHOLE = 1000  # letters, more than any first line has


class InOrder(click.Group):
    """Lists commands as they are written, each with its whole first line, however narrow the terminal is."""

    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **{"no_args_is_help": False, **more})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the words; where a command has to follow, nothing is answered with the commands there are."""
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            named = ", ".join(self.list_commands(ctx))
            raise click.UsageError(f"{ctx.info_name} is followed by a command: {named}", ctx)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Lists the commands that are not hidden."""
        return [name for name, command in self.commands.items() if not command.hidden]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands; a line that does not fit goes on below."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def by_option(function: F) -> F:
    """Gives a command --by, who does it; by default the user of the operating system."""
    return click.option(
        "--by",
        default=user_name,
        show_default="your user name",
        metavar="NAME",
        help="Who does this; at a server, the token says.",
    )(function)


def listen_option(port: int) -> Callable[[F], F]:
    """Give a command --host and --port, where it listens."""

    def add(function: F) -> F:
        chosen = click.option(
            "--port",
            type=click.IntRange(0, 65535),
            metavar="N",
            default=port,
            show_default=True,
            help="At which port; 0 takes any free one.",
        )(function)
        return click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")(chosen)

    return add


def user_name() -> str:
    """Names the user of the operating system."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under a number that has no name
        return f"uid-{os.getuid()}"


def reason_option(default: str | None, text: str = "Why; it goes on the record.") -> Callable[[F], F]:
    """Gives a command -m, the reason that goes on the record; needed where there is no default."""
    if default is None:
        return click.option("-m", "--reason", required=True, help=text)
    return click.option("-m", "--reason", default=default, show_default=bool(default), help=text)


def limit_option(function: F) -> F:
    """Gives a command --limit, how many of a list to show."""
    return click.option(
        "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="Show at most so many."
    )(function)
