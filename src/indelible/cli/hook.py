"""`indelible hook`: the ledger before the tools of coding agents, which call a command before and after each tool."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from indelible.cli.mcp import read_terms
from indelible.cli.opening import about_ledger, where
from indelible.cli.options import InOrder
from indelible.errors import BadCall
from indelible.ledger import Ledger

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_BLOCKS = 2  # the only code by which Claude Code stops a tool; any other lets it run


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
@about_ledger
def claude_code(run_id: str | None, terms: Path | None, approval: str | None, allow: bool, defer: bool) -> None:
    """Answer the hooks of Claude Code.

    Each tool call once, with permission, on the record. Reads what a hook is told from standard input, and answers on
    standard output. PreToolUse begins the effect, or denies the call with the reason; PostToolUse and
    PostToolUseFailure record what came of it. When the ledger cannot tell, the call is stopped.

    \b
    {"hooks": {"PreToolUse": [{"matcher": "Bash|Write|Edit", "hooks": [
      {"type": "command", "command": "indelible hook claude-code", "onFailure": "block"}]}], …}}
    """
    try:
        event = _event()
        usual = {} if approval is None else {"approval": approval}
        words = {"run": run_id, "terms": {} if terms is None else read_terms(terms), "allows": allow, "defers": defer}
        answer = _answer(event, {**words, **usual})
        if answer:
            click.echo(json.dumps(answer))
    except BaseException as error:  # whatever it is, nothing may run because of it
        _block(error)


def _event() -> Mapping[str, Any]:
    try:
        event = json.load(sys.stdin)
    except ValueError as wrong:
        raise BadCall(f"standard input: JSON is expected here, as Claude Code's hooks are told it ({wrong})") from None
    if not isinstance(event, dict):
        raise BadCall("standard input: a JSON object is expected here, as Claude Code's hooks are told it")
    return event


def _answer(event: Mapping[str, Any], words: Mapping[str, Any]) -> dict[str, Any]:
    from indelible.integrations.claude_code import ClaudeCodeHook

    place = where()
    claims = Path(os.environ.get("INDELIBLE_CLAIMS") or "~/.indelible/claims").expanduser()
    with Ledger.open(place.url, tenant=place.tenant, wakeups=False) as ledger:
        return ClaudeCodeHook(ledger, claims, **words).answer(event)


def _block(error: BaseException) -> NoReturn:
    kind = "" if isinstance(error, Exception) else f"{type(error).__name__} "
    sys.stderr.write(f"indelible: {kind}{error}\n")
    sys.stderr.flush()
    raise SystemExit(_BLOCKS)
