"""What Claude's hooks are told of a call: for Claude Code and its Agent SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from indelible import Effect
from indelible.integrations.results import text_in
from indelible.integrations.telling import TEXTS, with_note
from indelible.integrations.terms import is_same

Decision = Literal["allow", "ask", "deny", "defer"]
_MOST_TOLD = 4000
SKILL = "Skill"
"""The tool by which Claude Code begins a skill, whose text may run commands before any hook hears of them."""
ONLY_READ = frozenset(
    {
        *("Read", "Glob", "Grep", "LS", "NotebookRead", "WebSearch", "ToolSearch", "BashOutput", "TaskOutput"),
        *("TodoRead", "TodoWrite", "TaskCreate", "TaskGet", "TaskList", "TaskUpdate", "ListMcpResourcesTool"),
        *("ReadMcpResourceTool", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode"),
    }
)
"""Tools of Claude Code's that read, ask the user, or keep its own list of tasks."""


def decided(decision: Decision, reason: str) -> dict[str, Any]:
    """Gives a PreToolUse hook's answer; of a denial, the reason is told to the model."""
    told: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": f"Indelible: {reason}",
    }
    return {"hookSpecificOutput": told}


def may_run(
    approved: Mapping[str, Any], args: Mapping[str, Any], *, allows: bool, is_sdk: bool = False
) -> dict[str, Any]:
    """Return the answer for a call that the ledger lets run: with the recorded arguments, which an approver may edit.

    Args:
        approved: The recorded arguments.
        args: The arguments of the call.
        allows: Claude Code does not ask about it. Otherwise it decides as it always does: the answer decides nothing.
        is_sdk: The Claude Code of the SDK takes edited arguments without a decision. Older ones may not, and are told
            to ask.
    """
    if is_same(approved, args):
        return decided("allow", "the ledger lets it run, once") if allows else {}
    if is_sdk and not allows:
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": dict(approved)}}
    edited = decided("allow" if allows else "ask", "its arguments were edited by who approved it")
    edited["hookSpecificOutput"]["updatedInput"] = dict(approved)
    return edited


def why_untellable(approved: Mapping[str, Any], args: Mapping[str, Any]) -> str | None:
    """Return why Claude Code cannot be told edited arguments, or None.

    Claude Code is JavaScript, which reads each number of JSON as a double: it would run another one than was approved.
    """
    if is_same(approved, args):
        return None
    try:
        read = json.loads(json.dumps(dict(approved)), parse_int=float)
    except TypeError:
        read = None  # JSON has no such value, as a decimal
    return (
        None if read == approved else "its arguments were edited to a value that Claude Code would read as another one"
    )


def was_done(effect: Effect, value: Any) -> str:
    """Return what the model hears of a call that has a recorded result: Claude Code cannot be given it otherwise."""
    made = {"tool": effect.tool, "when": f"{effect.created_at:%Y-%m-%d %H:%M}", "effect": effect.id}
    return with_note(cut(text_in(value)), TEXTS["replayed"].format_map(made))


def cut(text: str) -> str:
    """Return a text as far as a hook may tell it."""
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}… ({len(text)} characters)"
