"""The tools that the server runs itself, as a file names them: where they are, how they are treated, what they take.

An agent names a tool and gives arguments. Where the tool is and which secrets it needs, only this file says.
"""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError, ValidationError, best_match  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]

from indelible.core.effects.calls import SIDE_EFFECTS, Options, OptionWords, ToolCall
from indelible.core.effects.identity import schema_hash
from indelible.errors import BadCall, Misconfigured

DEFAULT_TIMEOUT = timedelta(seconds=30)
_WORDS = frozenset(
    {
        *("url", "python", "headers", "side_effect", "approval", "on_crash", "key", "timeout_s", "description"),
        *("schema", "reconcile"),
    }
)


def _unique_items(validator: Any, is_wanted: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """Finds repeats by looking at each item once. The library compares each with each, so an agent could stop us."""
    if is_wanted and isinstance(instance, list) and len(set(map(_known_by, instance))) < len(instance):
        yield ValidationError("has items twice")


def _known_by(value: Any) -> Any:
    """Gives what two values share that JSON Schema calls equal: 1 is 1.0, and true is neither."""
    if isinstance(value, dict):
        return "object", frozenset((name, _known_by(part)) for name, part in value.items())
    if isinstance(value, list):
        return "list", tuple(map(_known_by, value))
    return isinstance(value, bool), value


_Validator = extend(Draft202012Validator, {"uniqueItems": _unique_items})


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTool:
    """Is one tool that the server runs: at an address, or a function."""

    name: str
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    function: Callable[..., Any] | None = None
    words: OptionWords
    key: tuple[str, ...] | None = None
    timeout: timedelta = DEFAULT_TIMEOUT
    description: str = ""
    schema: Mapping[str, Any] | None = None

    @property
    def schema_hash(self) -> str:
        """Is what policies pin: a change of schema or description is seen."""
        return schema_hash({"description": self.description, "parameters": self.schema or {}})

    def check(self, args: Mapping[str, Any]) -> None:
        """Raises `BadCall` with the place of what the tool does not take; what stood there is not told."""
        if self.schema is None:
            return
        wrong = best_match(_Validator(self.schema).iter_errors(args))
        if wrong is not None:
            place = ".".join(("args", *map(str, wrong.absolute_path)))
            raise BadCall(f"{self.name}: {place} does not fit the tool's schema ({wrong.validator})")

    def call(self, args: Mapping[str, Any], run_id: str, call_id: str | None) -> ToolCall:
        """Gives the call of this tool with arguments that it takes."""
        self.check(args)
        return ToolCall(
            tool=self.name, args=args, run_id=run_id, call_id=call_id, key=self.key, schema=self.schema_hash
        )


def load_tools(path: Path, environment: Mapping[str, str] | None = None) -> dict[str, GatewayTool]:
    """Reads the file that names the server's tools; raises `Misconfigured` with the place of what is wrong."""
    known = os.environ if environment is None else environment
    tables = read_tables(path)["tools"]
    return {name: _tool(f"{path}: {name}", name, told, known) for name, told in tables.items()}


def read_tables(path: Path) -> dict[str, dict[str, Any]]:
    """Read the tables of the file: those of tools, and those of webhooks.

    Args:
        path: A TOML file with tables such as `[tools."mail.send"]` and `[webhooks.stripe]`.

    Returns:
        Both kinds of tables, by name.

    Raises:
        Misconfigured: The file cannot be read, or holds something else.
    """
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as problem:
        raise Misconfigured(f"{path}: cannot be read: {problem}") from problem
    is_known = bool(content) and set(content) <= {"tools", "webhooks"}
    if not is_known or not all(isinstance(tables, dict) for tables in content.values()):
        raise Misconfigured(f'{path}: has tables such as [tools."mail.send"] or [webhooks.stripe], and nothing else')
    return {"tools": content.get("tools", {}), "webhooks": content.get("webhooks", {})}


def _tool(place: str, name: str, told: Any, environment: Mapping[str, str]) -> GatewayTool:
    if not isinstance(told, dict) or set(told) - _WORDS:
        raise Misconfigured(f"{place}: is a table with some of {', '.join(sorted(_WORDS))}")
    if ("url" in told) == ("python" in told):
        raise Misconfigured(f"{place}: give either url or python: where it runs")
    try:
        ToolCall(tool=name)
        return GatewayTool(
            name=name,
            url=_address(place, told["url"]) if "url" in told else None,
            headers=_headers(place, told.get("headers", {}), environment),
            function=function_at(place, told["python"]) if "python" in told else None,
            words=_words(place, told),
            key=tuple(told["key"]) if "key" in told else None,
            timeout=timedelta(seconds=float(told.get("timeout_s", DEFAULT_TIMEOUT.total_seconds()))),
            description=str(told.get("description", "")),
            schema=_schema(place, told.get("schema")),
        )
    except (BadCall, TypeError, ValueError) as problem:
        raise Misconfigured(f"{place}: {problem}") from problem


def _words(place: str, told: Mapping[str, Any]) -> OptionWords:
    words: dict[str, Any] = {word: told[word] for word in ("side_effect", "approval", "on_crash") if word in told}
    if words.get("side_effect", "none") not in SIDE_EFFECTS:
        raise BadCall(f"side_effect: choose one of {', '.join(SIDE_EFFECTS)}")
    if "reconcile" in told:
        words["reconcile"] = function_at(place, told["reconcile"], "reconcile")
    Options(**words)
    return words  # type: ignore[return-value]  # its words were just tried


def _address(place: str, url: Any) -> str:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise Misconfigured(f"{place}: url is an address such as https://tools.example/refund")
    return str(url)


def _headers(place: str, told: Any, environment: Mapping[str, str]) -> dict[str, str]:
    """Reads headers; a secret is named by the variable that holds it, so that it is not in the file."""
    found = {}
    for name, value in told.items() if isinstance(told, dict) else ():
        if isinstance(value, dict) and set(value) == {"env"}:
            if value["env"] not in environment:
                raise Misconfigured(f"{place}: headers.{name} is in ${value['env']}, which is not set")
            value = environment[value["env"]]
        if not isinstance(value, str):
            raise Misconfigured(f'{place}: headers.{name} is text, or {{ env = "VARIABLE" }}')
        found[name] = value
    return found


def function_at(place: str, named: Any, word: str = "python") -> Callable[..., Any]:
    """Import a function that a file names as package.module:name; raise `Misconfigured` where there is none."""
    module, _, name = str(named).partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise Misconfigured(f"{place}: {word} is a function such as package.module:name ({problem})") from problem
    if not callable(function):
        raise Misconfigured(f"{place}: {named} cannot be called")
    return function  # type: ignore[no-any-return]


def _schema(place: str, schema: Any) -> Mapping[str, Any] | None:
    if schema is None:
        return None
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as problem:
        raise Misconfigured(f"{place}: schema is no JSON Schema: {problem.message}") from problem
    found: Mapping[str, Any] = schema
    return found
