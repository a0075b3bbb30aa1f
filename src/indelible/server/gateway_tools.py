"""The tools that the server runs itself, as a file names them: where they are, how they are treated, what they take.

An agent names a tool and gives arguments. Where the tool is and which secrets it needs, only this file says.
"""

from __future__ import annotations

import importlib
import inspect
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from jsonschema.exceptions import SchemaError, ValidationError, best_match  # type: ignore[import-untyped]
from jsonschema.validators import extend  # type: ignore[import-untyped]

from indelible.core.effects.binding import bound
from indelible.core.effects.calls import (
    SIDE_EFFECTS,
    Dedupe,
    Idempotent,
    IdentityWords,
    Options,
    OptionWords,
    ToolCall,
    check_tool_name,
)
from indelible.core.effects.from_arguments import check_words, identity_of
from indelible.core.effects.identity import schema_hash
from indelible.core.effects.places import check_places
from indelible.core.effects.tightening import identified_by
from indelible.core.values.canonical import encode
from indelible.errors import BadCall, Misconfigured

DEFAULT_TIMEOUT = timedelta(seconds=30)
_OF_REQUESTS = frozenset({"headers", "refused", "nothing"})
_WHERE = frozenset({"url", "python", "headers", "timeout_s", "description", "schema", "refused", "nothing"})
_TREATED = frozenset(
    {"side_effect", "approval", "on_crash", "on_repeat", "downstream_window_s", "exclusive", "reconcile"}
)
_IDENTIFIED = frozenset({"key", "scope", "resource", "dedupe", "varies", "added", "on_reuse"})
_WORDS = _WHERE | _TREATED | _IDENTIFIED
_LISTS = frozenset({"key", "varies"})


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
    identity: IdentityWords = field(default_factory=IdentityWords)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What the function takes where a caller names nothing: also what the schema does not list."""
    refused: frozenset[int] = frozenset()
    """The statuses by which the tool says that it refused and did nothing."""
    nothing: frozenset[int] = frozenset()
    """The statuses by which the tool says that it did nothing, and may be asked again."""
    timeout: timedelta = DEFAULT_TIMEOUT
    description: str = ""
    schema: Mapping[str, Any] | None = None

    @property
    def schema_hash(self) -> str:
        """Is what policies pin: a change of schema or description is seen."""
        return schema_hash({"description": self.description, "parameters": self.schema or {}})

    def check(self, args: Mapping[str, Any]) -> None:
        """Raise `BadCall` with the place of what the tool does not take; what stood there is not told.

        Args:
            args: The arguments with every default. Those of the function that its schema does not list are no
                caller's, so the schema does not judge them.
        """
        self._check_said({name: value for name, value in args.items() if name not in self._unlisted})

    def _check_said(self, args: Mapping[str, Any]) -> None:
        if self.schema is None:
            return
        wrong = best_match(_Validator(self.schema).iter_errors(args))
        if wrong is not None:
            place = ".".join(("args", *map(str, wrong.absolute_path)))
            raise BadCall(f"{self.name}: {place} does not fit the tool's schema ({wrong.validator})")

    @property
    def _unlisted(self) -> set[str]:
        """Return the names of the function's defaults that the schema does not list."""
        return set() if self.schema is None else set(self.defaults) - set(self.schema.get("properties", {}))

    def call(
        self,
        args: Mapping[str, Any],
        run_id: str | None,
        call_id: str | None,
        turn: str | None = None,
        dedupe: Dedupe | None = None,
    ) -> ToolCall:
        """Return the call of this tool, with every default filled in and identified as the tool says.

        Raises:
            BadCall: The tool does not take it.
        """
        whole = self.bound_args(args)
        words: dict[str, Any] = {"run_id": run_id, "call_id": call_id, "turn": turn, "dedupe": dedupe or "args"}
        call = ToolCall(tool=self.name, args=whole, schema=self.schema_hash, binds=self._read_edit, **words)
        return replace(call, **identified_by(call, identity_of(self.identity, whole, self.name)))

    def bound_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with every default filled in; raise `BadCall` if the tool does not take them."""
        said = bound(self.schema, args, self.name)
        self._check_said(said)
        return {**self.defaults, **said}

    def bound_edit(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments that an approver edited, with every default; raise `BadCall` if they do not fit."""
        unlisted = {name: value for name, value in args.items() if name in self._unlisted}
        return {**self.bound_args({name: args[name] for name in args if name not in unlisted}), **unlisted}

    def _read_edit(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return edited arguments with every default; those that the tool does not take fail when it is entered."""
        try:
            return self.bound_edit(args)
        except BadCall:
            return dict(args)


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
    if "python" in told and (unused := _OF_REQUESTS & set(told)):
        raise Misconfigured(f"{place}: {', '.join(sorted(unused))} is for a tool with url; this one is a function")
    try:
        function = function_at(place, told["python"]) if "python" in told else None
        schema = _schema(place, told.get("schema"))
        identity = _identity(told)
        check_words(name, identity)
        check_tool_name(name)
        words = _words(place, told)
        if function is not None and _tells(function):
            check_places(name, function, identity, Options(**words), is_read=False)
        return GatewayTool(
            name=name,
            url=_address(place, told["url"]) if "url" in told else None,
            headers=_headers(place, told.get("headers", {}), environment),
            function=function,
            words=words,
            identity=identity,
            defaults={} if function is None else _defaults(function),
            refused=_statuses("refused", told),
            nothing=_statuses("nothing", told),
            timeout=timedelta(seconds=float(told.get("timeout_s", DEFAULT_TIMEOUT.total_seconds()))),
            description=str(told.get("description", "")),
            schema=schema,
        )
    except (BadCall, TypeError, ValueError) as problem:
        raise Misconfigured(f"{place}: {problem}") from problem


def _words(place: str, told: Mapping[str, Any]) -> OptionWords:
    plain = ("side_effect", "approval", "on_crash", "on_repeat")
    words: dict[str, Any] = {word: told[word] for word in plain if word in told}
    if words.get("side_effect", "none") not in SIDE_EFFECTS:
        raise BadCall(f"side_effect is one of {', '.join(SIDE_EFFECTS)}")
    if "url" in told:
        words["marks_sending"] = True  # our client sends it, and sees whether it left
    elif "timeout_s" in told:
        words["timeout"] = timedelta(seconds=float(told["timeout_s"]))
    if "downstream_window_s" in told:
        words["downstream"] = Idempotent(window=timedelta(seconds=float(told["downstream_window_s"])))
    if "reconcile" in told:
        words["reconcile"] = function_at(place, told["reconcile"], "reconcile")
    if "exclusive" in told:
        words["exclusive"] = told["exclusive"]
    Options(**words)
    return words  # type: ignore[return-value]  # its words were just tried


def _identity(told: Mapping[str, Any]) -> IdentityWords:
    for word in _LISTS & set(told):
        if not isinstance(told[word], list):
            raise BadCall(f'{word} is a list of argument names, as in {word} = ["order_id"]')
    if not isinstance(told.get("added", {}), dict):
        raise BadCall('added is a table of arguments, as in added = { currency = "usd" }')
    if told.get("dedupe", "args") not in ("args", "turn"):
        raise BadCall("dedupe is args or turn")
    return {word: told[word] for word in _IDENTIFIED if word in told}  # type: ignore[return-value]  # these are its words


def _statuses(word: str, told: Mapping[str, Any]) -> frozenset[int]:
    listed = told.get(word, [])
    is_one = isinstance(listed, list) and all(type(one) is int and 300 <= one <= 599 for one in listed)
    if not is_one:
        raise BadCall(f"{word} is a list of statuses that the tool at url answers with, as in {word} = [422]")
    if word == "nothing" and set(listed) & set(told.get("refused", [])):
        raise BadCall("a status is either refused, for good, or nothing, to be tried again")
    return frozenset(listed)


def _tells(function: Callable[..., Any]) -> bool:
    """Say whether a function names its parameters; some that are written in C do not."""
    try:
        return bool(inspect.signature(function))
    except (TypeError, ValueError):
        return False


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a function's parameters: all that apply where a caller names nothing."""
    if not _tells(function):
        return {}
    parameters = inspect.signature(function).parameters.values()
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    unnamed = [one.name for one in parameters if one.name in defaults and one.kind is one.POSITIONAL_ONLY]
    if unnamed:
        raise BadCall(f"the function takes {', '.join(unnamed)} by position only, and arguments have names")
    encode(defaults, root="default")  # what cannot be recorded cannot be shown to the approver
    return defaults


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
