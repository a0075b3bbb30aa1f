"""A tool's own question to a person, where a framework has one answer per call for the ledger and the tool alike.

Such a framework hands "approved" to the tool, whatever the person was asked. What an agent is resumed from says whether
it stood at the tool's question. The record cannot: it may be newer than what the agent is resumed from.
"""

from __future__ import annotations

from typing import Any

from indelible import ToolCall
from indelible.integrations.terms import hash_of


def said_in(call: ToolCall) -> dict[str, Any]:
    """Return the arguments that the model says."""
    return {name: value for name, value in call.args.items() if name not in call.injected}


def own_question(call: ToolCall) -> str:
    """Return the id of what a tool asks about a call. With other arguments, it is another question."""
    return hash_of([call.tool, said_in(call)])
