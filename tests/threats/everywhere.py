"""Every place in every request where a text can stand, found in the OpenAPI document."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from indelible.server.describing.description import operations
from tests.server.bodies import BODIES

Way = tuple[str | int, ...]
_DEEPEST = 4
ENDLESS = "/v1/events/stream"


@dataclass(frozen=True)
class Text:
    """Is one place: in the path, the query, a header or the body of one operation."""

    method: str
    template: str
    where: str
    name: str
    way: Way = ()
    body: Any = None

    def request(self, text: str, names: dict[str, str], *, is_quoted: bool = True) -> tuple[str, dict[str, Any]]:
        """Gives the path with everything else as it should be, and what else is sent."""
        filled = dict(names)
        if self.where == "path":
            filled[self.name] = text
        path = self.template
        for name, value in filled.items():
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="replace") if is_quoted else value)
        words: dict[str, Any] = {}
        if self.where == "query":
            words["params"] = {self.name: text}
        if self.where == "header":
            words["headers"] = {self.name: text.encode("utf-8", "replace")}
        if self.body is not None:
            words["json"] = _put(self.body, self.way, text) if self.where == "body" else self.body
        return path, words


def texts(description: dict[str, Any]) -> Iterator[Text]:
    """Finds them all, of operations with a credential and of those without."""
    schemas = description["components"]["schemas"]
    for method, path, told in operations(description):
        if path == ENDLESS:
            continue
        body = _body(told, schemas, BODIES.get(f"{method} {path}"))
        for each in told.get("parameters", []):
            if _is_text(each.get("schema", {}), schemas):
                yield Text(method, path, each["in"], each["name"], body=body)
        for way in _text_ways(body):
            yield Text(method, path, "body", str(way[-1]), way, body)


def _body(told: dict[str, Any], schemas: dict[str, Any], known: Any) -> Any:
    if "requestBody" not in told:
        return None
    made = _sample(told["requestBody"]["content"]["application/json"]["schema"], schemas)
    return {**made, **known} if isinstance(made, dict) and isinstance(known, dict) else made


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema or "anyOf" in schema or "oneOf" in schema:
        if "$ref" in schema:
            schema = schemas[schema["$ref"].rpartition("/")[2]]
        else:
            schema = (schema.get("anyOf") or schema["oneOf"])[0]
    return schema


def _is_text(schema: dict[str, Any], schemas: dict[str, Any]) -> bool:
    return _resolved(schema, schemas).get("type") == "string"


def _sample(schema: dict[str, Any], schemas: dict[str, Any], depth: int = 0) -> Any:
    """Gives a value with every member that there can be."""
    schema = _resolved(schema, schemas)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    match schema.get("type"):
        case "object" if depth < _DEEPEST:
            members = schema.get("properties", {})
            made = {name: _sample(told, schemas, depth + 1) for name, told in members.items()}
            return made or {"order": "123"}
        case "array" if depth < _DEEPEST:
            return [_sample(schema.get("items", {}), schemas, depth + 1)]
        case "string":
            return "2099-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x" * schema.get("minLength", 1)
        case "integer" | "number":
            return max(1, schema.get("minimum", 1))
        case "boolean":
            return False
    return "x" if not schema.get("type") else None


def _text_ways(body: Any, way: Way = ()) -> Iterator[Way]:
    if isinstance(body, str) and way:
        yield way
    parts = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in parts:
        yield from _text_ways(value, (*way, name))


def _put(body: Any, way: Way, text: str) -> Any:
    changed = copy.deepcopy(body)
    place = changed
    for name in way[:-1]:
        place = place[name]
    place[way[-1]] = text
    return changed
