"""What MCP says and how the ledger keeps it: results, questions to people, and what tells one call from another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import mcp_types as types

from indelible import Approval, Elsewhere
from indelible.errors import BadCall
from indelible.integrations import telling
from indelible.integrations.results import text_in
from indelible.integrations.terms import hash_of

if TYPE_CHECKING:
    from indelible.core.approvals.rendering import Shown

Given = dict[str, Any]
"""Is a tool's result as it is recorded."""

IDEMPOTENCY_KEY = "io.indelible/idempotency-key"
"""Is the member of a call's `_meta` by which a client tells repeats from new calls, and a server below us may too."""
TURN = "io.indelible/turn"
"""The member of a call's `_meta` by which a client names the user's last message."""
# By these, clients that are in use tell a model's calls apart; a repeat of a lost one carries the same.
_CALL_IDS = (IDEMPOTENCY_KEY, "claudecode/toolUseId", "openai/toolCallId")
META = "_meta"
"""The argument under which members of `_meta` are recorded that a tool's terms list."""
REPLAYED = "io.indelible/replayed"
MOST_SHOWN = 20_000
"""The number of characters of arguments that a form shows."""

VOTE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "deny"], "title": "Decision"},
        "reason": {"type": "string", "title": "Reason", "maxLength": 2000},
    },
    "required": ["decision"],
}
LOOK_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}


def kept(result: types.CallToolResult) -> Given:
    """Gives a result as it is recorded."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


def given(recorded: Any, note: str | None) -> types.CallToolResult:
    """Return a recorded result, marked as such, with a note for the model; what a person settled by hand is a text."""
    try:
        result = types.CallToolResult.model_validate(recorded)
    except ValueError:
        result = types.CallToolResult(content=[types.TextContent(text=text_in(recorded))])
    noted = [] if note is None else [types.TextContent(text=note)]
    meta = {**(result.meta or {}), REPLAYED: True}
    return result.model_copy(update={"meta": meta, "content": [*result.content, *noted]})


def text_of(result: types.CallToolResult) -> str:
    """Gives what a result says in words."""
    said = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return "\n".join(said) or telling.SAID_NOTHING


def tool_error(text: str) -> types.CallToolResult:
    """Tells the model that the tool failed."""
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)


def not_told(text: str) -> types.CallToolResult:
    """Tells the model that the ledger did not let the tool run, or does not know what became of it."""
    return tool_error(f"Indelible: {text}")


def waits(approval: Approval) -> types.CallToolResult:
    """Tells the model that a person has to decide first, and what to do then."""
    return not_told(telling.waits(approval))


def question(approval: Approval, shown: Shown, elsewhere: Iterable[Elsewhere], *, decides: bool) -> str:
    """Ask a person about one exact call. Where it cannot be decided, say where it can."""
    head = f"{shown.title} is to be carried out once"
    args = ", with exactly these arguments:" if shown.text is not None else "."
    careful = "".join(f"Careful: {one}\n\n" for one in elsewhere)
    how = "Do you approve?" if decides else f"{shown.where}. Then accept here, to go on."
    return f"{head}{args}\n\n{shown.plain}\n\n{careful}{how}\n\n{approval.id}, digest {approval.digest}"


def call_id_in(meta: Mapping[str, Any]) -> str | None:
    """Gives the id by which the client tells this call from others, if it does."""
    for name in _CALL_IDS:
        found = meta.get(name)
        if isinstance(found, str) and found:
            return found
    return None


def is_chosen(meta: Mapping[str, Any]) -> bool:
    """Say whether the client chose the id itself. Otherwise the model did, which gives each of its calls a new one."""
    return call_id_in({IDEMPOTENCY_KEY: meta.get(IDEMPOTENCY_KEY)}) is not None


def name_of(session: Any) -> str | None:
    """Return the name that a session's server says of itself; None if it says none."""
    told = getattr(session, "server_info", None)
    return None if told is None else str(told.name)


def schema_of(tool: types.Tool, origin: str) -> str:
    """Return the hash of what a reviewer of a tool relies on: if it changes, what was approved before does not hold.

    Args:
        tool: The tool as its server lists it.
        origin: Which server that is.
    """
    return hash_of([tool.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"icons", "meta"}), origin])


def split_meta(
    terms: Mapping[str, Mapping[str, Any]] | None, usual: Mapping[str, Any]
) -> tuple[dict[str, dict[str, Any]], dict[str, Any], Callable[[str], tuple[str, ...]]]:
    """Take `meta` out of the words of tools: the members of `_meta` that are recorded, and reach the tool.

    Returns:
        The words of single tools and of all tools without it, and a function that gives a tool's members.

    Raises:
        BadCall: `meta` is no list of names.
    """
    names = {name: _meta_names(name, words) for name, words in {**(terms or {}), "": usual}.items()}
    rest = {name: _without_meta(words) for name, words in (terms or {}).items()}
    return rest, _without_meta(usual), lambda tool: names.get(tool) or names[""] or ()


def _without_meta(words: Mapping[str, Any]) -> dict[str, Any]:
    return {word: value for word, value in words.items() if word != "meta"}


def _meta_names(tool: str, words: Mapping[str, Any]) -> tuple[str, ...] | None:
    named = words.get("meta")
    if named is None:
        return None
    if not isinstance(named, list | tuple) or not all(isinstance(one, str) and one for one in named):
        raise BadCall(f"{tool or 'every_tool'}: meta is a list of names in _meta, for example ['com.example/account']")
    return tuple(named)
