"""The root command: which commands there are, and what becomes of errors."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

import click

from indelible import __version__
from indelible.cli.confirming import WORDS
from indelible.cli.ending import is_reader_gone
from indelible.cli.opening import about_ledger
from indelible.cli.options import InOrder
from indelible.core.values.visible import visible_json

EFFECTS, EVENTS, ERASE = "indelible.cli.effects.command", "indelible.cli.events", "indelible.cli.erase"
# Each command's module is imported when the command is asked for.
COMMANDS = {
    "demo": ("indelible.cli.commands", "demo"),
    "effects": (EFFECTS, "effects"),
    "approvals": ("indelible.cli.approvals.command", "approvals"),
    "runs": ("indelible.cli.runs.command", "runs"),
    "policy": ("indelible.cli.policy.command", "policy"),
    "events": (EVENTS, "events"),
    "tail": ("indelible.cli.tail", "tail"),
    "journal": ("indelible.cli.journal", "journal"),
    "channels": ("indelible.cli.channels", "channels"),
    "stop": ("indelible.cli.stop", "stop"),
    "go": ("indelible.cli.stop", "go"),
    "serve": ("indelible.cli.serve.command", "serve"),
    "apikeys": ("indelible.cli.apikeys", "apikeys"),
    "people": ("indelible.cli.people", "people"),
    "worker": ("indelible.cli.worker", "worker"),
    "mcp": ("indelible.cli.mcp", "mcp"),
    "hook": ("indelible.cli.hook", "hook"),
    "conformance": ("indelible.cli.conformance", "conformance"),
    "witness": ("indelible.cli.witness", "witness"),
    "verify": ("indelible.cli.verify", "verify"),
    "keys": ("indelible.cli.keys", "keys"),
    "export": ("indelible.cli.export", "export"),
    "receipt": ("indelible.cli.export", "receipt"),
    "erase": (ERASE, "erase"),
    "prune": (ERASE, "prune"),
    "hold": (ERASE, "hold"),
    "doctor": ("indelible.cli.doctor.command", "doctor"),
    "migrate": ("indelible.cli.commands", "migrate"),
    "version": ("indelible.cli.commands", "version"),
}


class Root(InOrder):
    """Loads commands when they are asked for, and turns errors into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Lists the commands in the order a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command's module and gives the command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command that is meant; names what is written nearly so where there is none."""
        if args[0] not in COMMANDS:
            near = get_close_matches(args[0], COMMANDS)
            meant = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the words, so that a command can say how to run it again."""
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; a reader who goes before everything is said ends it without a word."""
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            if not is_reader_gone():
                raise
            return _UNHEARD
        return done

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Runs and leaves the process, as click expects of a root command."""
        sys.exit(self.run(list(sys.argv[1:] if args is None else args)))

    def run(self, arguments: list[str]) -> int:
        """Runs one command line and gives its exit code."""
        try:
            code = super().main(arguments or ["--help"], prog_name="indelible", standalone_mode=False)
        except Exception as error:
            told = explain(error)
            if told is None:
                raise
            return complain(*told, is_json="--json" in arguments)
        return code if isinstance(code, int) else 0


_UNHEARD = 2  # 1 would be an answer, and 0 one too


def explain(error: Exception) -> tuple[str, str, int] | None:
    """Gives an error's kind, its message with the next step, and the exit code; None for one that nobody foresaw."""
    from indelible.core.effects.effect import Effect
    from indelible.errors import BadCall, IllegalMove, IndelibleError, StoreError

    kind = type(error).__name__
    match error:
        case click.UsageError():
            path = "indelible" if error.ctx is None else error.ctx.command_path
            return "Usage", f"{_plain(error.format_message())}\nsee: {path} --help", 2
        case click.ClickException():
            return kind, error.format_message(), 2
        case click.Abort():
            return "Interrupted", "interrupted", 2
        case StoreError():
            return kind, " ".join(str(error).split()), 2  # a driver may tell its part in several lines
        case BadCall():
            return kind, str(error), 2
        case IllegalMove(effect=Effect(id=effect_id)):
            return kind, f"{error}; see: indelible effects show {effect_id}", 1
        case IndelibleError():
            return kind, str(error), 1
        case UnicodeEncodeError():
            return "Usage", "an argument is not valid UTF-8; type it again", 2
        case ModuleNotFoundError(name=str() as name) if name.partition(".")[0] == "psycopg":
            return "Misconfigured", "a PostgreSQL ledger needs its driver; run: pip install 'indelible[postgres]'", 2
        case OSError(filename=str() | bytes() as name, strerror=str() as why):
            return kind, f"{os.fsdecode(name)}: {why}; is its folder there, and are both yours to read and write?", 2
        case OSError():
            return kind, f"{error}; see to that, then try again", 2
        case _:
            return None


def _plain(text: str) -> str:
    """Gives a message of click's in one line, without the words of those who write programs."""
    words = " ".join(text.split())
    return re.sub("is not a valid integer( range)?", "is not a whole number", words)


def complain(kind: str, message: str, code: int, *, is_json: bool) -> int:
    """Tells an error on stderr: as a line, or as JSON for programs."""
    if is_json:
        line = json.dumps({"error": {"type": kind, "message": message, "exit_code": code}})
    else:
        line = "indelible: " + "\n".join(map(visible_json, message.split("\n")))
    click.echo(line, err=True)
    return code


@click.group(cls=Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, message="%(prog)s %(version)s")
@about_ledger
def root() -> None:
    """Every tool call an AI agent makes: at most once, with permission, on a record nobody can quietly change.

    \b
    First:            indelible demo
    Is all well here: indelible doctor
    What waits:       indelible approvals list
    What is stuck:    indelible effects list --status in_doubt

    Exit codes: 0 done, 1 the ledger says no, 2 wrong usage or cannot tell.
    """
