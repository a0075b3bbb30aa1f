"""`indelible hook`: the ledger before the tools of coding agents, which call a command before and after each tool.

An error is raised, and `blocking` makes the exit code of it that stops the tool.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from indelible.cli.mcp import read_terms
from indelible.cli.opening import about_ledger, open_existing, where
from indelible.cli.options import InOrder
from indelible.errors import BadCall

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(cls=InOrder)
def hook() -> None:
    """Stand before the tools of coding agents."""
    project = os.environ.get("CLAUDE_PROJECT_DIR")
    if project:  # the agent walks about, and all of its calls belong into one ledger
        os.chdir(project)


@hook.command("claude-code")
@click.option("--run", "run_id", help="The run that calls belong to.  [default: the session]")
@click.option("--terms", type=_FILE, metavar="FILE", help="How single tools are treated, in TOML.")
@click.option(
    "--approval", type=click.Choice(["required", "none"]), help="Ask a person about every call, or by policy."
)
@click.option("--allow", is_flag=True, help="Claude Code does not ask about what the ledger lets run.")
@click.option("--defer", is_flag=True, help="With claude -p: end when a call waits for a person; resume to go on.")
@click.option("--strict", is_flag=True, help="Block skills and slash commands, whose commands no hook hears of.")
@click.option("--strict-allow", "allowed", multiple=True, metavar="NAME", help="A skill or slash command that may run.")
@about_ledger
def claude_code(
    run_id: str | None,
    terms: Path | None,
    approval: str | None,
    allow: bool,
    defer: bool,
    strict: bool,
    allowed: tuple[str, ...],
) -> None:
    """Answer the hooks of Claude Code.

    Each tool call once, with permission, on the record. Reads what a hook is told from standard input, and answers on
    standard output. PreToolUse begins the effect, or denies the call with the reason; PostToolUse and
    PostToolUseFailure record what came of it; UserPromptExpansion records or blocks slash commands. On every error the
    exit code is 2, which stops the call. No ledger is made.

    \b
    {"hooks": {"PreToolUse": [{"matcher": "Bash|Write|Edit", "hooks": [
      {"type": "command", "command": "indelible hook claude-code", "onFailure": "block"}]}], …}}
    """
    event = _event()
    usual = {} if approval is None else {"approval": approval}
    words = {"run": run_id, "terms": {} if terms is None else read_terms(terms), "allows": allow, "defers": defer}
    _answer(event, {**words, "strict": strict, "allow": allowed, **usual})


def _event() -> Mapping[str, Any]:
    if sys.stdin is None:
        raise BadCall("standard input is closed, and a hook is told there what it is about")
    try:
        event = json.loads(sys.stdin.buffer.read().decode("utf-8"))  # as Claude Code writes it, whatever the locale
    except ValueError as wrong:
        raise BadCall(f"standard input: JSON is expected here, as Claude Code's hooks are told it ({wrong})") from None
    if not isinstance(event, dict):
        raise BadCall("standard input: a JSON object is expected here, as Claude Code's hooks are told it")
    return event


def _answer(event: Mapping[str, Any], words: Mapping[str, Any]) -> None:
    from indelible.integrations.claude_code import ClaudeCodeHook

    claims = Path(os.environ.get("INDELIBLE_CLAIMS") or "~/.indelible/claims").expanduser()
    with open_existing(where()) as ledger:
        claude = ClaudeCodeHook(ledger, claims, **words)
        answer = claude.answer(event)
        try:
            _tell(answer)
        except BaseException:  # the exit code stops the tool, so a call that was let in does not happen
            claude.take_back()
            raise


def _tell(answer: Mapping[str, Any]) -> None:
    if sys.stdout is None:
        raise BadCall("standard output is closed, and the answer is told there")
    if answer:
        sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
