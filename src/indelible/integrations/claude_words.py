"""What Claude's hooks are told of a call: for Claude Code and its Agent SDK."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

Decision = Literal["allow", "ask", "deny", "defer"]
_MOST_TOLD = 4000


def decided(decision: Decision, reason: str) -> dict[str, Any]:
    """Gives a PreToolUse hook's answer; of a denial, the reason is told to the model."""
    told: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": f"Indelible: {reason}",
    }
    return {"hookSpecificOutput": told}


def may_run(approved: Mapping[str, Any], args: Mapping[str, Any], *, allows: bool) -> dict[str, Any]:
    """Gives the answer for a call that the ledger lets run: with the arguments of the record, which a person may edit.

    Unless the ledger `allows` it alone, Claude Code decides as it always does, which is said by saying nothing.
    """
    if approved == args:
        return decided("allow", "the ledger lets it run, once") if allows else {}
    edited = decided("allow" if allows else "ask", "its arguments were edited by who approved it")
    edited["hookSpecificOutput"]["updatedInput"] = dict(approved)
    return edited


def was_done(call: str, outcome: Any) -> str:
    """Says that a call was carried out before, and what came of it."""
    text = outcome if isinstance(outcome, str) else json.dumps(outcome, ensure_ascii=False)
    cut = text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}… ({len(text)} characters)"
    return f"{call} was carried out before and is not repeated; what came of it: {cut}"


def has_failed(call: str, error: str) -> str:
    """Says that a call was carried out before, and failed."""
    return f"{call} was carried out before, failed, and is not repeated: {error[:_MOST_TOLD]}"
