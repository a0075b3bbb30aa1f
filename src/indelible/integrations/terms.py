"""How the tools of a framework are treated: what an integrator says of them, and the calls that come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from indelible import Options, Resource, ToolCall
from indelible.errors import BadCall

OnError = Literal["raise", "tell"]
_OPTIONS = frozenset(field.name for field in fields(Options))
_IDENTITY = frozenset({"key", "dedupe"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Is one call as its framework names it: the stable id it belongs to, and the id the model gave it."""

    tool: str
    args: Mapping[str, Any]
    run_id: str
    scope: str | None = None
    call_id: str | None = None
    schema: str = ""


class Terms:
    """Knows what was said of each tool of a framework, and makes calls for the ledger of its calls.

    A call is known by the id that the model gave it: the same id with other arguments is refused, and a new id is a new
    call. A tool that names a `key`, or says `dedupe`, is told apart as the ledger does it.
    """

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None, usual: Mapping[str, Any]) -> None:
        self._usual: Mapping[str, Any] = _checked("every tool", usual)
        self._tools: dict[str, Mapping[str, Any]] = {
            name: {**self._usual, **_checked(name, words)} for name, words in (tools or {}).items()
        }

    def options(self, tool: str) -> dict[str, Any]:
        """Gives the words by which a ledger treats a call of this tool."""
        return {word: value for word, value in self._of(tool).items() if word in _OPTIONS}

    def call(self, named: Named) -> ToolCall:
        """Gives the call that the ledger is to run."""
        words = self._of(named.tool)
        key, dedupe = words.get("key"), words.get("dedupe")
        by_id = named.call_id is not None and key is None and dedupe is None
        return ToolCall(
            tool=named.tool,
            args=named.args,
            run_id=named.run_id,
            scope=named.scope,
            call_id=named.call_id,
            schema=named.schema,
            key=key,
            dedupe=dedupe or "args",
            resource=Resource(namespace="agent", type="tool_call", id=str(named.call_id)) if by_id else None,
        )

    def _of(self, tool: str) -> Mapping[str, Any]:
        return self._tools.get(tool, self._usual)


def _checked(tool: str, words: Mapping[str, Any]) -> dict[str, Any]:
    unknown = set(words) - _OPTIONS - _IDENTITY
    if unknown:
        known = ", ".join(sorted(_OPTIONS | _IDENTITY))
        raise BadCall(f"{tool}: {', '.join(sorted(unknown))} is nothing that can be said of a tool; use: {known}")
    Options(**{word: value for word, value in words.items() if word in _OPTIONS})
    return dict(words)
