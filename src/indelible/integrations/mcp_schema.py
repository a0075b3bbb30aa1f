"""The arguments of an MCP tool against the schema that its server lists, before anything is judged or asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import SchemaError  # type: ignore[import-untyped]
from jsonschema.exceptions import best_match  # type: ignore[import-untyped]
from jsonschema.validators import validator_for  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable

from indelible.errors import BadCall


def check_fits(tool: str, schema: Mapping[str, Any], args: Mapping[str, Any]) -> None:
    """Raise `BadCall` unless arguments fit a tool's input schema; references are resolved inside it alone."""
    kind = validator_for(schema)
    try:
        kind.check_schema(schema)
        wrong = best_match(kind(schema, registry=Registry()).iter_errors(args))
    except (SchemaError, Unresolvable) as broken:
        said = str(broken).partition("\n")[0]
        raise BadCall(f"{tool}: its server lists an input schema that is not valid JSON Schema: {said}") from None
    if wrong is not None:
        place = "".join(f"[{step!r}]" for step in wrong.absolute_path)
        raise BadCall(f"{tool}: the arguments{place} do not fit the tool's input schema: {wrong.message}")
